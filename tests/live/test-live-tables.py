#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Loads that are hard on the tables of unwinding and of mappings: very many mappings and
processes, a budget that is too small,
files that change, are damaged or hostile, places that are mapped again. Never fatal, counted, and the rest stays right.

The programs publish their stacks (tests/workloads/shapes/tables.c). In most tests half of a program's time is spent in
its own frames, which must be complete whatever is wrong with the libraries of the other half.
"""
import os
import random
import re
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import time

import livelib
from livelib import (NS, WAIT_S, Agent, Workload, check, check_conserved, count, equal, load, main, note, test, tool,
                     workload)

RUN_S = 60        # of a program: longer than its test, which ends it
RATE_HZ = 2999    # of one process: on a busy machine it gets few of them
ALL_HZ = 999      # of the whole machine
ENOUGH = 50       # samples without which a test says nothing
SHARE = 0.99      # of samples that must show their chain: page faults and interrupts hit programs anywhere
ALL_SHARE = 0.9   # with -a, which scans all processes while it samples: early stacks may be heuristic
LATE_SHARE = 0.05 # of samples whose mapping came up to a drain interval before
MAPPINGS = 60000  # fewer where the sysctl vm.max_map_count allows fewer
PROCESSES = 5000
# Resident memory with that many: 64 MiB of deferred samples that wait for their process and 20 MiB of events are the most.
AGENT_KB = 128 * 1024
OWN = ['shape_spin', 'half_inner', 'half_own', 'half_work', 'shape_run', 'main']


# ---- programs and profiles ------------------------------------------------------------------------------------------

def lib(name='libshape.so'):
    return workload[name]


def copy_of(path, name):
    shutil.copy(path, name)
    return os.path.abspath(name)


def entry(path, symbol='plug_outer'):
    """PATH=HEX for the shapes that map code themselves: the file offset of a function."""
    value = next(int(line.split()[0], 16) for line in tool('nm', path).splitlines() if line.endswith(f' T {symbol}'))
    for line in tool('readelf', '-lW', path).splitlines():
        found = re.match(r'\s+LOAD\s+(0x\w+)\s+(0x\w+)\s+0x\w+\s+(0x\w+)', line)
        if found:
            offset, vaddr, size = (int(x, 16) for x in found.groups())
            if vaddr <= value < vaddr + size:
                return f'{path}={value - vaddr + offset:x}'
    raise AssertionError(f'{path}: no segment holds {symbol}')


class Program(Workload):
    def __init__(self, shape, *files, path=None, preload=(), **env):
        words = [f'SHAPE_{k.upper()}={v}' for k, v in env.items()]
        if preload:
            words.append('LD_PRELOAD=' + ':'.join(preload))
        super().__init__('shape-tables', '--shape', shape, '--seconds', RUN_S, '--file', ':'.join(files),
                         path=path or workload['shape-tables'], prefix=('env', *words))
        self.said = self.line()
        self.chains = self.said['chains']


def shows(s, chain, root='_start'):
    """The sample's user stack is this chain, less functions that are not called yet or have returned, to the root."""
    names = s.user_names
    for i, name in enumerate(names[:12]):
        if name in chain:
            rest = chain[chain.index(name):]
            part = names[i:i + len(rest)]
            return len(part) == len(rest) and all(want in ('?', got) for want, got in zip(rest, part)) and \
                names[-1] == root and not any(f.synthetic for f in s.frames)
    return False


def bad(samples, chains):
    return [s for s in samples if not any(shows(s, chain) for chain in chains)]


def check_chains(p, samples, chains, share=SHARE, early=True):
    """Samples before a table, and over the quota of deferred samples, are heuristic and say so: they may be incomplete."""
    wrong = bad(samples, chains)
    room = float(p.comments.get('walk_no_table_yet_pct', 0)) / 100 if early else 0
    check(count(samples) >= ENOUGH, f'{count(samples)} samples', p.text())
    check(room <= 0.1, p.text())
    check(count(wrong) <= (1 - share + room) * count(samples) + 1, f'{count(wrong)} of {count(samples)} samples',
          *sorted(wrong, key=lambda s: -s.count)[:6], p.text())


def profile(w, *args, seconds='1s', while_running=None):
    """A capture of one program, which must be a good one; while_running(agent) is called alongside it."""
    agent = Agent('--profile-output', 'p.pb.gz', '--pid', w.pid, '--duration', seconds, '--sample-rate', RATE_HZ, *args)
    if while_running:
        while_running(agent.wait_started())
    r = agent.finish()
    equal(r.rc, 0, r)
    p = load('p.pb.gz')
    p.result = r
    check_conserved(p)
    return p


def check_all(p, w):
    """The program's samples of a capture of the whole machine."""
    mine = p.of(pid=w.pid)
    wrong = count(bad(mine, w.chains))
    note(f'{wrong} of {count(mine)} samples without their chain')
    check_chains(p, mine, w.chains, share=ALL_SHARE, early=False)


def check_rest(p, libraries):
    """Each sample without a frame of these libraries shows the program's own chain; as much as half of them do."""
    names = {os.path.basename(path) for path in libraries}
    rest = [s for s in p.samples if not any(f.mapping and os.path.basename(f.mapping.path) in names for f in s.user)]
    check_chains(p, rest, [OWN, ['half_call', *OWN[3:]]])
    check(count(rest) >= 0.3 * count(p.samples), f'{count(rest)} of {count(p.samples)}', p.text())


def peak_kb(agent):
    """The most memory that it had resident, until it ends."""
    peak = 0
    while agent.p.poll() is None:
        try:
            with open(f'/proc/{agent.pid}/status', encoding='ascii', errors='replace') as f:
                peak = max([peak, *(int(n) for n in re.findall(r'^VmHWM:\s*(\d+)', f.read(), re.M))])
        except OSError:
            break
        try:
            agent.p.wait(0.1)
        except subprocess.TimeoutExpired:
            pass
    return peak


# ---- very many ------------------------------------------------------------------------------------------------------

def mappings():
    with open('/proc/sys/vm/max_map_count', encoding='ascii') as f:
        n = min(MAPPINGS, int(f.read()) - 1000)
    if n < MAPPINGS:
        note(f'vm.max_map_count allows {n} mappings')
    return n


@test
def code_in_60000_mappings_is_unwound():
    w = Program('many', entry(lib()), count=mappings())
    p = profile(w)
    equal(p.number('process_map_full'), 0, p.text())
    equal(p.number('mappings_over_limit'), 0, p.text())
    check_chains(p, p.samples, w.chains)


@test
def code_in_60000_mappings_is_unwound_alongside_the_whole_machine():
    w = Program('many', entry(lib()), count=mappings())
    r = Agent('--profile-output', 'p.pb.gz', '-a', '--duration', '3s', '--sample-rate', ALL_HZ).finish()
    equal(r.rc, 0, r)
    p = load('p.pb.gz')
    check_conserved(p)
    check_all(p, w)


def check_late_mappings(cnt, lost_share):
    """A program that maps so many places while it is sampled. Wrong at most: LATE_SHARE where nothing was lost, lost_share
    where the profile says that something was. All of them are called incomplete or heuristic."""
    w = Program('many', entry(lib()), count=cnt, late=1)
    p = profile(w, seconds='2s')
    wrong = bad(p.samples, w.chains)
    said = {k: v for k, v in p.comments.items() if k in ('process_map_full', 'sideband_lost', 'process_queue_full')}
    note(f'{count(wrong)} of {count(p.samples)} samples without their chain; said: {said}')
    share = lost_share if said else LATE_SHARE
    check(count(wrong) <= share * count(p.samples), f'bound {share}', *wrong[:5], p.text())
    called = 100 - float(p.comments['complete_stacks_pct']) + float(p.comments['heuristic_stacks_pct'])
    check(count(wrong) <= (called / 100 + 0.01) * count(p.samples) + 1, *wrong[:5], p.text())


@test
def mappings_that_come_while_sampled_are_followed():
    # Known up to a drain interval later; after a loss all is read again, at most once a second.
    check_late_mappings(3000, 0.25)


@test
def more_mappings_than_the_process_map_holds_are_said():
    # Every mapping can be one that the map has no room for; what is said and called incomplete is all that is asked.
    check_late_mappings(mappings(), 1)


@test
def stacks_among_5000_processes_are_complete():
    w = Program('sleepers', lib(), count=PROCESSES)
    n = w.said['sleepers']
    note(f'{n} processes')
    check(n >= 500, 'too few for this test')
    # All are looked at while it samples already: on a machine that others use that takes its time.
    agent = Agent('--profile-output', 'p.pb.gz', '-a', '--duration', '7s', '--sample-rate', ALL_HZ).wait_started()
    time.sleep(4)
    os.kill(w.pid, signal.SIGUSR1)
    peak = peak_kb(agent)
    r = agent.finish()
    equal(r.rc, 0, r)
    p = load('p.pb.gz')
    check_conserved(p)
    note(f'perf-agent: {peak} kB resident')
    check(0 < peak <= AGENT_KB or not is_plain(), f'{peak} kB', p.text())
    equal(p.number('process_map_full'), 0, p.text())
    mine = p.of(pid=w.pid)
    late = [s for s in mine if 'sleepers_late' in s.names]
    early = [s for s in mine if s not in late]
    note(f'{count(bad(early, w.chains))} of {count(early)} samples of the first 4 s without their chain')
    # A stack without its chain has no sleepers_late either: there must be no more of them than the beginning can have.
    check(count(late) >= ENOUGH, p.text())
    check_chains(p, late, w.chains, early=False)
    check(count(bad(early, w.chains)) <= 0.6 * count(mine), *bad(early, w.chains)[:5], p.text())


LARGE = ('libLLVM', 'libclang-cpp', 'libcrypto', 'libstdc++', 'libpython', 'libgnutls', 'libglib', 'libssl',
         'libsqlite3', 'libxml2', 'libicui18n', 'libdw', 'libcurl', 'libgfortran', 'libbfd', 'libc.so', 'libm.so')


def large_libraries():
    found = {}
    for line in tool('ldconfig' if shutil.which('ldconfig') else '/sbin/ldconfig', '-p').splitlines():
        path = line.split('=> ')[-1].strip()
        name = os.path.basename(path)
        if '=> ' in line and ('64' in line or 'AArch64' in line) and os.path.exists(path) and \
                any(name.startswith(x) for x in LARGE):
            found.setdefault(os.path.realpath(path), path)
    return list(found.values())


@test
def budget_of_1M_evicts_and_says_so():
    """Tables of the target alone, which maps far more than the budget. A table that is built before it is
    sampled pushes out nothing; what it
    needs then may, and its own tables are there in the end."""
    large = large_libraries()
    w = Program('half', lib(), preload=large)
    p = profile(w, '--unwind', 'dwarf', '--table-budget', '1M', seconds='3s')
    note(f"{len(large)} libraries; {p.number('tables_evicted')} tables evicted, {p.number('tables_refused')} refused")
    check(any('exceed the table budget' in line for line in p.result.lines), p.result)
    wrong = bad(p.samples, w.chains)
    note(f'{count(wrong)} of {count(p.samples)} samples without their chain')
    check_chains(p, p.samples, w.chains, share=0.6, early=False)
    # The whole machine: more than a megabyte is needed at once.
    p = profile(w, '--unwind', 'auto', '--table-budget', '1M', seconds='3s')
    check_chains(p, p.samples, w.chains, share=0.6, early=False)


# ---- files that change ----------------------------------------------------------------------------------------------

def section(path, name):
    """Offset and size of a section, and where its header lies."""
    with open(path, 'rb') as f:
        data = f.read()
    start_at, = struct.unpack_from('<Q', data, 40)
    size, n, names = struct.unpack_from('<HHH', data, 58)
    text = struct.unpack_from('<Q', data, start_at + names * size + 24)[0]
    for i in range(n):
        at = start_at + i * size
        word, = struct.unpack_from('<I', data, at)
        if data[text + word:data.index(b'\0', text + word)].decode() == name:
            return (*struct.unpack_from('<QQ', data, at + 24), at)
    raise AssertionError(f'{path}: no {name}')


def cut(path, name='.eh_frame'):
    with open(path, 'r+b') as f:
        f.truncate(section(path, name)[0] + 12)


def scribble(path):
    """Over all but its code: as cp onto a file in use does for a moment."""
    at, size, _ = section(path, '.eh_frame')
    with open(path, 'r+b') as f:
        f.seek(at)
        f.write(b'\xff' * size)
        f.seek(24)
        f.write(b'\xff' * 40)


def swap_by_rename(path):
    shutil.copy(lib('libtwin.so'), path + '.new')
    os.rename(path + '.new', path)


@test
def files_that_change_while_they_are_mapped():
    for how in ('auto', 'dwarf'):
        changes = [cut, scribble, swap_by_rename, os.unlink]
        files = [copy_of(lib(), f'libchange-{how}-{i}.so') for i in range(2 * len(changes))]
        w = Program('raw', *[entry(f) for f in files])
        for change, path in zip(changes, files):
            change(path)

        def alongside(_, changes=changes, files=files):
            for change, path in zip(changes, files[len(changes):]):
                change(path)
        p = profile(w, '--unwind', how, while_running=alongside)
        check_rest(p, files)
        # A file whose name is gone or names another one is read all the same: its inode is mapped.
        kept = {os.path.basename(f) for f in (files[2], files[3])}
        mine = [s for s in p.samples if any(f.mapping and os.path.basename(f.mapping.path) in kept for f in s.user)]
        check(not bad(mine, w.chains) or count(bad(mine, w.chains)) <= 0.02 * count(mine) + 1, *bad(mine, w.chains)[:5],
              p.text())
        w.stop()


def in_place_of(path, make):
    os.unlink(path)
    make(path)


def make_socket(path):
    s = socket.socket(socket.AF_UNIX)
    s.bind(os.path.relpath(path))
    s.close()


@test
def what_is_no_file_in_place_of_a_library_never_blocks():
    kinds = [os.mkfifo, os.mkdir, make_socket, lambda path: os.symlink('/dev/zero', path),
             lambda path: os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(5, 0)), lambda path: os.symlink(path, path)]
    files = [copy_of(lib(), f'libplace{i}.so') for i in range(len(kinds))]
    w = Program('half', *files)
    for make, path in zip(kinds, files):
        try:
            in_place_of(path, make)
        except PermissionError as e:
            note(f'{path}: {e}')
    for how in ('auto', 'dwarf'):
        check_chains(*(lambda p: (p, p.samples))(profile(w, '--unwind', how)), w.chains)
    r = subprocess.run([livelib.perf_agent, 'unwind-info', files[0]], stdin=subprocess.DEVNULL, capture_output=True,
                       timeout=WAIT_S, check=False)
    check(r.returncode not in (0, None) and r.returncode > 0, r)


# ---- files that are damaged or hostile ------------------------------------------------------------------------------

@test
def damaged_call_frame_information_costs_that_library():
    chance = random.Random(4)
    files = []
    for i in range(20):
        path = copy_of(lib(), f'libdamaged{i:02}.so')
        at, size, _ = section(path, '.eh_frame')
        with open(path, 'r+b') as f:
            f.seek(at + chance.randrange(size))
            f.write(bytes([chance.randrange(256)]))
        files.append(path)
    w = Program('half', *files)
    for how in ('auto', 'dwarf'):
        p = profile(w, '--unwind', how)
        check_rest(p, files)


def text_of(path):
    """Address and bytes of the executable segment."""
    for line in tool('readelf', '-lW', path).splitlines():
        found = re.match(r'\s+LOAD\s+0x\w+\s+(0x\w+)\s+0x\w+\s+(0x\w+)\s+0x\w+\s+R E', line)
        if found:
            return int(found[1], 16), int(found[2], 16)
    raise AssertionError(f'{path}: no code')


def uleb(n):
    ret = b''
    while True:
        ret += bytes([(n & 0x7f) | (0x80 if n > 0x7f else 0)])
        n >>= 7
        if not n:
            return ret


def cie(instructions=b'\x0c\x07\x08\x90\x01', augmentation=b'\0', more=b''):
    body = struct.pack('<IB', 0, 1) + augmentation + b'\x01\x78\x10' + more + instructions
    body += b'\0' * (-(len(body) + 4) % 8)
    return struct.pack('<I', len(body)) + body


def fde(at, first, size, instructions=b''):
    """At this offset after the CIE, which is the first entry."""
    body = struct.pack('<IQQ', at + 4, first, size) + instructions
    body += b'\0' * (-(len(body) + 4) % 8)
    return struct.pack('<I', len(body)) + body


def entries(head, *rest):
    data = head
    for first, size, instructions in rest:
        data += fde(len(data), first, size, instructions)
    return data + b'\0\0\0\0'


def expression(ops):
    return b'\x0f' + uleb(len(ops)) + ops


def million(first, size):
    """FDEs over the same code, all different."""
    head = cie()
    data = bytearray(head)
    for i in range(1_000_000):
        data += struct.pack('<IIQQ', 20, len(data) + 4, first, size)
    return bytes(data) + b'\0\0\0\0'


HOSTILE_AT = 0x100000  # where it is mapped
HOSTILE_KB = 256 * 1024  # resident memory of perf-agent with files of some 50 MB in work


def hostile_frames(text, size):
    """{name: .eh_frame} about code at an address."""
    return {
        'augmentation': entries(cie(augmentation=b'zR\0', more=uleb(1 << 62)), (text, size, b'')),
        'fde-augmentation': entries(cie(augmentation=b'zR\0', more=b'\x01\0'), (text, size, uleb((1 << 63) - 1))),
        'circle': entries(cie(), (text, size, expression(b'\x77\x00\x2f\xfd\xff'))),
        'circle-branch': entries(cie(), (text, size, expression(b'\x77\x00\x12\x28\xfc\xff'))),
        'long': entries(cie(), (text, size, expression(b'\x77\x00' + b'\x96' * (1 << 20)))),
        'pushes': entries(cie(), (text, size, expression(b'\x31' * 100_000))),
        'beyond-its-block': entries(cie(), (text, size, b'\x0f' + uleb(1 << 40))),
        'everything': entries(cie(), (0, (1 << 64) - 1, b'')),
        'half-of-it': entries(cie(), (0, 1 << 63, b''), (text, size, b'')),
        'wraps': entries(cie(), ((1 << 64) - 16, 1 << 20, b'')),
        'caches': entries(cie(), (text, size, b'\x0a' * 1_000_000)),
        'restores': entries(cie(), (text, size, b'\x0b' * 1000)),
        'advances': entries(cie(), (text, size, b'\x41\x0e\x10\x41\x0e\x18' * 500_000)),
        'length': struct.pack('<I', 0xffffffff) + struct.pack('<Q', (1 << 64) - 1) + b'\0' * 64,
        'itself': struct.pack('<II', 20, 0xfffffff0) + b'\0' * 64,
        'million': million(text, size),
    }


def hostile(name, blob):
    """A copy of the library whose .eh_frame is what was added after its end, in a segment that takes the place of the
    last program header, PT_GNU_RELRO."""
    path = copy_of(lib(), f'libhostile-{name}.so')
    *_, header = section(path, '.eh_frame')
    with open(path, 'r+b') as f:
        head = f.read(64)
        table, = struct.unpack_from('<Q', head, 32)
        each, n = struct.unpack_from('<HH', head, 54)
        f.seek(table + (n - 1) * each)
        equal(struct.unpack('<I', f.read(4))[0], 0x6474e552, 'PT_GNU_RELRO is not the last one')
        end = -(-f.seek(0, os.SEEK_END) // 4096) * 4096
        f.seek(end)
        f.write(blob)
        f.seek(header + 16)
        f.write(struct.pack('<QQQ', HOSTILE_AT, end, len(blob)))
        f.seek(table + (n - 1) * each)
        f.write(struct.pack('<IIQQQQQQ', 1, 4, end, HOSTILE_AT, HOSTILE_AT, len(blob), len(blob), 4096))
    return path


LIMIT = ['prlimit', '--as=1500000000']


def is_plain():
    """With sanitizers memory is what they take, and an address space has no bounds."""
    return subprocess.run([*LIMIT, livelib.perf_agent, '--version'], stdin=subprocess.DEVNULL, capture_output=True,
                          check=False).returncode == 0


@test
def hostile_call_frame_information_is_bounded():
    limit = LIMIT if is_plain() else []
    files = [hostile(name, blob) for name, blob in hostile_frames(*text_of(lib())).items()]
    for path in files:
        r = subprocess.run([*limit, livelib.perf_agent, 'unwind-info', path], capture_output=True,
                           stdin=subprocess.DEVNULL, timeout=WAIT_S, check=False, text=True)
        reported = ' '.join(r.stdout.split('\n')[1:3]) if r.returncode == 0 else r.stderr.strip()
        note(f'{os.path.basename(path)}: rc {r.returncode}, {reported}')
        check(r.returncode in (0, 1), path, r)
    w = Program('half', *files)
    for how in ('auto', 'dwarf'):
        agent = Agent('--profile-output', 'p.pb.gz', '--pid', w.pid, '--duration', '1s', '--sample-rate', RATE_HZ,
                      '--unwind', how)
        peak = peak_kb(agent)
        r = agent.finish()
        equal(r.rc, 0, r)
        p = load('p.pb.gz')
        check_conserved(p)
        note(f'{how}: {peak} kB resident')
        check(0 < peak <= HOSTILE_KB or not limit, f'{peak} kB', p.text())
        check(p.number('table_bad_entries') + p.number('tables_failed') + p.number('table_rules_refused') > 0, p.text())
        check_rest(p, files)


@test
def code_of_another_processor_is_walked_by_heuristics():
    """Their headers say so, whatever the code is; and files with plain bytes, which are no ELF."""
    files = []
    for i, (at, value) in enumerate(((18, b'\xb7\0'), (18, b'\xf3\0'), (4, b'\x01'), (5, b'\x02'))):
        path = copy_of(lib(), f'libforeign{i}.so')
        files.append(entry(path))
        with open(path, 'r+b') as f:
            f.seek(at)
            f.write(value)
    w = Program('raw', *files)
    for how in ('auto', 'dwarf'):
        p = profile(w, '--unwind', how)
        check_rest(p, [f.split('=')[0] for f in files])
        equal([s for s in p.samples if not s.user], [], p.text())


# ---- places that are mapped again -----------------------------------------------------------------------------------

ROUND_S = 0.5   # for so long each code of a place runs
LATENCY_S = 0.1  # longest time from a mapping to the next drain …
SLACK_S = 0.1    # … and until what it brings is published, on a machine that others use


def rounds(p):
    """How often the code of a place changed, at most."""
    return p.duration_nanos / NS / ROUND_S + 1


def check_stale(p, w, stale):
    """Weight is the clock: what is wrong after a change is not wrong for longer than a drain takes. One thread runs, so
    a second of its samples is at most a second."""
    broken = bad(p.samples, w.chains)
    each_ms = [1000 * sum(s.ns for s in part) / NS / rounds(p) for part in (stale, broken)]
    note(f'{each_ms[0]:.2f} ms with the file of before, {each_ms[1]:.2f} ms without the whole chain, after each of '
         f'{rounds(p):.0f} changes')
    both = stale + [s for s in broken if s not in stale]
    check(sum(s.ns for s in both) / NS <= rounds(p) * (LATENCY_S + SLACK_S), *broken[:6], p.text())
    check(count(both) <= 0.5 * count(p.samples), *broken[:6], p.text())


@test
def replaced_range_is_never_stale_for_longer_than_a_drain():
    w = Program('swap', entry(lib()), entry(lib('libtwin.so'), 'twin_outer'))
    p = profile(w, seconds='4s')
    wrong = {'swap_a': 'libtwin.so', 'swap_b': 'libshape.so'}
    stale = [s for s in p.samples for caller, file in wrong.items()
             if caller in s.names and any(f.mapping and os.path.basename(f.mapping.path) == file for f in s.user)]
    check_stale(p, w, stale)
    check(any('twin_outer' in s.names for s in p.samples) and any('plug_outer' in s.names for s in p.samples), p.text())


@test
def jit_code_in_place_of_a_library_is_jit_code():
    w = Program('reuse', entry(lib()))
    p = profile(w, seconds='4s')
    stale = [s for s in p.samples if 'reuse_jit' in s.names
             and any(f.mapping and os.path.basename(f.mapping.path) == 'libshape.so' for f in s.user)]
    check_stale(p, w, stale)
    check(any('[jit]' in (f.mapping.path if f.mapping else '') for s in p.samples for f in s.user), p.text())


# ---- programs that have no path here --------------------------------------------------------------------------------

@test
def program_of_another_mount_namespace_is_unwound():
    if not shutil.which('unshare'):
        return 'no unshare'
    os.mkdir('mnt')
    script = ('mount -t tmpfs none mnt && cp "$0" mnt/prog && cp "$1" mnt/libother.so && '
              'exec mnt/prog --shape half --seconds 60 --file mnt/libother.so')
    tried = subprocess.run(['unshare', '-m', 'mount', '-t', 'tmpfs', 'none', 'mnt'], capture_output=True, check=False)
    if tried.returncode:
        return 'no mount namespace: ' + tried.stderr.decode().strip().split('\n')[0]
    w = Workload('unshare', '-m', 'sh', '-c', script, workload['shape-tables'], lib(), path=shutil.which('unshare'))
    chains = w.line()['chains']
    check(not os.path.exists('mnt/prog'), 'it is visible here')
    for how in ('auto', 'dwarf'):
        p = profile(w, '--unwind', how)
        check_chains(p, p.samples, chains)
    return None


MEMFD = '''
import os, sys
fd = os.memfd_create("program", 0)
os.write(fd, open(sys.argv[1], "rb").read())
os.execv(f"/proc/self/fd/{fd}", ["program", *sys.argv[2:]])
'''


@test
def program_that_is_in_memory_only_is_unwound():
    w = Workload('memfd', '-c', MEMFD, workload['shape-tables'], '--shape', 'half', '--seconds', RUN_S, '--file', lib(),
                 path='/usr/bin/python3')
    chains = w.line()['chains']
    for how in ('auto', 'dwarf'):
        p = profile(w, '--unwind', how)
        check_chains(p, p.samples, chains)
        check(any('memfd:program' in m.path for m in p.mappings), *p.mappings)


if __name__ == '__main__':
    sys.exit(main())
