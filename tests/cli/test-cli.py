#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command line against the scripted library of fake_perfagent.c. TAP on standard output.

    test-cli.py PERF-AGENT-FAKE EMBED-FAKE OPTIONS.DEF GEN-CLI-DOCS.PY MAN-PAGE COMPLETION
"""
import errno
import importlib.util
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from cli_harness import WAIT_S, Terminal, check, environment, equal, files, finish, main, start, test, wait_for

FAKE, EMBED, OPTIONS_DEF, DOCS, MAN, COMPLETION = map(os.path.abspath, sys.argv[1:7])
HOST = socket.gethostname().partition('.')[0] + '-'
FULL_NAME = r'\d{12}(-\d+)?-on-cpu\.pb\.gz'


def start_fake(args, env=None, **more):
    return start(FAKE, args, env, **more)


def run(*args, env=None, **more):
    return finish(start_fake(args, env, **more))


SHORT = ['--duration', '50ms']
ME = ['--profile', '--pid', str(os.getpid())]
OFF = ['--offcpu', '--pid', str(os.getpid())]
PMU = ['--pmu', '--pid', str(os.getpid())]


def logged(*words, env=None):
    r = run(*words, env={'FAKE_LOG': 'log', **(env or {})})
    equal(r.rc, 0, r)
    with open('log', encoding='utf-8') as f:
        lines = f.read().splitlines()
    os.unlink('log')
    return lines


@test
def options_reach_the_library():
    lines = logged(*ME, *SHORT, '--profile-output', 'p')
    for want in ['size_ok 1', 'target 1', f'pid {os.getpid()}', 'rate 99', 'event 0', 'unwind 0', 'budget 0', 'flags 0', 'path p',
                 'fd 0', 'ring 0', 'counts 0', 'ranges 0']:
        check(want in lines, want, lines)
    lines = logged('-profile', '-all', '-sample-rate=499', '-event=auto', '-tag', 'a=1', '--tag=b=2=3', *SHORT,
                   '--kernel-stacks=F', '--profile-output=p', '--test-ring-bytes=4096', '--test-count-entries', '8',
                   '--test-range-entries=16')
    for want in ['target 2', 'pid 0', 'rate 499', 'event 2', 'flags 3', 'tag a=1', 'tag b=2=3', 'ring 4096', 'counts 8',
                 'ranges 16']:
        check(want in lines, want, lines)
    equal([l for l in lines if l.startswith('tag')], ['tag a=1', 'tag b=2=3'])
    lines = logged('--profile', '--event', 'cycles', '--profile-output', 'p', '--', 'true', '--pid', '3')
    for want in ['target 3', 'event 1', 'flags 0', 'argv true', 'argv --pid', 'argv 3']:
        check(want in lines, want, lines)
    lines = logged('--profile', '--pid', '5,7', '--pid=6', '--pid=7', '--follow-children', '--comm', 'a b', '--comm=c',
                   '--cgroup', '/x', '--cgroup=y/z', *SHORT, '--profile-output', 'p')
    for want in ['target 1', 'pid 5', 'flags 4']:
        check(want in lines, want, lines)
    equal([l for l in lines if l.split()[0] in ('also', 'tid', 'comm', 'cgroup')],
          ['also 7', 'also 6', 'comm a b', 'comm c', 'cgroup /x', 'cgroup y/z'])
    lines = logged('--profile', '--tid', '9,8', *SHORT, '--profile-output', 'p')
    for want in ['target 1', 'pid 0', 'tid 9', 'tid 8', 'flags 0']:
        check(want in lines, want, lines)
    # A cgroup alone is one of the whole machine; a command's children are followed without an option.
    lines = logged('--profile', '--cgroup', 'x', *SHORT, '--profile-output', 'p')
    check('target 2' in lines and 'flags 2' in lines, lines)
    lines = logged('--profile', '--follow-children', '--cgroup', 'x', '--profile-output', 'p', '--', 'true')
    check('target 3' in lines and 'flags 0' in lines and 'cgroup x' in lines, lines)
    check('flags 2' in logged('--profile', '-a=T', '--profile-output', 'p', *SHORT), 'agent not left out')


@test
def help_and_version_go_to_standard_output():
    r = run('--help')
    equal((r.rc, r.err), (0, ''), r)
    check('--profile-output' in r.out and 'kernel-stacks' in r.out, r)
    check(not re.search('^ +$', r.out, re.M), r)  # argp's, after a text that fits exactly
    equal(run('-h').out, r.out)
    equal(run('help').out, r.out)
    r = run('--version')
    equal((r.rc, r.err), (0, ''), r)
    check(re.fullmatch(r'perf-agent \d+\.\d+\.\d+\n', r.out), r)
    check('library 9.9.9' in run('--version', env={'FAKE_VERSION': '9.9.9'}).out)
    for word in ['--help', '--version']:
        with open('/dev/full', 'wb') as full:
            r = run(word, stdout=full)
        equal((r.rc, len(r.lines)), (1, 1), r)


@test
def made_names():
    child = subprocess.Popen(['/usr/bin/python3', '-c', 'import sys\nopen("/proc/self/comm", "w").write(".a/b c")\n'
                              'print(flush=True)\nsys.stdin.read()'],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        child.stdout.readline()
        cases = [
            (['--profile', '-a', *SHORT], HOST),
            (['--profile', '-a', '--cgroup', 'x', '--cgroup', 'y', *SHORT], HOST),
            (['--profile', '--pid', str(child.pid), *SHORT], '_a_b_c-'),
            (['--profile', '--pid', '2147483647', *SHORT], 'pid2147483647-'),
            (['--profile', '--pid', f'{child.pid},2147483647', *SHORT], '_a_b_c-'),
            (['--profile', '--tid', str(child.pid), *SHORT], '_a_b_c-'),
            (['--profile', '--tid', '2147483647', *SHORT], 'tid2147483647-'),
            (['--profile', '--cgroup', 'x', *SHORT], 'x-'),
            (['--profile', '--cgroup', '/sys/fs/cgroup/a.slice/b c.service//', *SHORT], 'b_c.service-'),
            (['--profile', '--', '/bin/true'], 'true-'),
            (['--profile', '--', 'sh', '-c', ':'], 'sh-'),
        ]
        for words, prefix in cases:
            for _ in range(2):
                before = set(files())
                r = run(*words)
                equal(r.rc, 0, r)
                new = set(files()) - before
                equal(len(new), 1, words, files(), r)
                name = new.pop()
                check(re.fullmatch(re.escape(prefix) + FULL_NAME, name), words, name)
                check(f'perf-agent: profile written: {name}' in r.lines, name, r)
        for words, suffix in [(['--offcpu'], '-off-cpu.pb.gz'), (['--offcpu', '--offcpu-output=auto'], '-off-cpu.pb.gz'),
                              (['--profile', '--profile-output', 'auto'], '-on-cpu.pb.gz'), (['--pmu', '--pmu-output=auto'], '-pmu.txt'),
                              (['--pmu', '--pmu-output', 'auto', '--pmu-format=json'], '-pmu.json')]:
            for _ in range(2):
                before = set(files())
                r = run(*words, '--pid', '2147483647', *SHORT)
                equal(r.rc, 0, r)
                name = re.search(r'(?:profile|metrics) written: (.*)', r.err)[1]
                check(re.fullmatch(r'pid2147483647-\d{12}(-\d+)?' + re.escape(suffix), name), name, r)
                equal(set(files()) - before, {name}, r)
        # The name of a file, and not the word.
        for words in [*PMU, '--pmu-output=./auto'], [*OFF, '--offcpu-output=./auto'], [*ME, '--profile-output=./auto']:
            equal(run(*words, *SHORT).rc, 0)
            check('auto' in files(), files())
            os.unlink('auto')
        equal([f for f in files() if f.startswith('.')], [])
    finally:
        child.stdin.close()
        child.wait(WAIT_S)
        child.stdout.close()


@test
def made_names_never_replace_a_file():
    runs = [start_fake(['--profile', '-a', '--duration', '400ms']) for _ in range(4)]
    results = [finish(p) for p in runs]
    for r in results:
        equal(r.rc, 0, r)
    equal(len(files()), 4, files())
    equal(len({l for r in results for l in r.lines if 'profile written' in l}), 4, results)
    # A name that is taken while we sample, by a link that leads nowhere: lstat, not stat.
    p = start_fake(['--profile', '--', 'sleep', '0.5'])
    wait_for(p, 'profiling command')
    for stamp in {time.strftime('%Y%m%d%H%M', time.localtime(time.time() - s)) for s in (0, 60)}:
        os.symlink('nowhere', f'sleep-{stamp}-on-cpu.pb.gz')
    r = finish(p)
    check(re.search(r'profile written: sleep-\d{12}-2-on-cpu\.pb\.gz', r.err), r)
    check(not os.path.exists('nowhere'), files())


@test
def failures_of_the_library_are_one_line():
    cases = [
        ('FAKE_NEW', f'{errno.EINVAL} bad option', 2, 'bad option'),
        ('FAKE_NEW', f'{errno.ENOMEM}', 1, 'ENOMEM'),
        ('FAKE_START', f'{errno.EACCES} perf_event_open cpu 0: EACCES: needs CAP_PERFMON', 1, 'needs CAP_PERFMON'),
        ('FAKE_START', f'{errno.ESRCH}', 1, 'ESRCH'),
    ]
    for name, script, rc, text in cases:
        r = run(*ME, *SHORT, env={name: script})
        equal((r.rc, len(r.lines), files()), (rc, 1, []), script, r)
        check(text in r.err, script, r)
    r = run('--profile', '--', './no-such-program')
    equal((r.rc, len(r.lines), files()), (1, 1, []), r)
    check('exec ./no-such-program: ENOENT' in r.err, r)


@test
def failure_to_write_is_the_last_line_after_the_report():
    env = {'FAKE_STOP': f'{errno.ENOSPC} write p: ENOSPC', 'FAKE_TOP': '1 1 /bin/x f', 'FAKE_SEEN': '1'}
    for more in [['--profile-output', 'p'], []]:
        r = run(*ME, *SHORT, *more, env=env)
        equal((r.rc, files()), (1, []), r)
        equal(r.lines[-1], 'perf-agent: write p: ENOSPC', r)
        check('profile written' not in r.err and 'quality: ' in r.err, r)
    r = run(*ME, *SHORT, '--profile-output', 'missing/p')
    equal((r.rc, files()), (1, []), r)
    check('missing/p' in r.lines[-1], r)


@test
def messages_name_the_output_as_people_know_it():
    os.mkdir('full')
    os.chdir('full')
    name = r'perf-agent: cannot write pid2147483647-\d{12}-on-cpu\.pb\.gz: [a-z ]+ \(E[A-Z]+\)'
    limit = lambda: [resource.setrlimit(resource.RLIMIT_FSIZE, (4, 4)), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)]
    r = run('--profile', '--pid=2147483647', *SHORT, preexec_fn=limit)
    equal(r.rc, 1, r)
    check(re.fullmatch(name, r.lines[-1]), r)
    with open('/dev/full', 'wb') as full:
        r = run(*ME, *SHORT, '--profile-output=-', stdout=full)
    equal((r.rc, r.lines[-1]), (1, 'perf-agent: cannot write standard output: no space left on device (ENOSPC)'), r)


@test
def current_directory_without_write_permission():
    if os.geteuid() == 0 and not os.path.exists('/usr/bin/setpriv'):
        return 'needs setpriv'
    os.mkdir('closed', 0o555)
    prefix = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', '--bounding-set=-all',
              '--inh-caps=-all'] if os.geteuid() == 0 else []
    # The program is opened before, by us: its own folder may be closed to that user.
    fd = os.open(FAKE, os.O_RDONLY)
    try:
        p = subprocess.Popen([*prefix, f'/proc/self/fd/{fd}', '--profile', '-a', *SHORT], cwd='closed', pass_fds=[fd],
                             env=environment(None), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        r = finish(p)
    finally:
        os.close(fd)
    equal((r.rc, len(r.lines), os.listdir('closed')), (1, 1, []), r)
    check('current directory' in r.err and 'EACCES' in r.err, r)


@test
def start_line_says_what_is_sampled():
    out = ['--profile-output', 'p']
    comm = open('/proc/self/comm', encoding='utf-8').read().strip()
    cases = [
        ([*ME, *SHORT], f'profiling pid {os.getpid()} ({comm}) at 99 Hz, cpu-clock, unwind auto, for 50.0 ms; '
                        'Ctrl-C ends early', {}),
        (['--profile', '-a', '--sample-rate=49', *SHORT], 'profiling the whole machine at 49 Hz, cpu-clock', {}),
        ([*ME, *SHORT, '--event=auto'], 'Hz, hardware cycles, unwind auto', {'FAKE_UNIT': 'cycles'}),
        ([*ME, *SHORT, '--event=auto'], 'Hz, cpu-clock, unwind auto', {}),
        ([*ME, *SHORT, '--kernel-stacks=0'], 'unwind auto, without kernel stacks, for', {}),
        ([*ME, *SHORT, '--unwind', 'fp'], 'cpu-clock, frame pointers only, for', {}),
        ([*ME, *SHORT, '--unwind', 'dwarf'], 'cpu-clock, unwind dwarf, for', {}),
        (['--profile', '--', '/bin/true'], 'unwind auto, until it ends', {}),
        (['--profile', '--pid=2147483647', *SHORT], 'profiling pid 2147483647 at', {}),
        (ME, 'for 10.0 s; Ctrl-C ends early', {'FAKE_END_MS': '20'}),
        (['--profile', '--pid', '2147483646,2147483647', *SHORT], 'profiling pids 2147483646, 2147483647 at', {}),
        (['--profile', '--pid', '1,2,3,4,5,6', *SHORT], 'profiling pids 1, 2, 3, 4 and 2 more at', {}),
        (['--profile', '--pid', '2147483647', '--follow-children', *SHORT], 'pid 2147483647 and its children at', {}),
        (['--profile', '--pid', '1,2', '--follow-children', *SHORT], 'pids 1, 2 and their children at', {}),
        (['--profile', '--tid', str(os.getpid()), *SHORT], f'profiling thread {os.getpid()} ({comm}) at', {}),
        ([*ME, '--tid', '1,2', *SHORT], f'pid {os.getpid()} ({comm}), threads 1, 2 at', {}),
        ([*ME, '--comm', 'a', '--comm', 'b', *SHORT], f'({comm}), threads named a or b at', {}),
        (['--profile', '--cgroup', 'c', *SHORT], 'the whole machine, in cgroup c at', {}),
        ([*ME, '--offcpu', '--offcpu-output=o', *SHORT], 'at 99 Hz, cpu-clock, with off-CPU time, unwind auto, for', {}),
        ([*ME, '--pmu', *SHORT], 'at 99 Hz, cpu-clock, with scheduler statistics, unwind auto, for', {}),
        ([*ME, '--offcpu', '--pmu', '--offcpu-output=o', *SHORT], ', with off-CPU time and scheduler statistics, unwind auto, for', {}),
        (['--offcpu', '-a', '--offcpu-output=o', *SHORT], 'profiling off-CPU time of the whole machine, unwind auto, for', {}),
        (['--pmu', '-a', *SHORT], 'profiling scheduler statistics of the whole machine, for 50.0 ms; Ctrl-C', {}),
        (['--pmu', '--offcpu', '-a', '--offcpu-output=o', *SHORT], 'profiling off-CPU time and scheduler statistics of the whole', {}),
    ]
    for words, text, env in cases:
        r = run(*words[:1], *(out if '--profile' in words else []), *words[1:], env=env)
        equal(r.rc, 0, r)
        # With dwarf a line about what is waited for is before it.
        check(text in r.lines[1 if 'dwarf' in words else 0], words, r)


@test
def notes_are_printed_once():
    r = run(*ME, *SHORT, '--profile-output=p', env={'FAKE_NOTES': 'one\ntwo', 'FAKE_LATE_NOTES': 'three'})
    equal([l for l in r.lines if 'note' in l], [f'perf-agent: note: {w}' for w in ['one', 'two', 'three']], r)


@test
def endings():
    began = time.monotonic()
    r = run(*ME, '--duration=300ms', '--profile-output=p')
    equal(r.rc, 0, r)
    check(time.monotonic() - began >= 0.3, 'too early')
    check(' ended after' not in r.err, r)
    r = run(*ME, '--duration=1h', '--profile-output=p', env={'FAKE_END_MS': '50'})
    equal(r.rc, 0, r)
    check(f'pid {os.getpid()} ended after' in r.err, r)
    ended = ['--duration=1h', '--profile-output=p']
    for words, text in [(['--pid=1,2'], 'all 2 processes ended after'), (['--tid=1'], 'the process of thread 1 ended after'),
                        (['--tid=1,2'], 'the processes of threads 1 and others ended after'),
                        (['--pid=1', '--follow-children'], '; the capture does not wait for its children'),
                        (['--pid=1,2', '--follow-children'], '; the capture does not wait for their children')]:
        r = run('--profile', *words, *ended, env={'FAKE_END_MS': '50'})
        equal(r.rc, 0, r)
        check(text in r.err, text, r)


@test
def first_signal_ends_and_writes():
    for number in [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]:
        p = start_fake([*ME, '--duration=1h', '--profile-output=p'])
        wait_for(p, 'profiling')
        p.send_signal(number)
        r = finish(p)
        equal(r.rc, 0, r)
        check(number.name in r.err and 'profile written: p' in r.err, r)
        check(any(line.startswith('quality: ') for line in r.lines), r)
        os.unlink('p')


@test
def signal_before_sampling_starts_nothing():
    os.mkfifo('fifo')
    for where in ['FAKE_NEW_WAIT', 'FAKE_START_WAIT']:
        for target in [['--pid', str(os.getpid())], ['--', 'touch', 'started']]:
            for number in [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]:
                p = start_fake(['--profile', '--duration=1h', '--profile-output=p', *target], env={where: 'fifo'})
                with open('fifo', 'wb'):  # waits for it to be there; and it, for this to be closed
                    p.send_signal(number)
                r = finish(p)
                equal((r.rc, files()), (1, ['fifo']), where, target, r)
                equal(r.lines, [f'perf-agent: {number.name} before the capture began: no profile'], where, target)


@test
def signal_as_sampling_begins_ends_the_capture():
    """A start that had let the command go when the signal came."""
    p = start_fake(['--profile', '--profile-output=p', '--', 'sh', '-c', 'kill -TERM $PPID; exec sleep 100 >&- 2>&-'])
    r = finish(p)
    equal((r.rc, files()), (0, ['p']), r)
    check('SIGTERM: the capture ends' in r.err and 'it is left running' in r.err, r)


@test
def second_signal_aborts():
    p = start_fake([*ME, '--duration=1h', '--profile-output=p'], env={'FAKE_STOP_MS': str(WAIT_S * 1000)})
    wait_for(p, 'profiling')
    p.send_signal(signal.SIGINT)
    wait_for(p, 'a second signal aborts')
    time.sleep(0.15)  # what is closer together counts as one signal
    p.send_signal(signal.SIGTERM)
    r = finish(p)
    equal((r.rc, files()), (1, []), r)
    check('aborted by a second signal' in r.err, r)


@test
def two_signals_at_once_are_one():
    p = start_fake([*ME, '--duration=1h', '--profile-output=p'], env={'FAKE_STOP_MS': '300'})
    wait_for(p, 'profiling')
    p.send_signal(signal.SIGINT)
    p.send_signal(signal.SIGTERM)
    r = finish(p)
    equal((r.rc, files()), (0, ['p']), r)


@test
def sighup_stays_ignored():
    p = start_fake([*ME, '--duration=1h', '--profile-output=p'],
              preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    wait_for(p, 'profiling')
    p.send_signal(signal.SIGHUP)
    time.sleep(0.05)
    p.send_signal(signal.SIGINT)
    r = finish(p)
    equal(r.rc, 0, r)
    check('SIGINT' in r.err and 'SIGHUP' not in r.err, r)


@test
def sigint_is_handled_also_where_it_was_ignored():
    p = start_fake([*ME, '--duration=1h', '--profile-output=p'],
                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    wait_for(p, 'profiling')
    p.send_signal(signal.SIGINT)
    r = finish(p)
    equal((r.rc, files()), (0, ['p']), r)


@test
def command_gets_default_signals():
    r = run('--profile', '--profile-output=p', '--', 'grep', '-E', '^Sig(Ign|Cgt|Blk)', '/proc/self/status',
            restore_signals=True)
    values = dict(re.findall(r'(Sig\w+):\s*([0-9a-f]+)', r.out))
    pipe = 1 << (signal.SIGPIPE - 1)
    equal([int(values[k], 16) & (pipe | 0x4003) for k in ('SigIgn', 'SigCgt', 'SigBlk')], [0, 0, 0], r)


@test
def profile_on_standard_output():
    r = run(*ME, *SHORT, '--profile-output', '-')
    equal((r.rc, r.out, files()), (0, 'fake profile\n', []), r)
    check('perf-agent: profile written: standard output' in r.lines, r)
    r = run('--profile', '--profile-output=-', '--', 'echo', 'from the command')
    equal((r.rc, r.out), (0, 'fake profile\n'), r)
    check('from the command' in r.lines, r)
    r = run('--profile', '--profile-output=p', '--', 'echo', 'from the command')
    equal((r.rc, r.out), (0, 'from the command\n'), r)


@test
def standard_output_that_takes_nothing():
    p = start_fake([*ME, '--duration=200ms', '--profile-output=-'])
    p.stdout.close()
    p.stdout = None
    r = finish(p)
    equal(r.rc, 1, r)
    check('EPIPE' in r.lines[-1], r)
    with open('/dev/full', 'wb') as full:
        r = run(*ME, *SHORT, '--profile-output=-', stdout=full)
    equal(r.rc, 1, r)
    check('ENOSPC' in r.lines[-1], r)
    r = run(*ME, '--profile-output=-', preexec_fn=lambda: os.close(1))
    equal((r.rc, len(r.lines)), (1, 1), r)
    check('--profile-output: standard output is not open for writing' in r.err, r)


@test
def closed_standard_streams_do_no_harm():
    r = run(*ME, *SHORT, '--profile-output=p', preexec_fn=lambda: [os.close(fd) for fd in (0, 1, 2)])
    equal((r.rc, files()), (0, ['p']), r)
    with open('p', encoding='utf-8') as f:
        equal(f.read(), 'fake profile\n')
    # Nothing of ours may have taken their places: a command would find it there.
    r = run('--profile', '--profile-output=p', '--', 'sh', '-c',
            'l=$(readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2); echo "$l" >links',
            preexec_fn=lambda: [os.close(fd) for fd in (0, 1, 2)])
    equal(r.rc, 0, r)
    with open('links', encoding='utf-8') as f:
        equal(f.read().split(), ['/dev/null'] * 3)


TOP = '''600000000 900000000 /usr/bin/spin spin_a
300000000 300000000 /usr/bin/spin spin_b(int, char const*)
99000000 1000000000 [kernel] entry_SYSCALL_64
1000000 1000000 [jit] 0x7f0012345678'''


@test
def table_of_functions():
    r = run(*ME, *SHORT, '--profile-output=p', env={'FAKE_TOP': TOP, 'FAKE_SEEN': '990'})
    at = [i for i, l in enumerate(r.lines) if 'self %' in l]
    equal(len(at), 1, r)
    equal(r.lines[at[0]:at[0] + 6], [
        '  self %  cum %     self  function                  module',
        '      60     90   600 ms  spin_a                    spin',
        '      30     30   300 ms  spin_b(int, char const*)  spin',
        '      10    100  99.0 ms  entry_SYSCALL_64          [kernel]',
        '      <1     <1  1.00 ms  0x7f0012345678            [jit]',
        'perf-agent: profile written: p',
    ], r)  # one row of its own code that calls others is no second table
    r = run(*ME, *SHORT, '--profile-output=p', env={'FAKE_SEEN': '990', 'FAKE_TOP': TOP + '\n0 800000000 /bin/x main\n0 700000000 /bin/x turn'})
    at = r.lines.index('  cum %     cum  own code with what it calls  module')
    equal([line.split()[3:4] for line in r.lines[at + 1:at + 3]], [['spin_a'], ['turn']], r)
    equal(r.lines[at + 3], 'perf-agent: profile written: p', r)
    r = run(*ME, *SHORT, '--profile-output=p', env={'FAKE_TOP': TOP, 'FAKE_SEEN': '990', 'FAKE_UNIT': 'cycles'})
    check('600 M  spin_a' in r.err, r)


@test
def addresses_without_a_name_are_one_row_a_module():
    top = '\n'.join(['30 50 /bin/a 0x1000', '25 60 /bin/a named', '20 30 /lib/b 0x1', '15 20 /bin/a 0x2000',
                     '5 5 [jit] 0x7f0000000000', '4 4 [jit] 0x7f0000000001', '1 100 /bin/a 0x3000'])
    r = run(*ME, *SHORT, '--profile-output=p', env={'FAKE_TOP': top, 'FAKE_SEEN': '100', 'FAKE_UNIT': 'cycles'})
    at = [i for i, l in enumerate(r.lines) if 'self %' in l][0]
    equal(r.lines[at + 1:at + 5], [
        '      46      -    46  [a] (3 unnamed)    a',
        '      25     60    25  named              a',
        '      20     30    20  0x1                b',
        '       9      -     9  [jit] (2 unnamed)  [jit]',
    ], r)
    # Looked for far after the ten rows of the table.
    top = '\n'.join([f'100 100 /m f{i}' for i in range(9)] + [f'9 9 /lib/x 0x{i}' for i in range(20)])
    r = run(*ME, *SHORT, '--profile-output=p', env={'FAKE_TOP': top, 'FAKE_SEEN': '1', 'FAKE_UNIT': 'cycles'})
    check(re.search(r' 17 +- +180  \[x\] \(20 unnamed\)', r.err), r)


@test
def table_has_ten_rows_and_no_wide_ones():
    names = ['ä' * 300, 'y' * 2000, *[f'f{i}' for i in range(13)]]
    top = '\n'.join(f'{100 - i} {100 - i} /m{"o" * 60} {n}' for i, n in enumerate(names))  # none calls another
    r = run(*ME, *SHORT, '--profile-output=p', env={'FAKE_TOP': top, 'FAKE_SEEN': '9'})
    at = [i for i, l in enumerate(r.lines) if 'self %' in l][0]
    rows = r.lines[at:r.lines.index('perf-agent: profile written: p')]
    equal(len(rows), 11, r)
    equal(max(map(len, rows)), 100, r)
    check('äää…äää' in rows[1] and 'yyy…yyy' in rows[2] and 'ooo…ooo' in rows[1], r)


LONG = 'std::_Rb_tree<unsigned long, std::pair<unsigned long const, std::vector<int> >, std::less<int> >::_M_lower_bound(int)'


@test
def tables_fit_the_terminal():
    rows = [f'400 800 /usr/bin/warehouse-of-goods {LONG}', '300 500 /usr/bin/x ' + 'n' * 90, '200 300 [kernel] entry_SYSCALL_64',
            '0 880 /usr/bin/x main_loop', '1 1 /usr/lib/libc.so.6 memcpy']
    env = {'FAKE_TOP': '\n'.join(rows), 'FAKE_SEEN': '2000', 'FAKE_PROCESS': 'warehouse'}
    kept = {40: {'self %', 'function'}, 60: {'self %', 'cum %', 'function', 'process', 'module'}, 80: None, 120: None}
    for width, titles in kept.items():
        for target in (['--profile', '-a'], ME):
            t = Terminal(FAKE, [*target, '--duration=50ms', '--profile-output=p'], width=width, env=env)
            equal(t.finish(), 0, t.text)
            lines = [line for line in re.split(r'[\r\n]+', t.text)]
            at = [i for i, line in enumerate(lines) if 'self %' in line][0]
            table = lines[at:lines.index('perf-agent: profile written: p')]
            check(max(map(len, table)) <= width, width, *table)
            check(titles is None or all(w in table[0] for w in titles - (set() if '-a' in target else {'process'})), *table)
            equal('process' in table[0], '-a' in target and (width > 40 or 'process' in table[0]), *table)
            equal(sum(line.split()[0] in ('44.4', '33.3', '22.2', '0.1') for line in table), 4, 'nothing without self time', *table)
            check('_M_lower' in table[1] and 'n…n' in table[2], *table)
            # Numbers end where their titles end, words begin where they begin.
            for title in ('self %', 'cum %'):
                end = table[0].find(title) + len(title)
                check(title not in table[0] or all(line[end - 1] in '0123456789-' and line[end:end + 1] in ' ' for line in table[1:5]),
                      title, *table)
            begin = table[0].index('function')
            check(all(line[begin - 1] == ' ' and line[begin] != ' ' for line in table[1:5]), *table)
    r = run(*ME, *SHORT, '--profile-output=p', env=env)
    check('std::_Rb_tree<…>::_M_lower_bound(int)' in r.err, r)
    own = r.lines[[i for i, line in enumerate(r.lines) if 'own code' in line][0] + 1:r.lines.index('perf-agent: profile written: p')]
    equal([[w in line for w in ('main_loop', 'std::', 'nnn')] for line in own],
          [[True, False, False], [False, True, False], [False, False, True]], own)


@test
def names_cannot_command_the_terminal():
    top = '1 1 /b/\x1b[31m ev\x1b]0;il\x07'
    r = run('--profile', *SHORT, '--', './x\x1b[2J', env={'FAKE_TOP': top})
    check('\x1b' not in r.err, r)
    place = '1 1 1 w\x1b[31m 1 0 /b/\x1b[31m ev\x1b]0;il\x07'
    r = run(*OFF, *SHORT, '--offcpu-output=o', env={'FAKE_OFF_PLACES': place, 'FAKE_WAITS': '1'})
    check('\x1b' not in r.err and '\x07' not in r.err and 'ev?]0;il?' in r.err, r)
    r = run(*ME, *SHORT, '--profile-output=p', env={'FAKE_TOP': top, 'FAKE_NOTES': 'n\x1b[1m', 'FAKE_SEEN': '1'})
    check('\x1b' not in r.err and '\x07' not in r.err and 'ev?]0;il?' in r.err, r)


@test
def names_that_are_no_text_are_text_on_standard_error():
    whole = 'ä€\U0001f427\xa0x'.encode()
    for name, shown in [(b'na\xffm\xfee', b'na?m?e'), (whole, whole), (b'\xc3', b'?'), (b'\xe2\x82', b'??'),
                        (b'\xf0\x9f\x90', b'???'), (b'\xe2\x82x', b'??x'), (b'\xc0\xaf\xc1\x81', b'????'),
                        (b'\xe0\x80\xaf', b'???'), (b'\xed\xa0\x80', b'???'), (b'\xf0\x80\x80\xaf', b'????'),
                        (b'\xf4\x90\x80\x80', b'????'), (b'\xf5\x80\x80\x80', b'????'), (b'\x9b31m', b'?31m'), (b'a\xc2\x9b31m', b'a?31m'),
                        (b'a\xe2\x80\xaeb\xd8\x9cc\xe2\x81\xa6', b'a?b?c?')]:
        p = start_fake(['--profile', *SHORT, '--comm', name, '-a', '--profile-output=p'])
        err = p.communicate(timeout=WAIT_S)[1]
        equal(p.returncode, 0, err)
        check(b'the whole machine, threads named ' + shown + b' at ' in err, name, err)


@test
def no_samples_is_said_with_its_likely_cause():
    for target, rate, elapsed_ms, cause in [
            (ME, 100, 20, 'the target used no CPU (it was blocked, or ended at once)'),
            (ME, 100, 19, 'the capture was shorter than two sampling periods (it took 19.0 ms, a period is 10.0 ms)'),
            (ME, 1, 1999, 'the capture was shorter than two sampling periods (it took 2.00 s, a period is 1.00 s)'),
            (['--profile', '-a'], 100, 20, 'the machine was idle'),
            (['--profile', '-a'], 100, 19, 'the capture was shorter than two sampling periods')]:
        r = run(*target, *SHORT, '--profile-output=p', f'--sample-rate={rate}', env={'FAKE_ELAPSED_MS': str(elapsed_ms)})
        check(f'perf-agent: no samples: {cause}' in r.err, r)
    p = start('/bin/sleep', ['60'])
    p.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, p.pid, os.WSTOPPED | os.WNOWAIT)
    r = run('--profile', '--pid', str(p.pid), *SHORT, '--profile-output=p', '--sample-rate=100', env={'FAKE_ELAPSED_MS': '20'})
    check(f'no samples: the target is stopped (state T of {p.pid} in /proc/PID/stat): let it run with kill -CONT {p.pid}\n'
          in r.err, r)
    r = run('--offcpu', '--pid', str(p.pid), *SHORT, '--offcpu-output=o')
    check(f'lengths: the target is stopped (state T of {p.pid} in /proc/PID/stat): select that with --offcpu-states=stopped, '
          f'or let it run with kill -CONT {p.pid}\n' in r.err, r)
    r = run(*ME, *SHORT, '--profile-output=p', env={'FAKE_SEEN': '7', 'FAKE_DROPPED': '7'})
    check('perf-agent: no samples: all 7 were dropped' in r.err, r)
    check('  dropped 7 samples because the count table was full' in r.lines, r)
    equal(r.rc, 0, r)
    r = run(*ME, *SHORT, '--profile-output=p', env={'FAKE_SEEN': '1', 'FAKE_DROPPED': '1'})
    check('  dropped 1 sample because the count table was full' in r.lines, r)
    only_itself = 'perf-agent: no samples: the only target is perf-agent itself, which it does not sample'
    r = run(*ME, *SHORT, '--profile-output=p', env={'FAKE_SEEN': '7', 'FAKE_OWN': '7'})
    check(only_itself in r.lines and 'dropped 7' not in r.err, r)
    r = finish(start('/bin/sh', ['-c', f'exec {FAKE} --profile --pid $$ --duration 50ms --profile-output=p']))
    check(only_itself in r.lines, r)


@test
def terminal_without_duration_runs_until_ctrl_c():
    t = Terminal(FAKE, [*ME, '--profile-output=p'], env={'FAKE_SEEN': '12', 'FAKE_DROPPED': '2'})
    t.read_until('\r\x1b[33mperf-agent: 0 s, 12 samples, 2 lost\x1b[0m')
    t.read_until('\r\x1b[33mperf-agent: 1 s')
    own = Terminal(FAKE, [*ME, '--profile-output=q', '--duration=100ms'], env={'FAKE_SEEN': '6', 'FAKE_OWN': '5'})
    equal(own.finish(), 0, own.text)
    check(re.search(r'\rperf-agent: 0 s of 100 ms, 1 sample *\r', own.text) and 'sample, ' not in own.text.split('quality')[0], own.text)
    waits = Terminal(FAKE, [*OFF, '--offcpu-output=o', '--duration=100ms'], env={'FAKE_SEEN': '6'})
    equal(waits.finish(), 0, waits.text)
    check(re.search(r'perf-agent: 0 s of 100 ms\r', waits.text) and 'sample' not in waits.text, waits.text)
    check('until Ctrl-C' in t.text, t.text)
    t.type(b'\x03')
    equal(t.finish(), 0, t.text)
    check('SIGINT: the capture ends' in t.text and 'profile written: p' in t.text, t.text)


@test
def progress_is_removed_and_fits():
    t = Terminal(FAKE, [*ME, '--duration=1500ms', '--profile-output=p'], env={'FAKE_SEEN': '7' * 18}, width=45)
    equal(t.finish(), 0, t.text)
    check('\rperf-agent: 0 s of 1.50 s, 777' in t.text, t.text)
    lines = re.findall(r'\r(perf-agent: [^\r\n]*)', t.text)
    equal([len(l) for l in lines if ' of 1.50 s,' in l][:2], [44, 44], t.text)
    check(re.search(r'\r {44}\r', t.text), repr(t.text))
    t = Terminal(FAKE, [*ME, '--duration=100ms', '--profile-output=p'], env={'TERM': 'dumb'})
    equal(t.finish(), 0, t.text)
    check('0 s of' not in t.text and '\x1b' not in t.text, t.text)
    # Nor alongside a command, which writes to the same terminal; and no colours with NO_COLOR.
    t = Terminal(FAKE, ['--profile', '--profile-output=p', '--', 'sleep', '0.2'])
    equal(t.finish(), 0, t.text)
    check(' 0 s' not in t.text, t.text)
    for env, colour in (({}, '\x1b[31mpoor\x1b[0m'), ({'NO_COLOR': '1'}, 'quality: poor,'), ({'NO_COLOR': ''}, '\x1b[31mpoor')):
        t = Terminal(FAKE, [*ME, '--duration=100ms', '--profile-output=p'], env={'FAKE_SEEN': '9', 'FAKE_DROPPED': '8', **env})
        equal(t.finish(), 0, t.text)
        check(colour in t.text and ('\x1b' in t.text) == (env.get('NO_COLOR', '') == ''), env, repr(t.text))
    t = Terminal(FAKE, [*ME, '--duration=100ms', '--profile-output=p'], width=60,
                 env={'FAKE_TOP': '1 1 /x/module ' + 'n' * 90, 'FAKE_SEEN': '1'})
    equal(t.finish(), 0, t.text)
    rows = [l for l in re.split(r'[\r\n]+', t.text) if 'nnn' in l or 'function' in l]
    equal([len(l) for l in rows], [60, 60], t.text)


@test
def profile_is_not_written_to_a_terminal():
    t = Terminal(FAKE, [*ME, *SHORT, '--profile-output=-'], stdout=None)
    equal(t.finish(), 2, t.text)
    equal(t.text, 'perf-agent: --profile-output: standard output is a terminal; redirect it\r\n')


def read_table():
    spec = importlib.util.spec_from_file_location('docs', DOCS)
    docs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(docs)
    return docs.read_options(OPTIONS_DEF)


def read_commands():
    spec = importlib.util.spec_from_file_location('docs', DOCS)
    docs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(docs)
    commands = docs.read_commands(OPTIONS_DEF)
    check(commands, 'no commands')
    return commands


@test
def how_to_unwind_reaches_the_library():
    for words, want in [(['--unwind', 'auto'], 'unwind 0'), (['--unwind=fp'], 'unwind 2'), (['--unwind', 'dwarf'], 'unwind 1'),
                        (['--table-budget', '1048576'], 'budget 1048576'), (['--table-budget=64M'], f'budget {64 << 20}'),
                        (['--symbol-budget=16G'], f'symbols {16 << 30}'), (['--lines=false'], 'flags 8'),
                        (['--debug-dir', '/a', '-debug-dir=/b'], 'debug-dir /b'),
                        (['--table-budget', '2048K'], f'budget {2 << 20}'), (['-table-budget=1G'], f'budget {1 << 30}')]:
        lines = logged(*ME, *SHORT, '--profile-output', 'p', *words)
        check(want in lines, want, lines)


@test
def unwind_info_prints_what_the_library_says():
    for words, out in [(['lib'], 'file: lib\n'), (['lib', '--pc', '0x1f'], 'file: lib\npc: 0x1f\n'),
                       (['-pc=1F', 'lib'], 'file: lib\npc: 0x1f\n'), (['--', '--pc'], 'file: --pc\n')]:
        r = run('unwind-info', *words)
        equal((r.rc, r.out, r.err), (0, out, ''), words, r)
    r = run('unwind-info', 'lib', env={'FAKE_UNWIND': '2 lib: no \x01 information'})
    equal((r.rc, r.out, r.err), (1, '', 'perf-agent: lib: no ? information\n'), r)
    r = run('unwind-info', 'lib', env={'FAKE_UNWIND': '12'})
    equal((r.rc, r.err), (1, 'perf-agent: lib: cannot allocate memory (ENOMEM)\n'), r)
    with open('/dev/full', 'wb') as full:
        r = run('unwind-info', 'lib', stdout=full)
    equal((r.rc, len(r.lines)), (1, 1), r)
    check(run('unwind-info', '--help').out.startswith('Usage: perf-agent unwind-info [OPTION...] FILE\n'))


@test
def every_option_is_in_every_text():
    options = read_table()
    with open(OPTIONS_DEF, encoding='utf-8') as f:
        hidden = re.findall(r'^CLI_HIDDEN\(\w+, "([^"]+)"', f.read(), re.M)
    check(len(options) >= 12 and len(hidden) == 4, options, hidden)
    with open(MAN, encoding='utf-8') as f:
        man = f.read().replace('\\', '')
    with open(COMPLETION, encoding='utf-8') as f:
        completion = f.read()
    help_text = run('--help').out
    for name in [o.name for o in options]:
        check(f'fB--{name}fR' in man, name)
        check(re.search(rf'--{name}\b', help_text), name)
        check(re.search(rf'-W "[^"]*--{name} ', completion), name)
    for c in read_commands():
        check(f'fB{c.name}fR' in man, c.name)
        check(f'perf-agent {c.name} ' in help_text, c.name)
        check(re.search(rf'-W "[^"]* {c.name}[ "]', completion), c.name)
        for o in c.options:
            check(f'fB--{o.name}fR' in man and re.search(rf'--{o.name}\b', help_text), o.name)
            check(re.search(rf'-W "[^"]*--{o.name} ', completion), o.name)
    for name in hidden:
        check(name not in man and name not in help_text and name not in completion, name)
    # In the parser they are by construction; this would find a row whose kind is wrong.
    for o in options:
        r = run('--profile=false', f'--{o.name}=\x01')
        if not o.name.endswith('output') and o.name not in ('debug-dir', 'comm', 'cgroup', 'pid'):  # which take any word
            equal(r.rc, 2, o.name, r)
            check(f'--{o.name}: ' in r.err, o.name, r)


@test
def example_checks_what_it_gets():
    env = {'FAKE_TOP': TOP, 'FAKE_SEEN': '990', 'FAKE_NOTES': 'something'}
    r = finish(start(EMBED, [], env))
    equal((r.rc, r.err), (0, ''), r)
    check(' 60 %  spin_a  /usr/bin/spin' in r.out and '13 bytes in memory' in r.out and 'note: something' in r.out, r)
    for more in [{'FAKE_NEW': '22 no'}, {'FAKE_START': '1 no'}, {'FAKE_STOP': '5 no'}, {'FAKE_TOP': ''},
                 {'FAKE_STATS_FAIL': '1'}]:
        r = finish(start(EMBED, [], {**env, **more}))
        equal((r.rc, len(r.lines)), (1, 1), more, r)


if __name__ == '__main__':
    sys.exit(main())
