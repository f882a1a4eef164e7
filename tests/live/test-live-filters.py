#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Several processes, what they fork, and the filters: what is wanted adds up to its own clock, the rest has no samples."""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time

import livelib
from cgrouplib import cgroups, enter, no_cgroups
from livelib import (NS, STARTED, WAIT_S, Agent, Workload, capture, capture_alongside, check, check_conserved, check_share,
                     check_total, count, equal, load, main, note, test, weight, within, workload)

RUN_S = 40  # of a workload: longer than any test of this file, which ends it
RATE = ('--sample-rate', 999)
SECONDS = 2


def pids_of(p):
    return {s.pid for s in p.samples}


def check_wanted(loads, wanted, *args, tids=None):
    """A capture alongside the loads: each wanted thread of @loads (tids: these; else all of @wanted) has its time, and
    nothing else has any. Returns the profile."""
    p, spent, window_ns, edges_ns = capture_alongside(loads, SECONDS, *RATE, *args)
    check_conserved(p)
    of_wanted = {tid for w in wanted for tid in w.clocks()}
    tids = of_wanted if tids is None else tids
    equal({s.tid for s in p.samples} - tids, set(), 'samples of what is not wanted', p.text())
    busy = {tid for tid in tids if spent[tid] > window_ns // 100}
    check(busy, 'nothing ran', spent)
    for tid in busy:
        check_total(weight(p.of(tid=tid)), spent[tid], window_ns, p.period, f'{args}: thread {tid}', p.text(),
                    extra_ns=edges_ns)
    return p


def comm(pid, tid):
    with open(f'/proc/{pid}/task/{tid}/comm', encoding='utf-8') as f:
        return f.read().rstrip('\n')


def spinners(n, threads=1):
    loads = [Workload('spin', '--seconds', RUN_S, '--threads', threads) for _ in range(n)]
    for w in loads if threads > 1 else []:
        names = set()
        until = time.monotonic() + WAIT_S
        while not names >= {f'spin-{i}' for i in range(threads)}:  # it is ready before its threads are
            names = {comm(w.pid, tid) for tid in w.clocks()}
            check(time.monotonic() < until, names)
            time.sleep(0.01)
    return loads


@contextlib.contextmanager
def tree(script, ready):
    """A shell that runs a script with the workloads' paths in its variables; the numbers of those that said they are
    ready. All of it ends with the test."""
    p = subprocess.Popen(['/bin/sh', '-c', script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                         start_new_session=True, env={**os.environ, **workload})
    STARTED.append(p)
    try:
        p.ready = []
        while len(p.ready) < ready:
            p.ready.append(int(p.stdout.readline().split()[1]))
        yield p
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(p.pid, signal.SIGKILL)
        p.stdin.close()


# ---- processes ------------------------------------------------------------------------------------------------------


@test
def one_of_two_equal_processes():
    loads = spinners(2)
    check_wanted(loads, loads[:1], '--pid', loads[0].pid)


@test
def two_of_three_processes_in_a_list_and_one_by_one():
    loads = spinners(3)
    a, b, _ = loads
    p = check_wanted(loads, [a, b], '--pid', f'{a.pid},{b.pid}')
    equal(p.comments['target'], 'pids ' + ', '.join(map(str, sorted((a.pid, b.pid)))))
    equal(p.mappings[0].path, a.path)
    p = check_wanted(loads, [a, b], '--pid', b.pid, '--pid', a.pid, '--pid', b.pid)
    busy = count(p.samples)
    check_share(count(p.of(pid=a.pid)), busy, count(p.of(pid=a.pid)) / busy)  # both are there
    within(count(p.of(pid=b.pid)) / busy, 0.2, 0.8)


@test
def a_list_in_which_all_have_names_and_the_name_of_the_first():
    a, b = Workload('spin', '--seconds', RUN_S), Workload('rename', '--seconds', RUN_S)
    r = Agent('--pid', f'{b.pid},{a.pid}', '--duration', '1s', *RATE).finish()
    equal(r.rc, 0, r)
    names = os.listdir('.')
    equal(len(names), 1)
    check(names[0].startswith('rename-'), names)
    p = load(names[0])
    check_conserved(p)
    check(any(f'profiling pids {b.pid}, {a.pid} at' in line for line in r.lines), r)
    for w, name in ((a, 'spin_a'), (b, 'before_rename')):
        user = [s for s in p.of(pid=w.pid) if not s.kernel]
        check(user, name)
        check(count([s for s in user if name in s.names or 'spin_b' in s.names]) >= 0.95 * count(user), name, *user[:5])


@test
def the_capture_ends_with_the_last_of_them():
    a, b = spinners(2)
    agent = Agent('--profile-output', 'p.pb.gz', '--pid', f'{a.pid},{b.pid}', '--duration', f'{WAIT_S}s', *RATE)
    agent.wait_started()
    a.stop()
    time.sleep(1)  # ten times what it takes to see that
    check(agent.p.poll() is None, 'it ended with the first')
    b.stop()
    r = agent.finish()
    equal(r.rc, 0, r)
    check(any('all 2 processes ended after' in line for line in r.lines), r)
    p = load('p.pb.gz')
    check_conserved(p)
    check(p.of(pid=b.pid), p.text())


@test
def one_that_does_not_exist_refuses_the_start():
    gone = subprocess.Popen(['true'])
    gone.wait()
    w = Workload('spin', '--seconds', RUN_S)
    r = Agent('--profile-output', 'p.pb.gz', '--pid', f'{w.pid},{gone.pid}', '--duration', '1s').finish()
    equal(r.rc, 1, r)
    equal(len(r.lines), 1, r)
    check(f'process {gone.pid} does not exist' in r.lines[0], r)
    equal(os.listdir('.'), [])


# ---- children -------------------------------------------------------------------------------------------------------

# A shell whose child works as soon as a line comes.
LATER = 'read x; "$forks" --children 40 --child-ms 25 --exec'
# A shell with a child, and a child of a child, that work already.
EARLIER = '"$spin" --seconds 40 & /bin/sh -c \'"$spin" --seconds 40 & wait\' & wait'


def run_later(*more):
    with tree(LATER, 0) as sh:
        agent = Agent('--profile-output', 'p.pb.gz', '--pid', sh.pid, '--duration', f'{WAIT_S}s', *RATE, *more)
        agent.wait_started()
        sh.stdin.write('go\n')
        sh.stdin.flush()
        r = agent.finish()
        equal(r.rc, 0, r)
        check(any(f'pid {sh.pid} ended after' in line for line in r.lines), r)
        sh.wait(WAIT_S)
        out = sh.stdout.read()
    p = load('p.pb.gz')
    p.result = r
    check_conserved(p)
    return p, sh.pid, json.loads(re.search(r'\{.*\}', out)[0])


@test
def what_is_forked_after_the_start_adds_up_to_its_clock():
    p, sh, said = run_later('--follow-children')
    spent = said['children_cpu_ns'] + said['self_cpu_ns']
    mine = [s for s in p.samples if s.pid != sh]
    check_total(weight(mine), spent, p.duration_nanos, p.period, 'what the shell forked', p.text())
    # The one that forks, and its children, which execute the program anew.
    within(len({s.pid for s in mine}), 36, 41, 'processes')
    user = [s for s in mine if not s.kernel]
    named = [s for s in user if s.frames[0].named]
    check(count(named) >= 0.95 * count(user), f'{count(named)} of {count(user)}')
    equal(p.comments['follow_children'], 'true')
    check(any('the capture does not wait for its children' in line for line in p.result.lines), p.result)


@test
def what_is_forked_after_the_start_is_left_out_otherwise():
    p, sh, _ = run_later()
    check(pids_of(p) <= {sh}, pids_of(p), p.text())
    check('follow_children' not in p.comments, p.text())


class Spinner(Workload):
    """One that a tree started."""

    def __init__(self, pid):
        self.pid = pid


@test
def children_that_exist_at_the_start_are_followed():
    with tree(EARLIER, 2) as sh:
        kids = [Spinner(pid) for pid in sh.ready]
        other = spinners(1)
        p = check_wanted(kids + other, kids, '--pid', sh.pid, '--follow-children')
        equal(pids_of(p), set(sh.ready), 'child and grandchild')
        user = [s for s in p.samples if not s.kernel]
        check(count([s for s in user if s.frames[0].named]) >= 0.95 * count(user), *user[:5])


@test
def children_that_exist_at_the_start_are_left_out_otherwise():
    with tree(EARLIER, 2) as sh:
        p = capture('--pid', sh.pid, '--duration', '1s', *RATE)
        check_conserved(p)
        equal(p.samples, [], p.text())
        check(any('no samples' in line for line in p.result.lines), p.result)


@test
def children_of_several_processes():
    with tree(EARLIER, 2) as sh, tree(EARLIER, 2) as other:
        everything = [Spinner(pid) for pid in sh.ready + other.ready]
        check_wanted(everything, everything, '--pid', f'{sh.pid},{other.pid}', '--follow-children')


# ---- threads --------------------------------------------------------------------------------------------------------


@test
def one_thread_of_two():
    (w,) = spinners(1, threads=2)
    tid = max(tid for tid in w.clocks() if tid != w.pid)
    check_wanted([w], [w], '--tid', tid, tids={tid})
    check_wanted([w], [w], '--pid', w.pid, '--tid', tid, tids={tid})


@test
def threads_of_two_processes():
    loads = spinners(2, threads=2)
    tids = [max(w.clocks()) for w in loads]
    p = check_wanted(loads, loads, '--tid', ','.join(map(str, tids)), tids=set(tids))
    equal({s.tid for s in p.samples}, set(tids))
    # One of two processes is a target: its filter has no other.
    p = capture('--tid', tids[0], '--duration', '500ms', *RATE)
    equal({s.tid for s in p.samples}, {tids[0]})


@test
def the_main_thread_alone():
    (w,) = spinners(1, threads=2)
    p = capture('--tid', w.pid, '--duration', '500ms', *RATE)  # it waits for the others
    check_conserved(p)
    equal(p.samples, [], p.text())


# ---- names ----------------------------------------------------------------------------------------------------------


@test
def threads_by_their_names():
    loads = spinners(2, threads=2)
    names = {tid: comm(w.pid, tid) for w in loads for tid in w.clocks()}
    wanted = {tid for tid, name in names.items() if name == 'spin-1'}
    equal(len(wanted), 2, names)
    p = check_wanted(loads, loads, '-a', '--comm', 'spin-1', tids=wanted)
    equal({s.comm for s in p.samples}, {'spin-1'})
    equal(p.comments['filter_comm'], 'spin-1')
    wanted = {tid for tid in loads[0].clocks() if names[tid] in ('spin-0', 'spin-1')}
    p = check_wanted(loads, loads[:1], '--pid', loads[0].pid, '--comm', 'spin-0', '--comm', 'spin-1', tids=wanted)
    equal({s.comm for s in p.samples}, {'spin-0', 'spin-1'})
    # A part of a name is none.
    equal(capture('-a', '--comm', 'spin-', '--duration', '300ms', *RATE).samples, [])


@test
def threads_by_patterns():
    loads = spinners(2, threads=2)
    names = {tid: comm(w.pid, tid) for w in loads for tid in w.clocks()}
    wanted = {tid for tid, name in names.items() if name == 'spin-1'}
    p = check_wanted(loads, loads, '-a', '--comm', 's?in*[!02-9]', tids=wanted)
    equal({s.comm for s in p.samples}, {'spin-1'})
    equal(p.comments['filter_comm'], 's?in*[!02-9]')
    # Several sets of patterns, with a name.
    more = [word for i in range(9) for word in ('--comm', f'none-{i}*')]
    p = check_wanted(loads, loads, '-a', *more, '--comm', 'sp*-0', '--comm', 'spin-1', tids=set(names))
    equal({s.comm for s in p.samples}, {'spin-0', 'spin-1'})
    equal(capture('-a', '--comm', 'spin-?x', *more, '--duration', '300ms', *RATE).samples, [])


@test
def patterns_select_intervals_and_switches_too():
    w = Workload('waits', 'sleep', '--seconds', RUN_S)
    for pattern, found in (('sl?ep*', True), ('xsl?ep*', False)):
        r = Agent('--offcpu-output', 'o.pb.gz', '--pmu-output', 's.json', '--pmu-format', 'json', '--pid', w.pid, '--comm', pattern,
                  '--duration', '1s', modes=['--offcpu', '--pmu']).finish()
        equal(r.rc, 0, r)
        equal({s.comm for s in load('o.pb.gz').samples}, {'sleeper'} if found else set(), pattern)
        with open('s.json', encoding='utf-8') as f:
            check((json.load(f)['all']['switches'] > 0) == found, pattern)


@test
def a_thread_counts_while_it_has_the_name():
    w = Workload('rename', '--seconds', 10, '--threads', 2)
    r = Agent('--profile-output', 'p.pb.gz', '--pid', w.pid, '--comm', 'after-0', *RATE).wait_started()
    said = {line['tid']: line for line in w.finish()}
    equal(r.finish().rc, 0)
    p = load('p.pb.gz')
    check_conserved(p)
    equal({s.comm for s in p.samples}, {'after-0'})
    (tid,) = {s.tid for s in p.samples}
    check_total(weight(p.samples), said[tid]['after_cpu_ns'], p.duration_nanos, p.period, 'after its renaming', p.text())
    user = [s for s in p.samples if not s.kernel]
    check(all('before_rename' not in s.names for s in user), *user[:5])


@test
def names_that_alternate_have_their_own_time():
    # In real time, so that no switch comes in between: its time is split where ticks see the name change.
    code = ('import time\nfor i in range(8):\n'
            '    with open("/proc/self/comm", "w") as f: f.write("ab"[i % 2] * 3)\n'
            '    until = time.thread_time() + 0.2\n'
            '    while time.thread_time() < until: pass\n')
    p = capture('--comm', 'bbb', '--sample-rate', 997, '--', 'chrt', '-f', '1', '/usr/bin/python3', '-c', code)
    check_conserved(p)
    equal({s.comm for s in p.samples}, {'bbb'})
    check_total(weight(p.samples), 0.8 * NS, p.duration_nanos, p.period, 'bbb, of aaa and bbb', p.text())


@test
def a_name_of_a_command():
    p = capture('--comm', 'spin-1', *RATE, '--', workload['spin'], '--seconds', 2, '--threads', 2)
    check_conserved(p)
    equal({s.comm for s in p.samples}, {'spin-1'})
    said = [json.loads(line) for line in p.result.out.decode().splitlines() if line.startswith('{')]
    (tid,) = {s.tid for s in p.samples}
    (mine,) = [line for line in said if line['tid'] == tid]
    check_total(weight(p.samples), mine['cpu_ns'], p.duration_nanos, p.period, 'spin-1', p.text())


@test
def a_name_that_is_too_long_is_compared_as_the_kernel_cuts_it():
    os.symlink(workload['spin'], 'a-program-of-27-bytes-in-all')
    w = Workload('spin', '--seconds', RUN_S, path=os.path.abspath('a-program-of-27-bytes-in-all'))
    equal(comm(w.pid, w.pid), 'a-program-of-27')
    p = check_wanted([w], [w], '-a', '--comm', 'a-program-of-27-bytes-in-all')
    check(any("the kernel keeps 15 bytes of a name" in line for line in p.result.lines), p.result)


# ---- cgroups --------------------------------------------------------------------------------------------------------


@test
def tasks_of_a_cgroup_and_of_those_below():
    with cgroups() as (mount, top):
        if not top:
            return no_cgroups(mount)
        loads = spinners(3)
        for path, w in zip(('/outer', '/outer/inner', '/other'), loads):
            enter(top + path, w)
        outer, inner, other = loads
        relative = os.path.relpath(top, mount)
        p = check_wanted(loads, [outer, inner], '--cgroup', f'{top}/outer')
        equal(pids_of(p), {outer.pid, inner.pid})
        equal(p.comments['filter_cgroup'], f'{top}/outer')
        equal(p.comments['target'], 'all processes')
        check_wanted(loads, [inner], '--cgroup', f'{relative}/outer/inner')
        p = check_wanted(loads, [inner, other], '-a', '--cgroup', f'{top}/other/', '--cgroup', f'{relative}/outer/inner')
        equal(pids_of(p), {inner.pid, other.pid})
        # All kinds together, and what contradicts itself.
        check_wanted(loads, [inner], '--pid', f'{outer.pid},{inner.pid}', '--comm', 'spin', '--tid', inner.pid,
                     '--cgroup', f'{top}/outer')
        p = capture('--pid', other.pid, '--cgroup', f'{top}/outer', '--duration', '300ms', *RATE)
        check_conserved(p)
        equal(p.samples, [], p.text())
        check(any(f'no samples: no matching thread used the CPU (filter: --cgroup {top}/outer)' in line
                  for line in p.result.lines), p.result)
    return None


@test
def a_task_counts_while_it_is_in_the_cgroup():
    with cgroups() as (mount, top):
        if not top:
            return no_cgroups(mount)
        (w,) = spinners(1)
        enter(top + '/other', w)
        agent = Agent('--profile-output', 'p.pb.gz', '--cgroup', f'{top}/outer', '--duration', f'{WAIT_S}s', *RATE)
        agent.wait_started()
        time.sleep(1)  # of work that is not wanted
        before = w.clocks()[w.pid]
        enter(top + '/outer', w)
        time.sleep(2)  # of work that is
        enter(top + '/other', w)
        spent = w.clocks()[w.pid] - before
        time.sleep(0.5)
        os.kill(agent.pid, signal.SIGINT)
        r = agent.finish()
        equal(r.rc, 0, r)
        p = load('p.pb.gz')
        check_conserved(p)
        equal(pids_of(p), {w.pid})
        # Reading the clock and entering take a moment each.
        check_total(weight(p.samples), spent, p.duration_nanos, p.period, 'inside', p.text(), extra_ns=NS // 20)
    return None


@test
def a_cgroup_that_goes_while_it_is_sampled():
    with cgroups() as (mount, top):
        if not top:
            return no_cgroups(mount)
        os.mkdir(top + '/goes')
        agent = Agent('--profile-output', 'p.pb.gz', '--cgroup', f'{top}/goes', '--duration', f'{WAIT_S}s', *RATE)
        agent.wait_started()
        os.rmdir(top + '/goes')
        os.kill(agent.pid, signal.SIGINT)
        r = agent.finish()
        equal(r.rc, 0, r)
        equal(load('p.pb.gz').samples, [])
    return None


# ---- a pid namespace of its own -------------------------------------------------------------------------------------

# Arguments of perf-agent with @A and @B for two processes, @T for a thread of the first.
NESTED = '''mount -t proc proc /proc || exit 77
"$spin" --seconds 40 --threads 2 >a & a=$!
"$spin" --seconds 40 >b & b=$!
while ! grep -qx spin-1 /proc/$a/task/*/comm 2>/dev/null || [ ! -s b ]; do sleep 0.05; done
t=$(grep -lx spin-1 /proc/$a/task/*/comm | sed 's,/comm$,,; s,.*/,,')
echo $a $b $t >numbers
for args in "$@"; do
    n=$((n + 1))
    args=$(echo "$args" | sed "s/@A/$a/g; s/@B/$b/g; s/@T/$t/g")
    "$perf_agent" --profile --profile-output $n.pb.gz --duration 500ms --sample-rate 999 $args 2>&1 || exit 1
done'''


@test
def numbers_of_a_nested_pid_namespace():
    env = {**os.environ, **workload, 'perf_agent': livelib.perf_agent}
    r = subprocess.run(['unshare', '--pid', '--fork', '--mount', '--kill-child', '/bin/sh', '-c', NESTED, 'sh',
                        '--pid @A,@B', '--tid @T', '--pid @A,@B --tid @T,@B', '--pid 1 --follow-children --comm spin-0'],
                       env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=WAIT_S, check=False)
    if not os.path.exists('numbers'):
        return 'no pid namespace can be made here'
    equal(r.returncode, 0, r.stdout)
    with open('numbers', encoding='ascii') as f:
        a, b, t = map(int, f.read().split())
    check(max(a, b, t) < 100, a, b, t)
    profiles = [load(f'{n}.pb.gz') for n in range(1, 5)]
    for p in profiles:
        check_conserved(p)
    equal(pids_of(profiles[0]), {a, b})
    equal({(s.pid, s.tid, s.comm) for s in profiles[1].samples}, {(a, t, 'spin-1')})
    equal({(s.pid, s.tid) for s in profiles[2].samples}, {(a, t), (b, b)})
    equal({(s.pid, s.comm) for s in profiles[3].samples}, {(a, 'spin-0')})
    return None


# ---- statistics --------------------------------------------------------------------------------------------------------


@test
def what_is_left_out_is_counted_with_the_foreign_ticks_alone():
    loads = spinners(2)
    r = capture('--pid', f'{loads[0].pid},{loads[1].pid}', '--comm', 'no-such-name', '--duration', '1s', *RATE)
    check_conserved(r)
    equal(r.number('samples_seen'), 0, r.text())
    note(r.text())


if __name__ == '__main__':
    sys.exit(main())
