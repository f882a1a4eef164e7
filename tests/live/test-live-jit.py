#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""JIT code has the names that its run time publishes: perf-maps and jitdumps, of what was there when
it was sampled."""
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

from livelib import (WAIT_S, Agent, Workload, capture, check, check_conserved, count, equal, load, main, note, start, test,
                     weight, within, workload)

RUN_S = 40  # of a workload: longer than any test of this file, which ends it
NOBODY = 65534
# Uncertainty of the time of a change: one drain interval, one reading of the files, and the grace period in between.
RESOLUTION_S = 0.35


def jit_names(p):
    """Weight of leaf functions in [jit], by name."""
    ret = {}
    for s in p.samples:
        leaf = s.user[0] if s.user else None
        if leaf and leaf.mapping and leaf.mapping.path == '[jit]':
            ret[leaf.name] = ret.get(leaf.name, 0) + s.ns
    return ret


def frames_named(p, name):
    return [f for s in p.samples for f in s.user if f.name == name]


def unlink(path):
    if os.path.isdir(path) and not os.path.islink(path):
        os.rmdir(path)
    elif os.path.lexists(path):
        os.unlink(path)


def check_turns(p, clocks):
    """Each turn has the CPU time that it says, but for what the resolution allows at its two edges."""
    names = jit_names(p)
    note(f'{ {k: round(v / 1e9, 3) for k, v in names.items()} } of {[round(c["cpu_ns"] / 1e9, 3) for c in clocks]}')
    whole = sum(c['cpu_ns'] for c in clocks)
    for c in clocks:
        got = names.get(f'turn_{c["turn"]}', 0) * whole / sum(names.values())
        within(got, c['cpu_ns'] - (RESOLUTION_S * 1e9 + 0.05 * whole), c['cpu_ns'] + RESOLUTION_S * 1e9 + 0.05 * whole,
               names, clocks, p.text())
    unnamed = sum(ns for name, ns in names.items() if name.startswith('0x'))
    within(unnamed, 0, 0.01 * whole, names)


def turns(*args, seconds=6, number=2):
    """A capture of all turns: the workload is the command."""
    agent = Agent('--profile-output', 'p.pb.gz', '--sample-rate', 999, '--', workload['jitcode'], '--seconds', seconds,
                  '--turns', number, *args)
    r = agent.finish()
    equal(r.rc, 0, r)
    lines = [line for line in r.out.decode().splitlines() if line.startswith('{')]
    p = load('p.pb.gz')
    p.result = r
    clean(p)
    return p, [json.loads(line) for line in lines]


def clean(p):
    """Removes the maps of the processes of a profile."""
    for pid in {s.pid for s in p.samples if s.pid}:
        unlink(f'/tmp/perf-{pid}.map')


@test
def address_that_is_used_again_is_named_by_what_was_there_with_a_map():
    p, clocks = turns('--map')
    check_turns(p, clocks)
    equal(p.number('jit_files_refused'), 0)
    p, clocks = turns('--map', seconds=10, number=5)
    check_turns(p, clocks)


@test
def address_that_is_used_again_is_named_by_what_was_there_with_a_dump():
    p, clocks = turns('--dump', os.getcwd())
    check_turns(p, clocks)
    for turn in (0, 1):
        frames = frames_named(p, f'turn_{turn}')
        check(frames, p.text())
        for f in frames:
            equal(f.functions[0].file, f'/src/turn_{turn}.x')
            equal(f.lines[0], 100 + turn)
            equal(f.functions[0].system_name, f'turn_{turn}')


@test
def waits_below_an_address_that_is_used_again_are_named_by_what_was_there():
    for seconds, number, how in ((4, 2, ['--map']), (6, 4, ['--dump', os.getcwd()])):
        r = Agent('--offcpu-output', 'p.pb.gz', '--', workload['jitcode'], '--wait', '--seconds', seconds, '--turns',
                  number, *how, modes=['--offcpu']).finish()
        equal(r.rc, 0, r)
        p = load('p.pb.gz')
        clean(p)
        callers = {}
        for s in p.samples:
            if 'jit_sleep' in s.user_names:
                name = s.user_names[s.user_names.index('jit_sleep') + 1]
                callers[name] = callers.get(name, 0) + s.ns + s.labels.get('runqueue', 0)
        note({name: round(ns / 1e9, 3) for name, ns in callers.items()})
        equal(set(callers), {f'turn_{i}' for i in range(number)}, *p.samples[:5])
        for ns in callers.values():
            within(ns / 1e9, seconds / number - RESOLUTION_S - 0.05, seconds / number + RESOLUTION_S, callers, p.text())


@test
def nothing_is_lost_where_addresses_are_used_again_all_the_time():
    p, _ = turns('--dump', os.getcwd(), number=300)
    check_conserved(p)
    names = jit_names(p)
    turn = [name for name in names if name.startswith('turn_')]
    note(f'{len(turn)} of 300 turns of 20 ms have a sample, agent {p.comments["agent_cpu_pct"]} % CPU')
    equal(len(turn), len(names), names)
    within(len(turn), 8, 300, names)  # some of each epoch, of which there are up to ten a second


@test
def map_and_dump_together_agree():
    p, clocks = turns('--map', '--dump', os.getcwd())
    check_turns(p, clocks)


@test
def code_in_a_memfd_is_named():
    w = Workload('jitcode', '--seconds', RUN_S, '--turns', 1, '--map', '--memfd')
    try:
        p = capture('--pid', w.pid, '--duration', '2s', '--sample-rate', 999)
        names = jit_names(p)
        check(names.get('turn_0', 0) > 0.9 * weight(p.samples), names, p.text())
        p = capture('-a', '--duration', '2s', '--sample-rate', 999)
        mine = p.of(pid=w.pid)
        check('turn_0' in [s.user_names[0] for s in mine if s.user], *mine[:5], p.text())
    finally:
        unlink(f'/tmp/perf-{w.pid}.map')


@test
def map_written_at_the_exit_of_the_target_is_read():
    p, _ = turns('--late', seconds=2, number=1)
    names = jit_names(p)
    check(names.get('turn_0', 0) > 0.95 * sum(names.values()), names, p.text())
    # The capture goes on after the end of the process.
    agent = Agent('-a', '--profile-output', 'p.pb.gz', '--duration', '30s', '--sample-rate', 999).wait_started()
    w = Workload('jitcode', '--seconds', 2, '--turns', 1, '--late')
    w.finish()
    os.kill(agent.pid, signal.SIGINT)
    equal(agent.finish().rc, 0)
    p = load('p.pb.gz')
    unlink(f'/tmp/perf-{w.pid}.map')
    p.samples = p.of(pid=w.pid)
    names = jit_names(p)
    check(names.get('turn_0', 0) > 0.95 * sum(names.values()), names, p.text())


def refused(make, words):
    """A map that must not be read: its process has no names, and the profile says so once."""
    w = Workload('jitcode', '--seconds', RUN_S, '--turns', 1)
    path = f'/tmp/perf-{w.pid}.map'
    low = next(int(line.split('-')[0], 16) for line in open(f'/proc/{w.pid}/maps', encoding='utf-8')
                 if line.split()[1] == 'r-xp' and len(line.split()) == 5)
    try:
        make(path, f'{low:x} 1000 false_name\n')
        p = capture('--pid', w.pid, '--duration', '2s', '--sample-rate', 199)
        names = jit_names(p)
        check(names and all(name.startswith('0x') and name.endswith('[jit]') for name in names), names)
        equal(p.number('jit_files_refused'), 1, p.text())
        notes = [line for line in p.comment_lines if line.startswith('note: JIT code has no names')]
        equal(len(notes), 1, p.text())
        check(words in notes[0], notes)
    finally:
        unlink(path)
        unlink(path + '.real')
        w.stop()


@test
def map_of_another_owner_is_refused():
    if os.geteuid() != 0:
        return 'needs root to make a file of another user'

    def make(path, text):
        with open(path, 'w', encoding='utf-8') as f:
            f.write(text)
        os.chown(path, NOBODY, NOBODY)
    refused(make, 'another user')
    return None


@test
def map_under_a_symbolic_link_or_with_two_names_is_refused():
    def link(path, text):
        with open(path + '.real', 'w', encoding='utf-8') as f:
            f.write(text)
        os.symlink(path + '.real', path)
    refused(link, 'symbolic link')

    def hard(path, text):
        with open(path + '.real', 'w', encoding='utf-8') as f:
            f.write(text)
        os.link(path + '.real', path)
    refused(hard, 'more than one name')


@test
def map_that_is_no_file_is_refused():
    refused(lambda path, text: os.mkfifo(path), 'not a regular file')

    refused(lambda path, text: os.mkdir(path), 'not a regular file')


@test
def map_of_the_target_s_user_is_read():
    if os.geteuid() != 0 or not shutil.which('setpriv'):
        return 'needs root and setpriv'
    w = Workload('jitcode', '--seconds', RUN_S, '--turns', 1, '--map',
                 prefix=('setpriv', '--reuid', str(NOBODY), '--regid', str(NOBODY), '--clear-groups'))
    try:
        p = capture('--pid', w.pid, '--duration', '2s', '--sample-rate', 199)
        names = jit_names(p)
        check(names.get('turn_0', 0) > 0.95 * sum(names.values()), names, p.text())
    finally:
        unlink(f'/tmp/perf-{w.pid}.map')
    return None


@test
def map_in_another_mount_and_pid_namespace_is_read():
    if os.geteuid() != 0 or not shutil.which('unshare'):
        return 'needs root and unshare'
    if subprocess.run(['unshare', '-m', '-p', '-f', 'mount', '-t', 'tmpfs', 'none', '/tmp'], check=False,
                      capture_output=True).returncode:
        return 'no file system may be mounted here'
    # Not in /tmp, which is another there.
    with tempfile.TemporaryDirectory(dir='/var/tmp') as folder:
        program = shutil.copy(workload['jitcode'], folder)
        shell = f'mount -t tmpfs none /tmp && exec {program} --seconds 3 --turns 1 '
        for args in ('--map', '--late'):
            p = capture('--sample-rate', 999, '--', 'unshare', '-m', '-p', '-f', 'sh', '-c', shell + args)
            names = jit_names(p)
            # It has gone before the end, and its /tmp with it.
            check(names.get('turn_0', 0) > 0.95 * sum(names.values()), args, names, p.text())
    return None


@test
def fork_has_the_names_of_its_parent():
    p, _ = turns('--map', '--fork', seconds=3, number=1)
    pids = {s.pid for s in p.samples if 'jit_call' in s.user_names}
    equal(len(pids), 2, p.text())
    for pid in pids:
        mine = [s for s in p.of(pid=pid) if 'jit_call' in s.user_names]
        named = [s for s in mine if 'turn_0' in s.user_names]
        check(count(named) > 0.9 * count(mine), pid, *mine[:3])


@test
def other_processes_have_nothing_of_it():
    w = Workload('spin', '--seconds', RUN_S)
    p = capture('--pid', w.pid, '--duration', '1s')
    for key in ('jit_files_refused', 'jit_bad_lines'):
        check(key not in p.comments, p.text())
    check(not jit_names(p), p.text())


def check_against_map(p, least):
    """The frames in [jit] at addresses for which the map has a name, against the last line there: what share of them has
    that name (an address that was used again has the name of its time)."""
    lines = []
    for pid in {s.pid for s in p.samples if s.pid}:
        if os.path.exists(f'/tmp/perf-{pid}.map'):
            with open(f'/tmp/perf-{pid}.map', encoding='utf-8', errors='replace') as f:
                lines += [line.rstrip('\n').split(' ', 2) for line in f]
    spans = [(int(start, 16), int(start, 16) + int(size, 16), name) for start, size, name in lines]
    oracle, same, other = {}, 0, {}
    for s in p.samples:
        for f in s.user:
            if not f.mapping or f.mapping.path != '[jit]':
                continue
            if f.address not in oracle:
                oracle[f.address] = next((name for low, high, name in reversed(spans) if low <= f.address < high), None)
            want = oracle[f.address]
            if want and f.functions[0].system_name == want:
                same += s.ns
            elif want:
                other[f.name, want] = other.get((f.name, want), 0) + s.ns
    whole = same + sum(other.values())
    note(f'{100 * same / whole:.3f} % of the frames have the name that the map has for them')
    check(same >= least * whole, other)


# ---- run times --------------------------------------------------------------------------------------------------------

NODE = '''
class A {
  get 'foo bar'() { let s = 0; for (let i = 0; i < 1e5; i++) s += i % 7; return s; }
}
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
const a = new A(), t = Date.now();
let x = 0;
while (Date.now() - t < 3000) { x += fib(20); x += a['foo bar']; }
'''


@test
def node_is_named_with_lines():
    node = shutil.which('node')
    if not node:
        return 'no node'
    with open('my app.js', 'w', encoding='utf-8') as f:
        f.write(NODE)
    path = os.path.join(os.getcwd(), 'my app.js')
    p = capture('--sample-rate', 999, '--', node, '--perf-basic-prof', path)
    check_against_map(p, 0.98)
    clean(p)
    names = jit_names(p)
    note({k: v / 1e9 for k, v in names.items()})
    for name, line in (('fib', 5), ('get foo bar', 3)):
        frames = [f for f in frames_named(p, name) if f.mapping.path == '[jit]']
        check(frames, name, names)
        for f in frames:
            equal((f.functions[0].file, f.lines[0]), (path, line))
            check(f.functions[0].system_name.startswith('JS:'), f.functions)
    whole = [f for s in p.samples for f in s.user if f.mapping and f.mapping.path == '[jit]']
    unnamed = [f for f in whole if not f.named]
    note(f'{len(unnamed)} of {len(whole)} frames in [jit] have no name')
    within(len(unnamed), 0, 0.02 * len(whole), {f.name for f in unnamed})
    return None


JAVA = '''
public class Spin {
	static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
	public static void main(String[] a) {
		long t = System.currentTimeMillis(), x = 0;
		while (System.currentTimeMillis() - t < 4000)
			x += fib(20);
		System.out.println(x);
	}
}
'''


@test
def java_is_named_by_the_map_of_its_exit():
    java, javac = shutil.which('java'), shutil.which('javac')
    if not java or not javac:
        return 'no java and javac'
    flags = ['-XX:+UnlockDiagnosticVMOptions', '-XX:+DumpPerfMapAtExit', '-XX:+PreserveFramePointer']
    probe = start([java, *flags, '-version'])
    probe.wait(WAIT_S)
    unlink(f'/tmp/perf-{probe.pid}.map')
    if probe.returncode:
        return 'this JVM writes no map'
    with open('Spin.java', 'w', encoding='utf-8') as f:
        f.write(JAVA)
    subprocess.run([javac, 'Spin.java'], check=True)
    p = capture('--sample-rate', 999, '--', java, *flags, '-cp', '.', 'Spin')
    names = jit_names(p)
    check_against_map(p, 0.999)
    clean(p)
    note({k: v / 1e9 for k, v in sorted(names.items(), key=lambda kv: -kv[1])[:6]})
    fib = sum(ns for name, ns in names.items() if 'Spin' in name and 'fib' in name)
    check(fib > 0.5 * sum(names.values()), names)
    unnamed = sum(ns for name, ns in names.items() if name.startswith('0x'))
    within(unnamed, 0, 0.1 * sum(names.values()), names)
    return None


PYTHON = '''
import time
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
t = time.time()
while time.time() - t < 3:
    fib(15)
'''


def new_python():
    found = [shutil.which(f'python3.{minor}') for minor in range(12, 20)]
    found += glob.glob(os.path.expanduser('~/.pyenv/versions/3.*/bin/python3'))
    found += [sys.executable]
    for path in filter(None, found):
        r = subprocess.run([path, '-X', 'perf', '-c', 'import os, sys; print(os.getpid(), sys.is_stack_trampoline_active())'],
                           capture_output=True, text=True, check=False)
        words = r.stdout.split()
        if words[1:] == ['True']:
            unlink(f'/tmp/perf-{words[0]}.map')
            return path
    return None


@test
def python_is_named_with_its_files():
    python = new_python()
    if not python:
        return 'no Python that knows -X perf'
    with open('fib.py', 'w', encoding='utf-8') as f:
        f.write(PYTHON)
    path = os.path.join(os.getcwd(), 'fib.py')
    p = capture('--sample-rate', 999, '--', python, '-X', 'perf', path)
    clean(p)
    frames = frames_named(p, 'py::fib')
    check(frames, {f.name for s in p.samples for f in s.user})
    for f in frames:
        equal((f.functions[0].file, f.lines[0], f.functions[0].system_name), (path, 0, f'py::fib:{path}'))
    with_fib = [s for s in p.samples if 'py::fib' in s.user_names]
    check(count(with_fib) > 0.5 * count(p.samples), f'{count(with_fib)} of {count(p.samples)}')
    return None


sys.exit(main())
