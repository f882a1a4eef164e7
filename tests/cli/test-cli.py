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
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from cli_harness import WAIT_S, Terminal, check, environment, equal, files, finish, main, start, test, wait_for

FAKE, EMBED, OPTIONS_DEF, DOCS, MAN, COMPLETION = map(os.path.abspath, sys.argv[1:7])
FULL_NAME = r'\d{12}(-\d+)?-on-cpu\.pb\.gz'


def start_fake(args, env=None, **more):
    return start(FAKE, args, env, **more)


def run(*args, env=None, **more):
    return finish(start_fake(args, env, **more))


def max_rate():
    with open('/proc/sys/kernel/perf_event_max_sample_rate', encoding='ascii') as f:
        return int(f.read())


SHORT = ['--duration', '50ms']
ME = ['--profile', '--pid', str(os.getpid())]
OFF = ['--offcpu', '--pid', str(os.getpid())]
PMU = ['--pmu', '--pid', str(os.getpid())]

# words, what the one line must have in it
USAGE_ERRORS = [
    ([], 'no target'),
    (['--profile'], 'give --pid, --tid, -a/--all, --cgroup or -- COMMAND'),
    (['--pid', '1'], 'no mode: give at least one of --profile, --offcpu and --pmu'),
    (['--profile=false', '--pid', '1'], 'no mode: give at least one of --profile, --offcpu and --pmu'),
    (['-a'], 'no mode: give at least one of --profile, --offcpu and --pmu'),
    (['--', 'true'], 'no mode: give at least one of --profile, --offcpu and --pmu'),
    (['--profile', '-a', '--pid', '1'], '--pid and -a/--all'),
    (['--profile', '-a', '--', 'true'], '-a/--all and -- COMMAND'),
    (['--profile', '--pid', '1', '--', 'true'], '--pid and -- COMMAND'),
    (['--profile', '-a=false'], 'no target'),
    (['--profile', '--'], 'no command after --'),
    (['--profile', '--pid', '0'], '--pid'),
    (['--profile', '--pid', '-1'], '--pid'),
    (['--profile', '--pid', '2147483648'], '--pid'),
    (['--profile', '--pid', '1x'], "'1x'"),
    (['--profile', '--pid', ''], '--pid'),
    (['--profile', '--pid='], '--pid'),
    (['--profile', '--pid'], '--pid needs a value'),
    (['--profile', '--pid', '--', 'true'], '--pid needs a value'),
    ([*ME, '--sample-rate', '0'], f"--sample-rate: '0' is not a number from 1 to {max_rate()}"),
    ([*ME, '--profile-output', ''], '--profile-output: the path is empty'),
    ([*ME, '--profile-output='], '--profile-output: the path is empty'),
    ([*ME, '--sample-rate=-5'], '--sample-rate'),
    ([*ME, '--sample-rate', '99.5'], '--sample-rate'),
    ([*ME, '--sample-rate', '4294967296'], '--sample-rate'),
    ([*ME, '--sample-rate', '99999999999999999999'], '--sample-rate'),
    ([*ME, '--duration', '0'], '--duration'),
    ([*ME, '--duration', '0s'], '--duration'),
    ([*ME, '--duration', '-5s'], '--duration'),
    ([*ME, '--duration', '10'], '--duration'),
    ([*ME, '--duration', '300000h', '--duration=3000000h'], '292 years'),
    ([*ME, '--unwind', 'lbr'], "--unwind: 'lbr' is none of auto, dwarf and fp"),
    ([*ME, '--unwind='], "--unwind: ''"),
    *[([*ME, '--symbol-budget', v],
       f"--symbol-budget: '{v}' is not a size from 1M to 16G; a size is a number, in bytes or followed by K, M or G")
      for v in ('', '0', '1023K', '17G', 'x', '-1M', '1T')],
    ([*ME, '--debug-dir', ''], '--debug-dir: the path is empty'),
    ([*ME, *['--debug-dir=x'] * 65], '--debug-dir: more than 64 directories'),
    ([*ME, '--lines=perhaps'], '--lines'),
    *[([*ME, '--table-budget', v],
       f"--table-budget: '{v}' is not a size from 1M to 1G; a size is a number, in bytes or followed by K, M or G")
      for v in ['', '0', 'M', '-1M', '1023K', '1048575', '1025M', '2G', '64m', '64MiB', '64MB', '1.5G', '0x100000',
                '99999999999999999999', '17179869184G', '1 M']],
    ([*ME, '--pc', '0x1'], '--pc is an option of perf-agent unwind-info, not of a capture'),
    ([*ME, '-pc=0x1'], '-pc is an option of perf-agent unwind-info, not of a capture'),
    ([*ME, '--pcs', '0x1'], 'unknown option --pcs; perf-agent --help lists all options'),
    ([*ME, 'unwind-info', 'x'], "'unwind-info'"),
    (['unwind-info'], 'perf-agent unwind-info FILE'),
    (['unwind-info', ''], 'perf-agent unwind-info FILE'),
    (['unwind-info', '--pc', '1'], 'perf-agent unwind-info FILE'),
    (['unwind-info', 'a', 'b'], "one file at a time, not 'a' and 'b'"),
    (['unwind-info', 'a', '--pc'], '--pc needs a value'),
    (['unwind-info', 'a', '--pc='], "--pc: ''"),
    (['unwind-info', 'a', '--pc', '0xfg'], "--pc: '0xfg'"),
    (['unwind-info', 'a', '--pc', '-1'], "--pc: '-1'"),
    (['unwind-info', 'a', '--pc', '0x10000000000000000'], '--pc'),
    (['unwind-info', 'a', '--profile'], 'unwind-info: --profile is an option of a capture; its only option is --pc ADDR'),
    (['unwind-info', '-a', 'a'], 'unwind-info: -a is an option of a capture; its only option is --pc ADDR'),
    (['unwind-info', '--pid=1', 'a'], 'unwind-info: --pid=1 is an option of a capture; its only option is --pc ADDR'),
    (['unwind-info', 'a', '--pd'], 'unwind-info: --pd is unknown; its only option is --pc ADDR'),
    ([*ME, '--event', 'instructions'], "--event: 'instructions'"),
    ([*ME, '--tag', 'novalue'], "--tag: 'novalue'"),
    ([*ME, '--tag', '=v'], '--tag'),
    ([*ME, '--tag', 'a=b\nc=d'], '--tag'),
    ([*ME, '--kernel-stacks=maybe'], '--kernel-stacks'),
    ([*ME, '--kernel-stacks', 'false'], 'write --kernel-stacks=false'),
    ([*ME, 'sleep', '1'], "unexpected argument 'sleep'; put the command to profile after --"),
    ([*ME, '-'], "unexpected argument '-'"),
    ([*ME, ''], "unexpected argument ''"),
    ([*ME, '-x=3'], 'unknown option -x;'),
    ([*ME, '--dur=3s'], 'unknown option --dur;'),
    ([*ME, '---pid=3'], 'unknown option ---pid;'),
    ([*ME, '--=3'], 'unknown option --;'),
    ([*ME, '--test-ring-bytes', 'x'], '--test-ring-bytes'),
    (['--profile', '--pid', '1,x'], "--pid: 'x' is not a number from 1 to 2147483647"),
    (['--profile', '--pid', '1,,2'], "--pid: '' is not a number"),
    (['--profile', '--pid', '1,', '--pid', '2'], "--pid: '' is not a number"),
    (['--profile', '--pid', '1,0'], "--pid: '0' is not a number"),
    (['--profile', '--pid', '1', '--pid', '-2'], "--pid: '-2' is not a number"),
    (['--profile', '--pid', '1' * 4000], '--pid'),
    (['--profile', '--pid', ','.join(map(str, range(1, 1026)))], '--pid: more than 1024'),
    (['--profile', '--tid', '0'], '--tid'),
    (['--profile', '--tid', '4294967297'], '--tid'),
    (['--profile', '--tid', '1', '-a'], '--tid and -a/--all cannot be combined'),
    (['--profile', '--tid', '1', '--', 'true'], '--tid and -- COMMAND cannot be combined'),
    ([*ME, '--tid=1', '--follow-children'], '--tid and --follow-children cannot be combined'),
    (['--profile', '-a', '--follow-children'], '--follow-children and -a/--all cannot be combined'),
    (['--profile', '--follow-children'], 'no target'),
    (['--profile', '--comm', 'x'], 'no target: give --pid, --tid, -a/--all, --cgroup or -- COMMAND; --comm'),
    (['--offcpu', '--comm', 'x'], '--comm selects threads of a target, as in -a --comm NAME'),
    ([*ME, '--comm', 'a' * 4096], f"--comm: '{'a' * 40}...' is longer than 4095 bytes"),
    ([*ME, '--cgroup=' + 'a' * 4096], f"--cgroup: '{'a' * 40}...' is longer than 4095 bytes"),
    ([*ME, '--comm', ''], '--comm: the value is empty'),
    ([*ME, '--comm'], '--comm needs a value'),
    ([*ME, *['--comm=x'] * 65], '--comm: more than 64'),
    ([*ME, '--cgroup='], '--cgroup: the value is empty'),
    ([*ME, *['--cgroup=x'] * 65], '--cgroup: more than 64'),
]


@test
def usage_errors_are_one_line_and_create_nothing():
    for words, text in USAGE_ERRORS:
        r = run(*words, env={'FAKE_LOG': 'log'})
        equal(r.rc, 2, words, r)
        equal(r.out, '', words, r)
        equal(len(r.lines), 1, words, r)
        check(r.err.startswith('perf-agent: ') and text in r.err, words, f'no {text!r}', r)
        equal(files(), [], words, r)


@test
def rate_above_the_kernels_limit_names_the_sysctl():
    r = run(*ME, '--sample-rate', str(max_rate() + 1))
    equal((r.rc, len(r.lines)), (2, 1), r)
    check(f'kernel.perf_event_max_sample_rate is {max_rate()}' in r.err, r)
    equal(run(*ME, *SHORT, '--sample-rate', str(max_rate()), '--profile-output', 'p').rc, 0)


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
    equal(run('-h').out, r.out)
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
            (['--profile', '-a', *SHORT], ''),
            (['--profile', '--pid', str(child.pid), *SHORT], '_a_b c-'),
            (['--profile', '--pid', '2147483647', *SHORT], 'pid2147483647-'),
            (['--profile', '--pid', f'{child.pid},2147483647', *SHORT], '_a_b c-'),
            (['--profile', '--tid', str(child.pid), *SHORT], '_a_b c-'),
            (['--profile', '--tid', '2147483647', *SHORT], 'tid2147483647-'),
            (['--profile', '--cgroup', 'x', *SHORT], ''),
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
def status_of_the_command_is_said_and_not_taken():
    for script, text in [('exit 3', 'command sh ended with exit status 3'), (':', 'ended with exit status 0'),
                         ('kill -9 $$', 'command sh was ended by signal 9 (SIGKILL)')]:
        r = run('--profile', '--profile-output=p', '--', 'sh', '-c', script)
        equal(r.rc, 0, r)
        equal(len([l for l in r.lines if text in l]), 1, script, r)


@test
def command_outlives_the_duration():
    r = run('--profile', '--profile-output=p', '--duration=100ms', '--', 'sh', '-c', 'exec sleep 100 >&- 2>&-')
    equal(r.rc, 0, r)
    m = re.search(r'command sh \(pid (\d+)\) has not ended; it is left running', r.err)
    check(m, r)
    os.kill(int(m[1]), signal.SIGKILL)  # fails if it does not run


@test
def command_that_gets_the_same_signal_is_waited_for():
    for script, text in [('trap "sleep 0.2; exit 5" INT; echo ready; while :; do sleep 0.01; done',
                          'command sh ended with exit status 5'),
                         ('trap "" INT; echo ready; sleep 100', 'has not ended; it is left running')]:
        p = start_fake(['--profile', '--profile-output=p', '--', 'sh', '-c', script], start_new_session=True)
        equal(p.stdout.readline(), b'ready\n', script)
        os.killpg(p.pid, signal.SIGINT)
        p.wait(WAIT_S)
        err = os.read(p.stderr.fileno(), 65536).decode()
        equal(p.returncode, 0, err)
        check(text in err and 'profile written' in err, err)
        p.stdout.close()
        p.stderr.close()


@test
def first_signal_ends_and_writes():
    for number in [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]:
        p = start_fake([*ME, '--duration=1h', '--profile-output=p'])
        wait_for(p, 'profiling')
        p.send_signal(number)
        r = finish(p)
        equal(r.rc, 0, r)
        check(number.name in r.err and 'profile written: p' in r.err, r)
        check(r.lines[-1].startswith('quality: '), r)
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
    equal(r.lines[at[0]:at[0] + 5], [
        '  self %    cum %       self  function                  module',
        '      60       90     600 ms  spin_a                    spin',
        '      30       30     300 ms  spin_b(int, char const*)  spin',
        '      10      100    99.0 ms  entry_SYSCALL_64          [kernel]',
        '      <1       <1    1.00 ms  0x7f0012345678            [jit]',
    ], r)
    r = run(*ME, *SHORT, '--profile-output=p', env={'FAKE_TOP': TOP, 'FAKE_SEEN': '990', 'FAKE_UNIT': 'cycles'})
    check('600 M  spin_a' in r.err, r)


@test
def addresses_without_a_name_are_one_row_a_module():
    top = '\n'.join(['30 50 /bin/a 0x1000', '25 60 /bin/a named', '20 30 /lib/b 0x1', '15 20 /bin/a 0x2000',
                     '5 5 [jit] 0x7f0000000000', '4 4 [jit] 0x7f0000000001', '1 100 /bin/a 0x3000'])
    r = run(*ME, *SHORT, '--profile-output=p', env={'FAKE_TOP': top, 'FAKE_SEEN': '100', 'FAKE_UNIT': 'cycles'})
    at = [i for i, l in enumerate(r.lines) if 'self %' in l][0]
    equal(r.lines[at + 1:at + 6], [
        '      46        -         46  [a] (3 unnamed addresses)    a',
        '      25       60         25  named                        a',
        '      20       30         20  0x1                          b',
        '       9        -          9  [jit] (2 unnamed addresses)  [jit]',
        'perf-agent: profile written: p',
    ], r)
    # Looked for far after the ten rows of the table.
    top = '\n'.join([f'100 100 /m f{i}' for i in range(9)] + [f'9 9 /lib/x 0x{i}' for i in range(20)])
    r = run(*ME, *SHORT, '--profile-output=p', env={'FAKE_TOP': top, 'FAKE_SEEN': '1', 'FAKE_UNIT': 'cycles'})
    check(re.search(r' 17 +- +180  \[x\] \(20 unnamed addresses\)', r.err), r)


@test
def table_has_ten_rows_and_no_wide_ones():
    names = ['ä' * 300, 'y' * 2000, *[f'f{i}' for i in range(13)]]
    top = '\n'.join(f'{100 - i} {100 - i} /m{"o" * 60} {n}' for i, n in enumerate(names))
    r = run(*ME, *SHORT, '--profile-output=p', env={'FAKE_TOP': top, 'FAKE_SEEN': '9'})
    at = [i for i, l in enumerate(r.lines) if 'self %' in l][0]
    rows = [l for l in r.lines[at:] if 'profile written' not in l and not l.startswith('quality')]
    equal(len(rows), 11, r)
    equal(max(map(len, rows)), 100, r)
    check('äää..' in rows[1] and 'yyy..' in rows[2] and 'ooo..' in rows[1], r)


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
                        (b'\xf4\x90\x80\x80', b'????'), (b'\xf5\x80\x80\x80', b'????'), (b'\x9b31m', b'?31m'),
                        (b'a\xc2\x9b31m', b'a??31m')]:
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
    r = run(*ME, *SHORT, '--profile-output=p', env={'FAKE_SEEN': '7', 'FAKE_DROPPED': '7'})
    check('perf-agent: no samples: all 7 were dropped' in r.err, r)
    check('perf-agent: dropped 7 samples because the count table was full' in r.lines, r)
    equal(r.rc, 0, r)
    r = run(*ME, *SHORT, '--profile-output=p', env={'FAKE_SEEN': '1', 'FAKE_DROPPED': '1'})
    check('perf-agent: dropped 1 sample because the count table was full' in r.lines, r)
    only_itself = 'perf-agent: no samples: the only target is perf-agent itself, which it does not sample'
    r = run(*ME, *SHORT, '--profile-output=p', env={'FAKE_SEEN': '7', 'FAKE_OWN': '7'})
    check(only_itself in r.lines and 'dropped 7' not in r.err, r)
    r = finish(start('/bin/sh', ['-c', f'exec {FAKE} --profile --pid $$ --duration 50ms --profile-output=p']))
    check(only_itself in r.lines, r)


@test
def quality_line_is_last():
    quality = '\n'.join(['dropped: 6', 'complete_stacks_pct: 97.1', 'named_user_pct: 99.8 %', 'unknown: 3',
                         'cut_stacks_pct: 0.2', 'cpu_time_covered_pct: 99.1', 'agent_cpu_pct: 0.3', 'idle_pct: 80.0'])
    env = {'FAKE_SEEN': '986', 'FAKE_DROPPED': '6', 'FAKE_QUALITY': quality, 'FAKE_TOP': '1 1 m f'}
    r = run(*ME, *SHORT, '--profile-output=p', env=env)
    equal(r.lines[-2:], [
        'perf-agent: profile written: p',
        'quality: 986 samples (980 kept, 6 dropped), 97 % complete stacks, <1 % truncated stacks, '
        '>99 % of user frames named, 80 % idle, 99 % of CPU time covered, agent 0.3 % CPU',
    ], r)
    env = {'FAKE_SEEN': '9', 'FAKE_DROPPED': '2', 'FAKE_OWN': '3', 'FAKE_TOP': '1 1 m f',
           'FAKE_QUALITY': 'agent_cpu_pct: 0.3\nagent_setup_cpu_ms: 45'}
    r = run(*ME, *SHORT, '--profile-output=p', env=env)
    equal(r.lines[-1], 'quality: 9 samples (4 kept, 2 dropped, 3 of perf-agent itself), '
                       'agent 0.3 % CPU (+ 45 ms to start)', r)
    r = run(*ME, *SHORT, '--profile-output=p', env={'FAKE_SEEN': '1', 'FAKE_TOP': '1 1 m f'})
    equal(r.lines[-1], 'quality: 1 sample', r)
    r = run(*ME, *SHORT, '--profile-output=p', env={'FAKE_ELAPSED_MS': '10000', 'FAKE_AGENT_MS': '50'})
    equal(r.lines[-1], 'quality: 0 samples, agent 0.5 % CPU', r)
    r = run(*ME, *SHORT, '--profile-output=p', env={'FAKE_STATS_FAIL': '1'})
    equal(r.lines[-1], 'quality: unknown: invalid argument (EINVAL)', r)


@test
def terminal_without_duration_runs_until_ctrl_c():
    t = Terminal(FAKE, [*ME, '--profile-output=p'], env={'FAKE_SEEN': '12', 'FAKE_DROPPED': '2'})
    t.read_until('\rperf-agent: 0.0 s, 12 samples, 2 dropped')
    t.read_until('\rperf-agent: 0.5 s')
    own = Terminal(FAKE, [*ME, '--profile-output=q', '--duration=100ms'], env={'FAKE_SEEN': '6', 'FAKE_OWN': '5'})
    equal(own.finish(), 0, own.text)
    check(re.search(r's left, 1 sample *\r', own.text) and not re.search(r'\d dropped', own.text), own.text)
    waits = Terminal(FAKE, [*OFF, '--offcpu-output=o', '--duration=100ms'], env={'FAKE_SEEN': '6'})
    equal(waits.finish(), 0, waits.text)
    check(re.search(r'perf-agent: 0\.\d s left\r', waits.text) and 'sample' not in waits.text, waits.text)
    check('until Ctrl-C' in t.text, t.text)
    t.type(b'\x03')
    equal(t.finish(), 0, t.text)
    check('SIGINT: the capture ends' in t.text and 'profile written: p' in t.text, t.text)


@test
def progress_is_removed_and_fits():
    t = Terminal(FAKE, [*ME, '--duration=700ms', '--profile-output=p'], env={'FAKE_SEEN': '7' * 18}, width=45)
    equal(t.finish(), 0, t.text)
    check('\rperf-agent: 0.7 s left, 777' in t.text, t.text)
    lines = re.findall(r'\r(perf-agent: [^\r\n]*)', t.text)
    equal([len(l) for l in lines if 's left' in l], [44, 44], t.text)
    check(re.search(r'\r {44}\r', t.text), repr(t.text))
    t = Terminal(FAKE, [*ME, '--duration=100ms', '--profile-output=p'], env={'TERM': 'dumb'})
    equal(t.finish(), 0, t.text)
    check('s left' not in t.text, t.text)
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
    equal(run('unwind-info', '--help').out, run('--help').out)


@test
def where_incomplete_stacks_end_is_said():
    env = {'FAKE_QUALITY': 'complete_stacks_pct: 90.00\nincomplete_in: a file.so 6.00\nincomplete_in: [others] 4.00',
           'FAKE_SEEN': '9'}
    r = run(*ME, *SHORT, '--profile-output', 'p', env=env)
    check('perf-agent: incomplete stacks end in: a file.so 6 %, [others] 4 %' in r.lines, r)
    check(r.lines[-1].startswith('quality: '), r)
    r = run(*ME, *SHORT, '--profile-output', 'p')
    check('incomplete' not in r.err and 'heuristic' not in r.err, r)


@test
def why_stacks_are_incomplete_is_said():
    walks = ('walk_no_walk_pct: 7.00', 'walk_root_reached_pct: 90.00', 'walk_read_fault_pct: 3.10', 'walk_bad_rule_pct: 0.00',
             'walk_no_rule_pct: 6.50', 'walk_32_bit_task_pct: 0.40', 'walk_mm_released_pct: 2.00')
    said = 'perf-agent: incomplete stacks: 6 % no rule, 3 % read fault, <1 % 32-bit task (of all user stacks)'
    r = run(*ME, *SHORT, '--profile-output', 'p', env={'FAKE_QUALITY': '\n'.join(walks), 'FAKE_SEEN': '9'})
    check(said in r.lines, r)
    files = ('incomplete_in: a file.so 6.00', 'incomplete_in: [others] 4.00')
    r = run(*ME, *SHORT, '--profile-output', 'p', env={'FAKE_QUALITY': '\n'.join(walks + files), 'FAKE_SEEN': '9'})
    check(said + '; they end in: a file.so 6 %, [others] 4 %' in r.lines, r)
    walks = ('walk_no_walk_pct: 7.00', 'walk_root_reached_pct: 100.00', 'walk_mm_released_pct: 2.00')
    r = run(*ME, *SHORT, '--profile-output', 'p', env={'FAKE_QUALITY': '\n'.join(walks), 'FAKE_SEEN': '9'})
    check('incomplete' not in r.err, r)


@test
def files_with_heuristic_frames_are_named():
    env = {'FAKE_QUALITY': 'heuristic_stacks_pct: 7.00\nheuristic_in: a file.so (without table) 6.00\n'
                           'heuristic_in: [before its table] 1.00', 'FAKE_SEEN': '9'}
    r = run(*ME, *SHORT, '--profile-output', 'p', env=env)
    check('perf-agent: heuristic frames in: a file.so (without table) 6 %, [before its table] 1 %' in r.lines,
          r)


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
        check(re.search(rf'-W "[^"]* {c.name}"', completion), c.name)
        for o in c.options:
            check(f'fB--{o.name}fR' in man and re.search(rf'--{o.name}\b', help_text), o.name)
            check(re.search(rf'-W "[^"]*--{o.name} ', completion), o.name)
    for name in hidden:
        check(name not in man and name not in help_text and name not in completion, name)
    # In the parser they are by construction; this would find a row whose kind is wrong.
    for o in options:
        r = run('--profile=false', f'--{o.name}=\x01')
        if not o.name.endswith('-output') and o.name not in ('debug-dir', 'comm', 'cgroup'):  # which take any word
            equal(r.rc, 2, o.name, r)
            check(f'--{o.name}: ' in r.err, o.name, r)


@test
def completion_completes():
    if not os.path.exists('/bin/bash'):
        return 'needs bash'
    script = f'''source "{COMPLETION}"
try() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _perf_agent; echo "${{COMPREPLY[*]}}"; }}
try perf-agent --sample
try perf-agent --event c
try perf-agent --event = cy
try perf-agent --event =
try perf-agent --duration 1
try perf-agent --pmu-format j
try perf-agent --offcpu-states un
try perf-agent --offcpu-output exa
try perf-agent --pid {os.getpid()}
try perf-agent --profile-output exa
try perf-agent --profile -- /bin/ech
try perf-agent --profile -- cat exa
try perf-agent unw
try perf-agent unwind-info exa
try perf-agent unwind-info example-file --p
'''
    open('example-file', 'wb').close()
    r = finish(start('/bin/bash', ['-c', script]))
    equal((r.rc, r.err), (0, ''), r)
    lines = r.out.split('\n')
    equal(lines[:5], ['--sample-rate', 'cpu-clock cycles', 'cycles', 'cpu-clock cycles auto', ''], r)
    equal(lines[5:8], ['json', 'uninterruptible', 'example-file'], r)
    check(str(os.getpid()) in lines[8].split(), r)
    equal(lines[9:12], ['example-file', '/bin/echo', 'example-file'], r)
    equal(lines[12:15], ['unwind-info', 'example-file', '--pc'], r)


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
