#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""-a: kernel threads, every process under its own number, the agent left out, the idle task counted apart, and
processes that begin and end while the capture runs."""
import os
import shutil
import signal
import sys

from livelib import (NS, Agent, Workload, capture, capture_alongside, check, check_conserved, check_total, count, equal, load,
                     main, start, test, weight, within, workload)

RUN_S = 40  # of a workload: longer than any test of this file, which ends it


def is_kernel_thread(pid):
    with open(f'/proc/{pid}/stat', encoding='utf-8', errors='replace') as f:
        return bool(int(f.read().rpartition(')')[2].split()[6]) & 0x200000)  # PF_KTHREAD


@test
def kernel_threads_have_their_names_and_kernel_frames_only():
    if os.stat('/proc/self/ns/pid').st_ino != 0xeffffffc:  # PROC_PID_INIT_INO
        return 'in a pid namespace of its own, where no kernel thread has a number'
    # Write-back, timers and the ends of many processes give work to kworker, ksoftirqd and rcu threads.
    start(['sh', '-c', 'while :; do dd if=/dev/zero of=written bs=64k count=20 conv=fsync; done'])
    w = Workload('forks', '--seconds', RUN_S, '--child-ms', 0)
    p = capture('-a', '--duration', '4s', '--sample-rate', 3999)
    check_conserved(p)
    equal(p.mappings[0].path, '[kernel]', p.mappings)
    equal((p.mappings[0].start, p.mappings[0].limit), (0xffff << 48, (1 << 64) - 1))
    threads = {}
    for s in p.samples:
        if s.pid is not None and os.path.exists(f'/proc/{s.pid}/stat') and is_kernel_thread(s.pid):
            threads.setdefault((s.pid, s.comm), []).append(s)
    check(threads, 'no kernel thread in', *sorted({s.comm for s in p.samples}))
    for (pid, comm), samples in threads.items():
        # The kernel's own name has 15 characters; /proc shows kernel threads' longer ones, and after that of a
        # kworker what it does.
        with open(f'/proc/{pid}/comm', encoding='utf-8') as f:
            shown = f.read().strip()
        check(shown[:15] == comm or comm.startswith('kworker/'), f'pid {pid} is {shown}, not {comm}')
        for s in samples:
            equal(s.tid, pid, s)
            check(s.kernel and len(s.kernel) == len(s.frames), 'kernel frames only', s)
    check(any(comm.startswith(('kworker/', 'ksoftirqd/', 'rcu')) for _, comm in threads), threads.keys())
    check(w.pid in {s.pid for s in p.samples}, 'the workload is missing')


@test
def two_processes_have_their_numbers_and_totals():
    loads = [Workload('spin', '--seconds', RUN_S), Workload('spin', '--seconds', RUN_S, '--threads', 2)]
    p, spent, window_ns, edges_ns = capture_alongside(loads, 4, '-a', '--sample-rate', 999)
    check_conserved(p)
    for w in loads:
        for tid, ns in w.clocks().items():
            mine = p.of(pid=w.pid, tid=tid)
            equal(weight(mine), weight(p.of(tid=tid)), f'thread {tid} belongs to {w.pid} alone')
            if spent[tid] > window_ns // 100:
                check_total(weight(mine), spent[tid], window_ns, p.period, f'process {w.pid}, thread {tid}', p.text(),
                            extra_ns=edges_ns)
                check(any('spin_a' in s.names for s in mine), *mine[:5])
        paths = {f.mapping.path for s in p.of(pid=w.pid) for f in s.user if f.name in ('spin_a', 'spin_b', 'spin_run')}
        equal(paths, {w.path})


@test
def agent_leaves_itself_out_and_counts_it():
    w = Workload('forks', '--seconds', RUN_S, '--child-ms', 0)
    p = capture('-a', '--duration', '3s', '--sample-rate', 3999)
    w.stop()
    check_conserved(p)
    check(p.number('dropped_agent') > 0, p.text())
    equal(p.of(pid=p.result.pid), [])
    equal([s for s in p.samples if s.tid == p.result.pid], [])


def idle_ticks():
    with open('/proc/stat', encoding='ascii') as f:
        first = f.readline().split()
    return int(first[4]) + int(first[5])


@test
def idle_and_sampled_time_are_all_time():
    cpus = len(os.sched_getaffinity(0))
    with open('/sys/devices/system/cpu/online', encoding='ascii') as f:
        online = sum(int(b or a) - int(a) + 1 for a, _, b in (r.partition('-') for r in f.read().strip().split(',')))
    check(cpus <= online, cpus, online)
    w = Workload('spin', '--seconds', RUN_S, prefix=['taskset', '-c', str(min(os.sched_getaffinity(0)))])
    for rate in (99, 999):
        before = idle_ticks()
        p = capture('-a', '--duration', '3s', '--sample-rate', rate)
        after = idle_ticks()
        check_conserved(p)
        idle_pct = float(p.comments['idle_pct'])
        within(idle_pct, 0, 100 * (online - 1) / online + 1, 'one CPU is busy')
        # The kernel's own statistic, over a somewhat longer time in which perf-agent starts and ends.
        kernel_s = (after - before) / os.sysconf('SC_CLK_TCK')
        idle_s = idle_pct / 100 * online * p.duration_nanos / 1e9
        within(idle_s, kernel_s - 1.0, kernel_s + 0.1, p.text())
        # All time that is not idle was sampled, but for interrupts of idle CPUs and perf-agent itself.
        all_ns, agent_ns = online * p.duration_nanos, p.number('dropped_agent') * p.period
        check_total(weight(p.samples) + agent_ns, all_ns - idle_s * NS, all_ns, p.period, f'-a at {rate} Hz', p.text(),
                    extra_ns=0.02 * all_ns)
    p = capture('--pid', w.pid, '--duration', '100ms')
    check('idle_pct' not in p.comments, 'of the machine, not of one process', p.text())
    w.stop()


def check_children(children, child_ms, *more):
    """Every child of a storm that runs within the capture: its work, its names, its number."""
    path = os.path.abspath('storm-of-forks')
    shutil.copy(workload['forks'], path)
    agent = Agent('--profile-output', 'p.pb.gz', '--duration', '60s', '-a', '--sample-rate', 3999).wait_started()
    w = Workload('forks', '--seconds', RUN_S, '--children', children, '--child-ms', child_ms, *more, path=path)
    said = w.finish()[-1]
    os.kill(agent.pid, signal.SIGINT)
    r = agent.finish()
    equal(r.rc, 0, r)
    p = load('p.pb.gz')
    check_conserved(p)
    equal(said['children'], children)
    work = [s for s in p.samples if 'child_work' in s.names and any(f.mapping and f.mapping.path == path for f in s.user)]
    # child_work spends this by its own clock, and a batch of some 20 us more.
    want = children * child_ms * NS // 1000
    within(weight(work), 0.95 * want, 1.05 * want, p.text())
    # Samples in user mode of the children: those of the program itself all have names.
    pids = {s.pid for s in work}
    user = [s for s in p.samples if s.pid in pids and not s.kernel]
    named = [s for s in user if s.frames[0].named]
    check(count(named) >= 0.95 * count(user), f'{count(named)} of {count(user)}', *[s for s in user if s not in named][:5])
    within(len(pids), 0.99 * children, children, 'numbers of children')
    check(w.pid not in pids, 'work of a child under the number of its parent')
    for pid in pids:
        within(weight([s for s in work if s.pid == pid]), 0, 3 * child_ms * NS // 1000, f'work of child {pid}')
    for s in work:
        equal(s.tid, s.pid, s)
    comms = {s.comm for s in work}
    equal(comms, {'exe'} if '--exec' in more else {'storm-of-forks'[:15]})


@test
def children_that_come_and_go_have_names_and_numbers():
    check_children(300, 6)


@test
def programs_that_come_and_go_have_names_and_numbers():
    check_children(200, 10, '--exec')


if __name__ == '__main__':
    sys.exit(main())
