#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""perf-agent inside a pid namespace: numbers, names and refusals are those of that namespace.

usage: test-container.py PERF-AGENT SPIN FORKS
"""
import os
import re
import subprocess
import sys

from privlib import Profile, Result, Workload, check, equal, main, test

OUT = 'out.pb.gz'
CONTAINER = ['unshare', '--pid', '--fork', '--mount-proc', '--kill-child']


def inside(script, container=None):
    """Runs a shell script as the first process of a new pid namespace: (lines of standard output, Result)."""
    p = subprocess.run([*(container or CONTAINER), 'bash', '-c', script], stdin=subprocess.DEVNULL, capture_output=True,
                       timeout=60, env={**os.environ, 'AGENT': AGENT, 'SPIN': SPIN, 'FORKS': FORKS, 'OUT': OUT})
    return p.stdout.decode().splitlines(), Result(p.returncode, p.stderr.decode('utf-8', 'replace'))


# Starts the workload in the background and leaves its number in $pid, after its ready line.
START = '''
begin() { exec 3< <(exec "$@"); pid=$!; read -r line <&3; }
profile() { "$AGENT" --profile "$@" --duration 600ms --profile-output "$OUT"; }
'''


def spun(samples):
    """Named: user frames of the workload are those that it has, its two leaves among them."""
    own = {f for s in samples for f, m in zip(s.frames, s.files) if m.endswith('/spin')}
    check({'spin_a', 'spin_b'} <= own, own)
    check(not any(f.startswith('0x') for f in own), own)


@test
def pid_is_a_number_of_the_namespace():
    out, r = inside(START + '''begin "$SPIN" --seconds 100 --threads 2; echo "$line"; profile --pid $pid
        for t in /proc/$pid/task/*; do echo "tid ${t##*/} $(cat $t/comm)"; done''')
    equal(r.rc, 0, r)
    pid = int(out[0].split()[1])
    check(pid < 50, 'a number of the outer namespace', out)
    tids = {int(line.split()[1]): line.split()[2] for line in out[1:] if line.startswith('tid ')}
    equal(len(tids), 3, out)
    p = Profile(OUT)
    check(p.samples, r)
    equal({s.labels['pid'] for s in p.samples}, {pid}, r)
    check({s.labels['tid'] for s in p.samples} >= set(tids) - {pid}, out, p.samples[:3])
    for s in p.samples:
        equal(tids.get(s.labels['tid']), s.labels['comm'], out)
    spun(p.samples)
    check(p.comment('target') == f'pid {pid} (spin)', p.comments)


@test
def all_shows_numbers_of_the_namespace_only():
    with Workload([SPIN, '--seconds', '100']) as outer:
        out, r = inside(START + 'begin "$SPIN" --seconds 100; echo "$line"; profile -a; echo $$')
        equal(r.rc, 0, r)
        pid = int(out[0].split()[1])
        p = Profile(OUT)
        spun(p.of(pid=pid))
        equal({s.labels['tid'] for s in p.of(pid=pid)}, {pid})
        equal({s.labels['comm'] for s in p.of(pid=pid)}, {'spin'})
        check(all('tid' in s.labels for s in p.samples if 'pid' in s.labels))
        # Nothing has the outer number of either, and what is outside has none at all.
        check(all(s.labels['pid'] < 50 for s in p.samples if 'pid' in s.labels), p.samples[:9])
        equal(p.of(pid=outer.pid), [])
        outside = [s for s in p.samples if 'pid' not in s.labels]
        check(outside and all('tid' not in s.labels for s in outside), p.samples[:9])
        check('spin' in {s.labels.get('comm') for s in outside}, outside[:9])


@test
def a_command_works():
    out, r = inside('"$AGENT" --profile --profile-output "$OUT" -- "$SPIN" --seconds 1')
    equal(r.rc, 0, r)
    pid = int(next(line for line in out if line.startswith('ready')).split()[1])
    check(pid < 50, out)
    p = Profile(OUT)
    equal({s.labels['pid'] for s in p.samples if s.labels['comm'] == 'spin'}, {pid}, r)
    spun(p.of(pid=pid))
    check('exit status 0' in r.err and re.search(rf'\(pid {pid}\)', r.err), r)


@test
def children_of_a_command_have_numbers_of_the_namespace():
    out, r = inside('"$AGENT" --profile --profile-output "$OUT" -- "$FORKS" --seconds 1')
    equal(r.rc, 0, r)
    p = Profile(OUT)
    pids = {s.labels.get('pid') for s in p.samples}
    check(None not in pids and len(pids) >= 2, pids, r)


@test
def a_nested_namespace_is_seen_with_the_outer_number():
    # The child is found by its name: its own ready line has the number of its own namespace.
    out, r = inside(START + '''begin unshare --pid --fork --mount-proc --kill-child "$SPIN" --seconds 100; echo "$line"
        for p in /proc/[0-9]*; do if [ "$(cat $p/comm)" = spin ]; then n=${p##*/}; fi; done
        echo "outer $n"; grep NSpid: /proc/$n/status; profile --pid $n; mv "$OUT" "$OUT.pid"; profile -a''')
    equal(r.rc, 0, r)
    equal(out[0], 'ready 1', out)
    number = int(out[1].split()[1])
    check(number > 1 and out[2].split()[-1] == '1', out)
    p = Profile(OUT + '.pid')
    equal({(s.labels['pid'], s.labels['tid'], s.labels['comm']) for s in p.samples}, {(number, number, 'spin')}, r)
    spun(p.samples)
    p = Profile(OUT)
    spun(p.of(pid=number))
    equal({s.labels['comm'] for s in p.of(pid=number)}, {'spin'})


@test
def the_parents_proc_is_refused():
    for args in ('--pid 1', '-a', '-- true'):
        out, r = inside(f'"$AGENT" --profile --profile-output "$OUT" {args}', ['unshare', '--pid', '--fork'])
        equal((r.rc, len(r.lines)), (1, 1), r)
        check('/proc' in r.err and 'pid namespace' in r.err and 'mount -t proc proc /proc' in r.err, r)
        equal(os.listdir('.'), [], r)


@test
def what_exists_only_outside_is_refused():
    with Workload([SPIN, '--seconds', '100']) as outer:
        out, r = inside(f'echo ready; "$AGENT" --profile --profile-output "$OUT" --pid {outer.pid}')
        equal((out, r.rc, len(r.lines)), (['ready'], 1, 1), r)
        check(str(outer.pid) in r.err and 'does not exist' in r.err, r)
        equal(os.listdir('.'), [], r)


@test
def a_process_inside_is_seen_from_outside():
    with Workload([*CONTAINER, SPIN, '--seconds', '100']) as w:
        equal(w.said, 1)
        with open(f'/proc/{w.pid}/task/{w.pid}/children', encoding='ascii') as f:
            number = int(f.read())
        p = subprocess.run([AGENT, '--profile', '--pid', str(number), '--duration', '600ms', '--profile-output', OUT],
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        equal(p.returncode, 0, p.stderr.decode())
        p = Profile(OUT)
        equal({(s.labels['pid'], s.labels['tid'], s.labels['comm']) for s in p.samples}, {(number, number, 'spin')})
        spun(p.samples)


if __name__ == '__main__':
    AGENT, SPIN, FORKS = (os.path.abspath(a) for a in sys.argv[1:4])
    why = None
    if subprocess.run([*CONTAINER, 'true'], capture_output=True).returncode:
        why = 'no pid namespace can be made here (unshare --pid --mount-proc)'
    sys.exit(main(['unshare', 'bash'], why))
