#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The real program with bad input for --offcpu and --pmu: one line, exit status, and that nothing is left behind.

usage: test-bad-waits.py PERF-AGENT SPIN SECCOMP-RUN
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'live'))
from privlib import Profile, Workload, as_nobody, check, copies, equal, main, run, test  # noqa: E402

SHORT = ['--duration', '200ms']


def refused(args, status, *words, before=(), **more):
    """One line with these words, this status, and an unchanged folder."""
    there = sorted(os.listdir('.'))
    r = run([*before, AGENT, *args], **more)
    equal(r.rc, status, args, r)
    equal(len(r.lines), 1, args, r)
    check(r.err.startswith('perf-agent: ') and r.err.endswith('\n'), args, r)
    for word in words:
        check(re.search(word, r.err), f'{word!r} is not said', args, r)
    equal(sorted(os.listdir('.')), there, args, r)


@test
def usage_names_the_option():
    own = ['--pid', str(os.getpid()), *SHORT]
    off, pmu = ['--offcpu', *own], ['--pmu', *own]
    cases = [
        (['--offcpu'], '--pid.*(-a|--all)'), (['--pmu'], '--pid.*(-a|--all)'),
        ([*pmu, '--per-pid'], '--per-pid.*(-a|--all)'), (['--profile', '-a', *SHORT, '--per-pid'], '--per-pid.*--pmu'),
        (['--offcpu', '-a', *SHORT, '--per-pid'], '--per-pid.*--pmu'), (['--per-pid', '-a', *SHORT], '--p(mu|rofile)'),
        (['--pmu', '--per-pid', *SHORT, '--', 'true'], '--per-pid.*(-a|--all)'),
        ([*off, '--offcpu-min', '2s', '--offcpu-max', '1s'], '--offcpu-min.*--offcpu-max|--offcpu-max.*--offcpu-min'),
        ([*off, '--offcpu-min=1001us', '--offcpu-max=1ms'], '--offcpu-min|--offcpu-max'),
        *[([*off, option, value], option) for option in ('--offcpu-min', '--offcpu-max')
          for value in ('', 'x', '-1s', '10x', '1 s', '1x', '99999999999999999999s', '0x10ms')],
        *[([*off, '--offcpu-states', value], '--offcpu-states')
          for value in ('', 'x', ',', 'interruptible,', ',iowait', 'interruptible,,iowait', 'interruptible,x', 'Iowait',
                        'interruptible iowait', 'running', '*', 'D')],
        *[([*pmu, '--pmu-format', value], '--pmu-format') for value in ('', 'x', 'xml', 'JSON', 'json,text', '1')],
        ([*off, '--offcpu-output', ''], '--offcpu-output: the path is empty'),
        ([*pmu, '--pmu-output', ''], '--pmu-output: the path is empty'),
        ([*off, '--offcpu-output'], '--offcpu-output'), ([*pmu, '--pmu-output'], '--pmu-output'),
        ([*off, '--offcpu=maybe'], '--offcpu'), ([*pmu, '--pmu=maybe'], '--pmu'),
        ([*pmu, '--pmu-outputs', 'x'], '--pmu-outputs'), ([*off, '--offcpu-waker'], '--offcpu-waker'),
        ([*off, '--offcpu-wakers=perhaps'], '--offcpu-wakers'),
    ]
    for args, word in cases:
        refused(args, 2, word)


@test
def one_output_at_most_goes_to_standard_output():
    own = ['--pid', str(os.getpid()), *SHORT]
    for args in (['--profile', '--offcpu', '--profile-output', '-', '--offcpu-output', '-'],
                 ['--offcpu', '--pmu', '--offcpu-output', '-'],  # --pmu's own is standard output
                 ['--profile', '--pmu', '--profile-output', '-'],
                 ['--profile', '--pmu', '--profile-output=-', '--pmu-output=-', '--pmu-format', 'json'],
                 ['--profile', '--offcpu', '--pmu', '--offcpu-output', '-', '--pmu-output', '-']):
        refused([*args, *own], 2, 'standard output')


@test
def outputs_that_cannot_be_written_are_refused_before_the_capture():
    os.mkdir('folder')
    os.mkdir('closed')
    os.chmod('closed', 0o555)
    with open('file', 'w', encoding='ascii'):
        pass
    as_other = as_nobody(['CAP_BPF', 'CAP_PERFMON'], [])
    with Workload(as_nobody([], [SPIN, '--seconds', '100'])) as w:
        for mode, option, others in (('--offcpu', '--offcpu-output', ['--pmu', '--pmu-output', 'good']),
                                     ('--pmu', '--pmu-output', ['--offcpu', '--offcpu-output', 'good']),
                                     ('--pmu', '--pmu-output', ['--profile', '--profile-output', 'good'])):
            for more in ([], others):
                # A minute: who tries only at the end is found by the limit of the run.
                base = [mode, *more, '--pid', str(w.pid), '--duration', '1m', option]
                refused([*base, 'missing/out'], 1, 'missing', 'does not exist', 'mkdir')
                refused([*base, 'folder'], 1, 'folder', 'directory')
                refused([*base, 'folder/'], 1, 'folder/')
                refused([*base, 'x' * 300], 1, 'x' * 60, 'ENAMETOOLONG|too long')
                refused([*base, 'file/out'], 1, 'file', 'ENOTDIR|not a directory')
                refused([*base, 'closed/out'], 1, 'closed', 'EACCES|permission', before=as_other)
                equal(os.listdir('closed'), [])


@test
def names_of_their_own_in_a_folder_that_cannot_be_written_to():
    os.mkdir('closed')
    os.chmod('closed', 0o555)
    os.chdir('closed')
    try:
        with Workload(as_nobody([], [SPIN, '--seconds', '100'])) as w:
            as_other = as_nobody(['CAP_BPF', 'CAP_PERFMON'], [])
            for args, option in ((['--offcpu'], '--offcpu-output'),
                                 (['--pmu', '--pmu-output', 'auto'], '--pmu-output')):
                refused([*args, '--pid', str(w.pid), '--duration', '1m'], 1, 'current directory', 'EACCES', option,
                        before=as_other)
    finally:
        os.chdir('..')


@test
def outputs_that_are_full_are_said():
    with Workload([SPIN, '--seconds', '100']) as w:
        base = ['--pid', str(w.pid), *SHORT]
        for args in (['--offcpu', '--offcpu-output', '/dev/full'], ['--pmu', '--pmu-output', '/dev/full'],
                     ['--pmu', '--pmu-output', '/dev/full', '--pmu-format', 'json']):
            r = run([AGENT, *args, *base])
            equal(r.rc, 1, r)
            check(any('/dev/full' in line and 'ENOSPC' in line for line in r.lines), r)
        # The other output is written.
        r = run([AGENT, '--offcpu', '--offcpu-output', 'good', '--pmu', '--pmu-output', '/dev/full', *base])
        equal(r.rc, 1, r)
        equal(os.listdir('.'), ['good'])
        os.unlink('good')
        with open('/dev/full', 'wb') as full:
            for args in (['--offcpu', '--offcpu-output', '-'], ['--pmu'], ['--pmu', '--pmu-format', 'json']):
                p = subprocess.run([AGENT, *args, *base], stdout=full, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                   timeout=60)
                equal(p.returncode, 1, args, p.stderr.decode())
                check(b'ENOSPC' in p.stderr, args, p.stderr.decode())
    equal(os.listdir('.'), [])


@test
def targets_and_privileges_are_checked_in_each_mode():
    p = subprocess.Popen(['true'])
    p.wait()
    for mode in ('--offcpu', '--pmu'):
        refused([mode, '--pid', str(p.pid), *SHORT], 1, str(p.pid), 'does not exist')
        refused([mode, '--', '/nonexistent/program'], 1, 'cannot start', 'ENOENT')
        with Workload(as_nobody([], [SPIN, '--seconds', '100'])) as w:
            for target in (['--pid', str(w.pid), *SHORT], ['-a', *SHORT], ['--', 'true']):
                refused([mode, *target], 1, 'CAP_BPF, CAP_PERFMON', before=as_nobody([], []))


@test
def modes_that_cannot_start_leave_the_others_whole():
    """Waits and statistics are attached to tracepoints, samples are not."""
    outputs = {'--profile': 'p', '--offcpu': 'o', '--pmu': 'm'}
    names = {'--offcpu': 'off-CPU profile', '--pmu': 'metrics'}
    short = {'--offcpu': 'off-CPU profile', '--pmu': 'PMU'}
    before = [SECCOMP, 'bpf-tracepoint', 'EPERM', AGENT]
    with Workload([SPIN, '--seconds', '100']) as w:
        for gone in (['--offcpu'], ['--pmu'], ['--offcpu', '--pmu']):
            asked = ['--profile', *gone]
            words = [x for mode in asked for x in (mode, mode + '-output', outputs[mode])]
            r = run([*before, *words, '--pid', str(w.pid), '--duration', '500ms'])
            equal((r.rc, os.listdir('.')), (1, ['p']), r)
            mine = Profile('p').samples
            check(mine and {s.labels['pid'] for s in mine} == {w.pid}, mine[:3], r)
            check('perf-agent: profile written: p' in r.lines and 'perhaps' not in r.err, r)
            equal(r.lines[-len(gone):], [f'perf-agent: {names[m]} not written: {outputs[m]}' for m in gone], r)
            for mode in gone:
                left_out = [n for n in r.notes if n.startswith(short[mode] + ' is left out: ')]
                equal(len(left_out), 1, r)
                check('EPERM' in left_out[0] and 'seccomp' in left_out[0], left_out)
            # So is the program that measures on-CPU time: samples then weigh their periods.
            equal([n for n in r.notes if 'EPERM' in n and 'left out' not in n],
                  ['cannot measure the CPU time of the target: operation not permitted (EPERM); totals come from the samples alone'], r)
            equal(r.err.count('EPERM'), len(gone) + 1, r)
            check('cpu_time' not in '\n'.join(Profile('p').comments), r)
            check('off-CPU quality' not in r.err and 'no off-CPU intervals' not in r.err, r)
            check(any(line.startswith('quality: ') for line in r.lines), r)
            os.unlink('p')
        # With no mode left the start fails.
        refused(['--offcpu', '--pmu', '--pid', str(w.pid), *SHORT], 1, 'EPERM.*seccomp', before=before[:-1])


if __name__ == '__main__':
    AGENT, SPIN, SECCOMP = copies(*sys.argv[1:4])
    sys.exit(main(['setpriv'], None if os.geteuid() == 0 else 'needs root: it runs perf-agent as another user'))
