#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Stacks and names that are known by construction: depth, the kernel, threads that change their names, code that comes
and goes, files that are removed or replaced while they run."""
import os
import shutil
import sys

from livelib import (Workload, build_id, capture, check, check_conserved, check_share, count, equal, main, start, test,
                     within, workload)

RUN_S = 40  # of a workload: longer than any test of this file, which ends it


def most(part, whole, share, *what):
    check(whole and count(part) >= share * count(whole), f'{count(part)} of {count(whole)} samples, want {share:.0%}', *what,
          *[s for s in whole if s not in part][:5])


@test
def chain_of_25_calls_is_complete_and_in_order():
    w = Workload('chain', '--seconds', RUN_S, '--depth', 25, '--distinct')
    p = capture('--pid', w.pid, '--duration', '2s', '--sample-rate', 999)
    want = ['chain_leaf', *[f'chain_{i:02}' for i in reversed(range(25))], 'chain_run', 'main']
    leaf = [s for s in p.samples if s.user_names[:1] == ['chain_leaf']]
    most(leaf, p.samples, 0.95, 'chain_leaf is where the time goes')
    most([s for s in leaf if s.user_names[:len(want)] == want], leaf, 0.99, want)
    most([s for s in p.samples if not any(n.startswith('[') for n in s.names)], p.samples, 1)


@test
def stack_of_2000_calls_is_cut_at_512_and_says_so():
    w = Workload('chain', '--seconds', RUN_S, '--depth', 2000)
    p = capture('--pid', w.pid, '--duration', '2s', '--sample-rate', 999)
    check_conserved(p)
    cut = [s for s in p.samples if s.names[-1] == '[truncated]']
    most(cut, p.samples, 0.99)
    for s in cut:
        equal(len(s.user), 512, s.names[:3], s.names[-3:])
        equal(s.names.count('[truncated]'), 1)
        # Nearest the root; on the way up and down chain_step itself is the leaf, or the clock that chain_run asks.
        # (Where it was 508 calls deep, the first frames of the program are the last that fit.)
        rest = [n for n in s.user_names[5:] if n != 'chain_step']
        equal(rest, ['chain_run', 'main', '__libc_start_call_main', '__libc_start_main'][:len(rest)], s.names[:8])
    within(float(p.comments['cut_stacks_pct']), 99, 100, p.text())
    within(float(p.comments['complete_stacks_pct']), 0, 1, p.text())


def entry(samples, name):
    return [s for s in samples if any(name in n for n in s.names if n)]


@test
def two_kernel_stacks_of_one_call_site_stay_two():
    w = Workload('syscalls', '--seconds', RUN_S)
    p = capture('--pid', w.pid, '--duration', '2s', '--sample-rate', 999)
    check_conserved(p)
    most([s for s in p.samples if s.kernel], p.samples, 0.8, 'the time goes to the kernel')
    sites = ['syscalls_enter', 'syscalls_site', 'syscalls_run', 'main']
    for s in p.samples:
        kinds = [f.kernel for f in s.frames]
        equal(kinds, sorted(kinds, reverse=True), 'kernel frames are above user frames', s)
    inside = [s for s in p.samples if s.kernel and s.user_names[:4] == sites]
    reads, writes = entry(inside, 'sys_read'), entry(inside, 'sys_pwrite64')
    check(count(reads) > 100 and count(writes) > 100, count(reads), count(writes), *inside[:3])
    most([s for s in inside if s in reads or s in writes], inside, 0.95)
    check(not [s for s in reads if s in writes], 'one stack with both calls')
    # The instruction that enters the kernel is one, so the user frames are the same locations.
    sets = [{tuple(f.id for f in s.user) for s in group} for group in (reads, writes)]
    check(sets[0] & sets[1], 'no user stack is common to both', *sets)


@test
def kernel_frames_are_left_out_on_demand():
    w = Workload('syscalls', '--seconds', RUN_S)
    p = capture('--pid', w.pid, '--duration', '1s', '--sample-rate', 999, '--kernel-stacks=false')
    check_conserved(p)
    check(not any(f.kernel for f in p.frames.values()), *p.mappings)
    check(not any(m.path == '[kernel]' for m in p.mappings), *p.mappings)
    equal(p.comments['kernel_stacks'], 'false')
    most(entry(p.samples, 'syscalls_enter'), p.samples, 0.95)


@test
def dd_of_single_bytes_keeps_its_user_stacks():
    dd = start(['dd', 'if=/dev/zero', 'of=/dev/null', 'bs=1'])
    while os.readlink(f'/proc/{dd.pid}/exe') != os.path.realpath(shutil.which('dd')):
        pass  # between fork and exec
    p = capture('--pid', dd.pid, '--duration', '3s', '--sample-rate', 999)
    kernel = [s for s in p.samples if s.kernel]
    most(kernel, p.samples, 0.5)
    most([s for s in kernel if s.user], kernel, 0.99)

    def own(f):
        return f.mapping and os.path.basename(f.mapping.path) in ('libc.so.6', 'dd')
    most([s for s in kernel if s.user and own(s.user[0])], kernel, 0.99)
    calls = {'read', '__read', '__libc_read', '__GI___libc_read', 'write', '__write', '__libc_write', '__GI___libc_write'}
    most([s for s in kernel if s.user and s.user[0].name in calls], kernel, 0.9)


@test
def last_name_of_a_thread_is_its_comm():
    w = Workload('rename', '--seconds', 4, '--threads', 2)
    p = capture('--pid', w.pid, '--sample-rate', 999)
    threads = {r['tid']: r for r in w.finish()}
    equal(len(threads), 2)
    busy = [s for s in p.samples if s.tid in threads]
    most(busy, p.samples, 0.98)
    names = {tid: {s.comm for s in p.of(tid=tid)} for tid in threads}
    equal(sorted(map(sorted, names.values())), [['after-0'], ['after-1']], names)
    for tid, r in threads.items():
        mine = [s for s in p.of(tid=tid) if 'before_rename' in s.names or 'after_rename' in s.names]
        before = [s for s in mine if 'before_rename' in s.names]
        check(before, 'no sample from before the new name')
        # The capture begins a little after the workload: part of the first half is missing.
        whole = r['before_cpu_ns'] + r['after_cpu_ns']
        within(count(before) / count(mine), 0.25, r['before_cpu_ns'] / whole + 0.1, r)


@test
def code_that_is_unloaded_and_loaded_again_keeps_its_names():
    w = Workload('dlopen', '--seconds', RUN_S, '--round-ms', 60)
    p = capture('--pid', w.pid, '--duration', '4s', '--sample-rate', 999)
    check_conserved(p)

    def in_plug(f):
        return f.mapping and os.path.basename(f.mapping.path) == 'libplug.so'
    plug = [s for s in p.samples if any(in_plug(f) for f in s.user)]
    host = [s for s in p.samples if 'host_work' in s.names]
    most([s for s in plug if all(f.named for f in s.user if in_plug(f))], plug, 1)
    most([s for s in plug if {'plug_inner', 'plug_work'} & set(s.names)], plug, 0.99)
    check_share(count(plug), count(plug) + count(host), 2 / 3, 'plug_work : host_work is 2 : 1')
    most([s for s in p.samples if s in plug or s in host or s.kernel], p.samples, 0.97)
    whole = ['plug_inner', 'plug_work', 'plug_round', 'main']
    leaf = [s for s in plug if s.user_names[:1] == ['plug_inner']]
    most([s for s in leaf if s.user_names[:4] == whole], leaf, 0.99)


@test
def code_without_a_file_is_in_jit():
    w = Workload('jit', '--seconds', RUN_S)
    place = w.line()
    first, limit = int(place['jit_start'], 16), int(place['jit_end'], 16)
    p = capture('--pid', w.pid, '--duration', '2s', '--sample-rate', 999)
    code = [s for s in p.samples if s.user and first <= s.user[0].address < limit]
    most(code, p.samples, 0.95)
    for s in code:
        equal(s.user[0].mapping.path, '[jit]', s)
        check(s.user[0].name.startswith(f'{s.user[0].address:#x}'), s)
    most([s for s in code if s.user_names[1:4] == ['jit_call', 'jit_run', 'main']], code, 0.99)
    jit = [m for m in p.mappings if m.path == '[jit]']
    equal([m.has_functions for m in jit], [False], p.mappings)
    within(p.number('unnamed_frames_jit_code_without_names'), 1, 4, p.text())


@test
def names_of_cxx_are_demangled():
    if 'cxx' not in workload:
        return 'no C++ compiler'
    w = Workload('cxx', '--seconds', RUN_S)
    p = capture('--pid', w.pid, '--duration', '2s', '--sample-rate', 999)
    for kind in ('int', 'double'):
        work = f'demo::detail::accumulate<{kind}>('
        calls = [f'demo::Engine<{kind}>::work(int)', f'demo::Engine<{kind}>::operator()(int)']
        mine = [s for s in p.samples if s.user_names and work in (s.user_names[0] or '')]
        check(count(mine) > 50, work, *p.samples[:5])
        most([s for s in mine if s.user_names[1:3] == calls], mine, 0.99, calls)
        most([s for s in mine if s.user_names[3].startswith('demo::run(std::chrono::')], mine, 0.98)
        for s in mine:
            check(s.user[0].functions[0].system_name.startswith('_ZN4demo6detail10accumulate'), s.user[0].functions[0])
    equal([s.names for s in p.samples if any(n.startswith('_Z') for n in s.names)], [])


def spin_copy():
    path = os.path.abspath('spin-copy')
    shutil.copy(workload['spin'], path)
    return Workload('spin', '--seconds', RUN_S, path=path)


def check_spin_names(p):
    work = [s for s in p.samples if s.user_names[:1] in (['spin_a'], ['spin_b'])]
    most(work, p.samples, 0.9)
    most([s for s in work if s.user_names[1:4] == ['spin_pair', 'spin_run', 'main']], work, 0.99)


@test
def removed_binary_keeps_its_names():
    w = spin_copy()
    os.unlink(w.path)
    p = capture('--pid', w.pid, '--duration', '1s', '--sample-rate', 999)
    check_spin_names(p)
    check(p.mappings[0].path.startswith(w.path), p.mappings)


@test
def replaced_binary_keeps_the_names_of_what_runs():
    w = spin_copy()
    shutil.copy(workload['chain'], 'other')
    os.rename('other', w.path)
    p = capture('--pid', w.pid, '--duration', '1s', '--sample-rate', 999)
    check_spin_names(p)
    check(not any('chain' in f.name for f in p.functions.values()), p.functions)
    equal(p.mappings[0].build_id, build_id(workload['spin']), p.mappings)


if __name__ == '__main__':
    sys.exit(main())
