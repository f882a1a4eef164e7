#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""perf.data of a capture as perf reads it: the samples of the pprof profiles, one by one, with the same totals."""
import collections
import os
import re
import shutil
import subprocess
import sys

from livelib import Agent, Workload, check, count, equal, load, main, test, weight

RUN = ['--sample-rate', '499', '--duration', '2s']
# "demo 7 (idle)  4711/4712  [001]  2578.021895123:  1921381  cpu-clock:"
HEAD = re.compile(r'^ *(?P<comm>.*?) +(?P<pid>-?\d+)/(?P<tid>-?\d+) +\[(?P<cpu>\d+)\] +(?P<s>\d+)\.(?P<ns>\d{9}): +(?P<period>\d+) +'
                  r'(?P<event>[^ ]+): *$')
FRAME = re.compile(r'^\s+(?P<ip>[0-9a-f]+) (?P<sym>.*) \((?P<dso>.*)\)$')

Record = collections.namedtuple('Record', 'comm pid tid cpu time period event frames')


def perf(*args):
    r = subprocess.run(['perf', *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                       errors='replace', check=False, env={**os.environ, 'PERF_BUILDID_DIR': os.getcwd()})
    # Not a warning, but for samples that are lost.
    equal((r.returncode, re.sub(r'Warning:\nProcessed \d+ samples and lost [\d.]+%!\n+', '', r.stderr)), (0, ''), args)
    return r.stdout


def script(path, *args, frames=True):
    """frames=False: perf reads no symbols, which takes long where all processes have samples."""
    ret, head = [], 'comm,pid,tid,cpu,time,period,event'
    text = perf('script', '-i', path, '--ns', '--no-inline', '-F', head + ',ip,sym,dso' * frames, *args)
    text = text if frames else text.replace('\n', '\n\n')
    for block in text.split('\n\n'):
        lines = block.strip('\n').split('\n')
        if lines == ['']:
            continue
        m = HEAD.match(lines[0])
        check(m, lines)
        stack = [FRAME.match(line) for line in lines[1:]]
        check(all(stack), lines)
        ret.append(Record(m['comm'], int(m['pid']), int(m['tid']), int(m['cpu']), int(m['s']) * 10**9 + int(m['ns']),
                          int(m['period']), m['event'], [(f['sym'], f['dso']) for f in stack]))
    return ret


def without_perf():
    return not shutil.which('perf') and 'perf is not installed'


def sums(pairs):
    ret = collections.Counter()
    for key, value in pairs:
        ret[key] += value
    return {key: value for key, value in ret.items() if value}


def name_of(tid, comm):
    """perf calls a thread without a name by its number."""
    return f':{tid}' if comm is None else comm


def check_same(records, p, program, lost=0):
    """The samples of an event are those of a profile, to the nanosecond. lost: samples of all events that did not fit into the
    ring of a busy machine, which are counted: then each thread and function has no more than in the profile."""
    def same(theirs, ours):
        if not lost:
            equal(theirs, ours)
        for key, value in theirs.items():
            # A weight is rounded in each record.
            check(value <= ours.get(key, 0) + len(records), key, value, ours.get(key), lost)

    check(len(records) <= count(p.samples) <= len(records) + lost, len(records), count(p.samples), lost)
    if not lost:
        equal(sum(r.period for r in records), weight(p.samples))
    same(sums(((r.pid, r.tid, r.comm), r.period) for r in records),
         sums(((s.pid, s.tid, name_of(s.tid, s.comm)), s.ns) for s in p.samples))
    times = [r.time for r in records]
    equal(times, sorted(times))
    cpus = os.sysconf('SC_NPROCESSORS_CONF')
    check(all(r.cpu < cpus for r in records), {r.cpu for r in records})
    if not program:
        return
    # Time of each function of the program with what it calls. Inlined calls are in the profile alone.
    ours = sums((name, s.ns) for s in p.samples for name in
                {f.functions[-1].name for f in s.frames if f.functions and f.mapping and f.mapping.path == program})
    theirs = sums((name, r.period) for r in records for name in {sym for sym, dso in r.frames if dso == program})
    same(theirs, ours)
    check(len(ours) > 3, ours)


def capture(*args, modes=('--profile',)):
    r = Agent(*args, modes=modes).finish()
    equal(r.rc, 0, r)
    return r


@test
def both_events_have_the_samples_of_the_profiles():
    skip = without_perf()
    if skip:
        return skip
    w = Workload('spin', '--threads', 2, '--seconds', 60)
    r = capture(*RUN, '--lines=false', '--pid', w.pid, '--profile-output', 'p.pb.gz', '--offcpu-output', 'o.pb.gz',
                '--offcpu-states', 'interruptible,uninterruptible,iowait,preempted', '--perf-data-output', 'x.data', modes=('--profile', '--offcpu'))
    check('perf-agent: perf.data file written: x.data' in r.lines, r)
    records = script('x.data')
    equal({r.event for r in records}, {'cpu-clock', 'offcpu-time'})
    on = [r for r in records if r.event == 'cpu-clock']
    check(len(on) > 50, len(on))
    program = os.path.realpath(w.path)
    on_cpu, off_cpu = load('p.pb.gz'), load('o.pb.gz')
    lost = on_cpu.number('stream_ring_full')
    check_same(on, on_cpu, program, lost)
    check_same([r for r in records if r.event == 'offcpu-time'], off_cpu, None, lost)
    equal(len(records) + lost, count(on_cpu.samples) + count(off_cpu.samples))
    # Reports of perf have the totals too, and no sample is lost.
    text = perf('report', '-i', 'x.data', '--stdio', '--no-children', '-g', 'none', '--no-inline')
    check(lost or f'# Event count (approx.): {weight(on_cpu.samples)}\n' in text, text[:2000])
    check(re.search(r'spin_a', text), text[:2000])
    return None


@test
def processes_of_a_command_have_their_names_and_mappings():
    skip = without_perf()
    if skip:
        return skip
    # The shell, which has samples of its own, becomes another program; its children begin and end meanwhile.
    command = ('for i in 1 2 3 4; do head -c 9000000 /dev/urandom | cksum >/dev/null; done; '
               'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exec sha256sum zeros')
    with open('zeros', 'wb') as f:
        f.truncate(60 << 20)
    capture('--sample-rate', '999', '--profile-output', 'p.pb.gz', '--perf-data-output', 'x.data', '--', 'sh', '-c',
            command)
    records, p = script('x.data'), load('p.pb.gz')
    check_same(records, p, None, p.number('stream_ring_full'))
    check({'head', 'cksum', 'sha256sum'} <= {r.comm for r in records}, {r.comm for r in records})
    modules = {os.path.basename(dso) for r in records for _, dso in r.frames}
    check({'cksum', 'sha256sum'} <= modules, modules)
    events = perf('script', '-i', 'x.data', '--show-task-events', '--show-mmap-events')
    for what in ('PERF_RECORD_FORK', 'PERF_RECORD_EXIT', 'PERF_RECORD_COMM', 'PERF_RECORD_COMM exec', 'PERF_RECORD_MMAP2'):
        check(what in events, what, events[:3000])
    # Processes without samples are left out.
    pids = {r.pid for r in records}
    seen = {int(m) for m in re.findall(r'PERF_RECORD_(?:FORK|EXIT)\((\d+):', events)}
    check(seen <= pids, seen - pids)


@test
def all_processes():
    skip = without_perf()
    if skip:
        return skip
    w = Workload('spin', '--seconds', 60)
    r = capture('--sample-rate', '199', '--duration', '2s', '-a', '--profile-output', 'p.pb.gz', '-o', 'x.data')
    check('perf-agent: perf.data file written: x.data' in r.lines, r)
    records, p = script('x.data', frames=False), load('p.pb.gz')
    check_same(records, p, None, p.number('stream_ring_full'))
    mine = script('x.data', '--pid', str(w.pid))
    equal(len(mine), sum(r.pid == w.pid for r in records))
    check(any(sym == 'spin_a' for r in mine for sym, _ in r.frames), mine[:3])
    return None


@test
def samples_that_do_not_fit_are_reported():
    skip = without_perf()
    if skip:
        return skip
    w = Workload('waits', 'storm', '--seconds', 60)
    r = capture('--duration', '2s', '--pid', w.pid, '--offcpu-output', 'o.pb.gz', '--perf-data-output', 'x.data', '--test-ring-bytes', '4096',
                '--unwind', 'fp', modes=('--offcpu',))
    p, records = load('o.pb.gz'), script('x.data')
    lost = int(p.comments['stream_ring_full'])
    check(lost > 0, r)
    equal(len(records) + lost, count(p.samples))
    check(f'# Total Lost Samples: {lost}\n' in perf('report', '-i', 'x.data', '--stdio', '-g', 'none'), lost)
    return None


if __name__ == '__main__':
    sys.exit(main())
