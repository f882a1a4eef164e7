#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Files of perf record through our reader, against perf script.

usage: test-decode-perf.py DECODE_DRIVER WORKLOAD

perf records the workload in several ways. Each sample of perf script must be in our models: its event, thread, period
and addresses, and its names where both have one. Output is TAP.
"""

import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

from oraclelib import end, report, skip_all

driver, workload = sys.argv[1:]


def run(*argv, **kw):
    return subprocess.run(argv, capture_output=True, check=False, **kw)


def script(path):
    """Samples of perf script: (event, comm, pid, tid, period, ((address, name), …))."""
    got = run('perf', 'script', '--no-inline', '-F', 'comm,pid,tid,event,period,ip,sym', '-i', path, text=True,
              errors='replace')
    samples, head, frames = [], None, []
    for line in got.stdout.split('\n') + ['']:
        m = re.match(r'\s*(.*?)\s+(-?\d+)/(-?\d+)\s+(\d+)\s+(\S+?):(?:[a-zA-Z]*:)?\s*(?:([0-9a-f]+) (.*))?$', line)
        if m and not line.startswith('\t'):
            comm = '' if re.fullmatch(r':-?\d+', m[1]) else m[1]  # perf has no name either
            head = (m[5], comm, int(m[2]), int(m[3]), int(m[4]))
            if m[6]:  # without a call chain: on the same line
                samples.append((*head, ((int(m[6], 16), m[7]),)))
                head = None
        elif head and line.strip():
            ip, _, name = line.strip().partition(' ')
            frames.append((int(ip, 16), name))
        elif head:
            samples.append((*head, tuple(frames)))
            head, frames = None, []
    return samples


def ours(text, stacks):
    """The driver's samples: (event, comm, pid, tid, frames) -> (number, period)."""
    sums, event = collections.defaultdict(lambda: [0, 0]), None
    for line in text.split('\n'):
        tag, *fields = line.split('\t')
        if tag == 'comment' and fields[0].startswith('event: '):
            event = fields[0][7:]
        elif tag == 'sample':
            values = [int(v) for v in fields]
        elif tag == 'labels':
            labels = dict(f.split('=', 1) for f in fields)
        elif tag == 'stack':
            frames = [f.split(' ', 1) for f in fields]
            # perf script prints offsets in stacks, and addresses where it has none.
            frames = tuple((int(a.split('/')[stacks], 16), n.split('|')[-1]) for a, n in frames)
            s = sums[(event, labels.get('comm', ''), int(labels['pid']), int(labels['tid']), frames)]
            s[0] += values[0]
            s[1] += values[1]
    return sums


def totals(samples):
    """Number and period by event, name and thread."""
    sums = collections.defaultdict(lambda: [0, 0])
    for *key, n, period, _ in samples:
        s = sums[tuple(key)]
        s[0] += n
        s[1] += period
    return dict(sums)


def is_kernel(addr):
    return addr >> 63 == 1


def look_up(frames):
    """Addresses as we have them: of return addresses the byte before it."""
    addrs = [a for a, _ in frames]
    # Garbage on the stack, above user frames, may look like a kernel address.
    user = next((i for i, a in enumerate(addrs) if not is_kernel(a)), len(addrs))
    return tuple(a if i in (0, user) else max(a - 1, 0) for i, a in enumerate(addrs))


def unnamed(name):
    return name.startswith(('[unknown]', '0x')) or not name


def plain(name):
    """Without parameters, versions and clones: tools differ in them."""
    return re.sub(r'\(.*|@.*|\.(?:isra|part|cold|constprop|llvm).*| \[.*', '', name)


def wrong_comms(mine, want):
    """Threads whose name in our samples is another than in perf's. perf has read some names in /proc, so a thread that
    began meanwhile may have none."""
    theirs = collections.defaultdict(set)
    for _, comm, *thread, _, _, _ in want:
        theirs[tuple(thread)].add(comm)
    return {(comm, *thread) for _, comm, *thread, _, _, _ in mine
            if comm and comm not in theirs[tuple(thread)] | {''} and theirs[tuple(thread)] != {''}}


def compare(what, path, stacks=True, names=0.9, dwarf=False, system=False):
    got = run(driver, path, text=True, errors='replace')
    want = script(path)
    if not want:
        report(False, f'{what}: perf script has samples')
        return
    mine = ours(got.stdout, stacks)
    for line in got.stderr.splitlines():
        print('# ' + line)
    flat_want = [(e, c, p, t, 1, period, f) for e, c, p, t, period, f in want]
    flat_mine = [(*k[:4], *v, k[4]) for k, v in mine.items()]
    if system:
        wrong = wrong_comms(flat_mine, flat_want)
        report(not wrong, f'{what}: names of threads {wrong or ""}')
        flat_mine, flat_want = [[(e, '', *rest) for e, _, *rest in flat] for flat in (flat_mine, flat_want)]
    a, b = totals(flat_mine), totals(flat_want)
    report(a == b, f'{what}: number and period of {len(want)} samples by event and thread')
    if a != b:
        print('# only in ours:', {k: v for k, v in a.items() if b.get(k) != v})
        print('# only in perf:', {k: v for k, v in b.items() if a.get(k) != v})
    if dwarf:
        report('innermost user frame' in got.stderr, f'{what}: a note says that stacks are not unwound')
        return
    if system:  # files of other processes may be in other containers
        flat_mine, flat_want = [[s for s in flat if s[-1] and is_kernel(s[-1][0][0])] for flat in (flat_mine, flat_want)]
    else:
        a, b = collections.Counter(), collections.Counter()
        for *_, n, _, frames in flat_mine:
            a[tuple(addr for addr, _ in frames)] += n
        vdso = set()
        for *_, n, _, frames in flat_want:
            b[look_up(frames)] += n
            if any(name.startswith('__vdso_') for _, name in frames):
                vdso.add(look_up(frames))
        # perf prints offsets in the vDSO, which is no file; ours are absolute.
        same = set(b - a) <= vdso and sum((a - b).values()) == sum((b - a).values())
        report(same, f'{what}: the addresses of {len(b)} stacks')
        if not same:
            print('# only in ours:', [[hex(x) for x in s] for s in a - b][:3])
            print('# only in perf:', [[hex(x) for x in s] for s in b - a][:3])
    # Names of the leaf: its address is exact. Symbols at the same address have several names.
    a, b = collections.Counter(), collections.Counter()
    for *_, n, _, frames in flat_mine:
        if frames and not unnamed(frames[0][1]):
            a[plain(frames[0][1])] += n
    for *_, n, _, frames in flat_want:
        if frames and not unnamed(frames[0][1]):
            b[plain(frames[0][1])] += n
    same = sum((a & b).values())
    report(same >= names * sum(b.values()), f'{what}: {same} of {sum(b.values())} leaves have the name that perf gives')
    if same < sum(b.values()):
        print('# only in ours:', (a - b).most_common(5), 'only in perf:', (b - a).most_common(5))


if not shutil.which('perf'):
    skip_all('no perf')
with tempfile.TemporaryDirectory() as folder:
    os.environ['HOME'] = folder  # for perf's settings, and its cache of files

    def record(name, *args, command=(workload, '--seconds', '1')):
        path = os.path.join(folder, name)
        got = run('perf', 'record', '-q', *args, '-o', path, *command)
        if got.returncode != 0 or not os.path.getsize(path):
            print('# ' + got.stderr.decode(errors='replace').replace('\n', '\n# '))
            return None
        return path

    plain_file = record('plain', '-e', 'cpu-clock', '-F', '499', '-g')
    if not plain_file:
        skip_all('perf cannot record here')
    compare('-g', plain_file)
    flat = record('flat', '-e', 'cpu-clock', '-F', '499', '--buildid-mmap')
    if flat:
        compare('--buildid-mmap, without stacks', flat, stacks=False)
    two = record('two', '-e', 'cpu-clock,page-faults', '-F', '299', '-g', '-z')
    if two:
        compare('-z, two events', two)
    whole = record('whole', '-e', 'cpu-clock', '-F', '299', '-a', '-g', command=('sleep', '0.5'))
    if whole:
        compare('-a', whole, names=0.5, system=True)
    dwarf = record('dwarf', '-e', 'cpu-clock', '-F', '99', '--call-graph', 'dwarf,1024')
    if dwarf:
        compare('--call-graph dwarf', dwarf, dwarf=True)
    pipe = os.path.join(folder, 'pipe')
    # The workload itself writes to the same output: a program that does not is recorded.
    with open(pipe, 'wb') as f:
        made = subprocess.run(['perf', 'record', '-q', '-e', 'cpu-clock', '-F', '2999', '-g', '-o', '-', 'sh', '-c',
                               'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done'], stdout=f, stderr=subprocess.DEVNULL,
                              check=False)
    if made.returncode == 0:
        compare('a pipe', pipe, names=0.5)
    with open(plain_file, 'rb') as f:
        content = f.read()
    for n in (0, 7, 50, 103, 1000, len(content) // 2, len(content) - 1):
        cut = os.path.join(folder, 'cut')
        with open(cut, 'wb') as f:
            f.write(content[:n])
        got = run(driver, cut, text=True)
        report(got.returncode == 1 and cut in got.stderr, f'the first {n} bytes are refused: {got.stderr.strip()[-70:]}')
end()
