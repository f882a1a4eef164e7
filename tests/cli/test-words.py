#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Words of the command line, against the scripted library of fake_perfagent.c. TAP on standard output.

    test-words.py PERF-AGENT-FAKE
"""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
from cli_harness import check, equal, files, finish, main, start, test  # noqa: E402

FAKE = os.path.abspath(sys.argv[1])


def run(*args, env=None, **more):
    return finish(start(FAKE, args, env, **more))


def max_rate():
    with open('/proc/sys/kernel/perf_event_max_sample_rate', encoding='ascii') as f:
        return int(f.read())


SHORT = ['--duration', '50ms']
ME = ['--profile', '--pid', str(os.getpid())]

# words, what the one line must have in it
USAGE_ERRORS = [
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
    (['--profile', '--tid', '1x'], "'1x'"),
    (['--profile', '--keep-command', '--', 'true'], '--keep-command needs --duration and -- COMMAND'),
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
    ([*ME, '--duration', '1m30'], '--duration'),
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
    ([*ME, '--kernel-stacks', 'no'], 'write --kernel-stacks=no'),
    ([*ME, 'sleep', '1'], "unexpected argument 'sleep'; put the command to profile after --"),
    ([*ME, '-'], "unexpected argument '-'"),
    ([*ME, ''], "unexpected argument ''"),
    ([*ME, '-x=3'], 'unknown option -x;'),
    ([*ME, '--dur=3s'], 'unknown option --dur; did you mean --duration?'),
    ([*ME, '---pid=3'], 'unknown option ---pid; did you mean --pid?'),
    ([*ME, '--frequency', '99'], 'unknown option --frequency; did you mean --sample-rate?'),
    (['profile', '--pid', '1'], "unexpected argument 'profile'; did you mean --profile?"),
    ([*ME, 'offcpu'], "unexpected argument 'offcpu'; did you mean --offcpu?"),
    (['record', '-a'], "unexpected argument 'record'; did you mean --profile?"),
    (['unwind-inf', 'x'], "unexpected argument 'unwind-inf'; did you mean perf-agent unwind-info?"),
    ([*ME, '34'], "unexpected argument '34'; put the command to profile after --"),
    ([*ME, '-o', 'x.foo'], "--output: the end of 'x.foo' selects no format; use .pb.gz (pprof), .html"),
    ([*ME, '--flamegraph-output', 'x.pb.gz'], "'x.pb.gz' does not end in .html or .svg"),
    ([*ME, '--profile-output', 'x.html'], 'the name of another format; --flamegraph-output writes .html files'),
    ([*ME, '--=3'], 'unknown option --;'),
    ([*ME, '--test-ring-bytes', 'x'], '--test-ring-bytes'),
    (['--profile', '--tid', '1,x'], "--tid: 'x' is not a number from 1 to 2147483647"),
    (['--profile', '--pid', '1,,2'], "--pid: '1,,2' has an empty entry"),
    (['--profile', '--pid', '1,', '--pid', '2'], "--pid: '1,' has an empty entry"),
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
def without_arguments_there_is_a_short_usage_with_examples():
    r = run()
    equal((r.rc, r.out, len(r.lines)), (2, '', 4), r)
    equal(sum('perf-agent --' in line for line in r.lines), 2, r)
    check(all(len(line) <= 100 for line in r.lines) and '--help' in r.err, r)
    # Its first example works, and writes that file alone.
    equal(run('--profile', '-p', str(os.getpid()), '-d', '0.05', '-o', 'flame.html').rc, 0)
    equal(files(), ['flame.html'])


def logged_pids(*words):
    r = run('--profile', *words, *SHORT, '--profile-output', 'p', env={'FAKE_LOG': 'log'})
    equal(r.rc, 0, r)
    with open('log', encoding='utf-8') as f:
        lines = [line.split() for line in f]
    os.unlink('log')
    return r, sorted(int(words[1]) for words in lines if words[0] in ('pid', 'also'))


def named(name):
    """A process that has set its own name."""
    code = f'open("/proc/self/comm", "w").write({name!r})\nprint(flush=True)\nimport sys\nsys.stdin.read()'
    p = subprocess.Popen(['/usr/bin/python3', '-c', code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    p.stdout.readline()
    return p


@test
def processes_are_found_by_name():
    one, two, other = named('pa) named 1'), named('pa) named 1'), named('pa named 2')
    try:
        r, pids = logged_pids('--pid', 'pa) named 1')
        equal(pids, sorted([one.pid, two.pid]), r)
        check(f'--pid pa) named 1: processes {min(one.pid, two.pid)}, {max(one.pid, two.pid)}' in r.err, r)
        r, pids = logged_pids('-p', 'pa named 2')
        equal(pids, [other.pid], r)
        check(f'--pid pa named 2: process {other.pid}' in r.err, r)
        check(any(name.startswith('p') for name in files()))
        # A pattern, several names, and numbers; each process once.
        equal(logged_pids('-p', f'pa*named [12],{other.pid}')[1], sorted([one.pid, two.pid, other.pid]))
        equal(logged_pids('-p', f'pa named 2,{one.pid}', '-p', 'pa named 2')[1], sorted([one.pid, other.pid]))
        for words in ['pa named'], ['named 2'], ['pa named 2,pa-none'], ['PA named 2']:
            r = run('--profile', '--pid', *words, *SHORT)
            equal((r.rc, r.lines[-1].endswith('no process has this name; ps -e -o pid,comm lists names')), (1, True), r)
        # The kernel cuts names.
        long = named('pa long name that is cut')
        try:
            equal(logged_pids('-p', 'pa long name that is cut')[1], [long.pid])
            equal(logged_pids('-p', 'pa long name th')[1], [long.pid])
        finally:
            long.communicate()
    finally:
        for p in (one, two, other):
            p.communicate()


@test
def number_2_of_a_container_is_found_by_name():
    """Elsewhere it is the parent of the kernel's threads."""
    inside = ['unshare', '-pf', '--mount-proc']
    if subprocess.run([*inside, 'true'], capture_output=True, check=False).returncode:
        return 'this machine lets us make no pid namespace'
    script = 'sleep 100 & until grep -q sleep /proc/2/comm; do :; done; "$@"'
    r = subprocess.run([*inside, 'sh', '-c', script, 'sh', FAKE, '--profile', '-p', 'sleep', *SHORT, '--profile-output', 'p'],
                       capture_output=True, text=True, check=False)
    equal((r.returncode, '--pid sleep: process 2' in r.stderr), (0, True), r)


@test
def rate_above_the_kernels_limit_names_the_sysctl():
    r = run(*ME, '--sample-rate', str(max_rate() + 1))
    equal((r.rc, len(r.lines)), (2, 1), r)
    check(f'kernel.perf_event_max_sample_rate is {max_rate()}' in r.err, r)
    equal(run(*ME, *SHORT, '--sample-rate', str(max_rate()), '--profile-output', 'p').rc, 0)


if __name__ == '__main__':
    sys.exit(main())
