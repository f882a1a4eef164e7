#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""-- COMMAND with what it starts, and the ends of a capture: the target's, and signals."""
import json
import os
import re
import signal
import sys
import time

from livelib import (NS, Agent, Workload, capture, check, check_conserved, check_total, count, decode, equal, load, main,
                     note, test, weight, within, workload)

RUN_S = 40  # of a workload: longer than any test of this file, which ends it


def said_by(result):
    """The JSON line of a workload among the lines of perf-agent, whose standard output is its own."""
    lines = [line for line in result.out.decode().splitlines() if line.startswith('{')]
    equal(len(lines), 1, result, result.out)
    return json.loads(lines[0])


def check_command(*more):
    p = capture('--sample-rate', 999, '--', workload['forks'], '--children', 200, '--child-ms', 10, *more)
    check_conserved(p)
    said = said_by(p.result)
    spent = said['children_cpu_ns'] + said['self_cpu_ns']
    # The command's own processes run one at a time, so their share of the time is that of one thread.
    check_total(weight(p.samples), spent, p.duration_nanos, p.period, 'command and children', p.text())
    ended = [line for line in p.result.lines if 'ended with exit status 0' in line]
    equal(len(ended), 1, p.result)
    equal(p.mappings[0].path, workload['forks'], p.mappings)
    work = [s for s in p.samples if 'child_work' in s.names]
    parent = int(re.search(r'\(pid (\d+)\)', p.comments['target'])[1])
    pids = {s.pid for s in work}
    check(parent not in pids, 'work of a child under the number of the command')
    within(len(pids), 190, 200, 'children with samples')  # 10 samples each
    user = [s for s in p.samples if s.pid in pids and not s.kernel]
    named = [s for s in user if s.frames[0].named]
    check(count(named) >= 0.95 * count(user), f'{count(named)} of {count(user)}', *[s for s in user if s not in named][:5])


@test
def command_that_forks_adds_up_to_its_clock():
    check_command()


@test
def command_whose_children_execute_programs_adds_up_to_its_clock():
    check_command('--exec')


@test
def command_with_threads_adds_up_to_its_clocks():
    p = capture('--sample-rate', 999, '--', workload['spin'], '--seconds', 3, '--threads', 2)
    check_conserved(p)
    said = {}
    for line in p.result.out.decode().splitlines():
        m = re.fullmatch(r'\{"tid":(\d+),"cpu_ns":(\d+),.*', line)
        if m:
            said[int(m[1])] = int(m[2])
    equal(len(said), 2, p.result.out)
    for tid, ns in said.items():
        check_total(weight(p.of(tid=tid)), ns, p.duration_nanos, p.period, f'thread {tid}', p.text())


@test
def command_whose_second_thread_executes_keeps_its_time():
    # The thread takes the number and the start of the leader then. A process's CPU clock goes on over an exec.
    second = 'import time\nwhile time.process_time() < 1.2: pass'
    first = ('import os, sys, threading, time\nwhile time.process_time() < 0.6: pass\n'
             f'threading.Thread(target=lambda: os.execv(sys.executable, [sys.executable, "-c", {second!r}])).start()\n'
             'time.sleep(60)')
    p = capture('--sample-rate', 999, '--', '/usr/bin/python3', '-c', first)
    check_conserved(p)
    check_total(weight(p.samples), 1.2 * NS, p.duration_nanos, p.period, 'before and after the exec', p.text(),
                extra_ns=NS // 20)


@test
def command_that_fails_still_gives_a_profile():
    p = capture('--sample-rate', 999, '--', workload['exits'], '--ms', 500, '--status', 7, status=7)
    check(any('ended with exit status 7' in line for line in p.result.lines), p.result)
    check_conserved(p)
    check(any('exits_work' in s.names for s in p.samples), *p.samples[:5])
    p = capture('--duration', '20s', '--', '/bin/sh', '-c', 'kill -9 $$', status=128 + signal.SIGKILL)
    check(any('ended by signal 9 (SIGKILL)' in line for line in p.result.lines), p.result)


@test
def command_that_cannot_be_started_is_one_line_and_no_file():
    for path, code in (('/nonexistent', 'ENOENT'), ('/', 'EACCES'), ('no-such-program', 'not found in PATH')):
        r = Agent('--profile-output', 'p.pb.gz', '--', path).finish()
        equal(r.rc, 1, r)
        equal(len(r.lines), 1, r)
        check(path in r.lines[0] and code in r.lines[0], r)
        equal(os.listdir('.'), [])
        equal(Agent('--', path).finish().rc, 1)
        equal(os.listdir('.'), [])


def runs(pid):
    """Also not if it has ended and its parent has not asked for it."""
    try:
        with open(f'/proc/{pid}/stat', encoding='utf-8', errors='replace') as f:
            return f.read().rpartition(') ')[2][0] not in 'ZX'
    except OSError:
        return False


@test
def duration_ends_the_command():
    p = capture('--sample-rate', 999, '--duration', '500ms', '--', '/bin/sh', '-c', f'{workload["spin"]} --seconds {RUN_S}; :')
    check(any('SIGTERM) at the end of --duration' in line for line in p.result.lines), p.result)
    check_conserved(p)
    pids = {s.pid for s in p.samples}
    check(pids and not [pid for pid in pids if runs(pid)], 'it still runs', pids)


@test
def standard_output_is_the_profile_alone():
    r = Agent('--profile-output', '-', '--sample-rate', 999, '--', workload['exits'], '--ms', 300).finish()
    equal(r.rc, 0, r)
    p = decode(r.out)
    check_conserved(p)
    check(any('exits_work' in s.names for s in p.samples), *p.samples[:5])
    check(any(re.fullmatch(r'ready \d+', line) for line in r.lines), 'what the command said is missing', r)
    equal(os.listdir('.'), [])


@test
def end_of_the_target_ends_the_capture():
    w = Workload('exits', '--ms', 1500, '--status', 3)
    before = time.monotonic()
    p = capture('--pid', w.pid, '--duration', f'{10 * RUN_S}s', '--sample-rate', 999)
    within(time.monotonic() - before, 0, RUN_S, 'seconds')
    w.p.wait()
    check_conserved(p)
    check(any(f'pid {w.pid} ended' in line for line in p.result.lines), p.result)
    within(p.duration_nanos, 0, RUN_S * 10**9)
    user = [s for s in p.samples if not s.kernel]
    named = [s for s in user if s.user_names[:2] == ['exits_work', 'main'] or 'exits_work' in s.user_names]
    check(count(named) >= 0.98 * count(user), f'{count(named)} of {count(user)}', *[s for s in user if s not in named][:5])
    # 1.5 s of CPU, less what passed before the capture had begun.
    within(weight(p.samples), 0.5e9, 1.6e9)
    equal(p.mappings[0].path, w.path)


def stopped_by(number):
    w = Workload('spin', '--seconds', RUN_S)
    agent = Agent('--profile-output', 'p.pb.gz', '--pid', w.pid, '--duration', f'{10 * RUN_S}s', '--sample-rate', 999)
    agent.wait_started()
    time.sleep(0.5)  # what is to be in the profile
    os.kill(agent.pid, number)
    r = agent.finish()
    equal(r.rc, 0, r)
    check_conserved(load('p.pb.gz'))
    check(any('spin_a' in s.names for s in load('p.pb.gz').samples))
    check(any(line.startswith('quality: ') for line in r.lines), r)
    check(any('profile written: p.pb.gz' in line for line in r.lines), r)
    equal(os.listdir('.'), ['p.pb.gz'])


@test
def interrupt_ends_and_writes():
    stopped_by(signal.SIGINT)


@test
def term_ends_and_writes():
    stopped_by(signal.SIGTERM)


def aborted(output):
    """Two signals; the second comes while the end is at work. None: the end was over before it."""
    agent = Agent(*output, '-a', '--duration', f'{10 * RUN_S}s', '--sample-rate', 3999).wait_started()
    os.kill(agent.pid, signal.SIGINT)
    agent.wait_line('a second signal aborts')
    os.kill(agent.pid, signal.SIGSTOP)
    time.sleep(0.2)  # two signals within 0.1 s are taken for one
    os.kill(agent.pid, signal.SIGINT)
    os.kill(agent.pid, signal.SIGCONT)
    r = agent.finish()
    return None if r.rc == 0 and any('profile written' in line for line in r.lines) else r


@test
def second_interrupt_aborts_and_leaves_nothing():
    try:
        os.close(os.open('.', os.O_WRONLY | os.O_TMPFILE))
    except OSError as e:  # overlayfs before Linux 6.3, for one: the temporary file then has a name, and keeps it
        return f'no files without a name here: {e}'
    for output in (('--profile-output', 'p.pb.gz'), ()):
        w = Workload('forks', '--seconds', RUN_S, '--child-ms', 1)
        aborts = 0
        for _ in range(8):
            r = aborted(output)
            if r:
                aborts += 1
                equal(r.rc, 1, r)
                check('aborted by a second signal' in r.lines[-1], r)
                equal(os.listdir('.'), [])
            for name in os.listdir('.'):
                os.unlink(name)
            if aborts == 2:
                break
        w.stop()
        note(f'{output}: aborted {aborts} times')
        check(aborts, 'the end was always over before the second signal came')
    return None


if __name__ == '__main__':
    sys.exit(main())
