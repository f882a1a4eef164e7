#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several modes and several outputs of one capture, against the scripted library of fake_perfagent.c. TAP.

    test-modes.py PERF-AGENT-FAKE
"""
import errno
import os
import re
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from cli_harness import WAIT_S, Terminal, check, equal, files, finish, main, start, test, wait_for

FAKE = os.path.abspath(sys.argv[1])
SHORT = ['--duration', '50ms']
ME = ['--profile', '--pid', str(os.getpid())]
OFF = ['--offcpu', '--pid', str(os.getpid())]
PMU = ['--pmu', '--pid', str(os.getpid())]


def run(*args, env=None, **more):
    return finish(start(FAKE, args, env, **more))


def logged(*words):
    r = run(*words, env={'FAKE_LOG': 'log'})
    equal(r.rc, 0, r)
    with open('log', encoding='utf-8') as f:
        lines = f.read().splitlines()
    os.unlink('log')
    return lines


# words, what the one line must have in it
USAGE_ERRORS = [
    ([*OFF, '--offcpu-states', 'running'], "--offcpu-states: 'running' is none of interruptible, uninterruptible, iowait, "
     'stopped, preempted and idle'),
    ([*OFF, '--offcpu-states='], "--offcpu-states: '' is none of"),
    ([*OFF, '--offcpu-states', 'iowait,'], "--offcpu-states: '' is none of"),
    ([*OFF, '--offcpu-states', 'iowait, idle'], "--offcpu-states: ' idle' is none of"),
    ([*OFF, '--offcpu-states', 'IOWAIT'], '--offcpu-states'),
    ([*OFF, '--offcpu-states', 'iowaits'], '--offcpu-states'),
    ([*OFF, '--offcpu-states', 'io'], '--offcpu-states'),
    ([*OFF, '--offcpu-min', '5x'], "--offcpu-min: '5x' is not a duration"),
    ([*OFF, '--offcpu-min', '-1ms'], "--offcpu-min: '-1ms' is below 0"),
    ([*OFF, '--offcpu-max', '0'], "--offcpu-max: '0' is not above 0"),
    ([*OFF, '--offcpu-max', '3000000h'], '--offcpu-max'),
    ([*OFF, '--offcpu-min', '2s', '--offcpu-max', '1500ms'], '--offcpu-min (2.00 s) is above --offcpu-max (1.50 s)'),
    ([*OFF, '--offcpu-output', ''], '--offcpu-output: the path is empty'),
    ([*OFF, '--test-offcpu-threads', '0'], '--test-offcpu-threads'),
    ([*PMU, '--pmu-output='], '--pmu-output: the path is empty'),
    ([*PMU, '--pmu-format', 'xml'], "--pmu-format: 'xml' is neither text nor json"),
    ([*PMU, '--pmu-format='], "--pmu-format: ''"),
    ([*PMU, '--per-pid'], '--per-pid needs -a/--all and --pmu'),
    (['--profile', '-a', '--per-pid'], '--per-pid needs -a/--all and --pmu'),
    ([*ME, '--per-pid'], '--per-pid needs -a/--all and --pmu'),
    (['--pmu', '--per-pid', '--', 'true'], '--per-pid needs -a/--all and --pmu'),
    # Options of a mode that is not on.
    *[([*ME, *words], words[0].partition('=')[0] + ' needs --offcpu')
      for words in (['--offcpu-states=iowait'], ['--offcpu-min', '1s'], ['--offcpu-max', '1s'], ['--offcpu-wakers'],
                    ['--offcpu-output', 'x'])],
    *[([*OFF, *words], words[0] + ' needs --profile')
      for words in (['--sample-rate', '9'], ['--event', 'auto'], ['--profile-output', 'x'])],
    *[([*OFF, *words], words[0] + ' needs --pmu') for words in (['--pmu-output', 'x'], ['--pmu-format', 'text'])],
    *[([*PMU, *words], words[0].partition('=')[0] + ' needs --profile or --offcpu')
      for words in (['--unwind', 'auto'], ['--table-budget', '1M'], ['--lines=false'], ['--kernel-stacks=false'],
                    ['--debug-dir', 'x'], ['--symbol-budget', '1M'])],
    ([*OFF, '--offcpu=false', '--profile', '--offcpu-min', '1s'], '--offcpu-min needs --offcpu'),
    # One standard output, one file each.
    ([*ME, '--profile-output', '-', '--offcpu', '--offcpu-output', '-'],
     '--profile-output and --offcpu-output: only one output can be standard output'),
    ([*ME, '--profile-output', '-', '--pmu'], '--profile-output and --pmu-output: only one'),
    ([*OFF, '--offcpu-output', '-', '--pmu', '--pmu-output=-'], '--offcpu-output and --pmu-output: only one'),
    *[([*OFF, '--offcpu-output', '-', '--pmu', f'--pmu-output={name}'], '--offcpu-output and --pmu-output: only one')
      for name in ('/dev/stdout', '/dev/fd/1', '/proc/self/fd/1')],
    ([*ME, '--profile-output', 'x', '--offcpu', '--offcpu-output', './x'],
     '--profile-output and --offcpu-output: both are ./x'),
    # Flame graphs and folded stacks.
    ([*PMU, '--flamegraph-output', 'x.html'], '--flamegraph-output needs --profile or --offcpu'),
    ([*PMU, '--folded-output', 'x'], '--folded-output needs --profile or --offcpu'),
    ([*ME, '--timeline'], '--timeline needs --flamegraph-output FILE.html'),
    ([*ME, '--timeline', '--flamegraph-output', 'x.svg'], '--timeline: a .svg file has no time line'),
    ([*PMU, '--perf-data-output', 'x'], '--perf-data-output needs --profile or --offcpu'),
    ([*ME, '--perf-data-output', 'x.html'], "--perf-data-output: 'x.html' is the name of another format"),
    ([*ME, '--perf-data-output=-', '--profile-output', '-'],
     '--profile-output and --perf-data-output: only one output can be standard'),
    ([*ME, '--folded-output=x', '--perf-data-output', './x'], '--folded-output and --perf-data-output: both are ./x'),
    ([*ME, '--perf-data-compress', 'zstd'], '--perf-data-compress needs --perf-data-output'),
    ([*ME, '--perf-data-output', 'x', '--perf-data-compress', 'gzip'], "--perf-data-compress: 'gzip' is neither none nor zstd"),
    ([*ME, '--perf-data-output='], '--perf-data-output: the path is empty'),
    ([*ME, '--folded-root', 'process'], '--folded-root needs --folded-output'),
    ([*ME, '--folded-output', 'x', '--folded-root', 'cgroup'], "--folded-root: 'cgroup' is none of none, process and thread"),
    ([*ME, '--flamegraph-output='], '--flamegraph-output: the path is empty'),
    *[([*ME, '--flamegraph-output', name], f"--flamegraph-output: '{name}' does not end in .html or .svg")
      for name in ('x', 'x.htm', 'x.html.gz', '-', 'x.png', './html')],
    ([*ME, '--offcpu', '--flamegraph-output', 'x.svg'], '--flamegraph-output: a .svg file shows one profile; leave out '
     '--profile or --offcpu'),
    ([*ME, '--offcpu', '--pmu', '-o', 'x.svg'], '--output: a .svg file shows one profile; leave out --profile or --offcpu'),
    ([*ME, '--offcpu', '-o', 'x.folded'], '--output: folded stacks have one profile; leave out --profile or --offcpu'),
    ([*ME, '-o', '-', '--perf-data-output=-'], '--output and --perf-data-output: only one output can be standard'),
    ([*ME, '--offcpu', '--folded-output', 'x'], '--folded-output: folded stacks have one profile; leave out --profile or --offcpu'),
    *[([*ME, '--folded-output', name], f"--folded-output: '{name}' is the name of another format")
      for name in ('x.html', 'x.svg', 'x.pb.gz')],
    ([*ME, '--folded-output=-', '--profile-output', '-'], '--profile-output and --folded-output: only one output can be standard'),
    ([*ME, '--folded-output=-', '--pmu'], '--pmu-output and --folded-output: only one output can be standard'),
    ([*ME, '--profile-output=x', '--folded-output', './x'], '--profile-output and --folded-output: both are ./x'),
    ([*OFF, '--offcpu-output', '/tmp/../x', '--pmu', '--pmu-output', '/x'], '--offcpu-output and --pmu-output: both are /x'),
]


@test
def usage_errors_are_one_line_and_create_nothing():
    for words, text in USAGE_ERRORS:
        r = run(*words)
        equal((r.rc, r.out, len(r.lines), files()), (2, '', 1, []), words, r)
        check(r.err.startswith('perf-agent: ') and text in r.err, words, f'no {text!r}', r)


@test
def modes_reach_the_library():
    out = ['--profile-output=p', '--offcpu-output=o', '--pmu-output=m']
    lines = logged(*ME, '--offcpu', '--pmu', *out, *SHORT)
    for want in ['modes 7', 'path p', 'offcpu_path o', 'pmu_path m', 'offcpu_fd 0', 'pmu_fd 0', 'states 0', 'min 0',
                 'max 0', 'off_threads 0', 'format 0', 'flags 0']:
        check(want in lines, want, lines)
    lines = logged(*OFF, '--offcpu-states=preempted', '--offcpu-states', 'idle,iowait,idle', '--offcpu-min', '1us',
                   '--offcpu-max', '1.5s', '--offcpu-wakers', '--test-offcpu-threads', '7', out[1], *SHORT)
    for want in ['modes 2', 'path (none)', 'offcpu_path o', 'pmu_path (none)', f'states {1 << 3 | 1 << 6}', 'min 1000',
                 'max 1500000000', 'off_threads 7', f'flags {1 << 5}']:
        check(want in lines, want, lines)
    lines = logged(*OFF, '--offcpu-states', 'interruptible,uninterruptible,stopped,preempted', '--offcpu-min=0',
                   '--offcpu-wakers=false', out[1], *SHORT)
    for want in [f'states {1 << 1 | 1 << 2 | 1 << 4 | 1 << 5}', 'min 0', 'flags 0']:
        check(want in lines, want, lines)
    lines = logged('--pmu', '-a', '--per-pid', '--pmu-format', 'json', *SHORT)
    for want in ['modes 4', 'target 2', 'pmu_path (none)', 'pmu_fd 1', 'format 1', f'flags {1 << 1 | 1 << 6}']:
        check(want in lines, want, lines)
    check('target 2' in logged('--pmu', '--cgroup', 'x', '--per-pid', *SHORT), 'a cgroup alone means -a')
    # A mode that was not requested has no output, and a default is no word of a mode that is off.
    lines = logged(*PMU, '--offcpu-wakers=false', '--kernel-stacks', '--lines=T', *SHORT)
    check('modes 4' in lines and 'path (none)' in lines and 'offcpu_path (none)' in lines, lines)


@test
def flame_graphs_and_folded_stacks_are_more_outputs_of_the_profiles():
    lines = logged(*ME, '--offcpu', '--profile-output=p', '--offcpu-output=o', '--flamegraph-output=f.html', *SHORT)
    check('extra 1 0 0 f.html 0' in lines and sum('extra' in line for line in lines) == 1, lines)
    lines = logged(*OFF, '--offcpu-output=o', '--flamegraph-output', './f.svg', '--folded-output=s', '--folded-root=thread', *SHORT)
    check('extra 2 0 0 ./f.svg 0' in lines and 'extra 3 0 2 s 0' in lines, lines)


@test
def perf_data_may_have_both_profiles():
    lines = logged(*ME, '--offcpu', '--profile-output=p', '--offcpu-output=o', '--perf-data-output=x.data', *SHORT)
    check('extra 4 0 0 x.data 0' in lines and sum('extra' in line for line in lines) == 1, lines)
    lines = logged(*ME, '-o', 'x.data', *SHORT)
    check('extra 4 0 0 x.data 0' in lines, lines)
    lines = logged(*ME, '-o', 'x.data', '--perf-data-compress=zstd', *SHORT)
    check('extra 4 0 0 x.data 0 compressed' in lines, lines)
    lines = logged(*ME, '-o', 'x.data', '--perf-data-compress', 'none', *SHORT)
    check('extra 4 0 0 x.data 0' in lines, lines)
    lines = logged(*ME, '--profile-output=p', '--flamegraph-output=f.html', '--folded-output=s', '--perf-data-output=d', *SHORT)
    check(lines.index('extra 1 0 0 f.html 0') < lines.index('extra 3 0 0 s 0') < lines.index('extra 4 0 0 d 0'), lines)
    r = run(*ME, *SHORT, '--profile-output=p', '--folded-output=missing/s', '--perf-data-output=d')
    equal(r.rc, 1, r)
    check('perf-agent: perf.data file written: d' in r.lines, r)


@test
def more_outputs_are_written_and_reported():
    os.mkdir('d')
    r = run(*ME, *SHORT, '--profile-output=p', '--flamegraph-output=d/f.html', '--folded-output=-', '--folded-root', 'process')
    equal((r.rc, r.out, files(), os.listdir('d')), (0, 'fake folded\n', ['d', 'p'], ['f.html']), r)
    for want in ('profile written: p', 'flame graph written: d/f.html', 'folded stacks written: standard output'):
        check('perf-agent: ' + want in r.lines, want, r)
    equal([line for line in r.lines if line.startswith('to read')], ['to read: perf-agent report p, or go tool pprof -http=: p'], r)
    r = run(*ME, *SHORT, '--profile-output=-', '--folded-output=d/s x', '--perf-data-output=d/x.data')
    equal([line for line in r.lines if line.startswith('to read')],
          ["to read: perf-agent report 'd/s x'", 'to read: perf-agent report d/x.data'], r)
    os.remove('d/s x')
    os.remove('d/x.data')
    # Made-up names; and one that fails leaves the others.
    r = run(*ME, *SHORT, '--profile-output=p', '--flamegraph-output=auto', '--folded-output=missing/s')
    equal(r.rc, 1, r)
    name = re.search(r'flame graph written: (.*)', r.err)[1]
    check(re.fullmatch(r'.*-\d{12}-flame\.html', name) and name in files(), name, files())
    equal(r.lines[-2:], ['perf-agent: folded stacks not written: missing/s', 'perf-agent: write missing/s: ENOENT'], r)


@test
def one_output_that_fails_leaves_the_others_and_is_named():
    three = ['--profile', '--offcpu', '--pmu', '--pid=2147483647', *SHORT]
    r = run(*three, '--profile-output=p', '--offcpu-output=missing/o', '--pmu-output=m')
    equal((r.rc, files()), (1, ['m', 'p']), r)
    equal(r.lines[-2:], ['perf-agent: off-CPU profile not written: missing/o', 'perf-agent: write missing/o: ENOENT'], r)
    check('perf-agent: profile written: p' in r.lines and 'perf-agent: metrics written: m' in r.lines, r)
    # Files that were there before are not overwritten: the old files stay as they are when nothing is written.
    r = run(*three, '--profile-output=p', '--offcpu-output=o', '--pmu-output=m', env={'FAKE_STOP': f'{errno.ENOMEM} no memory'})
    equal((r.rc, files()), (1, ['m', 'p']), r)
    equal(r.lines[-4:], ['perf-agent: profile not written: p', 'perf-agent: off-CPU profile not written: o',
                         'perf-agent: metrics not written: m', 'perf-agent: no memory'], r)
    # Two fail, one of which alone has a message; made names are published nevertheless.
    r = run(*three, '--profile-output=missing/p', '--pmu-output=missing/m')
    equal(r.rc, 1, r)
    equal(r.lines[-3:], ['perf-agent: profile not written: missing/p', 'perf-agent: metrics not written: missing/m',
                         'perf-agent: write missing/p: ENOENT'], r)
    name = re.search(r'off-CPU profile written: (.*)', r.err)[1]
    equal(files(), ['m', 'p', name], r)
    # A stream is no different.
    with open('/dev/full', 'wb') as full:
        r = run(*three, '--profile-output=p', '--offcpu-output=o', stdout=full)
        equal((r.rc, r.lines[-2:]), (1, ['perf-agent: metrics not written: standard output',
                                         'perf-agent: cannot write standard output: no space left on device (ENOSPC)']), r)
    r = run(*three, '--profile-output=p', '--offcpu-output=missing/o')
    equal((r.rc, r.out), (1, 'fake metrics\n'), r)
    equal(r.lines[-2:], ['perf-agent: off-CPU profile not written: missing/o',
                         'perf-agent: write missing/o: ENOENT'], r)
    check('metrics' not in r.err, r)
    r = run(*three, '--profile-output=/dev/null', '--offcpu-output=missing/o', '--pmu-output=/dev/null')
    said = [line for line in r.lines if 'not written' in line]
    equal(said, ['perf-agent: off-CPU profile not written: missing/o'], r)


@test
def a_mode_that_is_left_out_is_reported_once_and_has_no_statistics():
    three = ['--profile', '--offcpu', '--pmu', '--pid=2147483647', *SHORT, '--profile-output=p', '--offcpu-output=o']
    why = 'off-CPU programs: EINVAL'
    env = {**OFF_ENV, 'FAKE_WITHOUT': f'2 {why}', 'FAKE_NOTES': f'off-CPU profile is left out: {why}'}
    r = run(*three, env=env)
    equal((r.rc, r.out, files()), (1, 'fake metrics\n', ['p']), r)
    equal(r.err.count(why), 1, r)
    equal(r.lines[-1], 'perf-agent: off-CPU profile not written: o', r)
    check('off-CPU quality' not in r.err and 'waits' not in r.err.split('\n', 1)[1] and 'metrics' not in r.lines[-2], r)
    check('perf-agent: profile written: p' in r.lines, r)
    r = run(*three, '--pmu-output=missing/m', env=env)  # a failure of its own is reported besides
    equal(r.lines[-3:], ['perf-agent: off-CPU profile not written: o', 'perf-agent: metrics not written: missing/m',
                         'perf-agent: write missing/m: ENOENT'], (r.rc, r))
    r = run(*three, env={'FAKE_WITHOUT': '4 no counters', 'FAKE_NOTES': 'PMU is left out: no counters'})
    equal((r.rc, r.out, files()), (1, '', ['o', 'p']), r)
    equal(r.lines[-1], 'perf-agent: metrics not written: standard output', r)


@test
def an_abort_removes_what_has_no_name_yet():
    os.mkfifo('fifo')  # the second output waits for a reader, when the first is written under its hidden name
    p = start(FAKE, [*ME, '--offcpu', '--offcpu-output=fifo', '--duration=1h'])
    wait_for(p, 'profiling')
    p.send_signal(signal.SIGINT)
    end = time.monotonic() + WAIT_S
    while not any(f.startswith('.perf-agent-') for f in files()):
        check(time.monotonic() < end, files())
        time.sleep(0.01)
    time.sleep(0.15)  # what is closer together counts as one signal
    p.send_signal(signal.SIGINT)
    r = finish(p)
    equal((r.rc, files()), (1, ['fifo']), r)
    check('aborted by a second signal; not all of the output was written' in r.err, r)


@test
def off_cpu_profile_on_standard_output():
    r = run('--offcpu', '--offcpu-output=-', '--', 'echo', 'from the command')
    equal((r.rc, r.out, files()), (0, 'fake waits\n', []), r)
    check('from the command' in r.lines and 'perf-agent: off-CPU profile written: standard output' in r.lines, r)
    t = Terminal(FAKE, [*OFF, *SHORT, '--offcpu-output=-'], stdout=None)
    equal(t.finish(), 2, t.text)
    equal(t.text, 'perf-agent: --offcpu-output: standard output is a terminal; redirect it\r\n')


@test
def metrics_on_standard_output_stand_after_what_the_command_prints():
    for words in [], ['--pmu-output=-']:
        r = run('--pmu', *words, '--', 'echo', 'from the command')
        equal((r.rc, r.out, files()), (0, 'from the command\nfake metrics\n', []), r)
        check('written' not in r.err, r)
    t = Terminal(FAKE, [*PMU, *SHORT], stdout=None)
    equal(t.finish(), 0, t.text)
    check('fake metrics\r\n' in t.text, t.text)
    r = run('--pmu', '--pmu-output=m', '--', 'echo', 'from the command')
    equal((r.rc, r.out, files()), (0, 'from the command\n', ['m']), r)
    check('perf-agent: metrics written: m' in r.lines, r)
    r = run(*PMU, preexec_fn=lambda: os.close(1))
    equal((r.rc, r.lines), (1, ['perf-agent: --pmu-output: standard output is not open for writing']), r)


@test
def one_file_by_two_names_is_refused():
    with open('p', 'wb'):
        os.symlink('p', 'link')
    r = run(*ME, '--offcpu', *SHORT, '--profile-output=p', '--offcpu-output=link')
    equal((r.rc, len(r.lines), os.path.getsize('p')), (2, 1, 0), r)
    check('both are link' in r.err, r)
    os.link('p', 'other')  # which is another file as soon as one of them is replaced, and is taken for the same
    equal(run(*OFF, '--pmu', *SHORT, '--offcpu-output=p', '--pmu-output=other').rc, 2)
    # Files that do not exist yet, by links and in other words; and the one that standard output is.
    os.mkdir('d')
    os.symlink('d/new', 'first')
    os.symlink(os.path.abspath('first'), 'second')
    os.symlink('d', 'e')
    for a, b in ('first', 'second'), ('d/new', 'second'), ('d/x', 'd/../e/x'), ('x', './x'), ('x', os.path.abspath('x')):
        r = run(*ME, '--offcpu', *SHORT, f'--profile-output={a}', f'--offcpu-output={b}')
        equal((r.rc, len(r.lines)), (2, 1), a, b, r)
        check(f'both are {b}; give each a file of its own' in r.err, r)
    with open('out', 'wb') as out:
        r = run(*ME, '--offcpu', *SHORT, '--profile-output=-', '--offcpu-output=out', stdout=out)
    equal((r.rc, len(r.lines), os.path.getsize('out')), (2, 1, 0), r)
    equal(files(), ['d', 'e', 'first', 'link', 'other', 'out', 'p', 'second'])
    for a, b in ('d/x', 'x'), ('first', 'd/old'):
        equal(run(*ME, '--offcpu', *SHORT, f'--profile-output={a}', f'--offcpu-output={b}').rc, 0, a, b)


@test
def made_names_of_one_capture_have_one_number():
    pid = ['--pid', '2147483647']
    for i in range(3):
        r = run('--profile', '--offcpu', *pid, *SHORT)
        equal(r.rc, 0, r)
        equal(len(set(re.findall(r'profile written: pid2147483647-(\d{12}(?:-\d)?)-o', r.err))), 1, r)
        if i == 1:
            for name in [name for name in files() if '-2-off-cpu' not in name]:
                os.unlink(name)  # the number is in use for one of them still
    # Another program takes one of the names during the capture.
    p = start(FAKE, ['--profile', '--offcpu', '--duration=1h', '--', 'sleep', '0.5'])
    wait_for(p, 'profiling')
    for stamp in {time.strftime('%Y%m%d%H%M', time.localtime(time.time() - s)) for s in (0, 60)}:
        os.symlink('nowhere', f'sleep-{stamp}-off-cpu.pb.gz')
    r = finish(p)
    equal(r.rc, 0, r)
    check(re.search(r'written: sleep-\d{12}-2-on-cpu', r.err) and re.search(r'written: sleep-\d{12}-2-off-cpu', r.err), r)
    equal([f for f in files() if f.startswith('.') or re.fullmatch(r'sleep-\d{12}-on-cpu.pb.gz', f)], [])


@test
def devices_may_take_several_outputs():
    r = run(*ME, '--offcpu', '--pmu', *SHORT, *[f'--{o}-output=/dev/null' for o in ('profile', 'offcpu', 'pmu')])
    equal((r.rc, files()), (0, []), r)


# ns waits longest where where_cnt unnamed_cnt module name
PLACES = '''600000000 8 300000000 futex_do_wait 1 0 /usr/bin/pool wait_for_work
200000000 3 150000000 pipe_read 3 0 /usr/lib/libx.so.1 next<int, std::vector<int> >(int)
100000000 1 100000000 do_nanosleep 1 5 /usr/lib/libx.so.1 0x1230 [libx.so.1]'''
OFF_QUALITY = '''intervals_seen: 12
complete_stacks_pct: 98.10
walk_no_rule_pct: 1.40
incomplete_in: lib.so 1.40
lost_stacks_pct: 0.00
intervals_open_at_end: 2
threads_blocked_at_start: 1
agent_cpu_pct: 0.2'''
OFF_ENV = {'FAKE_OFF_PLACES': PLACES, 'FAKE_WAITS': '12', 'FAKE_WAITS_DROPPED': '1', 'FAKE_OFF_QUALITY': OFF_QUALITY}


@test
def wait_functions_and_their_quality():
    r = run(*OFF, *SHORT, '--offcpu-output=o', env=OFF_ENV)
    equal(r.rc, 0, r)
    waits = [
        '  time %  off-CPU  count  longest  function       blocked in     module',
        '      67   600 ms      8   300 ms  wait_for_work  futex_do_wait  pool',
        '      22   200 ms      3   150 ms  next<…>(int)   pipe_read +2   libx.so.1',
        '      11   100 ms      1   100 ms  (5 unnamed)    do_nanosleep   libx.so.1',
        '  100 % is 900 ms off-CPU',
        'perf-agent: off-CPU profile written: o',
        'off-CPU quality: poor, 11 intervals, 900 ms, 1 lost',
        '  dropped 1 interval because the thread table or the count table was full',
        '  2 % of the user stacks are incomplete (1 % no rule); they end in lib.so 1 %: '
        'docs/troubleshooting.md#incomplete-stacks',
        'to read: perf-agent report o, or go tool pprof -http=: o',
    ]
    equal(r.lines[1:], waits[:6] + [waits[6] + '; overhead 0.2 % CPU'] + waits[7:], r)
    # Alongside a profile: after it, and what perf-agent took is said once. Neither has the other's statistics.
    r = run(*ME, '--offcpu', *SHORT, '--profile-output=p', '--offcpu-output=o',
            env={**OFF_ENV, 'FAKE_TOP': '5 5 /bin/x f', 'FAKE_SEEN': '3', 'FAKE_QUALITY': 'complete_stacks_pct: 88.00\n'
                 'agent_cpu_pct: 0.3'})
    equal(r.lines[1:], ['  self %  cum %  self  function  module', '     100    100  5 ns  f         x',
                        'perf-agent: profile written: p',
                        'quality: poor, 3 samples, 0 lost; overhead 0.3 % CPU',
                        '  3 samples: shares are about ± 50 %: capture for longer, or raise --sample-rate',
                        '  12 % of the user stacks are incomplete: docs/troubleshooting.md#incomplete-stacks',
                        'to read: perf-agent report p, or go tool pprof -http=: p', *waits[:-1],
                        'to read: perf-agent report o'], r)  # pprof once
    r = run(*OFF, *SHORT, '--offcpu-output=o')
    check('perf-agent: no off-CPU intervals in the selected states and lengths\n' in r.err, r)
    for which in (['--comm=nobody'], ['--tid=1'], ['--cgroup=/']):
        r = run(*OFF, *SHORT, '--offcpu-output=o', *which)
        check(f'perf-agent: no off-CPU intervals: no matching thread was off-CPU in the selected states and lengths '
              f'(filter: {which[0].replace("=", " ")})\n' in r.err, r)
    r = run(*OFF, *SHORT, '--offcpu-output=o', env={'FAKE_WAITS': '3', 'FAKE_WAITS_DROPPED': '3'})
    check('perf-agent: no off-CPU intervals: all 3 were dropped' in r.err, r)
    r = run(*OFF, *SHORT, '--offcpu-output=o', env={'FAKE_STATS_FAIL': '1'})
    equal(r.lines[-2], 'off-CPU quality: unknown: invalid argument (EINVAL)', r)
    r = run(*PMU, *SHORT)
    equal((r.rc, len(r.lines)), (0, 1), 'no profile, nothing about one', r)


@test
def what_the_shell_has_open_is_written_on():
    for name in ('/dev/stdout', '/dev/fd/1', '/proc/self/fd/1', '-'):
        with open('log', 'w+b') as log:
            log.write(b'earlier\n')
            log.flush()
            r = subprocess.run([FAKE, *PMU, *SHORT, f'--pmu-output={name}'], stdout=log, stderr=subprocess.PIPE, check=False,
                               timeout=WAIT_S)
            log.seek(0)
            text = log.read()
        equal((r.returncode, text[:8], len(text) > 8), (0, b'earlier\n', True), name, text)
    for name in ('/dev/stderr', '/dev/fd/2', '/proc/self/fd/2'):
        with open('log', 'w+b') as log:
            log.write(b'earlier\n')
            log.flush()
            r = subprocess.run([FAKE, *PMU, *SHORT, f'--pmu-output={name}'], stdout=subprocess.PIPE, stderr=log, check=False,
                               timeout=WAIT_S)
            log.seek(0)
            text = log.read()
        equal((r.returncode, r.stdout), (2, b''), text)
        equal(text, f'earlier\nperf-agent: --pmu-output {name}: this would replace the file that is open there; give '
              'the path of the file, or - for standard output\n'.encode())
    # A pipe is nothing that can be replaced.
    r = subprocess.run([FAKE, *PMU, *SHORT, '--pmu-output=/dev/stderr'], capture_output=True, check=False, timeout=WAIT_S)
    equal((r.returncode, r.stdout), (0, b''), r)
    os.unlink('log')


@test
def the_table_of_waits_is_as_wide_as_the_terminal():
    places = '\n'.join(f'{(20 - i) * 1000000} {i} 1000 a_function_of_the_kernel_{i} {1 + i % 2} 0 /lib/libsomething-long-{i}.so '
                       f'a_function_of_the_program_{i}_é' for i in range(12))
    for width, titles, first, second in [
            (40, ['time %', 'function', 'blocked in'], '    11.5  a_func…ram_0_é  a_func…ernel_0', '    10.9  a_func…ram_1_é  a_func…el_1 +1'),
            (60, ['time %', 'off-CPU', 'count', 'function', 'blocked in', 'module'], None, None),
            (80, ['time %', 'off-CPU', 'count', 'longest', 'function', 'blocked in', 'module'], None, None),
            (200, ['time %', 'off-CPU', 'count', 'longest', 'function', 'blocked in', 'module'],
             '    11.5  20.0 ms      0  1.00 us  a_function_of_the_program_0_é  a_function_…the_kernel_0  libsomething-long-0.so',
             '    10.9  19.0 ms      1  1.00 us  a_function_of_the_program_1_é  a_function_…_kernel_1 +1  libsomething-long-1.so')]:
        t = Terminal(FAKE, [*OFF, *SHORT, '--offcpu-output=o'], env={'FAKE_OFF_PLACES': places, 'FAKE_WAITS': '1000'},
                     width=width)
        equal(t.finish(), 0, t.text)
        lines = re.split(r'[\r\n]+', t.text)
        at = [i for i, line in enumerate(lines) if 'time %' in line][0]
        rows = lines[at:lines.index('perf-agent: off-CPU profile written: o')]
        equal(rows.pop(), '  100 % is 174 ms off-CPU')
        equal((len(rows), [w for w in titles if w in rows[0]]), (11, titles), t.text)
        equal(len(re.split(r'  +', rows[0].strip())), len(titles), t.text)
        check(max(map(len, rows)) <= width, width, t.text)
        if first:
            equal(rows[1:3], [first, second], t.text)


@test
def idle_and_kernel_threads_are_apart():
    places = '\n'.join(['9800000000 10 1000000000 futex_do_wait 1 0 /bin/pool park', '900000000 3 500000000 interruptible 1 0 [kernel] smpboot_thread_fn',
                        '600000000 8 300000000 pipe_read 1 0 /bin/pool get',
                        '100000000 9 50000000 interruptible 1 0 [kernel] kthread_worker_fn'])
    env = {'FAKE_OFF_PLACES': places, 'FAKE_WAITS': '30', 'FAKE_ELAPSED_MS': '1000'}
    r = run(*OFF, *SHORT, '--offcpu-output=o', env=env)
    equal(r.lines[1:8], [
        '  time %  off-CPU  count  longest  function  blocked in  module',
        '     100   600 ms      8   300 ms  get       pipe_read   pool',
        '  100 % is 600 ms off-CPU, without threads blocked throughout and kernel threads',
        '  time %  off-CPU  count  longest  blocked throughout  blocked in     module',
        '     100   9.80 s     10   1.00 s  park                futex_do_wait  pool',
        '  100 % is 9.80 s off-CPU of threads that are blocked throughout',
        'kernel threads: 1.00 s in 2 functions; --kernel-threads lists them'], r)
    r = run(*OFF, *SHORT, '--offcpu-output=o', '--kernel-threads', env=env)
    equal(r.lines[1:5], [
        '  time %  off-CPU  count  longest  function           blocked in     module',
        '      56   900 ms      3   500 ms  smpboot_thread_fn  interruptible  [kernel]',
        '      38   600 ms      8   300 ms  get                pipe_read      pool',
        '       6   100 ms      9  50.0 ms  kthread_worker_fn  interruptible  [kernel]'], r)
    check('lists them' not in r.err, r)
    r = run(*ME, '--kernel-threads')
    equal((r.rc, r.lines), (2, ['perf-agent: --kernel-threads needs --offcpu']), r)


@test
def rows_without_time_are_left_out():
    t = Terminal(FAKE, [*OFF, *SHORT, '--offcpu-output=o'], env={'FAKE_OFF_PLACES': '0 0 0 w 1 0 m f', 'FAKE_WAITS': '1'})
    equal(t.finish(), 0, t.text)
    check('time %' not in t.text and 'off-CPU profile written: o' in t.text, t.text)



if __name__ == '__main__':
    sys.exit(main())
