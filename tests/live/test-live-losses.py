#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Nothing is lost in silence: seen = in the profile + dropped, exactly, also where rings and tables are far too small."""
import re
import sys

from livelib import (Workload, capture, capture_alongside, check, check_conserved, check_total, count, equal, main, note, test,
                     weight, within)

RUN_S = 40  # of a workload: longer than any test of this file, which ends it


def lost(p):
    return [s for s in p.samples if '[stack lost]' in s.names]


@test
def sum_holds_in_a_normal_run():
    for args in (('-a',), None):
        w = Workload('spin', '--seconds', RUN_S, '--threads', 3)
        p = capture(*(args or ('--pid', w.pid)), '--duration', '2s', '--sample-rate', 999)
        w.stop()
        check_conserved(p)
        check(p.samples, p.text())
        equal([k for k in p.comments if k.startswith('dropped_') and k != 'dropped_agent'], [])
        equal(lost(p), [])
        equal(float(p.comments['lost_stacks_pct']), 0)


@test
def sum_holds_when_the_ring_takes_few_stacks():
    # Every turn another stack: 4 KiB hold some ten of them at a time.
    w = Workload('demo', '--seconds', RUN_S)
    storm = Workload('syscalls', '--seconds', RUN_S, '--cheap')
    p = capture('-a', '--duration', '3s', '--sample-rate', 9999, '--test-ring-bytes', 4096)
    w.stop()
    storm.stop()
    check_conserved(p)
    gone = lost(p)
    note(f'{count(gone)} of {count(p.samples)} samples lost their stack')
    within(float(p.comments['lost_stacks_pct']), 100 * weight(gone) / weight(p.samples) - 0.01,
           100 * weight(gone) / weight(p.samples) + 0.01, p.text())
    shown = re.search(r'\n  ([<>]?)([0-9.]+) % of the time lost its stack', repr(p.result))
    equal(bool(shown), float(p.comments['lost_stacks_pct']) > 0, p.result)
    if not shown:
        return
    # In whole percents, or in tenths of 1,000 samples and more; "<0.1" and ">99.9" where these would be 0 and 100.
    half = 0.5 if p.number('samples_in_profile') < 1000 else 0.05
    low, high = {'<': (0, float(shown[2])), '>': (float(shown[2]), 100),
                 '': (float(shown[2]) - half - 0.01, float(shown[2]) + half + 0.01)}[shown[1]]
    within(float(p.comments['lost_stacks_pct']), low, high, p.result)


@test
def stack_that_never_fits_is_lost_with_its_weight():
    # 512 frames of 8 bytes and a header are more than a ring of 4 KiB, so no such stack ever comes through.
    w = Workload('chain', '--seconds', RUN_S, '--depth', 2000)
    p, spent, window_ns, edges_ns = capture_alongside([w], 2, '--pid', w.pid, '--sample-rate', 999, '--unwind', 'fp',
                                                  '--test-ring-bytes', 4096)
    check_conserved(p)
    gone = lost(p)
    check(count(gone) >= 0.98 * count(p.samples), f'{count(gone)} of {count(p.samples)}', *p.samples[:5])
    check_total(weight(p.samples), spent[w.pid], window_ns, p.period, 'with [stack lost]', p.text(), extra_ns=edges_ns)
    within(float(p.comments['lost_stacks_pct']), 98, 100, p.text())
    for s in gone:
        equal((s.pid, s.tid, s.comm), (w.pid, w.pid, 'chain'), 'what is known of it stays')
        equal(s.names[-1], '[stack lost]')


@test
def sum_holds_when_the_table_of_counts_is_full():
    w = Workload('demo', '--seconds', RUN_S)
    p = capture('-a', '--duration', '3s', '--sample-rate', 4999, '--test-count-entries', 16)
    w.stop()
    check_conserved(p)
    check(p.number('dropped_counts_full') > 0, p.text())
    check(p.number('samples_in_profile') > 0, p.text())
    check(any('dropped' in line and ' 0 dropped' not in line for line in p.result.lines), p.result)
    # One process alone.
    w = Workload('spin', '--seconds', RUN_S, '--threads', 40)
    p = capture('--pid', w.pid, '--duration', '2s', '--sample-rate', 4999, '--test-count-entries', 16)
    check_conserved(p)
    check(p.number('dropped_counts_full') > 0, p.text())


@test
def frames_have_names_without_a_process_map_in_the_kernel():
    w = Workload('spin', '--seconds', RUN_S, '--threads', 2)
    for target in (('--pid', w.pid), ('-a',)):
        p = capture(*target, '--duration', '2s', '--sample-rate', 999, '--test-range-entries', 1)
        check_conserved(p)
        mine = [s for s in p.of(pid=w.pid) if s.user]
        work = [s for s in mine if s.user_names[:4] in (['spin_a', 'spin_pair', 'spin_run', 'spin_thread'],
                                                        ['spin_b', 'spin_pair', 'spin_run', 'spin_thread'])]
        check(count(work) >= 0.9 * count(mine), f'{count(work)} of {count(mine)}', *mine[:5])
        for s in work:
            equal({f.mapping.path for f in s.user[:4]}, {w.path}, s)
    note(p.text())


@test
def sum_holds_when_everything_is_too_small():
    w = Workload('forks', '--seconds', RUN_S, '--child-ms', 1, '--exec')
    spin = Workload('spin', '--seconds', RUN_S, '--threads', 8)
    p = capture('-a', '--duration', '3s', '--sample-rate', 4999, '--test-ring-bytes', 4096, '--test-count-entries', 16,
                '--test-range-entries', 1)
    w.stop()
    spin.stop()
    check_conserved(p)
    check(p.number('dropped_counts_full') > 0, p.text())
    note(p.text())


@test
def empty_capture_is_a_profile_that_says_so():
    w = Workload('idle', '--seconds', RUN_S)
    p = capture('--pid', w.pid, '--duration', '1s')
    check_conserved(p)
    equal(p.samples, [])
    equal((p.number('samples_seen'), p.number('samples_in_profile')), (0, 0))
    check(p.comments.get('empty'), p.text())
    check(any('no samples' in line for line in p.result.lines), p.result)
    equal(p.sample_types, [('samples', 'count'), ('cpu', 'nanoseconds')])
    equal([m.path for m in p.mappings], [w.path])


if __name__ == '__main__':
    sys.exit(main())
