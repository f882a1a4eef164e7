#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""perf.data of real captures to other readers: each stack with its addresses, compressed records, AutoFDO."""
import collections
import os
import re
import shutil
import subprocess
import sys

from livelib import WAIT_S, Agent, Workload, check, count, equal, load, main, note, test, weight
from perfdatalib import COMM, MMAP2, PerfData

RUN = ['--sample-rate', '499', '--duration', '2s']
BOTH = ('--profile', '--offcpu')
OUTPUTS = ['--profile-output', 'p.pb.gz', '--offcpu-output', 'o.pb.gz', '--perf-data-output', 'x.data']


def capture(*args, modes=BOTH):
    r = Agent(*args, modes=modes).finish()
    equal(r.rc, 0, r)
    return r


def place(frame):
    m = frame.mapping
    if not m or not m.path or m.path == '[kernel]':
        return m.path if m else '', frame.address
    return m.path, frame.address - m.start + m.offset


def stacks_of_pprof(p):
    ret = collections.Counter()
    for s in p.samples:
        ret[s.pid, s.tid, s.comm, tuple(place(f) for f in s.frames)] += s.ns
    return ret


def stacks_of_data(samples):
    ret = collections.Counter()
    for s in samples:
        ret[s.pid, s.tid, s.comm, s.frames] += s.period
    return ret


def check_same(data, event, p):
    """Each sample of the profile is in the file, and what is lost is said."""
    samples = data.of(event)
    check(len(samples) + data.lost >= count(p.samples) >= len(samples), len(samples), data.lost, count(p.samples))
    if data.lost:
        note(f'{data.lost} samples lost on the way to the file: {len(samples)} of {count(p.samples)} are compared')
        check(len(samples) > count(p.samples) / 2, p.text())
        return
    got, want = stacks_of_data(samples), stacks_of_pprof(p)
    for key in list(got.keys() | want.keys()):
        equal(got[key], want[key], key)
    equal(sum(s.period for s in samples), weight(p.samples))


def check_file(data):
    cpus = os.sysconf('SC_NPROCESSORS_CONF')
    for s in data.samples:  # a blocked thread that is woken at once has no off-CPU time
        check(s.cpu < cpus and s.period >= (s.event == 'cpu-clock') and s.time > 0 and s.mode in (1, 2), s)
    wants = {'build_id', 'hostname', 'osrelease', 'arch', 'nrcpus', 'cmdline', 'event_desc', 'sample_time'}
    equal(wants - data.sections.keys(), set())
    check(data.records[COMM] > 0 and data.records[MMAP2] > 0, data.records)


@test
def both_events_have_the_stacks_of_both_profiles():
    w = Workload('demo', '--seconds', 60)
    r = capture(*RUN, '--pid', w.pid, *OUTPUTS)
    check('perf-agent: perf.data file written: x.data' in r.lines, r)
    data = PerfData('x.data')
    equal(set(data.events.values()), {'cpu-clock', 'offcpu-time'})
    check(len(data.of('cpu-clock')) > 100, data.records)
    check_file(data)
    check_same(data, 'cpu-clock', load('p.pb.gz'))
    check_same(data, 'offcpu-time', load('o.pb.gz'))
    # Samples of several threads, each with its name, at different times.
    check(len({s.tid for s in data.samples}) > 1 and all(s.comm for s in data.samples), data.samples[:5])
    times = [s.time for s in data.of('cpu-clock')]
    check(len(set(times)) > len(times) / 2, times[:5], times[-5:])


@test
def compressed_records_have_the_same_samples():
    if not shutil.which('perf'):
        return 'no perf (Debian package linux-perf)'
    w = Workload('demo', '--seconds', 60)
    capture(*RUN, '--pid', w.pid, *OUTPUTS, '--perf-data-compress', 'zstd')
    out = subprocess.run(['perf', 'script', '-i', 'x.data', '-F', 'event,tid,cpu,period', '-G'], stdin=subprocess.DEVNULL,
                         capture_output=True, text=True, timeout=WAIT_S, check=False, env={**os.environ, 'LC_ALL': 'C'})
    rows = re.findall(r'^\s*(\d+) \[(\d+)\]\s+(\d+)\s+(\S+?):\s*$', out.stdout, re.M)
    lost = re.search(r'Processed (\d+) samples and lost', out.stderr)
    for event, profile in (('cpu-clock', load('p.pb.gz')), ('offcpu-time', load('o.pb.gz'))):
        periods = [int(period) for _, _, period, name in rows if name == event]
        check(lost or (len(periods), sum(periods)) == (count(profile.samples), weight(profile.samples)), out.stderr, len(periods))
        check(len(periods) > count(profile.samples) / 2, out.stderr)
    sections = subprocess.run(['perf', 'report', '--header-only', '-i', 'x.data'], capture_output=True, text=True, check=True).stdout
    check('# compressed : Zstd, level = 1' in sections, sections)
    return None


@test
def autofdo_reads_it():
    if not shutil.which('create_llvm_prof') or not shutil.which('gcc'):
        return 'no create_llvm_prof (Debian package autofdo) or no gcc'
    with open('fdo.c', 'w', encoding='ascii') as f:
        f.write('volatile unsigned long x;\n'
                '__attribute__((noinline)) void spin_a(void)\n{\n\tfor (int i = 0; i < 200000; i++)\n\t\tx += i;\n}\n'
                '__attribute__((noinline)) void spin_b(void)\n{\n\tfor (int i = 0; i < 100000; i++)\n\t\tx += i;\n}\n'
                'int main(void)\n{\n\tfor (;;) {\n\t\tspin_a();\n\t\tspin_b();\n\t}\n}\n')
    # create_llvm_prof 0.19 does not read DWARF 5.
    subprocess.run(['gcc', '-O2', '-gdwarf-4', '-o', 'fdo', 'fdo.c'], check=True)
    capture(*RUN, '--profile-output', 'p.pb.gz', '--perf-data-output', 'x.data', '--', './fdo', modes=('--profile',))
    data, path = PerfData('x.data'), os.path.realpath('fdo')
    here = [s for s in data.samples if s.frames and s.frames[0][0] == path]
    check(len(here) > len(data.samples) / 2, data.records)
    r = subprocess.run(['create_llvm_prof', '--use_lbr=false', '--binary=fdo', '--profile=x.data', '--out=fdo.txt', '--format=text'],
                       capture_output=True, text=True, timeout=WAIT_S, check=False)
    equal(r.returncode, 0, r.stderr)
    with open('fdo.txt', encoding='ascii') as f:
        heads = {name: int(n) for name, n in re.findall(r'^(\w+):(\d+):', f.read(), re.M)}
    check(heads.get('spin_a', 0) > 0 and set(heads) <= {'spin_a', 'spin_b', 'main'}, heads, r.stderr)
    check(sum(heads.values()) <= len(here), heads, len(here))
    return None


sys.exit(main())
