# SPDX-License-Identifier: Apache-2.0
"""Results of guests for --offcpu and --pmu, against what the workloads measured in the guest themselves.

The same comparisons as those of the live tests, by their modules. A guest's CPU is emulated, and what emulates it shares
its own CPUs with others: a guest's clocks agree with each other all the same, and only they are compared. What differs
is the price of a switch: the programs take tens of microseconds there instead of one, and the time between a workload's
look at the clock and the switch is as much longer, milliseconds where the host is busy. Hence waits of 100 ms and 4 %
of room instead of 1 %.
"""
import json
import os
import re
import sys

sys.path.insert(0, os.path.realpath(os.path.join(os.path.dirname(__file__), '..', 'live')))
# pylint: disable=wrong-import-position
import livelib
from livelib import NS, check, count, equal, weight, within
from waitlib import (MS, RAN_ON, SLEPT, TIMES, Stats, Report, at, check_stack, check_value, check_waits,
                     check_waits_conserved, longest, runqueue, split)

ROOM = 0.04
# Share of the waits whose stack may end early in a capture of the whole machine: the table of a program is read when it
# is first met, which takes a guest seconds.
LATE = 0.7
# The thread that waits, where, in what; who wakes it, where, in what.
Kind = livelib.Item
KINDS = {
    'sleep': Kind(thread='sleeper', site='wait_sleep', body='repeat', waker=None),
    'pipe': Kind(thread='reader', site='wait_pipe', body='repeat', waker=('writer', 'feed_pipe', 'feeder')),
    'futex': Kind(thread='waiter', site='wait_futex', body='repeat', waker=('poster', 'feed_futex', 'feeder')),
    'epoll': Kind(thread='poller', site='wait_epoll', body='repeat', waker=None),
    'mutex': Kind(thread='waiter', site='wait_mutex', body='mutex_waiter',
                  waker=('holder', 'release_mutex', 'mutex_holder')),
    'stuck': Kind(thread='stuck', site='wait_stuck', body='repeat', waker=None),
}
BRIEF_KINDS = ['sleep', 'pipe', 'mutex', 'stuck']
COUNTERS = ('cycles', 'instructions', 'cache-references', 'cache-misses', 'branches', 'branch-misses')
# The emulated PMU of arm64 (tests/vm/README.md).
CYCLES_PER_INSTRUCTION = 2


class Guest:
    """Files that a guest delivered, by name."""

    def __init__(self, files):
        self.files = files
        self.reported = {}  # label -> Item(pid, reported)
        for name, data in files.items():
            if name.endswith('.reported') and name != 'insns.reported':
                ready, said = data.decode().splitlines()
                reported = Report(json.loads(said))
                self.reported[name[:-len('.reported')]] = livelib.Item(pid=int(ready.split()[1]), reported=reported)

    def text(self, name):
        return self.files.get(name, b'').decode('utf-8', 'replace')

    def to_monotonic(self, realtime_ns):
        reported = next(iter(self.reported.values())).reported
        return realtime_ns - (reported.realtime_ns - reported.now_ns)

    def ran(self, name):
        """A capture ended well, and none of what libbpf says of first tries reached anybody."""
        said = self.text(name + '.err')
        equal(self.text(name + '.rc').strip(), '0', said)
        odd = [line for line in said.splitlines() if re.search(r'libbpf|verifier|prealloc|BPF_PROG_LOAD', line)]
        equal(odd, [])

    def off(self, name):
        """An off-CPU profile, as capture_waits() of the live tests makes it."""
        p = livelib.decode(self.files[name + '.off.pb.gz'])
        start_ns = self.to_monotonic(p.time_nanos)
        p.window = (start_ns, start_ns + p.duration_nanos)
        for s in p.samples:
            check_value(p, s)
        check_waits_conserved(p)
        p.samples = [split(s) for s in p.samples]
        return p

    def stats(self, name, file=None):
        return Stats(self.text(file or name + '.json'), self.to_monotonic)

    def threads(self, label):
        """pid, {name: tid} of a workload."""
        w = self.reported[label]
        return w.pid, {name: t.tid for name, t in w.reported.threads.items()}


# ---- waits ----------------------------------------------------------------------------------------------------------


def check_kind(g, p, kind, everywhere=False):
    """Totals, counts, states and stacks of the thread that waits."""
    k = KINDS[kind]
    _, tids = g.threads(kind)
    return check_waits(p, g.reported[kind].reported, k.thread, tids[k.thread], k.site, k.body, room=ROOM, everywhere=everywhere,
                       late=LATE, hidden=False)


def check_stuck(g, p):
    """All of the capture, and all of the stack, which no switch can have walked."""
    _, tids = g.threads('stuck')
    mine = p.of(tid=tids['stuck'])
    equal(len(mine), 1, *mine)
    within(weight(mine) + runqueue(mine), 0.99 * p.duration_nanos, 1.001 * p.duration_nanos, *mine)
    within(longest(mine), 0.99 * p.duration_nanos, p.duration_nanos, *mine)
    equal((mine[0].count, mine[0].labels['state'], mine[0].comm), (1, 'interruptible', 'stuck'))
    check_stack(mine[0], 'wait_stuck')
    check(mine[0].kernel, 'no kernel frames', mine[0])


def check_wakers(g, p, kind):
    k = KINDS[kind]
    _, tids = g.threads(kind)
    waker, site, body = k.waker
    mine = at(p.of(tid=tids[k.thread]), k.site)
    named = [s for s in mine if s.labels.get('waker') == waker]
    # The first may have been cut off it, and the last has not been woken.
    check(count(mine) > 10 and count(named) >= count(mine) - 2, *[s for s in mine if s not in named][:5])
    where = [s for s in named if s.woken_by]
    check(count(where) >= count(named) - 2, 'from where it was woken', *[s for s in named if s not in where][:5])
    for s in where:
        check(s.woken_by.kernel, 'no kernel frames', s.woken_by)
        check_stack(s.woken_by, site, body)


# ---- scheduler statistics -------------------------------------------------------------------------------------------


def check_elapsed(g, s, labels, hidden=False):
    """On a CPU, in run queues and off: together what has elapsed, of each thread."""
    for label in labels:
        pid, tids = g.threads(label)
        for tid in (pid, *tids.values()):
            t = s.thread(pid, tid)
            total = sum(t[f'{key}_ns'] for key in TIMES)
            within(total, 0.99 * s.duration_ns, 1.01 * s.duration_ns, label, t)
    # These kernels hide no thread: that the scheduler's account of one who waits moved on would mean that it is read too early.
    check(hidden or s.missed == 0, s.notes)


def check_off_time(g, s, kind):
    """Waits of a thread that does nothing else, by its log: their times, how many, and what is usual."""
    k = KINDS[kind]
    pid, tids = g.threads(kind)
    reported = g.reported[kind].reported
    truth = reported.in_window(k.thread, s.window)
    t = s.thread(pid, tids[k.thread])
    got = t['off_cpu_ns'] + t['run_queue_ns']
    livelib.note(f'{kind}: {got / 1e9:.4f} s of {truth.ns / 1e9:.4f} s ({100 * got / truth.ns - 100:+.2f} %), '
                 f'{t["reasons"]["voluntary_sleep"]} sleeps of {truth.waits}')
    within(got, (1 - ROOM) * truth.ns, (1 + ROOM) * truth.ns, t)
    # It may have to wait for a page or a lock of the kernel now and then, too.
    within(t['reasons']['voluntary_sleep'], truth.waits - 2, 1.05 * truth.waits + 3, t)
    equal([t['reasons'][key] for key in ('stopped', 'exited', 'yielded')], [0, 0, 0], t)


def check_distribution(g, s):
    """The sleeper's histogram: of its waits that began and ended in the capture."""
    pid, _ = g.threads('sleep')
    log = g.reported['sleep'].reported.threads['sleeper'].log
    whole = sorted(e - b for b, e in log if b >= s.window[0] and e <= s.window[1])
    off = s.processes[pid]['off_cpu']
    within(off['count'], len(whole) - 2, 1.05 * len(whole) + 3, off)
    # Between the two clocks are the way to the switch and the time in the run queue.
    median = whole[(len(whole) - 1) // 2]
    livelib.note(f'sleep: median {off["p50_ns"] / 1e6:.3f} ms of {median / 1e6:.3f} ms, {off["count"]} of {len(whole)}')
    within(off['p50_ns'], 0.9 * median, 1.01 * median, off)
    within(off['min_ns'], 0.9 * min(whole), 1.01 * median, off)
    check(off['max_ns'] <= 1.01 * max(whole), off, max(whole))
    within(off['sum_ns'], off['total_ns'], 2.001 * s.duration_ns, 'with the main thread, which waits all the time', off)


def check_software_counters(s):
    for p in s.processes.values():
        counters = {c['name']: c for c in p['counters']}
        for name in ('page-faults', 'cpu-migrations', 'context-switches'):
            check(counters[name]['value'] is not None and counters[name]['error'] is None, counters[name])
        equal(counters['context-switches']['value'], p['switches'])
    check(s.all['switches'] > 0, s.all)


def check_unavailable(counters, names):
    """Counters that the machine lacks have an errno, and no value."""
    for name in names:
        c = counters[name]
        equal((c['value'], c['error']), (None, 'ENOENT'), c)


def check_missing(s, arch):
    """Without a clock of instructions an emulated arm64 counts cycles and nothing else, an x86-64 nothing at all."""
    for e in [s.all, *s.processes.values()]:
        counters = {c['name']: c for c in e['counters']}
        check_unavailable(counters, COUNTERS[1:] if arch == 'arm64' else COUNTERS)
        if arch == 'arm64':
            # A thread that is stuck all the time has run for none.
            equal((counters['cycles']['value'] is None, counters['cycles']['error']), (False, None), counters['cycles'])
    check(arch != 'arm64' or {c['name']: c for c in s.all['counters']}['cycles']['value'] > 0, s.all)


# ---- all three ------------------------------------------------------------------------------------------------------


def spinners(g, label):
    pid, tids = g.threads(label)
    return pid, [tid for name, tid in tids.items() if name.startswith('spin')]


def check_spinners(g, p, s):
    """Two on one CPU are preempted all the time, and never off it by their own doing."""
    pid, tids = spinners(g, 'spin')
    both = 0
    for tid in tids:
        within(weight(p.of(tid=tid)) + runqueue(p.of(tid=tid)), 0, 0.01 * p.duration_nanos, *p.of(tid=tid))
        t = s.thread(pid, tid)
        within(t['off_cpu_ns'], 0, 0.01 * s.duration_ns, t)
        switches = sum(t['reasons'].values())
        check(switches > 10 and t['reasons']['preempted'] >= 0.9 * switches, t)
        # Fair shares, but for what else runs there: perf-agent too, which is seconds on its way.
        within(t['on_cpu_ns'], 0.15 * s.duration_ns, 0.6 * s.duration_ns, t)
        both += t['on_cpu_ns']
    within(both, 0.4 * s.duration_ns, 1.001 * s.duration_ns)


def check_agree(g, p, s, labels):
    """Off-CPU time by the profile and by the statistics of one capture."""
    # One begins after the other, which takes a guest a tenth of a second, and nearly one on a busy host.
    room = 0.01 * s.duration_ns + abs(s.duration_ns - p.duration_nanos)
    within(room, 0, 0.35 * s.duration_ns, 'nearly the same window')
    for label in labels:
        pid, tids = g.threads(label)
        for tid in (pid, *tids.values()):
            t, mine = s.thread(pid, tid), p.of(tid=tid)
            within(weight(mine), t['off_cpu_ns'] - room, t['off_cpu_ns'] + room, label, t, *mine[:5])


def check_profile(g, name, label):
    """The on-CPU profile alongside the two others: conserved, and where the spinners spin."""
    p = livelib.decode(g.files[name + '.pb.gz'])
    livelib.check_conserved(p)
    pid, tids = spinners(g, label)
    mine = [s for s in p.of(pid=pid) if s.tid in tids]
    check(count(mine) > 50 and count(at(mine, 'spin')) >= 0.9 * count(mine), *mine[:5], p.text())
    return p


def check_table(s):
    """--per-pid: every process, descending, and together what all did."""
    equal(s.scope, 'per_pid')
    table = s.said['processes']
    cpu = [p['on_cpu']['sum_ns'] for p in table]
    equal(cpu, sorted(cpu, reverse=True), 'descending by time on the CPU')
    for key in TIMES:
        total = sum(p[key]['sum_ns'] for p in table)
        within(total, 0.99 * s.all[key]['sum_ns'] - 10, 1.01 * s.all[key]['sum_ns'] + 10, key)
    within(s.all['on_cpu']['sum_ns'], 0, 1.001 * s.said['cpus'] * s.duration_ns, 'more than the machine has')


def check_states(g, p):
    """Exactly the selected states: preempted and stopped threads."""
    equal({s.labels['state'] for s in p.samples}, {'preempted', 'stopped'}, *p.samples[:5])
    pid, tids = g.threads('stopped')
    for tid in (pid, tids['spin-0']):
        mine = p.of(tid=tid)
        equal({s.labels['state'] for s in mine}, {'stopped'}, *mine)
        within(weight(mine) + runqueue(mine), 0.99 * p.duration_nanos, 1.001 * p.duration_nanos, *mine)
        equal(count(mine), 1, *mine)
    check(at(p.of(tid=tids['spin-0']), 'spin'), *p.of(tid=tids['spin-0']))
    _, tids = spinners(g, 'spin')
    total = sum(weight(p.of(tid=tid)) + runqueue(p.of(tid=tid)) for tid in tids)
    # One of the two runs, and when something else does both wait.
    within(total, 0.9 * p.duration_nanos, 1.5 * p.duration_nanos)
    for tid in tids:
        mine = p.of(tid=tid)
        equal({s.labels['state'] for s in mine}, {'preempted'}, *mine[:5])
        check(count(at(mine, 'spin')) >= 0.9 * count(mine), *[s for s in mine if 'spin' not in s.user_names][:3])


# ---- a CPU that is not there ----------------------------------------------------------------------------------------


def check_offline(g):
    g.ran('offline')
    s, p = g.stats('offline'), g.off('offline')
    equal((s.said['cpus'], s.said['cpus_offline']), (1, 1))
    # One CPU, which is never idle; perf-agent itself is not counted.
    within(s.all['on_cpu']['sum_ns'], 0.5 * s.duration_ns, 1.001 * s.duration_ns)
    check_waits(p, g.reported['off-sleep'].reported, 'sleeper', g.threads('off-sleep')[1]['sleeper'], 'wait_sleep', room=ROOM,
                everywhere=True, late=LATE, hidden=False)
    on = check_profile(g, 'offline', 'off-spin')
    equal(on.number('cpus_changed'), 0)
    # 99 a second; an emulated CPU loses some.
    within(on.number('samples_seen'), 33 * on.duration_nanos / NS, 101 * on.duration_nanos / NS, on.text())


def check_offline_text(g):
    g.ran('offline-text')
    out = g.text('offline-text.out')
    check('CPUs: 1 (1 more offline)' in out, out)
    check(re.search(r'Hardware Counters:\n  not available: .* does not have this counter\n', out), out)


def check_changed(g, name):
    """A CPU that comes, or goes and comes again, while all three modes run. Nothing breaks, waits and times add up, since
    threads move to where there is a CPU; what has no event any more is said."""
    g.ran(name)
    s, p = g.stats(name), g.off(name)
    # On a CPU that goes, and one that comes, the kernel calls no tracepoint while threads still or already run.
    check_waits(p, g.reported['off-sleep'].reported, 'sleeper', g.threads('off-sleep')[1]['sleeper'], 'wait_sleep', room=ROOM,
                everywhere=True, late=LATE)
    check_elapsed(g, s, ('off-sleep', 'off-spin'), hidden=True)
    on = check_profile(g, name, 'off-spin')
    note = '1 CPU went offline or came online during the capture'
    check(note in g.text(name + '.err'), g.text(name + '.err'))
    check(any(text.startswith(note) for text in s.notes), s.notes)
    equal([q.number('cpus_changed') for q in (on, p)], [1, 1])
    return s


def check_plugged(g):
    s = check_changed(g, 'plugged')
    equal((s.said['cpus'], s.said['cpus_offline']), (1, 1), 'when it began')


def check_unplugged(g):
    equal(g.text('unplugged.cpus').split(), ['0', '0-1'], 'the CPU went and came again')
    s = check_changed(g, 'unplugged')
    check_table(s)


# ---- hardware counters ----------------------------------------------------------------------------------------------


def check_instructions(counters, derived, want, extra):
    """want: instructions of the loop; extra: of the kernel and the rest of the program, at most."""
    values = {name: counters[name]['value'] for name in ('cycles', 'instructions')}
    livelib.note(f'{values["instructions"]} instructions of {want}, {values["cycles"]} cycles, IPC {derived["ipc"]}')
    for name in values:
        c = counters[name]
        equal((c['error'], c['hardware'], c['value']), (None, True, c['raw']), 'counted, and never scaled', c)
    within(values['instructions'], want, want + extra)
    within(values['cycles'] / values['instructions'], 0.99 * CYCLES_PER_INSTRUCTION, 1.01 * CYCLES_PER_INSTRUCTION)
    within(derived['ipc'], 0.99 / CYCLES_PER_INSTRUCTION, 1.01 / CYCLES_PER_INSTRUCTION)
    check_unavailable(counters, COUNTERS[2:])
    equal((derived['cache_misses_per_1000_instructions'], derived['branch_miss_pct']), (None, None))


def insns_reported(g):
    """Instructions of each run of the loop."""
    return [json.loads(line)['instructions'] for line in g.text('insns.reported').splitlines() if line.startswith('{')]


def check_insns_json(g):
    g.ran('insns-json')
    s = Stats(g.text('insns-json.out'), lambda ns: ns)
    equal(len(s.processes), 1)
    want = insns_reported(g)[0]
    for e in (s.all, *s.processes.values()):
        # A wake-up, the signal, two lines of output, and ticks of the kernel: 20 ms of them.
        check_instructions({c['name']: c for c in e['counters']}, e['derived'], want, 0.02 * want)


def check_insns_text(g):
    g.ran('insns-text')
    out, want = g.text('insns-text.out'), insns_reported(g)[1]

    def line(title):
        m = re.search(rf'^ *{re.escape(title)}: +(.*)$', out, re.M)
        check(m, f'no line of {title}', out)
        return m[1]

    instructions, cycles = int(line('Total Instructions')), int(line('Total Cycles'))
    within(instructions, want, 1.02 * want, out)
    within(cycles / instructions, 0.99 * CYCLES_PER_INSTRUCTION, 1.01 * CYCLES_PER_INSTRUCTION, out)
    within(float(line('IPC (Instr/Cycle)')), 0.495, 0.505, out)
    for title in ('Total Cache References', 'Total Cache Misses', 'Total Branches', 'Total Branch Misses'):
        check(re.fullmatch(r'not available: .* does not have this counter', line(title)), out)


def check_insns_command(g):
    """With an on-CPU profile by cycles, from the program's start to its end."""
    g.ran('insns-command')
    text = g.text('insns-command.json')
    s = Stats(text, lambda ns: ns)
    e = s.all
    want = json.loads(g.text('insns-command.out').splitlines()[-1])['instructions']
    # Loading and linking a program is some millions.
    check_instructions({c['name']: c for c in e['counters']}, e['derived'], want, 0.1 * want)
    p = livelib.decode(g.files['insns-command.pb.gz'])
    equal(count(p.samples), p.number('samples_in_profile'), p.text())
    # Some ten samples, of a period that the kernel changes until it has found that for so many a second.
    cycles = {c['name']: c for c in e['counters']}['cycles']['value']
    within(weight(p.samples), 0.3 * cycles, 1.5 * cycles, p.text())
    check('cycles' in p.comments.get('event', ''), p.text())
    check(count(p.samples) > 0 and count(at(p.samples, 'insns_loop')) >= 0.8 * count(p.samples), *p.samples[:5], p.text())


# ---- what is checked of a guest -------------------------------------------------------------------------------------


def checks_of_waits(g, name, kinds):
    """An off-CPU capture of some kinds."""
    p = once(lambda: g.off(name))
    for kind in kinds:
        if kind == 'stuck':
            continue
        yield f'{name}: waits of {kind}', lambda kind=kind: check_kind(g, p(), kind)
        if KINDS[kind].waker:
            yield f'{name}: wakers of {kind}', lambda kind=kind: check_wakers(g, p(), kind)
    yield f'{name}: a thread that is stuck', lambda: check_stuck(g, p())


def checks_of_switches(g, name, kinds, arch):
    s = once(lambda: g.stats(name))
    yield f'{name}: times add up', lambda: check_elapsed(g, s(), kinds)
    for kind in kinds:
        if kind != 'mutex':  # its thread waits in two places
            yield f'{name}: times of {kind}', lambda kind=kind: check_off_time(g, s(), kind)
    yield f'{name}: distribution', lambda: check_distribution(g, s())
    yield f'{name}: counters of the kernel', lambda: check_software_counters(s())
    yield f'{name}: counters that are missing', lambda: check_missing(s(), arch)


def checks_of_three(g):
    s, p, kinds = once(lambda: g.stats('three')), once(lambda: g.off('three')), list(KINDS)
    yield 'three: waits of sleep', lambda: check_kind(g, p(), 'sleep', everywhere=True)
    yield 'three: a thread that is stuck', lambda: check_stuck(g, p())
    yield 'three: two spinners on one CPU', lambda: check_spinners(g, p(), s())
    yield 'three: times add up', lambda: check_elapsed(g, s(), [*kinds, 'spin'])
    yield 'three: profile and statistics agree', lambda: check_agree(g, p(), s(), [*kinds, 'spin'])
    yield 'three: the table of processes', lambda: check_table(s())
    yield 'three: the profile on CPU', lambda: check_profile(g, 'three', 'spin')


def checks(files, parts, arch):
    """(what, function that raises) of everything in some parts of guest-init."""
    g = Guest(files)

    def ran(name):
        return f'{name}: ends well', lambda: g.ran(name)

    if 'both' in parts:
        yield ran('both')
        yield from checks_of_waits(g, 'both', BRIEF_KINDS)
        yield from checks_of_switches(g, 'both', BRIEF_KINDS, arch)
    if 'waits' in parts:
        yield ran('waits')
        yield from checks_of_waits(g, 'waits', list(KINDS))
        yield ran('switches')
        yield from checks_of_switches(g, 'switches', list(KINDS), arch)
        yield ran('three')
        yield from checks_of_three(g)
        yield ran('states')
        yield 'states: stopped and preempted', lambda: check_states(g, g.off('states'))
    if 'offline' in parts:
        yield 'a CPU that is offline', lambda: check_offline(g)
        yield 'a CPU that is offline, in text', lambda: check_offline_text(g)
        yield 'a CPU that comes', lambda: check_plugged(g)
        yield 'a CPU that goes and comes', lambda: check_unplugged(g)
    if 'cycles' in parts:
        yield 'instructions that are known', lambda: check_insns_json(g)
        yield 'instructions that are known, in text', lambda: check_insns_text(g)
        yield 'instructions of a command, with its profile', lambda: check_insns_command(g)


def once(make):
    """Made when it is first asked for: what it raises is the failure of that check, and of each that asks again."""
    made = []

    def get():
        if not made:
            made.append(make())
        return made[0]
    return get
