# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of waits: workloads that time their own waits, and captures alongside them.

A wait is timed around the call, so it is blocked time, the time in the run queue after it, and the few microseconds of
the call itself. The window of a capture is that of the profile: workloads keep a log of their waits, of which the part
within the window counts, whenever the test asks for it.
"""
import ctypes
import json
import os
import signal
import struct
import time

from livelib import (NS, WAIT_S, Agent, Item, Sample, Workload, check, count, equal, load, note, taken_ns,
                     weight, within)

RUN_S = 100  # of a workload: longer than any test, which ends it
CHAIN = [f'chain_{i}' for i in range(9, -1, -1)]
MS = 1_000_000
US = 1_000
TIMES = ('on_cpu', 'run_queue', 'off_cpu')
FIGURES = ('min_ns', 'p50_ns', 'p95_ns', 'p99_ns', 'p999_ns', 'max_ns')  # ascending
RAN_ON = ('preempted', 'yielded')
SLEPT = ('voluntary_sleep', 'io_wait', 'uninterruptible', 'stopped')


def schedstats(pid):
    """The scheduler's account of each thread: ns on a CPU, ns in run queues. The time in the queue at this moment is
    not yet in it; may_run: there may be some."""
    ret = {}
    for tid in os.listdir(f'/proc/{pid}/task'):
        with open(f'/proc/{pid}/task/{tid}/schedstat', encoding='ascii') as f:
            cpu, queued, _ = map(int, f.read().split())
        ret[int(tid)] = Item(cpu=cpu, queued=queued, may_run=state_of(pid, tid) == 'R')
    return ret


def state_of(pid, tid):
    """A letter."""
    with open(f'/proc/{pid}/task/{tid}/stat', encoding='utf-8', errors='replace') as f:
        return f.read().rpartition(') ')[2][0]


def switches(pid):
    """Switches that the kernel counted for each thread: went to sleep, was switched out though it could run."""
    ret = {}
    for tid in os.listdir(f'/proc/{pid}/task'):
        with open(f'/proc/{pid}/task/{tid}/status', encoding='utf-8', errors='replace') as f:
            words = dict(line.split(':', 1) for line in f if ':' in line)
        ret[int(tid)] = Item(slept=int(words['voluntary_ctxt_switches']),
                             ran_on=int(words['nonvoluntary_ctxt_switches']))
    return ret


class Report:
    """Measured by a workload up to now_ns, by names of threads."""

    def __init__(self, said):
        self.now_ns, self.realtime_ns = said['now_ns'], said['realtime_ns']
        self.threads = {t['name']: Item(**t) for t in said['threads']}

    def in_window(self, name, window):
        """Waits that were going on in a window of CLOCK_MONOTONIC, cut at its edges."""
        t = self.threads[name]
        check(not t.log_full, f'{name}: waits are missing in its log')
        going_on = [[t.since_ns, self.now_ns]] if t.since_ns else []
        parts = [min(e, window[1]) - max(b, window[0]) for b, e in t.log + going_on]
        parts = [ns for ns in parts if ns > 0]
        return Item(waits=len(parts), ns=sum(parts), longest=max(parts, default=0))


class Waits(Workload):
    """A kind of tests/workloads/waits.c."""

    def __init__(self, kind, *args, prefix=(), program='waits'):
        super().__init__(program, kind, '--seconds', RUN_S, *args, prefix=prefix)
        self.tids = {name: t.tid for name, t in self.ask().threads.items()}

    def ask(self):
        os.kill(self.pid, signal.SIGUSR2)
        return Report(self.line())

    def go(self):
        os.kill(self.pid, signal.SIGUSR1)

    def wait_state(self, tid, states):
        """Until a thread is in one of these states (letters of /proc)."""
        end = time.monotonic() + WAIT_S
        while True:
            state = state_of(self.pid, tid)
            if state in states:
                return
            check(time.monotonic() < end, f'thread {tid} is in state {state}, not {states}')
            time.sleep(0.001)


def around(loads, agent, seconds, during=None):
    """Lets a capture that has started run for about so many seconds and ends it. Returns its result, and what the
    scheduler says of the threads in the meantime: ns, {tid: ns on a CPU, ns in run queues, switches, whether it may have
    been in one when it was asked}, and the time that it says was taken from all (livelib.taken_ns)."""
    def account():
        now_ns, both = time.monotonic_ns(), {}
        for w in loads:
            counts = switches(w.pid)
            both.update({tid: (s, counts[tid]) for tid, s in schedstats(w.pid).items() if tid in counts})
        return now_ns, both

    taken = taken_ns()
    begin_ns, first = account()
    if during:
        during()
    time.sleep(max(0, seconds - (time.monotonic_ns() - begin_ns) / NS))
    end_ns, last = account()
    taken = taken_ns() - taken
    if taken:
        note(f'{taken / 1e6:.0f} ms were taken from the machine')
    os.kill(agent.pid, signal.SIGINT)
    r = agent.finish()
    equal(r.rc, 0, r)
    spent = {tid: Item(cpu=s.cpu - first[tid][0].cpu, queued=s.queued - first[tid][0].queued,
                       slept=c.slept - first[tid][1].slept, ran_on=c.ran_on - first[tid][1].ran_on,
                       may_run=s.may_run or first[tid][0].may_run)
             for tid, (s, c) in last.items() if tid in first}
    return r, Item(window=(begin_ns, end_ns), ns=end_ns - begin_ns, threads=spent, taken=taken)


def monotonic(realtime_ns):
    gap, between = float('inf'), 0
    # A delay of this process between the clocks would move them apart.
    for _ in range(10):
        begin_ns, now_ns, end_ns = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        if end_ns - begin_ns < gap:
            gap, between = end_ns - begin_ns, now_ns - (begin_ns + end_ns) // 2
    return realtime_ns - between


def capture_waits(loads, seconds, *args, during=None, modes=('--offcpu',)):
    """An off-CPU profile of about so many seconds, with .window (CLOCK_MONOTONIC), .account of the scheduler, and what
    each workload reported at the end (.reported, in the order of loads)."""
    agent = Agent('--offcpu-output', 'o.pb.gz', '--duration', f'{WAIT_S}s', *args, modes=modes).wait_started()
    r, account = around(loads, agent, seconds, during)
    reported = [w.ask() for w in loads]
    p = load('o.pb.gz')
    p.result, p.account, p.reported = r, account, reported
    start_ns = monotonic(p.time_nanos)
    p.window = (start_ns, start_ns + p.duration_nanos)
    within(account.window[0] - p.window[0], -10 * MS, 2 * NS, 'begin of the capture', r)
    within(p.window[1] - account.window[1], -10 * MS, 2 * NS, 'end of the capture', r)
    for s in p.samples:
        check_value(p, s)
    check_waits_conserved(p)
    p.samples = [split(s) for s in p.samples]
    return p


def split(s):
    """The sample with the frames of the thread alone; those of who woke it are .woken_by, None without."""
    at_frame = s.names.index('[woken by]') if '[woken by]' in s.names else None
    ret = Sample(s.frames[:at_frame], s.values, s.labels)
    ret.woken_by = None if at_frame is None else Sample(s.frames[at_frame + 1:], s.values, s.labels)
    return ret


def check_value(p, s):
    """No wait is longer than the capture, and the parts of a sample fit together."""
    check(s.count > 0 and 0 <= s.ns, s)
    within(s.labels['longest'], 0, p.duration_nanos, s)
    within(s.ns + runqueue([s]), s.labels['longest'], p.duration_nanos + MS, s)
    check(s.labels['longest'] * s.count >= s.ns, s)


def check_waits_conserved(p):
    """seen = in the profile + dropped, dropped = the sum of its reasons, and the samples add up to it."""
    reasons = {k: int(v) for k, v in p.comments.items() if k.startswith('dropped_')}
    equal(p.number('intervals_seen'), p.number('intervals_in_profile') + p.number('dropped'), p.text())
    equal(p.number('dropped'), sum(reasons.values()), p.text())
    equal(count(p.samples), p.number('intervals_in_profile'), p.text())


def runqueue(samples):
    return sum(s.labels.get('runqueue', 0) for s in samples)


def longest(samples):
    return max((s.labels['longest'] for s in samples), default=0)


def at(samples, site):
    """Those that waited in a function."""
    return [s for s in samples if site in s.user_names]


def check_stack(s, site, body='repeat'):
    """Complete, from the function that waits to the thread's first one; libc's are below and above."""
    check(site in s.user_names, f'{site} is missing', s)
    below = s.user_names.index(site)
    want = [site, *CHAIN, body, 'thread_main']
    equal(s.user_names[below:below + len(want)], want, s)
    within(below, 0, 4, 'frames below', s)
    within(len(s.user_names) - below - len(want), 1, 2, 'frames of libc that start a thread', s)
    equal([f for f in s.frames if f.synthetic], [], s)


def is_complete(s, site, body):
    try:
        check_stack(s, site, body)
    except AssertionError:
        return False
    return True


def check_waits(p, reported, name, tid, site, body='repeat', state='interruptible', everywhere=False, room=0.01,
                late=0.1, hidden=True):
    """One thread's waits against its log. Returns the samples. everywhere: the capture is of the whole machine, where
    tables are read when a program is first met: some stacks end early until then, this share of them (late)
    and a few. room: by which the totals may differ. hidden: the kernel may hide threads from programs."""
    truth = reported.in_window(name, p.window)
    mine = p.of(tid=tid) if everywhere else at(p.of(tid=tid), site)
    blocked, queued = weight(mine), runqueue(mine)
    note(f'{name}: {count(mine)} waits of {truth.waits}, {(blocked + queued) / 1e9:.4f} s of {truth.ns / 1e9:.4f} s '
         f'({100 * (blocked + queued) / max(1, truth.ns) - 100:+.2f} %), {queued / 1e6:.2f} ms of it in run queues, '
         f'longest {longest(mine) / 1e6:.3f} ms of {truth.longest / 1e6:.3f} ms')
    others = [s for s in p.of(tid=tid) if s not in mine]
    # A few switch events are missed [tried: 6.18 in a virtual machine]; each of them is counted.
    missed = p.number('offcpu_switch_out_missed')
    within(missed, 0, 5 + truth.waits // 50, 'waits that were missed')
    if not hidden:
        equal((missed, p.number('offcpu_switch_in_missed')), (0, 0), 'waits that were missed', p.text())
    within(count(mine), truth.waits - 2 - missed, truth.waits + 2, *mine[:3], 'not there:', *others[:3])
    # Its clock runs on while it is preempted in the call, which is no wait.
    preempted = max(0, p.account.threads[tid].queued - queued) if hasattr(p, 'account') else 0
    within(blocked + queued, (1 - room) * truth.ns - preempted - missed * truth.longest, (1 + room) * truth.ns, *mine[:5])
    # Both are within the call.
    within(longest(mine), 0, truth.longest + MS // 10, *mine[:5])
    equal({s.labels['state'] for s in mine}, {state})
    equal({s.comm for s in mine}, {name})
    bad = [s for s in mine if not is_complete(s, site, body)]
    check(count(bad) <= (late * count(mine) + 5 if everywhere else 0), f'{count(bad)} stacks are not as they should be',
          *bad[:5])
    return mine


# ---- scheduler statistics -------------------------------------------------------------------------------------------


class Stats:
    """The JSON of --pmu. to_monotonic: from ns of CLOCK_REALTIME where it was written."""

    def __init__(self, text, to_monotonic=monotonic):
        said = json.loads(text)
        self.said, self.all, self.scope, self.notes = said, said['all'], said['scope'], said['notes']
        self.duration_ns = said['duration_ns']
        # sched_switch and sched_wakeup events.
        self.missed, self.dropped = said['missed_events'], said['dropped_events']
        self.processes = {p['pid']: p for p in said['processes']}
        start_ns = to_monotonic(said['time_realtime_ns'])
        self.window = (start_ns, start_ns + self.duration_ns)
        equal(len(self.processes), len(said['processes']), 'a process twice')
        for entry in [self.all, *said['processes']]:
            self.check_entry(entry)

    def check_entry(self, e):
        """Checks the invariants of every capture of every machine."""
        equal(sum(e['reasons'].values()), e['switches'], e)
        for key in TIMES:
            t = e[key]
            if t['count'] == 0:
                equal([t[f] for f in FIGURES], [None] * len(FIGURES), key, t)
                continue
            values = [t[f] for f in FIGURES]
            equal(values, sorted(values), key, t)
            within(t['max_ns'], 0, self.duration_ns, 'nothing takes longer than the capture', key, e)
            # The ends are middles of buckets, within 0.8 %; the mean is of the exact sum.
            within(t['mean_ns'], 0.992 * t['min_ns'] - 1, 1.008 * t['max_ns'] + 1, key, t)
            within(t['total_ns'], 0, t['sum_ns'] * 1.0001 + MS, 'waits that ended, of all', key, t)
            within(t['mean_ns'] * t['count'], t['total_ns'] - t['count'], t['total_ns'] + t['count'], key, t)
        for t in e['threads']:
            total = t['on_cpu_ns'] + t['run_queue_ns'] + t['off_cpu_ns']
            within(total, 0, 1.001 * self.duration_ns + MS, t)

    def thread(self, pid, tid):
        found = [t for t in self.processes[pid]['threads'] if t['tid'] == tid]
        equal(len(found), 1, f'thread {tid}', self.processes[pid]['threads'])
        return found[0]


# ---- BPF maps of a process ------------------------------------------------------------------------------------------

BPF_MAP_GET_NEXT_KEY, BPF_MAP_GET_FD_BY_ID, BPF_OBJ_GET_INFO_BY_FD = 4, 14, 15
BPF_CALL = {'x86_64': 321, 'aarch64': 280}.get(os.uname().machine)
HASHES = (1, 5, 9, 10)  # BPF_MAP_TYPE_HASH, PERCPU_HASH, LRU_HASH, LRU_PERCPU_HASH


def bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes, 128)
    libc = ctypes.CDLL(None, use_errno=True)
    ret = libc.syscall(BPF_CALL, command, buffer, 128)
    if ret < 0:
        raise OSError(ctypes.get_errno(), f'bpf({command})')
    return ret, buffer.raw


def entries(fd, key_size, limit):
    """How many keys a hash has; keys that go while it is read do no harm."""
    key, n = ctypes.create_string_buffer(key_size), 0
    following = ctypes.create_string_buffer(key_size)
    first = 0
    while n < limit:
        try:
            bpf(BPF_MAP_GET_NEXT_KEY, struct.pack('=IIQQQ', fd, 0, first, ctypes.addressof(following), 0))
        except FileNotFoundError:
            break
        key.raw = following.raw
        first = ctypes.addressof(key)
        n += 1
    return n


def maps_of_agent(pid):
    """{name: entries, locked bytes} of the maps that a process has open; entries of hashes only."""
    ret = {}
    for fd in os.listdir(f'/proc/{pid}/fdinfo'):
        try:
            with open(f'/proc/{pid}/fdinfo/{fd}', encoding='ascii') as f:
                said = dict(line.split(':', 1) for line in f if ':' in line)
        except FileNotFoundError:
            continue
        if 'map_id' not in said or 'max_entries' not in said:
            continue
        own, _ = bpf(BPF_MAP_GET_FD_BY_ID, struct.pack('=III', int(said['map_id']), 0, 0))
        try:
            info = ctypes.create_string_buffer(96)
            bpf(BPF_OBJ_GET_INFO_BY_FD, struct.pack('=IIQ', own, 96, ctypes.addressof(info)))
            name = info.raw[24:40].split(b'\0')[0].decode()
            n = None
            if int(said['map_type']) in HASHES:
                n = entries(own, int(said['key_size']), int(said['max_entries']))
            ret[f'{name}#{said["map_id"].strip()}'] = Item(name=name, entries=n, locked=int(said['memlock']))
        finally:
            os.close(own)
    return ret
