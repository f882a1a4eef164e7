#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""perf-agent without root: every subset of the four capabilities, without CAP_SYS_ADMIN and CAP_SYS_RESOURCE.

usage: test-privileges.py PERF-AGENT SPIN SYSCALLS
"""
import itertools
import os
import shutil
import subprocess
import sys

from privlib import (NOBODY, Profile, Workload, as_nobody, check, copies, equal, is_address, kernel_frames, main, run,
                     sysctl, test)

NEEDED = ('CAP_BPF', 'CAP_PERFMON')
ALL = (*NEEDED, 'CAP_SYS_PTRACE', 'CAP_SYSLOG')
OUT = 'out.pb.gz'


def profile(caps, target, agent=None, seconds='600ms'):
    command = as_nobody(caps, [agent or AGENT, '--profile', *target, '--duration', seconds, '--profile-output', OUT])
    return run(command)


def result():
    p = Profile(OUT)
    os.unlink(OUT)
    return p


def may_read(caps, path):
    """Asks the kernel, with the same rights."""
    return subprocess.run(as_nobody(caps, ['cat', path]), stdin=subprocess.DEVNULL, capture_output=True).returncode == 0


def sees_kernel(caps):
    """Addresses in kallsyms are not all 0, asked with the same rights."""
    text = subprocess.run(as_nobody(caps, ['head', '-n', '50', '/proc/kallsyms']), capture_output=True).stdout.decode()
    return any(int(line.split()[0], 16) for line in text.splitlines())


def check_refused(r, missing):
    equal(r.rc, 1, r)
    equal(len(r.lines), 1, r)
    line = r.lines[0]
    equal(', '.join(missing) in line, True, r)
    equal([c for c in ALL if c + ',' in line or c + ':' in line], list(missing), r)
    check('setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_syslog+ep' in line, r)
    check('perf_event_paranoid' in line or 'bpf(' in line, r)
    equal(os.listdir('.'), [], r)


def check_kernel(r, p, caps):
    """Kernel frames have names, or none of them has and a note says why; user frames do not depend on it."""
    frames = kernel_frames(p.samples)
    check(frames, 'no kernel frame was sampled', r)
    notes = [n for n in r.notes if 'CAP_SYSLOG' in n and 'kernel.kptr_restrict=' in n]
    if sees_kernel(caps):
        check(any(not is_address(f) for f in frames), frames[:9], r)
        equal(notes, [], r)
    else:
        check(all(is_address(f) for f in frames), [f for f in frames if not is_address(f)][:9], r)
        equal(len(notes), 1, r)
        check(f"kernel.kptr_restrict={sysctl('kptr_restrict')}" in notes[0], notes)
        check('note: ' + notes[0] in p.comments, p.comments)


def check_user(p, pid, names, comm):
    mine = p.of(pid=pid)
    check(mine, 'no samples', p.samples[:5])
    equal({s.labels['comm'] for s in mine}, {comm}, mine[:3])
    own = [f for s in mine for f, m in zip(s.frames, s.files) if m.endswith('/' + comm)]
    check(own and set(own) <= names, set(own) - names)


SPIN_NAMES = {'spin_a', 'spin_b', 'spin_pair', 'spin_run', 'main', '_start', 'posix_cpu_clock', 'clock_gettime@plt'}


def check_subset(caps):
    missing = [c for c in NEEDED if c not in caps]
    with Workload(as_nobody([], [SPIN, '--seconds', '100'])) as own, Workload([SPIN, '--seconds', '100']) as other, \
            Workload(as_nobody([], [SYSCALLS, '--seconds', '100'])) as busy:
        for target in (['--pid', str(own.pid)], ['--pid', str(other.pid)], ['-a']):
            r = profile(caps, target)
            if missing:
                check_refused(r, missing)
                continue
            equal(r.rc, 0, r)
            p = result()
            if target[0] == '-a':
                check_user(p, own.pid, SPIN_NAMES, 'spin')
                check_kernel(r, p, caps)
            elif int(target[1]) == own.pid or may_read(caps, f'/proc/{other.pid}/maps'):
                check_user(p, int(target[1]), SPIN_NAMES, 'spin')
                equal([n for n in r.notes if 'CAP_SYS_PTRACE' in n], [], r)
            else:
                check_hidden(r, p, other.pid, '1 process of')
        if not missing:
            r = profile(caps, ['--pid', str(busy.pid)])
            equal(r.rc, 0, r)
            p = result()
            equal({s.labels['pid'] for s in p.samples}, {busy.pid}, r)
            check_kernel(r, p, caps)


def check_hidden(r, p, pid, how_many):
    """Sampled, but its frames are addresses, and a note says so."""
    mine = p.of(pid=pid)
    check(mine, 'no samples', r)
    user = [f for s in mine for f, m in zip(s.frames, s.files) if m != '[kernel]']
    check(user and all(is_address(f) for f in user), user[:9], r)
    notes = [n for n in r.notes if 'CAP_SYS_PTRACE' in n]
    equal(len(notes), 1, r)
    check(how_many in notes[0] and 'no names' in notes[0], notes)


def subset_test(caps):
    def function():
        return check_subset(caps)
    function.__name__ = 'subset ' + (' '.join(c[4:].lower() for c in caps) or 'without any')
    test(function)


for count in range(len(ALL) + 1):
    for subset in itertools.combinations(ALL, count):
        subset_test(subset)


WAITS = {'--offcpu': ['--offcpu', '--offcpu-output', 'o'], '--pmu': ['--pmu', '--pmu-output', 'm']}


def waits(caps, words, agent=None):
    """Off-CPU profile, statistics, or both, of a process of the same user that sleeps."""
    with subprocess.Popen(as_nobody([], ['sleep', '100'])) as p:
        try:
            return run(as_nobody(caps, [agent or AGENT, *words, '--pid', str(p.pid), '--duration', '300ms']))
        finally:
            p.kill()


def check_waits(r, words):
    """All of it is there, and nothing is missing but what other capabilities are for."""
    equal(r.rc, 0, r)
    equal([n for n in r.notes if 'left out' in n or 'BPF programs on this machine' in n], [], r)
    equal(sorted(os.listdir('.')), sorted(w for w in words if w in ('o', 'm')), r)
    if '--offcpu' in words:
        mine = Profile('o').samples
        check(mine and {s.labels['comm'] for s in mine} == {'sleep'}, mine, r)
        check(sum(s.weight for s in mine) >= 1, mine)
        os.unlink('o')
    if '--pmu' in words:
        with open('m', encoding='utf-8') as f:
            check('Off CPU:' in f.read(), r)
        os.unlink('m')


@test
def waits_and_statistics_need_the_same_as_samples():
    modes = [WAITS['--offcpu'], WAITS['--pmu'], [*WAITS['--offcpu'], *WAITS['--pmu']]]
    for count in range(len(ALL) + 1):
        for caps in itertools.combinations(ALL, count):
            missing = [c for c in NEEDED if c not in caps]
            for words in modes[:2] if missing else modes:
                r = waits(caps, words)
                if missing:
                    check_refused(r, missing)
                else:
                    check_waits(r, words)
    for words in ([*WAITS['--offcpu'], '--offcpu-wakers'], [*modes[2], '--offcpu-wakers']):
        check_waits(waits(NEEDED, words), words)
    r = waits(['CAP_BPF'], modes[2])  # neither can be started: one line, as of one
    check_refused(r, ['CAP_PERFMON'])


@test
def stacks_of_other_users_that_wait_already_need_cap_sys_ptrace():
    with subprocess.Popen(['sleep', '100']) as p:
        try:
            for caps, said in ((NEEDED, 1), ([*NEEDED, 'CAP_SYS_PTRACE'], 0)):
                r = run(as_nobody(caps, [AGENT, '--offcpu', '--offcpu-output', 'o', '--pid', str(p.pid), '--duration',
                                         '300ms']))
                equal(r.rc, 0, r)
                equal(sum('these stacks are incomplete: needs CAP_SYS_PTRACE' in n for n in r.notes), said, r)
        finally:
            p.kill()


@test
def each_event_names_what_is_missing():
    with Workload(as_nobody([], [SPIN, '--seconds', '100'])) as w:
        for event in ('cpu-clock', 'auto', 'cycles'):
            r = profile(['CAP_BPF'], ['--pid', str(w.pid), '--event', event])
            equal((r.rc, len(r.lines)), (1, 1), r)
            check('CAP_PERFMON' in r.err and 'CAP_BPF' not in r.err and 'setcap' in r.err and 'PMU' not in r.err, r)
            equal(os.listdir('.'), [], r)


@test
def a_user_namespace_is_what_refuses():
    """All capabilities, but of no use to bpf(2) and perf_event_open(2)."""
    inside = as_nobody([], ['unshare', '--user', '--map-root-user'])
    if subprocess.run([*inside, 'true'], capture_output=True).returncode != 0:
        return 'no user namespace can be made here'
    for target in (['-a'], ['--', SPIN, '--seconds', '1']):
        r = run([*inside, AGENT, '--profile', '--duration', '300ms', '--profile-output', OUT, *target])
        equal((r.rc, len(r.lines)), (1, 1), r)
        check('a user namespace: its capabilities do not count for bpf(2) and perf_event_open(2)' in r.err, r)
        check('seccomp' not in r.err and 'setcap' not in r.err, r)
        equal(os.listdir('.'), [], r)


@test
def a_file_in_a_closed_directory_is_said():
    """A root process whose program lies where an ordinary user may not go."""
    os.mkdir('closed', 0o700)
    shutil.copy(SPIN, 'closed/hidden')
    with Workload([os.path.abspath('closed/hidden'), '--seconds', '100']) as w:
        r = profile(['CAP_BPF', 'CAP_PERFMON', 'CAP_SYSLOG'], ['--pid', str(w.pid)])
        equal(r.rc, 0, r)
        result()
        equal(len([n for n in r.notes if 'CAP_SYS_PTRACE' in n]), 1, r)
    shutil.rmtree('closed')


@test
def a_file_that_may_not_be_opened_is_said():
    """The program of another user in a mount namespace of its own: only /proc/PID/root leads to it."""
    os.mkdir('inner')
    os.chmod('inner', 0o755)
    script = f'mount -t tmpfs none inner && cp {SPIN} inner/hidden && exec inner/hidden --seconds 100'
    with Workload(['unshare', '--mount', 'sh', '-c', script]) as w:
        r = profile(NEEDED, ['--pid', str(w.pid)])
        equal(r.rc, 0, r)
        p = result()
        mine = p.of(pid=w.pid)
        check(mine, r)
        own = [f for s in mine for f, m in zip(s.frames, s.files) if m.endswith('/hidden')]
        check(own and all(is_address(f) for f in own), own[:9])
        notes = [n for n in r.notes if 'CAP_SYS_PTRACE' in n]
        equal(len(notes), 1, r)
        check(notes[0].startswith('cannot open 1 mapped file;'), notes)

        r = profile([*NEEDED, 'CAP_SYS_PTRACE'], ['--pid', str(w.pid)])
        equal(r.rc, 0, r)
        own = [f for s in result().of(pid=w.pid) for f, m in zip(s.frames, s.files) if m.endswith('/hidden')]
        check('spin_a' in own and set(own) <= SPIN_NAMES, own[:9])
        equal([n for n in r.notes if 'CAP_SYS_PTRACE' in n or 'mapped file' in n], [], r)


@test
def file_capabilities_are_enough():
    if not shutil.which('setcap'):
        return 'setcap is not installed'
    agent = copies(AGENT)[0]
    done = subprocess.run(['setcap', 'cap_bpf,cap_perfmon,cap_sys_ptrace,cap_syslog+ep', agent], capture_output=True)
    if done.returncode:
        return 'no file capabilities on this file system: ' + done.stderr.decode().strip()
    plain = ['setpriv', f'--reuid={NOBODY}', f'--regid={NOBODY}', '--clear-groups', '--inh-caps=-all']
    with Workload([*plain, SPIN, '--seconds', '100']) as own, Workload([SPIN, '--seconds', '100']) as other:
        for pid in (own.pid, other.pid):
            r = run([*plain, agent, '--profile', '--pid', str(pid), '--duration', '600ms', '--profile-output', OUT])
            equal((r.rc, r.notes), (0, []), r)
            check_user(result(), pid, SPIN_NAMES, 'spin')
        words = [*WAITS['--offcpu'], *WAITS['--pmu']]
        with subprocess.Popen([*plain, 'sleep', '100']) as p:
            try:
                check_waits(run([*plain, agent, *words, '--pid', str(p.pid), '--duration', '300ms']), words)
            finally:
                p.kill()
        r = run([*plain, agent, '--profile', '-a', '--duration', '600ms', '--profile-output', OUT])
        equal((r.rc, [n for n in r.notes if 'needs CAP_SYS' in n]), (0, []), r)
        p = result()
        check_user(p, own.pid, SPIN_NAMES, 'spin')
        check_user(p, other.pid, SPIN_NAMES, 'spin')
        # A program that spins is seldom in the kernel.
        with Workload([*plain, SYSCALLS, '--seconds', '100']) as own_calls:
            r = run([*plain, agent, '--profile', '--pid', str(own_calls.pid), '--duration', '600ms',
                     '--profile-output', OUT])
            equal((r.rc, r.notes), (0, []), r)
            check(any(not is_address(f) for f in kernel_frames(result().samples)), r)
        r = run([*plain, AGENT, '--profile', '--pid', str(own.pid), '--duration', '600ms', '--profile-output', OUT])
        check_refused(r, NEEDED)


if __name__ == '__main__':
    AGENT, SPIN, SYSCALLS = copies(*sys.argv[1:4])
    sys.exit(main(['setpriv', 'unshare']))
