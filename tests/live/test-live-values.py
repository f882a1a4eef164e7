#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""--pid: totals against the threads' own clocks, and every field of the profile against the process itself."""
import sys

from livelib import (NS, Symbols, Workload, build_id, capture, capture_alongside, check, check_conserved, check_share,
                     check_total, count, equal, main, test, weight, within)

RUN_S = 40  # of a workload: longer than any test of this file, which ends it

ONE = ['spin_a', 'spin_pair', 'spin_run', 'main']
MORE = ['spin_a', 'spin_pair', 'spin_run', 'spin_thread']


def check_spin(rate, threads, seconds):
    w = Workload('spin', '--seconds', RUN_S, '--threads', threads)
    p, spent, window_ns, edges_ns = capture_alongside([w], seconds, '--pid', w.pid, '--sample-rate', rate)
    check_conserved(p)
    equal({s.pid for s in p.samples}, {w.pid})
    busy = {tid: ns for tid, ns in spent.items() if ns > window_ns // 100}
    equal(len(busy), threads, spent)
    for tid, ns in busy.items():
        mine = p.of(tid=tid)
        check_total(weight(mine), ns, window_ns, p.period, f'{rate} Hz, thread {tid}', p.text(), extra_ns=edges_ns)
        in_a = [s for s in mine if 'spin_a' in s.names]
        in_b = [s for s in mine if 'spin_b' in s.names]
        check_share(count(in_a), count(in_a) + count(in_b), 2 / 3, f'spin_a in thread {tid}')
    check({s.tid for s in p.samples} <= set(spent), 'samples of threads that are none of the process')
    want = MORE if threads > 1 else ONE
    user = [s for s in p.samples if s.user_names[:1] == ['spin_a']]
    right = [s for s in user if s.user_names[:4] == want]
    # Between a call and the new frame pointer a chain of frame pointers skips the caller: a few instructions.
    check(count(right) >= 0.99 * count(user), f'{count(right)} of {count(user)} samples of spin_a are {want}',
          *[s for s in user if s not in right][:5])


@test
def one_thread_at_99_hz_adds_up_to_its_clock():
    check_spin(99, 1, 5)


@test
def one_thread_at_999_hz_adds_up_to_its_clock():
    check_spin(999, 1, 3)


@test
def two_threads_at_99_hz_add_up_to_their_clocks():
    check_spin(99, 2, 6)


@test
def five_threads_at_999_hz_add_up_to_their_clocks():
    check_spin(999, 5, 4)


@test
def stacks_run_from_the_leaf_to_main():
    w = Workload('spin', '--seconds', RUN_S)
    p = capture('--pid', w.pid, '--duration', '1s', '--sample-rate', 999)
    user = [s for s in p.samples if not s.kernel]
    main_at = [s.names.index('main') for s in user if 'main' in s.names]
    check(count([s for s in user if 'main' in s.names]) >= 0.99 * count(user), 'main is missing in', *user[:5])
    within(max(main_at), 1, 5, 'callees of main: spin_run, spin_pair, spin_a, and the clock: of libc, and its vDSO')
    for s in user:
        below = [n for n in s.names if n in ('spin_a', 'spin_b', 'spin_pair', 'spin_run', 'main')]
        order = [('spin_a', 'spin_b'), ('spin_pair',), ('spin_run',), ('main',)]
        ranks = [next(i for i, names in enumerate(order) if n in names) for n in below]
        equal(ranks, sorted(set(ranks)), 'callees are before callers', s)


@test
def header_says_what_was_measured():
    w = Workload('spin', '--seconds', RUN_S)
    for rate in (99, 999):
        p = capture('--pid', w.pid, '--duration', '1s', '--sample-rate', rate, '--tag', 'a=b', '--tag', 'c=d e: f')
        equal(p.sample_types, [('samples', 'count'), ('cpu', 'nanoseconds')])
        equal(p.default_type, 'cpu')
        equal(p.period_type, ('cpu', 'nanoseconds'))
        within(p.period, NS // rate, NS // rate + 1)
        within(p.time_nanos, p.before_ns, p.after_ns, 'time_nanos lies in the run')
        within(p.duration_nanos, NS, p.after_ns - p.time_nanos, 'duration_nanos')
        equal(p.raw_comments[:2], ['a=b', 'c=d e: f'], 'tags come first')
        equal(len(p.raw_comments), 3, 'and one comment has the rest', p.raw_comments)
        equal(p.comment_lines[2].split(': ')[0], 'perf-agent')
        equal(p.comments['sample_rate_hz'], str(rate))
        equal(p.comments['event'], 'software/cpu-clock')
        equal(p.comments['target'], f'pid {w.pid} (spin)')
        within(float(p.comments['duration_s']) * NS, p.duration_nanos - NS // 1000, p.duration_nanos + NS // 1000)
        check_conserved(p)
        check(p.samples, p.text())


@test
def every_sample_has_pid_tid_and_comm():
    w = Workload('spin', '--seconds', RUN_S, '--threads', 2)
    p = capture('--pid', w.pid, '--duration', '1s', '--sample-rate', 999)
    tids = set(w.clocks())
    for s in p.samples:
        equal(set(s.labels), {'pid', 'tid', 'comm'}, s)
        equal(s.pid, w.pid)
        check(s.tid in tids, f'tid {s.tid} is none of {tids}')
        with open(f'/proc/{w.pid}/task/{s.tid}/comm', encoding='ascii') as f:
            equal(s.comm, f.read().strip())
    check({'spin-0', 'spin-1'} <= {s.comm for s in p.samples}, p.samples[:3])


def maps_of(pid):
    ret = set()
    with open(f'/proc/{pid}/maps', encoding='utf-8') as f:
        for line in f:
            parts = line.rstrip('\n').split(None, 5)
            start, limit = (int(x, 16) for x in parts[0].split('-'))
            ret.add((start, limit, int(parts[2], 16), parts[5] if len(parts) > 5 else ''))
    return ret


@test
def mappings_are_those_of_the_process():
    w = Workload('spin', '--seconds', RUN_S)
    p = capture('--pid', w.pid, '--duration', '2s', '--sample-rate', 999)
    maps = maps_of(w.pid)
    first = p.mappings[0]
    equal(first.path, w.path, p.mappings)
    equal(first.build_id, build_id(w.path))
    equal([m.id for m in p.mappings], list(range(1, len(p.mappings) + 1)))
    for m in p.mappings:
        check(m.start < m.limit, m)
        if m.path != '[kernel]':
            check((m.start, m.limit, m.offset, m.path) in maps, m, *sorted(maps))
        if m.path.startswith('/'):
            equal(m.build_id, build_id(m.path), m)
    for f in p.frames.values():
        if f.mapping:
            check(f.mapping.start <= f.address < f.mapping.limit, f, f.mapping)
    check(any(m.path == '[kernel]' for m in p.mappings), 'no kernel frame in', p.mappings)


@test
def flags_of_mappings_are_true():
    w = Workload('spin', '--seconds', RUN_S)
    p = capture('--pid', w.pid, '--duration', '1s', '--sample-rate', 999)
    for m in p.mappings:
        frames = [f for f in p.frames.values() if f.mapping is m]
        equal(m.has_functions, any(f.named for f in frames), m, *frames)
        equal(m.has_filenames, any(fn.file for f in frames for fn in f.functions), m, *frames)
        equal(m.has_line_numbers, any(any(f.lines) for f in frames), m, *frames)
        equal(m.has_inline_frames, any(len(f.functions) > 1 for f in frames), m, *frames)
    check(p.mappings[0].has_functions, p.mappings[0])


@test
def names_are_those_of_nm():
    for name in ('spin', 'syscalls', 'chain'):
        w = Workload(name, '--seconds', RUN_S)
        p = capture('--pid', w.pid, '--duration', '1s', '--sample-rate', 1999)
        w.stop()
        symbols = Symbols(w.path)
        seen = 0
        for f in p.frames.values():
            if not f.mapping or f.mapping.path != w.path:
                continue
            want = symbols.at(f.address - f.mapping.start + f.mapping.offset)
            seen += 1
            if f.named:
                check(f.name in want, f, f'nm: {want}')
            else:
                check(not want, f, f'nm: {want}')
        within(seen, 4, 10000, f'locations of {name}')


@test
def what_the_target_forks_is_not_part_of_it():
    w = Workload('forks', '--seconds', RUN_S, '--child-ms', 20)
    p = capture('--pid', w.pid, '--duration', '1s', '--sample-rate', 999)
    check_conserved(p)
    check({s.pid for s in p.samples} <= {w.pid}, p.samples[:5])
    check(not any('child_work' in s.names for s in p.samples), p.samples[:5])


if __name__ == '__main__':
    sys.exit(main())
