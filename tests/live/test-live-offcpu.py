#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Off-CPU profiles of threads that time their own waits: totals, counts, states, stacks, filters, edges."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import livelib
from cgrouplib import cgroups, enter, no_cgroups
from livelib import WAIT_S, Agent, Workload, check, count, decode, equal, main, note, test, weight, within
from taplib import shared
from waitlib import (CHAIN, MS, US, Waits, at, capture_waits, check_stack, check_value, check_waits, check_waits_conserved,
                     is_complete, longest, maps_of_agent, runqueue, switches)

SECONDS = 4
BLOCKED = {'interruptible', 'uninterruptible', 'iowait'}  # what is reported without --offcpu-states


def usable_cpu():
    return max(os.sched_getaffinity(0))


# ---- the workloads themselves ---------------------------------------------------------------------------------------


@test
def workloads_agree_with_the_scheduler():
    """Their clocks are what the other tests believe."""
    loads = [(Waits(kind), name) for kind, name in (('sleep', 'sleeper'), ('pipe', 'reader'), ('futex', 'waiter'),
                                                    ('epoll', 'poller'), ('stuck', 'stuck'))]
    begin = [(w.clocks()[w.tids[name]], time.monotonic_ns()) for w, name in loads]
    time.sleep(1)
    end = [(w.clocks()[w.tids[name]], time.monotonic_ns()) for w, name in loads]
    for (w, name), (first, begin_ns), (last, end_ns) in zip(loads, begin, end):
        truth = w.ask().in_window(name, (begin_ns, end_ns))
        within(truth.ns + last - first, 0.99 * (end_ns - begin_ns), 1.01 * (end_ns - begin_ns), name, truth)


# ---- totals ---------------------------------------------------------------------------------------------------------


def check_thread(p, reported, w, name, site, body='repeat', everywhere=False):
    mine = check_waits(p, reported, name, w.tids[name], site, body, everywhere=everywhere)
    # The rest of the thread's time, by the scheduler.
    spent = p.account.threads[w.tids[name]]
    every = p.of(tid=w.tids[name])
    total = weight(every) + runqueue(every) + spent.cpu
    within(total, 0.99 * p.account.ns - p.account.taken, 1.01 * p.duration_nanos, 'with the time on a CPU', *every[:5])
    for s in mine:
        check(s.kernel, 'no kernel frames', s)


SIX = {'sleep': (), 'pipe': (), 'futex': (), 'epoll': (), 'mutex': ('--ms', 5), 'pool': ('--threads', 8, '--busy', 2)}


@shared
def six_processes():
    """One capture of six processes that mostly sleep. A single one is the target of most tests below."""
    loads = {kind: Waits(kind, *args) for kind, args in SIX.items()}
    p = capture_waits(list(loads.values()), SECONDS, '--pid', ','.join(str(w.pid) for w in loads.values()))
    return p, dict(zip(loads, zip(loads.values(), p.reported)))


def check_one_of_six(kind, name, body='repeat'):
    p, loads = six_processes()
    w, reported = loads[kind]
    check_thread(p, reported, w, name, f'wait_{kind}', body)


@test
def sleeps_add_up_to_their_clock():
    check_one_of_six('sleep', 'sleeper')


@test
def reads_of_a_pipe_add_up_to_their_clock():
    check_one_of_six('pipe', 'reader')


@test
def waits_for_a_futex_add_up_to_their_clock():
    check_one_of_six('futex', 'waiter')


@test
def waits_in_epoll_add_up_to_their_clock():
    check_one_of_six('epoll', 'poller')


@test
def waits_for_a_mutex_add_up_to_their_clock():
    check_one_of_six('mutex', 'waiter', 'mutex_waiter')


@test
def kernel_frames_begin_where_the_thread_waits():
    p, _ = six_processes()
    for s in p.samples:
        check(s.kernel and not re.match('bpf_|__bpf_|__traceiter_', s.kernel[0].name), 'frames of the profiler', s)


@test
def waits_add_up_system_wide():
    w = Waits('sleep')
    p = capture_waits([w], SECONDS, '-a')
    check_thread(p, p.reported[0], w, 'sleeper', 'wait_sleep', everywhere=True)
    # The threads of the test's own processes wait all the time too.
    check(len({s.pid for s in p.samples}) > 2, p.samples[:5])
    equal({s.labels['state'] for s in p.samples} - BLOCKED, set())
    equal({s.pid for s in p.samples} & {p.result.pid}, set(), 'the agent itself')
    check(at(p.of(pid=w.pid), 'waits_orders'), 'the main thread, which waits all the time')


@test
def direct_reads_are_io_wait():
    with open('scratch', 'wb') as f:
        f.write(os.urandom(1 << 20) * 64)
        os.fsync(f.fileno())
    try:
        w = Waits('odirect', '--file', os.path.abspath('scratch'), '--bytes', 1 << 20)
    except AssertionError:
        if livelib.STARTED[-1].wait(WAIT_S) == 77:
            return 'the file system of the temporary directory has no O_DIRECT'
        raise
    p = capture_waits([w], SECONDS, '--pid', w.pid)
    tid = w.tids['direct']
    mine = at(p.of(tid=tid), 'wait_odirect')
    waits = [s for s in mine if s.labels['state'] == 'iowait']
    check(weight(waits) >= 0.98 * weight(mine), *[s for s in mine if s not in waits][:5])
    for s in waits:
        check_stack(s, 'wait_odirect')
    # The call takes time on the CPU too; what the scheduler did not see running or runnable was blocked.
    spent = p.account.threads[tid]
    off = p.account.ns - spent.cpu - spent.queued
    edges = p.duration_nanos - p.account.ns
    note(f'{weight(mine) / 1e9:.4f} s of {off / 1e9:.4f} s')
    within(weight(mine), off - 0.01 * p.account.ns - p.account.taken, off + edges + 0.01 * p.account.ns)
    truth = p.reported[0].in_window('direct', p.window)
    within(weight(mine) + runqueue(mine), 0, 1.001 * truth.ns, 'blocked only within the calls')
    return None


# ---- edges ----------------------------------------------------------------------------------------------------------


@test
def a_thread_stuck_all_the_time_shows_its_full_time_and_stack():
    w = Waits('stuck')
    tid = w.tids['stuck']
    w.wait_state(tid, 'S')
    for target in (('--pid', w.pid), ('-a',), ('--pid', w.pid, '--unwind', 'dwarf')):
        p = capture_waits([w], 2, *target)
        mine = p.of(tid=tid)
        equal(len(mine), 1, target, *mine)
        note(f'{weight(mine) / 1e9:.4f} s of {p.duration_nanos / 1e9:.4f} s, {mine[0].names}')
        within(weight(mine) + runqueue(mine), 0.99 * p.duration_nanos, 1.001 * p.duration_nanos, *mine)
        within(longest(mine), 0.99 * p.duration_nanos, p.duration_nanos, *mine)
        equal((mine[0].count, mine[0].labels['state'], mine[0].comm), (1, 'interruptible', 'stuck'))
        check_stack(mine[0], 'wait_stuck')
        check(mine[0].kernel, 'no kernel frames', mine[0])


@test
def frame_pointers_give_the_stacks_of_code_that_has_them():
    for kind, name in (('stuck', 'stuck'), ('pipe', 'reader')):
        w = Waits(kind, program='waits-fp')
        tid = w.tids[name]
        if kind == 'stuck':
            w.wait_state(tid, 'S')
        p = capture_waits([w], 1, '--pid', w.pid, '--unwind', 'fp')
        within(weight(p.of(tid=tid)) + runqueue(p.of(tid=tid)), 0.98 * p.duration_nanos, 1.001 * p.duration_nanos)
        # libc's call has no frame of its own: who called it is left out, and so is what is above the last frame.
        want = ['read', *CHAIN, 'repeat', 'thread_main']
        # The one that the capture begins in may be over before its stack is read, and says so.
        over = [s for s in p.of(tid=tid) if not s.user_names] if kind == 'pipe' else []
        check(sum(s.count for s in over) <= 1, *over)
        check(not over or 'walk_interval_ended_pct' in p.comments, p.text())
        for s in p.of(tid=tid):
            if s not in over:
                equal(s.user_names[:len(want)], want, s)
            check(s.kernel, 'no kernel frames', s)
        w.stop()


@test
def a_thread_of_a_cgroup_that_waits_already_is_found():
    with cgroups() as (mount, top):
        if not top:
            return no_cgroups(mount)
        inner, other = Waits('stuck'), Waits('stuck')
        enter(f'{top}/outer/inner', inner)
        enter(f'{top}/other', other)
        tid = inner.tids['stuck']
        inner.wait_state(tid, 'S')
        p = capture_waits([inner], 1, '--cgroup', f'{top}/outer')
        equal({s.pid for s in p.samples}, {inner.pid})
        mine = p.of(tid=tid)
        equal(len(mine), 1, *mine)
        within(weight(mine) + runqueue(mine), 0.99 * p.duration_nanos, 1.001 * p.duration_nanos, *mine)
        check_stack(mine[0], 'wait_stuck')
    return None


@test
def a_wait_that_ends_in_the_capture_and_one_that_does_not_are_counted():
    w = Waits('stuck')
    tid = w.tids['stuck']
    w.wait_state(tid, 'S')

    def release():
        time.sleep(1)
        w.go()

    p = capture_waits([w], 3, '--pid', w.pid, during=release)
    mine = check_waits(p, p.reported[0], 'stuck', tid, 'wait_stuck')
    equal(count(mine), 2, *mine)
    within(weight(mine) + runqueue(mine), 0.99 * p.duration_nanos, 1.001 * p.duration_nanos, *mine)


@test
def a_thread_of_a_program_that_starts_with_the_capture():
    before_ns = time.time_ns()
    r = Agent('--offcpu-output', 'o.pb.gz', '--', livelib.workload['waits'], 'sleep', '--seconds', 2,
              modes=['--offcpu']).finish()
    equal(r.rc, 0, r)
    p = livelib.load('o.pb.gz')
    within(p.time_nanos, before_ns, time.time_ns())
    mine = at([s for s in p.samples if s.comm == 'sleeper'], 'wait_sleep')
    # 10 ms, and what the kernel adds to it.
    within(count(mine), 180, 201, *mine)
    within(weight(mine), 10 * MS * (count(mine) - 2), 10.5 * MS * count(mine), *mine)
    for s in mine:
        check_stack(s, 'wait_sleep')


# ---- states ---------------------------------------------------------------------------------------------------------


@test
def a_stopped_process_counts_only_when_asked_for():
    w = Waits('spin', '--threads', 1)
    tid = w.tids['spin-0']
    stopped = []

    def stop():
        time.sleep(0.5)
        os.kill(w.pid, signal.SIGSTOP)
        w.wait_state(tid, 'T')
        stopped.append(time.monotonic_ns())
        time.sleep(1.5)
        stopped.append(time.monotonic_ns())
        os.kill(w.pid, signal.SIGCONT)

    p = capture_waits([w], 3, '--pid', w.pid, during=stop)
    equal([s for s in p.samples if s.labels['state'] not in BLOCKED], [])
    # The main thread waits before it is stopped and after.
    equal(weight(at(p.of(tid=tid), 'spin')), 0)
    stopped.clear()
    p = capture_waits([w], 3, '--pid', w.pid, '--offcpu-states', 'stopped', during=stop)
    equal({s.labels['state'] for s in p.samples}, {'stopped'})
    want = stopped[1] - stopped[0]
    for t in (tid, w.pid):
        mine = p.of(tid=t)
        note(f'{weight(mine) / 1e9:.4f} s of {want / 1e9:.4f} s')
        within(weight(mine), want, 1.01 * want + 5 * MS, *mine)
        equal(count(mine), 1, *mine)
    check('spin' in mine[0].user_names or at(p.of(tid=tid), 'spin'), *p.samples)


@test
def a_process_that_is_stopped_before_the_capture():
    w = Waits('spin', '--threads', 1)
    tid = w.tids['spin-0']
    os.kill(w.pid, signal.SIGSTOP)
    w.wait_state(tid, 'T')
    r = Agent('--offcpu-output', 'o.pb.gz', '--pid', w.pid, '--duration', '1s', '--offcpu-states', 'stopped',
              modes=['--offcpu']).finish()
    equal(r.rc, 0, r)
    p = livelib.load('o.pb.gz')
    for t in (tid, w.pid):
        within(weight(p.of(tid=t)), 0.99 * p.duration_nanos, p.duration_nanos, *p.samples)
    check(at(p.of(tid=tid), 'spin'), *p.samples)
    r = Agent('--offcpu-output', 'o.pb.gz', '--pid', w.pid, '--duration', '1s', modes=['--offcpu']).finish()
    equal(r.rc, 0, r)
    equal(livelib.load('o.pb.gz').samples, [])


@test
def preemption_is_not_blocking():
    w = Waits('spin', '--threads', 2, '--cpu', usable_cpu())
    spinners = [tid for name, tid in w.tids.items() if name.startswith('spin')]
    p = capture_waits([w], SECONDS, '--pid', w.pid)
    for tid in spinners:
        within(weight(p.of(tid=tid)), 0, 0.01 * p.duration_nanos, *p.of(tid=tid))
    p = capture_waits([w], SECONDS, '--pid', w.pid, '--offcpu-states', 'preempted')
    equal({s.labels['state'] for s in p.samples}, {'preempted'})
    total = 0
    for tid in spinners:
        mine, spent = p.of(tid=tid), p.account.threads[tid]
        note(f'{weight(mine) / 1e9:.4f} s of {p.duration_nanos / 1e9:.4f} s, in run queues {spent.queued / 1e9:.4f} s')
        within(weight(mine) + runqueue(mine), p.account.ns - spent.cpu - 0.01 * p.account.ns - p.account.taken,
               p.duration_nanos - spent.cpu + 0.01 * p.account.ns, *mine[:3])
        total += weight(mine) + runqueue(mine)
        check(count(at(mine, 'spin')) >= 0.9 * count(mine), *[s for s in mine if 'spin' not in s.user_names][:3])
    # One of the two runs at any time, but for what else the machine runs there.
    within(total, 0.95 * p.duration_nanos, 2 * p.duration_nanos)


@test
def all_states_together_are_all_that_is_not_on_a_cpu():
    w = Waits('pool')
    p = capture_waits([w], SECONDS, '--pid', w.pid, '--offcpu-states',
                      'interruptible,uninterruptible,iowait,stopped,preempted')
    for tid, spent in p.account.threads.items():
        mine = p.of(tid=tid)
        within(weight(mine) + runqueue(mine) + spent.cpu, 0.99 * p.account.ns - p.account.taken,
               1.01 * p.duration_nanos, tid, *mine)


@test
def idle_kernel_threads_are_left_out_unless_asked_for():
    w = Waits('sleep')  # wakes something
    p = capture_waits([w], 2, '-a')
    equal([s for s in p.samples if s.labels['state'] == 'idle'], [])
    q = capture_waits([w], 2, '-a', '--offcpu-states', 'idle')
    if not q.samples:
        return 'no idle kernel thread is visible here'
    equal({s.labels['state'] for s in q.samples}, {'idle'})
    for s in q.samples:
        equal(s.user, [], s)
    workers = [s for s in q.samples if s.comm.startswith('kworker')]
    note(f'{len(q.samples)} stacks, {len(workers)} of kworkers, {weight(q.samples) / 1e9:.1f} s')
    check(workers and all(s.kernel for s in workers), *q.samples[:5])
    return None


# ---- filters --------------------------------------------------------------------------------------------------------


@test
def waits_that_are_too_short_or_too_long_are_left_out():
    short, long = Waits('sleep'), Waits('sleep', '--ms', 40)
    loads, target = [short, long], ('--pid', f'{short.pid},{long.pid}')

    def sites(p):
        return [at(p.of(pid=w.pid), 'wait_sleep') for w in loads]

    p = capture_waits(loads, 2, *target, '--offcpu-min', '20ms')
    a, b = sites(p)
    # A sleep of 10 ms that takes 20 is rare, but there is other work on the machine.
    within(count(a), 0, p.reported[0].in_window('sleeper', p.window).waits // 20, *a)
    # The part of a wait inside the capture may be too short.
    want = p.reported[1].in_window('sleeper', p.window)
    # Each of them is reported.
    missed = p.number('offcpu_switch_out_missed')
    within(count(b), want.waits - 3 - missed, want.waits, *b)
    within(weight(b) + runqueue(b), 0.99 * want.ns - 3 * 20 * MS - missed * want.longest, 1.01 * want.ns, *b)
    for s in p.samples:
        check(s.ns >= s.count * 20 * MS, s)
    p = capture_waits(loads, 2, *target, '--offcpu-max', '20ms')
    a, b = sites(p)
    # At the edges of the capture a part of a wait is all there is of it.
    within(count(b), 0, 2, *b)
    want = p.reported[0].in_window('sleeper', p.window).waits
    within(count(a), 0.95 * want - 2, want + 2, *a)
    for s in p.samples:
        check(s.labels['longest'] <= 20 * MS, s)
    equal(at(p.samples, 'waits_orders'), [], 'the main threads wait longer')
    p = capture_waits(loads, 2, *target, '--offcpu-min', '20ms', '--offcpu-max', '60ms')
    a, b = sites(p)
    within(count(b), p.reported[1].in_window('sleeper', p.window).waits - 3, 60, *b)
    check(all(20 * MS * s.count <= s.ns and s.labels['longest'] <= 60 * MS for s in p.samples), *p.samples)


@test
def a_pool_that_waits_for_work_is_distinguished_from_one_that_is_stuck():
    p, loads = six_processes()
    w, reported = loads['pool']
    for i in range(8):
        name = f'pool-{i}'
        mine = check_waits(p, reported, name, w.tids[name], 'wait_work')
        if i < 2:
            check(count(mine) > 100 and longest(mine) < p.duration_nanos / 2, *mine)
        else:
            equal(count(mine), 1, *mine)
            within(longest(mine), 0.99 * p.duration_nanos, p.duration_nanos, *mine)


# ---- output ---------------------------------------------------------------------------------------------------------


@test
def header_and_labels_say_what_was_measured():
    w = Waits('sleep')
    p = capture_waits([w], 1, '--pid', w.pid, '--tag', 'a=b')
    equal(p.sample_types, [('contentions', 'count'), ('offcpu', 'nanoseconds')])
    equal(p.default_type, 'offcpu')
    equal(p.comment_lines[0], 'a=b')
    check(p.samples, p.text())
    for s in p.samples:
        equal(set(s.labels) - {'runqueue'}, {'pid', 'tid', 'comm', 'state', 'longest'}, s)
        equal(s.pid, w.pid)
        check(s.tid in w.clocks(), s)


@test
def output_goes_to_standard_output_or_to_a_name_of_its_own():
    w = Waits('sleep')
    r = Agent('--offcpu-output', '-', '--pid', w.pid, '--duration', '500ms', modes=['--offcpu']).finish()
    equal(r.rc, 0, r)
    check(at(decode(r.out).samples, 'wait_sleep'), r)
    equal(os.listdir('.'), [])
    r = Agent('--pid', w.pid, '--duration', '500ms', modes=['--offcpu']).finish()
    equal((r.rc, r.out), (0, b''), r)
    names = os.listdir('.')
    check(len(names) == 1 and names[0].endswith('-off-cpu.pb.gz'), names)


@test
def one_capture_has_both_profiles():
    w = Waits('pool')
    spin = Workload('spin', '--seconds', 100)
    p = capture_waits([w], SECONDS, '-a', '--profile-output', 'p.pb.gz', '--sample-rate', 499,
                      modes=['--profile', '--offcpu'])
    on = livelib.load('p.pb.gz')
    livelib.check_conserved(on)
    # Waits begin when everything is attached, and end first.
    within(p.time_nanos - on.time_nanos, 0, 200 * MS)
    within(on.duration_nanos - p.duration_nanos, 0, 200 * MS)
    for name in ('pool-0', 'pool-7'):
        check_waits(p, p.reported[0], name, w.tids[name], 'wait_work', everywhere=True)
    check(at(on.of(pid=spin.pid), 'spin_run'), on.text())
    equal(p.of(pid=spin.pid, state='preempted'), [])


# ---- load -----------------------------------------------------------------------------------------------------------


@test
def a_ping_pong_adds_up_to_what_the_scheduler_says():
    for args in ((), ('--futex',), ('--cpu', usable_cpu(), '--peer-cpu', usable_cpu())):
        w = Waits('pingpong', *args)
        p = capture_waits([w], 3, '--pid', w.pid)
        for name in ('ping', 'pong'):
            tid = w.tids[name]
            mine, spent = p.of(tid=tid), p.account.threads[tid]
            edges = p.duration_nanos - p.account.ns
            blocked = p.account.ns - spent.cpu - spent.queued
            note(f'{args} {name}: {count(mine)} waits of {spent.slept}, {weight(mine) / 1e9:.4f} s of '
                 f'{blocked / 1e9:.4f} s, {runqueue(mine) / 1e9:.4f} s of {spent.queued / 1e9:.4f} s in run queues, '
                 f'edges {edges / 1e6:.1f} ms')
            # The scheduler's clocks stop and start before it picks who is next, ours at the switch itself.
            late, room = US * count(mine), 0.01 * p.account.ns
            within(weight(mine), blocked - room - late / 2 - p.account.taken, blocked + edges + room + late / 2)
            # (It does not read its clock anew between a wake-up and the switch that follows from it, and has next to
            # no time in queues.)
            within(weight(mine) + runqueue(mine), 0, p.duration_nanos - 0.5 * spent.cpu)
            # A few switch events are missed [tried: 6.18 in a virtual machine].
            # At the edges, without programs, it switches several times as often.
            within(count(mine), spent.slept * 0.998 - 2, spent.slept * 1.03 + 2)
            good = [s for s in mine if 'thread_main' in s.user_names]
            # Until the tables are read the rest of a stack is missing.
            check(count(good) >= 0.9 * count(mine), *[s for s in mine if s not in good][:3])
        w.stop()


@test
def nothing_wakes_the_agent_per_switch():
    w = Waits('pingpong')
    agent = Agent('--offcpu-output', 'o.pb.gz', '--pmu-output', 's.txt', '--duration', f'{WAIT_S}s', '--pid', w.pid,
                  modes=('--offcpu', '--pmu')).wait_started()

    def switched(pid):
        return sum(c.slept + c.ran_on for c in switches(pid).values())

    own, of_load = switched(agent.pid), switched(w.pid)
    time.sleep(SECONDS)
    own, of_load = switched(agent.pid) - own, switched(w.pid) - of_load
    os.kill(agent.pid, signal.SIGINT)
    equal(agent.finish().rc, 0)
    note(f'{own} switches of the agent, {of_load} of its target')
    check(of_load > 1000 * SECONDS, 'the test itself', of_load)
    within(own, 1, 0.01 * of_load + 100 * SECONDS)


@test
def hundred_thousand_short_threads_leave_nothing_behind():
    if not os.path.exists('/proc/self/fdinfo'):
        return 'no /proc/PID/fdinfo'
    for target, number in (('--pid', 100000), ('-a', 20000)):
        w = Waits('short', '--count', number)
        agent = Agent('--offcpu-output', 'o.pb.gz', '--duration', f'{2 * WAIT_S}s',
                      *((target, w.pid) if target == '--pid' else (target,)), modes=['--offcpu']).wait_started()
        first = maps_of_agent(agent.pid)
        w.go()
        equal(w.line(), {'done': number})
        last = maps_of_agent(agent.pid)
        os.kill(agent.pid, signal.SIGINT)
        r = agent.finish()
        equal(r.rc, 0, r)
        check('offcpu_threads' in {m.name for m in last.values()}, *last)
        kept = {'offcpu_counts_a', 'offcpu_counts_b', 'counts_a', 'counts_b', 'threads'}  # results, until user space takes them
        for key, m in last.items():
            before = first.get(key)
            if m.entries is None or m.name in kept or not before:
                continue
            note(f'{m.name}: {before.entries} → {m.entries} entries, {before.locked} → {m.locked} bytes')
            within(m.entries, 0, before.entries + 2000, m)
            within(m.locked, 0, before.locked + (1 << 20), m)
        w.stop()
        p = livelib.load('o.pb.gz')
        mine = at(p.of(pid=w.pid), 'short_thread')
        tids = {s.tid for s in mine}
        note(f'{count(mine)} waits of {len(tids)} numbers, {p.text()}')
        within(count(mine), 0.9 * number, 1.02 * number)
        check(len(tids) > number / 10, 'numbers come again, but not that soon', len(tids))
        # A number that came again has the name of one of its threads, which are all called by it.
        bad = [s for s in mine if s.comm != f'short-{s.tid}']
        check(count(bad) <= 0.001 * count(mine), f'{count(bad)} waits have not the name of their thread', *bad[:5])
    return None


@test
def sums_hold_in_a_storm_with_small_tables():
    # With what is preempted, so that it is all that other programs see, which keep one sum for each thread.
    r = Agent('--offcpu-output', 'o.pb.gz', '--test-ring-bytes', 4096, '--test-count-entries', 64,
              '--offcpu-states', ','.join([*sorted(BLOCKED), 'preempted']),
              '--pmu-output', 's.json', '--pmu-format', 'json', '--',
              livelib.workload['waits'], 'storm', '--threads', 60, '--seconds', 3, modes=['--offcpu', '--pmu']).finish()
    equal(r.rc, 0, r)
    p = livelib.load('o.pb.gz')
    check_waits_conserved(p)
    for s in p.samples:
        check_value(p, s)
    with open('s.json', encoding='utf-8') as f:
        total = json.load(f)['all']
    # The kernel's count of the whole process, up to a moment before its end.
    slept = json.loads(r.out.splitlines()[1])['slept']
    sleeps = sum(total['reasons'][key] for key in ('voluntary_sleep', 'io_wait', 'uninterruptible'))
    note(f'{slept} waits by the kernel, {sleeps} by the scheduler statistics, {total["switches"]} switches; {p.text()}')
    within(sleeps, 0.99 * slept - 200, 1.01 * slept + 2000)
    within(p.number('intervals_seen'), 0.99 * total['switches'] - 200, 1.01 * total['switches'] + 200)
    check(p.number('dropped') > 0, 'the tables are too large for this test')
    # With its share of what was dropped the sum is that of a capture that lost nothing.
    lost, off, queued = p.number('offcpu_dropped_ns'), total['off_cpu']['sum_ns'], total['run_queue']['sum_ns']
    blocked = [s for s in p.samples if s.labels['state'] != 'preempted']
    note(f'{weight(p.samples) / 1e9:.2f} s ({weight(blocked) / 1e9:.2f} s blocked) + {runqueue(p.samples) / 1e9:.2f} s in '
         f'queues + {lost / 1e9:.2f} s dropped; off {off / 1e9:.2f} s, queued {queued / 1e9:.2f} s')
    check(lost > 0, p.text())
    within(weight(p.samples) + runqueue(p.samples) + lost, 0.99 * (off + queued), 1.01 * (off + queued))
    within(weight(blocked), 0, 1.01 * off)


# ---- who wakes ------------------------------------------------------------------------------------------------------


def wakes_missed(p, waits):
    """Wake-ups that were missed have no waker; the profile says how many: few."""
    n = p.number('offcpu_wakeup_missed')
    within(n, 0, 2 + 0.01 * count(waits), 'wake-ups that were missed', p.text())
    return n


def check_wakers(kind, name, site, body, waker, waker_site, waker_body, *args):
    w = Waits(kind, *args)
    p = capture_waits([w], SECONDS, '--pid', w.pid, '--offcpu-wakers')
    mine = check_waits(p, p.reported[0], name, w.tids[name], site, body)
    named = [s for s in mine if s.labels.get('waker') == waker]
    note(f'{count(named)} of {count(mine)} waits have a waker; {named[:1]}')
    # The first and the last may have been cut off it.
    check(count(named) >= count(mine) - 2 - wakes_missed(p, mine), *[s for s in mine if s not in named][:5])
    where = [s for s in named if s.woken_by]
    check(count(where) >= count(named) - 2, 'from where it was woken', *[s for s in named if s not in where][:5])
    for s in where:
        check(s.woken_by.kernel, 'no kernel frames', s.woken_by)
        check_stack(s.woken_by, waker_site, waker_body)


@test
def the_holder_of_a_mutex_is_named_as_waker():
    check_wakers('mutex', 'waiter', 'wait_mutex', 'mutex_waiter', 'holder', 'release_mutex', 'mutex_holder', '--ms', 5)


@test
def a_timer_that_interrupts_a_system_call_is_no_thread_that_wakes():
    busy = [Workload('syscalls', '--seconds', 100) for _ in range(os.cpu_count())]
    w = Waits('sleep', '--ms', 2)
    p = capture_waits([w], 2, '--pid', w.pid, '--offcpu-wakers')
    mine = at(p.of(tid=w.tids['sleeper']), 'wait_sleep')
    wakers = {}
    for s in mine:
        wakers[s.labels.get('waker')] = wakers.get(s.labels.get('waker'), 0) + s.count
    note(wakers)
    check(count(mine) > 100, *mine[:5])
    check(wakers.get('[interrupt]', 0) >= count(mine) - 2 - wakes_missed(p, mine), wakers)
    for b in busy:
        b.stop()


@test
def a_command_waits_for_nothing_before_it_starts():
    r = Agent('--offcpu-output', 'o.pb.gz', '--', livelib.workload['spin'], '--seconds', 0.5, modes=['--offcpu']).finish()
    equal(r.rc, 0, r)
    p = livelib.load('o.pb.gz')
    equal([s for s in p.samples if 'unix_stream' in ' '.join(map(str, s.names))], [])
    check('threads_blocked_at_start' not in p.comments or p.number('threads_blocked_at_start') == 0, p.text())


@test
def who_writes_to_a_pipe_is_named_as_waker():
    check_wakers('pipe', 'reader', 'wait_pipe', 'repeat', 'writer', 'feed_pipe', 'feeder')


@test
def who_wakes_from_a_process_that_is_not_watched_is_named():
    r, w = os.pipe()
    with subprocess.Popen(['cat'], stdin=r, stdout=subprocess.DEVNULL) as reader:
        os.close(r)
        writer = Waits('feed', '--file', f'/proc/{os.getpid()}/fd/{w}', '--ms', 5)
        p = capture_waits([writer], SECONDS, '--pid', reader.pid, '--offcpu-wakers')
        writer.stop()
        os.close(w)
    mine = p.of(tid=reader.pid)
    named = [s for s in mine if s.labels.get('waker') == 'writer' and s.woken_by]
    check(count(mine) > 100 and count(named) >= count(mine) - 2 - wakes_missed(p, mine),
          *[s for s in mine if s not in named][:5])
    # Its first wake-up reports it; until its tables are there, its callers are heuristic.
    whole = [s for s in named if is_complete(s.woken_by, 'feed_pipe', 'feeder')]
    note(f'{count(whole)} of {count(named)} with a whole stack; {[s.woken_by for s in named if s not in whole][:3]}')
    check(count(whole) >= 0.9 * count(named), *[s.woken_by for s in named if s not in whole][:5])


@test
def a_timer_is_no_thread_that_wakes():
    w = Waits('sleep')
    p = capture_waits([w], 2, '--pid', w.pid, '--offcpu-wakers')
    mine = check_waits(p, p.reported[0], 'sleeper', w.tids['sleeper'], 'wait_sleep')
    timers = [s for s in mine if s.labels.get('waker') == '[interrupt]']
    check(count(timers) >= count(mine) - 2 - wakes_missed(p, mine), *[s for s in mine if s not in timers][:5])
    for s in timers:
        check(not s.woken_by or not s.woken_by.user, 'whom it interrupted does not matter', s.woken_by)


# ---- stacks that the kernel side could not walk ---------------------------------------------------------------------


def whole(s, site):
    """From the function that waits to the program's first one."""
    return site in s.user_names and {'main', '_start'} <= set(s.user_names) and not any(f.synthetic for f in s.frames)


def capture_command(*argv):
    r = Agent('--offcpu-output', 'o.pb.gz', '--', *argv, modes=['--offcpu']).finish()
    equal(r.rc, 0, r)
    p = livelib.load('o.pb.gz')
    check_waits_conserved(p)
    note(f'{p.comment_lines}')
    return p


@test
def waits_before_the_tables_are_there_have_their_stacks():
    p = capture_command(livelib.workload['firstwaits'], 'short', 400)
    mine = at(p.samples, 'wait_short')
    within(count(mine), 390, 400, *mine[:3])
    good = [s for s in mine if whole(s, 'wait_short')]
    check(count(good) >= 0.98 * count(mine), f'{count(good)} of {count(mine)}', *[s for s in mine if s not in good][:5])
    within(float(p.comments.get('heuristic_stacks_pct', 0)), 0, 2, p.text())


@test
def a_long_first_wait_below_a_large_frame_has_its_whole_stack():
    p = capture_command(livelib.workload['firstwaits'], 'large', 1500)
    mine = at(p.samples, 'wait_large')
    equal(count(mine), 1, *p.samples[:5])
    within(weight(mine), 1500 * MS, 1700 * MS, *mine)
    check(whole(mine[0], 'wait_large'), *mine)
    check(not float(p.comments.get('walk_read_fault_pct', 0)) > 5, p.text())


@test
def the_long_first_waits_of_an_interpreter_have_whole_stacks():
    node = shutil.which('node')
    if not node:
        return 'no node'
    p = capture_command(node, '-e', 'setTimeout(() => {}, 1500)')
    # Its event loop waits above a frame of 12 KiB, all the time.
    check(longest(p.samples) > 1400 * MS, *p.samples[:5])
    within(float(p.comments['complete_stacks_pct']), 97, 100, p.text())
    return None


@test
def nine_thousand_threads_that_wait_already_have_their_stacks():
    try:
        w = Workload('firstwaits', 'threads', 9000)
    except AssertionError as e:
        if ' only' in str(e) or "['only'" in str(e):
            return f'not so many threads here: {e}'
        raise
    p = capture_waits([], 2, '--pid', w.pid)
    equal((p.number('threads_blocked_at_start'), count(p.samples), p.number('dropped')), (9001, 9001, 0), p.text())
    mine = at(p.samples, 'wait_thread')
    equal(count(mine), 9001, p.text(), *[s for s in p.samples if s not in mine][:3])
    equal([s for s in mine if any(f.synthetic for f in s.frames)][:3], [], p.text())
    within(weight(mine), 0.99 * count(mine) * p.duration_nanos, count(mine) * p.duration_nanos)
    w.stop()
    return None


if __name__ == '__main__':
    sys.exit(main())
