#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Processes that change or die, and files that are not what their names say: every frame has its own name.

usage: test-live-processes.py PERF-AGENT WORKLOAD...
"""
import os
import shutil
import signal
import subprocess
import sys

from livelib import (Agent, Workload, capture, check, check_conserved, check_share, count, end, equal, load, main, test, within,
                     workload)

SPIN, CHAIN = {'spin_a', 'spin_b'}, {'chain_step', 'chain_leaf', 'chain_run'}
EXITS = {'exits_work'}


def alongside(action, *args, seconds=60):
    """A capture of the whole machine, or of what args say, alongside action(); its profile."""
    agent = Agent('--profile-output', 'p.pb.gz', '--duration', f'{seconds}s', *(args or ('-a',)), '--sample-rate',
                  999).wait_started()
    action()
    os.kill(agent.pid, signal.SIGINT)
    r = agent.finish()
    equal(r.rc, 0, r)
    p = load('p.pb.gz')
    check_conserved(p)
    p.result = r
    return p


def check_named(samples, own, least, *foreign):
    """Most samples have the names of the program, none those of another, and no user frame is a number."""
    check(count(samples) >= least, f'{count(samples)} samples, want {least}', *samples[:5])
    named = [s for s in samples if own & set(s.user_names)]
    check(count(named) >= 0.9 * count(samples), f'{count(named)} of {count(samples)} have {own}', *samples[:5])
    for other in foreign:
        wrong = [s for s in samples if other & set(s.user_names)]
        check(not wrong, f'names of another program: {other}', *wrong[:5])
    # A stub of the procedure linkage table has no symbol.
    numbers = [s for s in named if any(not f.named for f in s.user)]
    check(count(numbers) <= 0.05 * count(named), 'frames without a name', *numbers[:5])


def run_to_end(path, *args):
    w = Workload('spin', *args, path=path)
    w.finish()
    return w.pid


def copy(name, path):
    shutil.copyfile(workload[name], path)
    os.chmod(path, 0o755)
    return path


@test
def process_that_ends_in_the_middle():
    pids = []
    p = alongside(lambda: pids.append(run_to_end(None, '--seconds', 1)))
    check_named(p.of(pid=pids[0]), SPIN, 20)


@test
def processes_that_live_for_20_ms():
    pids = []

    def many():
        for _ in range(60):
            w = Workload('exits', '--ms', 20)
            w.finish()
            pids.append(w.pid)

    p = alongside(many)
    samples = [s for s in p.samples if s.pid in pids and s.user]
    # The start of a process is in the dynamic linker.
    work = [s for s in samples if EXITS & set(s.user_names)]
    check(count(work) > 0.8 * 60 * 20 * 0.8, f'{count(work)} of {count(samples)}', *samples[:5])
    check(not [f for s in work for f in s.user if not f.named], *work[:5])


@test
def binary_that_is_removed_and_replaced_while_it_runs():
    copy('spin', 'prog')
    w = Workload('spin', '--seconds', 100, path=os.path.abspath('prog'))
    os.unlink('prog')
    copy('chain', 'prog')
    other = Workload('chain', '--seconds', 100, path=os.path.abspath('prog'))
    p = capture('-a', '--duration', '1s', '--sample-rate', 999)
    check_named(p.of(pid=w.pid), SPIN, 20, CHAIN)
    check_named(p.of(pid=other.pid), CHAIN, 20, SPIN)
    mine = {f.mapping.build_id for s in p.of(pid=w.pid) for f in s.user if f.name in SPIN}
    theirs = {f.mapping.build_id for s in p.of(pid=other.pid) for f in s.user if f.name in CHAIN}
    check(len(mine) == len(theirs) == 1 and mine != theirs, mine, theirs)


@test
def exec_inside_the_target():
    # The shell burns time itself, then becomes another program with the same pid.
    script = f'i=0; while [ $i -lt 60000 ]; do i=$((i + 1)); done; exec {workload["spin"]} --seconds 1'
    p = capture('--sample-rate', 999, '--', '/bin/sh', '-c', script)
    shell = [s for s in p.samples if s.comm == 'sh']
    spun = [s for s in p.samples if s.comm == 'spin']
    equal({s.pid for s in shell}, {s.pid for s in spun})
    check_named([s for s in spun if SPIN & set(s.user_names)], SPIN, 20)
    check(not [s for s in shell if SPIN & set(s.user_names)], *shell[:3])
    names = {os.path.basename(f.mapping.path) for s in shell for f in s.user if f.mapping}
    check('spin' not in names, names)


@test
def fork_without_exec():
    code = ('import os, time\n'
            'def child_work():\n    end = time.process_time() + 0.5\n    while time.process_time() < end: pass\n'
            'pids = [os.fork() for _ in range(1)]\n'
            'child_work()\n')
    p = capture('--sample-rate', 999, '--', '/usr/bin/python3', '-c', code)
    pids = {s.pid for s in p.samples}
    equal(len(pids), 2, pids)
    for pid in pids:
        samples = [s for s in p.of(pid=pid) if s.user]
        check(count(samples) > 20, pid, count(samples))
        unnamed = [s for s in samples if not any(f.named for f in s.user)]
        check(count(unnamed) < 0.02 * count(samples), *unnamed[:5])


@test
def number_that_another_process_gets():
    last = '/proc/sys/kernel/ns_last_pid'
    # In a pid namespace of its own: numbers are free there.
    script = (f'"{workload["spin"]}" --seconds 0.7 >/dev/null & first=$!; wait $first\n'
              f'i=0; while [ $i -lt 50 ]; do echo $((first - 1)) > {last} || exit 3\n'
              f'"{workload["exits"]}" --ms 700 >/dev/null & second=$!; [ $second = $first ] && break; wait $second\n'
              'i=$((i + 1)); done; wait; echo $first $second')
    out = []

    def both():
        r = subprocess.run(['unshare', '--pid', '--fork', '--mount-proc', '--kill-child', 'bash', '-c', script],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        out.append(r)

    p = alongside(both)
    r = out[0]
    words = r.stdout.split()
    if r.returncode != 0 or len(words) != 2 or words[0] != words[1]:
        return f'the number was not used again: {r.returncode} {r.stdout} {r.stderr}'
    spun = [s for s in p.samples if s.comm == 'spin']
    work = [s for s in p.samples if s.comm == 'exits']
    check_named([s for s in spun if s.user], SPIN, 20, EXITS)
    check_named([s for s in work if s.user], EXITS, 20, SPIN)
    return None


def in_namespace(setup, program, *args):
    """The program in a mount namespace of its own, after a shell script has changed what it sees there."""
    p = subprocess.Popen(['unshare', '--mount', '--propagation', 'private', 'sh', '-c',
                          f'{setup}\nexec "$@"', 'sh', program, *map(str, args)],
                         stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    line = p.stdout.readline().split()
    check(line[:1] == ['ready'], line)
    return p, int(line[1])


@test
def one_path_in_two_mount_namespaces():
    os.makedirs('one', exist_ok=True)
    os.makedirs('two', exist_ok=True)
    os.makedirs('seen', exist_ok=True)
    copy('spin', 'one/prog')
    copy('chain', 'two/prog')
    path = os.path.abspath('seen/prog')
    first, pid1 = in_namespace(f'mount --bind {os.path.abspath("one")} {os.path.abspath("seen")}', path, '--seconds', 100)
    second, pid2 = in_namespace(f'mount --bind {os.path.abspath("two")} {os.path.abspath("seen")}', path, '--seconds', 100)
    try:
        p = capture('-a', '--duration', '1s', '--sample-rate', 999)
    finally:
        end(first)
        end(second)
    check_named(p.of(pid=pid1), SPIN, 20, CHAIN)
    check_named(p.of(pid=pid2), CHAIN, 20, SPIN)


@test
def one_path_inside_and_outside_of_a_chroot():
    # Programs with all that they need: their libraries are copied into the other root.
    root = os.path.abspath('root')
    path = os.path.abspath('prog')
    copy('chain', path)
    os.makedirs(root + os.path.dirname(path), exist_ok=True)
    copy('spin', root + path)
    libs = [w for line in subprocess.run(['ldd', workload['spin']], capture_output=True, text=True,
                                         check=True).stdout.splitlines() for w in line.split() if w.startswith('/')]
    for lib in libs:
        os.makedirs(root + os.path.dirname(lib), exist_ok=True)
        shutil.copyfile(lib, root + lib)
        os.chmod(root + lib, 0o755)
    inside = subprocess.Popen(['chroot', root, path, '--seconds', '100'], stdout=subprocess.PIPE, text=True)
    try:
        pid = int(inside.stdout.readline().split()[1])
        outside = Workload('chain', '--seconds', 100, path=path)
        p = capture('-a', '--duration', '1s', '--sample-rate', 999)
    finally:
        end(inside)
    check_named(p.of(pid=pid), SPIN, 20, CHAIN)
    check_named(p.of(pid=outside.pid), CHAIN, 20, SPIN)


@test
def files_of_tmpfs_and_overlay():
    here = os.path.abspath('.')
    for d in ('t', 'lower', 'layers', 'merged'):
        os.makedirs(d, exist_ok=True)
    copy('spin', 'lower/prog')
    tmpfs, pid1 = in_namespace(f'mount -t tmpfs none {here}/t && cp {workload["chain"]} {here}/t/prog',
                               f'{here}/t/prog', '--seconds', 100)
    try:
        over, pid2 = in_namespace(
            f'mount -t tmpfs none {here}/layers && mkdir {here}/layers/u {here}/layers/w && '
            f'mount -t overlay none -o lowerdir={here}/lower,upperdir={here}/layers/u,workdir={here}/layers/w {here}/merged',
            f'{here}/merged/prog', '--seconds', 100)
        try:
            p = capture('-a', '--duration', '1s', '--sample-rate', 999)
        finally:
            end(over)
    finally:
        end(tmpfs)
    check_named(p.of(pid=pid1), CHAIN, 20, SPIN)
    check_named(p.of(pid=pid2), SPIN, 20, CHAIN)


@test
def program_that_is_in_a_memfd():
    code = ('import os, sys\n'
            'fd = os.memfd_create("in memory", 0)\n'
            f'os.write(fd, open({workload["spin"]!r}, "rb").read())\n'
            'os.execv(f"/proc/self/fd/{fd}", ["spin", "--seconds", "100"])\n')
    p = subprocess.Popen(['/usr/bin/python3', '-c', code], stdout=subprocess.PIPE, text=True)
    try:
        pid = int(p.stdout.readline().split()[1])
        prof = capture('--pid', pid, '--duration', '1s', '--sample-rate', 999)
    finally:
        end(p)
    check_named(prof.of(pid=pid), SPIN, 20)


@test
def paths_that_look_like_something_else():
    for name in ('with blank', 'new\nline', 'gone (deleted)', 'tab\there', 'back\\slash', 'ünïcödé', '[heap]', 'anon_inode:x',
                 '.hidden', 'a:b', "quo'te\"s"):
        w = Workload('spin', '--seconds', 100, path=copy('spin', os.path.abspath(name)))
        p = capture('--pid', w.pid, '--duration', '300ms', '--sample-rate', 999)
        check_named(p.samples, SPIN, 20)
        paths = {f.mapping.path for s in p.samples for f in s.user if f.name in SPIN}
        equal(len(paths), 1, paths)
        # Control bytes are no part of a profile. A newline cannot be distinguished from the text of a backslash and
        # three digits in what the kernel prints.
        if '\n' not in name:
            equal(os.path.basename(paths.pop()), name.replace('\t', '?'))
        w.stop()


@test
def removed_file_whose_name_says_so_already():
    path = copy('spin', os.path.abspath('twice (deleted)'))
    w = Workload('spin', '--seconds', 100, path=path)
    os.unlink(path)
    copy('chain', os.path.abspath('twice'))
    p = capture('--pid', w.pid, '--duration', '500ms', '--sample-rate', 999)
    check_named(p.samples, SPIN, 20, CHAIN)


@test
def mapping_that_mprotect_splits_and_a_file_mapped_twice():
    parts = ['part_a', 'part_b', 'part_c']
    for how in ('split', 'twice'):
        w = Workload('remaps', '--how', how, '--seconds', 100)
        p = capture('--pid', w.pid, '--duration', '1s', '--sample-rate', 999)
        user = [s for s in p.samples if s.user]
        for part in parts:
            check_share(count([s for s in user if s.user_names[0] == part]), count(user), 1 / 3, how, part, *user[:3])
        # Mappings do not distinguish functions of one name.
        mapped = {f.mapping.path for s in user for f in s.user if f.name in parts}
        check(len(mapped) == 1 and mapped.pop().endswith('/remaps'), how)
        w.stop()


@test
def library_that_another_thread_opens_and_closes():
    w = Workload('dlopen', '--seconds', 100, '--round-ms', 100)
    p = capture('--pid', w.pid, '--duration', '2s', '--sample-rate', 999)
    plug = [s for s in p.samples if 'plug_round' in s.user_names]
    check(count(plug) > 20, count(plug))
    inner = [s for s in plug if 'plug_inner' in s.user_names]
    within(count(inner) / count(plug), 0.9, 1.0, *[s for s in plug if s not in inner][:5])


if __name__ == '__main__':
    sys.exit(main())
