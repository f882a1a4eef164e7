#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The real program with bad input: message, exit status, and that nothing is left behind.

usage: test-bad-input.py PERF-AGENT SPIN SECCOMP-RUN
"""
import ctypes
import os
import re
import resource
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'live'))
from privlib import (Profile, Workload, as_nobody, check, copies, effective, equal, main, run, sysctl,  # noqa: E402
                     test)

SHORT = ['--duration', '200ms']


def refused(args, status, *words, agent=None, before=(), **more):
    """One line with these words, this status, and an unchanged folder."""
    there = sorted(os.listdir('.'))
    r = run([*before, agent or AGENT, *args], **more)
    equal(r.rc, status, args, r)
    equal(len(r.lines), 1, args, r)
    check(r.err.startswith('perf-agent: ') and r.err.endswith('\n'), args, r)
    for word in words:
        check(re.search(word, r.err), f'{word!r} is not said', args, r)
    equal(sorted(os.listdir('.')), there, args, r)
    return r


def limited(number):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (number, number))


def needs(*caps):
    missing = [c for c in caps if c not in effective()]
    return 'needs ' + ', '.join(missing) if missing else None


# ---- usage ----------------------------------------------------------------------------------------------------------


@test
def usage_names_the_option():
    own = str(os.getpid())
    limit = sysctl('perf_event_max_sample_rate')
    cases = [
        (['--pid', own], '--profile'), (['--profile'], '--pid.*(-a|--all)'),
        (['--profile', '-a', '--pid', own], '--pid.*-a|-a.*--pid'), (['--profile', '-a', '--', 'true'], '-a'),
        (['--profile', '--pid', own, '--', 'true'], '--pid'), (['--profile', '--'], '--|command|COMMAND'),
        (['--profile', '-a', '--sample-rate', '0'], '--sample-rate'),
        (['--profile', '-a', '--sample-rate', '-5'], '--sample-rate'),
        (['--profile', '-a', '--sample-rate', '99999999999'], '--sample-rate'),
        (['--profile', '-a', '--sample-rate', '9x'], '--sample-rate'),
        (['--profile', '-a', '--duration', '0'], '--duration'), (['--profile', '-a', '--duration', '0s'], '--duration'),
        (['--profile', '-a', '--duration', '-1s'], '--duration'), (['--profile', '-a', '--duration', 'x'], '--duration'),
        (['--profile', '-a', '--unwind', 'magic'], '--unwind'), (['--profile', '-a', '--unwind', ''], '--unwind'),
        (['--profile', '-a', '--table-budget', 'x'], '--table-budget'),
        (['--profile', '-a', '--table-budget', '1'], '--table-budget'), (['--profile', '-a', '--tag', 'novalue'], '--tag'),
        (['--profile', '-a', '--tag', '=x'], '--tag'), (['--profile', '-a', '--event', 'x'], '--event'),
        (['--profile', '--pid', '0'], '--pid'), (['--profile', '--pid', '-3'], '--pid'),
        (['--profile', '--pid', '4294967297'], '--pid'), (['--profile', '--tid', 'x'], '--tid'),
        (['--profile', '--pid', '1,,2'], '--pid'),
        (['--profile', '--pid', ''], "--pid: '' has an empty entry"), (['--profile', '--pid', '1,'], "--pid: '1,' has an empty entry"),
        (['--profile', '--tid', '0'], '--tid'), (['--profile', '--tid', '-3'], '--tid'),
        (['--profile', '--tid', '4294967297'], '--tid'), (['--profile', '--tid', '1', '-a'], '--tid'),
        (['--profile', '--pid', own, '--comm', ''], '--comm'), (['--profile', '--comm', 'x'], '--pid.*--comm'),
        (['--profile', '--cgroup', ''], '--cgroup'), (['--profile', '--follow-children', '-a'], '--follow-children'),
        (['--profile', '-a', '--no-such-option'], '--no-such-option'),
        (['--profile', '-a', '--profile-output', ''], '--profile-output'),
        (['--profile', '-a', '-o', 'a.pb.gz', '-o', 'b.html'], "--output is given twice.*'a.pb.gz'.*'b.html'"),
        (['--profile', '-a', '--flamegraph-output', 'a.html', '--flamegraph-output', 'b.svg'], '--flamegraph-output is given twice'),
        (['--offcpu', '-a', '--offcpu-states', 'running'], '--offcpu-states'),
        (['--offcpu', '-a', '--offcpu-min', '2s', '--offcpu-max', '1s'], '--offcpu-min.*--offcpu-max'),
        (['--profile', '-a', '--offcpu-min', '1s'], '--offcpu-min.*--offcpu'),
        (['--pmu', '--pid', own, '--per-pid'], '--per-pid.*-a.*--pmu'), (['--profile', '-a', '--per-pid'], '--per-pid'),
        (['--pmu', '-a', '--pmu-format', 'xml'], '--pmu-format'),
        (['--profile', '-a', '--profile-output', '-', '--pmu'], '--profile-output.*--pmu-output.*standard output'),
    ]
    cases += [(['--profile', '-a', '--comm', 'x' * 16 + '*'], 'comm.*keeps 15 bytes'),
              (['--profile', '-a', '--comm', 'cpu[[:digit:]]'], 'comm.*\\[0-9\\]')]
    if limit:
        cases.append((['--profile', '-a', '--sample-rate', str(limit + 1)], f'--sample-rate.*{limit}'))
    for args, word in cases:
        refused(args, 2, word)


# ---- targets --------------------------------------------------------------------------------------------------------


@test
def a_target_that_does_not_exist():
    with open('/proc/sys/kernel/pid_max', encoding='ascii') as f:
        pid = int(f.read())  # numbers are below it
    refused(['--profile', '--pid', str(pid), *SHORT], 1, str(pid), 'does not exist')
    p = subprocess.Popen(['true'])
    p.wait()
    refused(['--profile', '--pid', str(p.pid), *SHORT], 1, str(p.pid), 'does not exist')
    refused(['--profile', '--pid', 'no such process', *SHORT], 1, '--pid no such process: no process has this name')


@test
def a_thread_names_its_process():
    with Workload([SPIN, '--seconds', '100', '--threads', '3']) as w:
        tids = []
        while len(tids) < 4:
            tids = [int(t) for t in os.listdir(f'/proc/{w.pid}/task')]
        for tid in tids:
            if tid != w.pid:
                refused(['--profile', '--pid', str(tid), *SHORT], 1, f'{tid} is a thread of process {w.pid}')


@test
def one_of_several_that_is_wrong_refuses_all():
    p = subprocess.Popen(['true'])
    p.wait()
    with Workload([SPIN, '--seconds', '100', '--threads', '2']) as w:
        tids = []
        while len(tids) < 3:
            tids = [int(t) for t in os.listdir(f'/proc/{w.pid}/task')]
        thread = max(tids)
        refused(['--profile', '--pid', f'{w.pid},{p.pid}', *SHORT], 1, f'process {p.pid} does not exist')
        refused(['--profile', '--pid', str(w.pid), '--pid', str(thread), *SHORT], 1, f'{thread} is a thread of process')
        refused(['--profile', '--tid', f'{thread},{p.pid}', *SHORT], 1, f'thread {p.pid} does not exist')
        refused(['--profile', '--pid', str(os.getpid()), '--tid', str(thread), *SHORT], 1,
                f'thread {thread} belongs to process {w.pid}, which is not among the given ones')


@test
def a_thread_that_has_ended():
    p = subprocess.Popen(['true'])
    os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOWAIT)
    refused(['--profile', '--tid', str(p.pid), *SHORT], 1, f'thread {p.pid} .* has ended')
    p.wait()


@test
def paths_that_are_no_cgroups():
    with open('/proc/self/mounts', encoding='utf-8') as f:
        mounts = [line.split() for line in f]
    new = [m[1] for m in mounts if m[2] == 'cgroup2']
    where = re.escape(new[0]) if new else 'mount'
    refused(['--profile', '--cgroup', '/no/such/cgroup', *SHORT], 1, 'cgroup /no/such/cgroup does not exist', where)
    refused(['--profile', '--cgroup', 'no/such/cgroup', *SHORT], 1, 'cgroup no/such/cgroup', where)
    refused(['--profile', '--cgroup', os.getcwd(), *SHORT], 1, 'is no cgroup', where)
    refused(['--profile', '--cgroup', '/proc/self/stat', *SHORT], 1, 'is a file')
    refused(['--profile', '--pid', str(os.getpid()), '--cgroup', '/dev/null', *SHORT], 1, 'is a file')
    for m in mounts:
        if m[2] == 'cgroup':
            refused(['--profile', '--cgroup', m[1], *SHORT], 1, 'cgroup v1', where)
            break
    if new:
        refused(['--profile', '--cgroup', new[0] + '/cgroup.procs', *SHORT], 1, 'is a file')


@test
def a_zombie_has_ended():
    p = subprocess.Popen(['true'])
    os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOWAIT)
    refused(['--profile', '--pid', str(p.pid), *SHORT], 1, str(p.pid), 'zombie')
    p.wait()


@test
def a_kernel_thread():
    for pid in (p for p in os.listdir('/proc') if p.isdigit()):
        try:
            with open(f'/proc/{pid}/stat', encoding='utf-8', errors='replace') as f:
                flags = int(f.read().rpartition(') ')[2].split()[6])
        except OSError:
            continue
        if flags & 0x200000:  # PF_KTHREAD
            refused(['--profile', '--pid', pid, *SHORT], 1, f'process {pid} ', 'kernel thread', '-a --comm NAME')
            refused(['--profile', '--tid', pid, *SHORT], 1, f'thread {pid} ', 'kernel thread', '-a --comm NAME')
            return None
    return 'no kernel thread is visible here'


@test
def a_target_that_ends_during_start():
    """At any moment: either a line that says so, or a profile; never a crash, never an empty success in silence."""
    reason = needs('CAP_BPF', 'CAP_PERFMON')
    if reason:
        return reason
    outcomes = set()
    for i in range(30):
        p = subprocess.Popen(['sleep', f'{0.004 * i:.3f}'])
        r = run([AGENT, '--profile', '--pid', str(p.pid), *SHORT, '--profile-output', 'out.pb.gz'])
        p.wait()
        if r.rc == 1:
            equal(len(r.lines), 1, r)
            check(re.search(f'process {p.pid} (does not exist|ended|.*zombie)', r.err), r)
            equal(os.listdir('.'), [], r)
        else:
            equal(r.rc, 0, r)
            profile = Profile('out.pb.gz')
            if not profile.samples:
                check('no samples' in r.err and profile.comment('empty'), r, profile.comments)
            os.unlink('out.pb.gz')
        outcomes.add(r.rc)
    check(1 in outcomes, outcomes)
    return None


@test
def a_command_that_cannot_be_started():
    with open('no-program', 'w', encoding='ascii') as f:
        f.write('')
    with open('wrong-program', 'w', encoding='ascii') as f:
        f.write('#!/nonexistent/interpreter\n')
    os.chmod('wrong-program', 0o755)
    reason = needs('CAP_BPF', 'CAP_PERFMON')
    if reason:
        return reason
    for command, word in ((['/nonexistent/program'], 'ENOENT'), (['no-such-program'], 'not found in PATH'),
                          (['./wrong-program'], 'the interpreter or dynamic linker'), (['./no-program'], 'EACCES'), (['.'], 'EACCES')):
        refused(['--profile', '--', *command], 1, 'cannot start', re.escape(command[0]), word)
    return None


# ---- outputs --------------------------------------------------------------------------------------------------------


@test
def outputs_that_cannot_be_written():
    os.mkdir('folder')
    os.mkdir('closed')
    os.mkdir('closed/inner')
    os.chmod('closed', 0o555)
    with Workload(as_nobody([], [SPIN, '--seconds', '100'])) as w:
        base = ['--profile', '--pid', str(w.pid), *SHORT, '--profile-output']
        refused([*base, 'missing/out.pb.gz'], 1, 'missing', 'does not exist', 'mkdir')
        refused([*base, 'folder'], 1, 'folder', 'directory')
        refused([*base, 'folder/'], 1, 'folder/')
        refused([*base, 'x' * 300], 1, 'x' * 60, 'ENAMETOOLONG|too long')
        with open('file', 'w', encoding='ascii'):
            pass
        refused([*base, 'file/out.pb.gz'], 1, 'file', 'ENOTDIR|not a directory')
        as_other = as_nobody(['CAP_BPF', 'CAP_PERFMON'], [])
        refused([*base, 'closed/out.pb.gz'], 1, 'closed', 'EACCES|permission', before=as_other)
        equal(os.listdir('closed'), ['inner'])
        os.chdir('closed')
        try:  # a name of its own in a folder that cannot be written to
            refused(base[:-1], 1, 'current directory', 'EACCES', '--profile-output', before=as_other)
        finally:
            os.chdir('..')


@test
def one_of_several_outputs_that_cannot_be_written():
    reason = needs('CAP_BPF', 'CAP_PERFMON')
    if reason:
        return reason
    with Workload([SPIN, '--seconds', '100']) as w:
        target = ['--profile', '--offcpu', '--pid', str(w.pid), *SHORT]
        refused([*target, '--profile-output', 'p', '--offcpu-output', 'missing/o'], 1, 'missing', 'does not exist')
        refused([*target, '--offcpu-output', '.'], 1, 'directory')
        refused([*target, '--profile-output', 'p', '--offcpu-output', './p'], 2, '--profile-output.*--offcpu-output')
        r = run([AGENT, *target, '--profile-output', '/dev/full', '--offcpu-output', 'o'])
        equal((r.rc, os.listdir('.')), (1, ['o']), r)
        check('/dev/full' in r.lines[-1] and 'ENOSPC' in r.lines[-1], r)
        check('perf-agent: off-CPU profile written: o' in r.lines and 'profile not written: /dev/full' in r.err, r)
        os.unlink('o')
        r = run([AGENT, *target, '--profile-output', 'p', '--offcpu-output', '/dev/full'])
        equal((r.rc, os.listdir('.')), (1, ['p']), r)
        check('/dev/full' in r.lines[-1] and 'perf-agent: profile written: p' in r.lines, r)
    return None


@test
def an_output_that_is_full():
    reason = needs('CAP_BPF', 'CAP_PERFMON')
    if reason:
        return reason
    with Workload([SPIN, '--seconds', '100']) as w:
        r = run([AGENT, '--profile', '--pid', str(w.pid), *SHORT, '--profile-output', '/dev/full'])
        equal(r.rc, 1, r)
        check('/dev/full' in r.lines[-1] and 'ENOSPC' in r.lines[-1] and 'written' not in r.err, r)
        with open('/dev/full', 'wb') as full:
            p = subprocess.run([AGENT, '--profile', '--pid', str(w.pid), *SHORT, '--profile-output', '-'], stdout=full,
                               stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=60)
        equal(p.returncode, 1, p.stderr.decode())
        check(b'ENOSPC' in p.stderr.splitlines()[-1] and b'written' not in p.stderr, p.stderr.decode())
        # A file system that fills up: no partial file stays.
        os.mkdir('small')
        script = ('mount -t tmpfs -o size=4k,nr_inodes=8 none small && echo . > small/x && cd small && '
                  f'{AGENT} --profile --pid {w.pid} --duration 200ms --profile-output out.pb.gz; echo $? $(ls)')
        p = subprocess.run(['unshare', '--mount', 'sh', '-c', script], capture_output=True, timeout=60)
        equal(p.stdout.decode().split(), ['1', 'x'], p.stderr.decode())
        check(b'ENOSPC' in p.stderr.splitlines()[-1], p.stderr.decode())
        check(os.path.exists('/dev/full'), 'it was replaced')
    equal(os.listdir('.'), ['small'])
    return None


# ---- what the kernel refuses ----------------------------------------------------------------------------------------


@test
def too_few_descriptors():
    reason = needs('CAP_BPF', 'CAP_PERFMON')
    if reason:
        return reason
    with Workload([SPIN, '--seconds', '100']) as w:
        for number in (7, 10, 16, 20, 24, 28, 32, 36, 40):
            r = refused(['--profile', '--pid', str(w.pid), *SHORT], 1, 'RLIMIT_NOFILE', 'ulimit -n',
                        preexec_fn=limited(number))
        remedy = int(re.search(r'ulimit -n (\d+)', r.err)[1])
        r = run([AGENT, '--profile', '--pid', str(w.pid), *SHORT, '--profile-output', 'o'], preexec_fn=limited(remedy))
        equal(r.rc, 0, 'the remedy that was named does not help', r)
        r = run([AGENT, '--profile', '--pid', str(w.pid), *SHORT, '--profile-output', 'o', '--event', 'auto'],
                preexec_fn=limited(remedy))
        equal(r.rc, 0, r)
        r = run([AGENT, '--profile', '--profile-output', 'o', '--', 'true'], preexec_fn=limited(remedy))
        equal(r.rc, 0, r)
        r = run([AGENT, '--profile', '-a', *SHORT, '--profile-output', 'o'], preexec_fn=limited(remedy))
        equal(r.rc, 0, r)
    return None


@test
def a_seccomp_filter():
    reason = needs('CAP_BPF', 'CAP_PERFMON')
    if reason:
        return reason
    if run([SECCOMP, 'bpf', 'EPERM', '/bin/true']).rc == 125:
        return 'no seccomp filter can be installed here'
    with Workload([SPIN, '--seconds', '100']) as w:
        for call, name in (('bpf', r'bpf\('), ('perf_event_open', 'perf_event_open')):
            for error in ('EPERM', 'EACCES', 'ENOSYS'):
                if (call, error) == ('bpf', 'EACCES'):
                    continue
                for target in (['--pid', str(w.pid)], ['-a'], ['--', 'true']):
                    refused(['--profile', *(SHORT if target[0] != '--' else []), *target], 1, name, error, 'seccomp',
                            'seccomp=unconfined', before=[SECCOMP, call, error])
    return None


@test
def no_privileges():
    with Workload(as_nobody([], [SPIN, '--seconds', '100'])) as w:
        for target in (['--pid', str(w.pid)], ['-a'], ['--', 'true']):
            r = refused(['--profile', *(SHORT if target[0] != '--' else []), *target], 1, 'CAP_BPF, CAP_PERFMON',
                        'setcap', before=as_nobody([], []))
            check('CAP_SYS_PTRACE' not in r.err and 'seccomp' not in r.err, r)


if __name__ == '__main__':
    AGENT, SPIN, SECCOMP = copies(*sys.argv[1:4])
    REASON = None
    if os.geteuid() != 0 or ctypes.CDLL(None).prctl(23, 7, 0, 0, 0) != 1:  # PR_CAPBSET_READ of CAP_SETUID
        REASON = 'needs root: it runs perf-agent as another user'
    sys.exit(main(['setpriv', 'unshare'], REASON))
