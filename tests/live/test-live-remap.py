#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Code in the place of other code, many times a second: each sample shows what ran.

The programs (turns, opens and mixed of tests/workloads/shapes/tables.c) spend two thirds of their CPU time on one side
and one third on the other, by their own clock. The program's own frames say which side it was, the others what was
mapped there: a sample in which they disagree, or which lacks one of them, is wrong. Where programs may not be attached
to functions of the kernel, the first replacement is known by its record alone, so that its turn may be wrong.
"""
import importlib.util
import math
import os
import sys

import livelib
from livelib import SIGMAS, Agent, check, count, equal, load, main, note, test

SECONDS = 5
# Time of the first turn: until a record is read, and a little.
FIRST_S = 0.12
# Time of a wait of naps.
NAP_S = 0.0005
# Samples between two frames (prologues, the loader's own code, page faults, interrupts).
ODD = 0.02


def load_tables():
    """Imports the facts about the programs from test-live-tables.py."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'test-live-tables.py')
    spec = importlib.util.spec_from_file_location('live_tables', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLES = load_tables()
livelib.TESTS.clear()  # its tests stay its own


def files():
    return TABLES.entry(TABLES.lib()), TABLES.entry(TABLES.lib('libtwin.so'), 'twin_outer')


def check_turns(shape, paths, sides, unlink=()):
    """sides: of each side the program's caller, and the name of the function that it calls in what is mapped."""
    w = TABLES.Program(shape, *paths)
    for path in unlink:
        os.unlink(path)
    p = TABLES.profile(w, seconds=f'{SECONDS}s')
    (first, first_code), (second, second_code) = sides
    mine = [s for s in p.samples if 'shape_spin' in s.names]
    good = {caller: [s for s in mine if caller in s.names and code in ' '.join(s.names)] for caller, code in sides}
    mixed = [s for s in mine if first in s.names and second_code in s.names or
             second in s.names and first_code in s.names]
    rest = [s for s in mine if not any(s in g for g in good.values())]
    n, room = count(mine), FIRST_S * TABLES.RATE_HZ
    note(f'{n} samples: {count(good[first])} and {count(good[second])}; {count(mixed)} mixed up, {count(rest)} without '
         f'both names; copied {p.number("deferred_samples")}')
    # A busy machine gives the program less time, but not fewer turns that are wrong.
    check(n >= 500, p.text())
    check(count(mixed) <= room, *sorted(mixed, key=lambda s: -s.count)[:5], p.text())
    check(count(rest) <= room + ODD * n, *sorted(rest, key=lambda s: -s.count)[:5], p.text())
    # The names' shares are those of the clocks, but for the samples of the first turns.
    of_second, both = count(good[second]), count(good[first]) + count(good[second])
    slack = room / both + SIGMAS * math.sqrt(2 / 9 / both) + 0.01
    check(abs(of_second / both - 1 / 3) <= slack, f'{of_second} of {both}, wanted a third, room {slack:.3f}', p.text())


@test
def two_files_at_one_address():
    check_turns('turns', files(), (('swap_a', 'plug_outer'), ('swap_b', 'twin_outer')))


@test
def files_that_have_no_name_any_more():
    copies = TABLES.copy_of(TABLES.lib(), 'libfirst.so'), TABLES.copy_of(TABLES.lib('libtwin.so'), 'libsecond.so')
    check_turns('turns', (TABLES.entry(copies[0]), TABLES.entry(copies[1], 'twin_outer')),
                (('swap_a', 'plug_outer'), ('swap_b', 'twin_outer')), unlink=copies)


@test
def libraries_that_another_thread_loads_and_unloads():
    check_turns('opens', (TABLES.lib(), TABLES.lib('libtwin.so')), (('swap_a', 'plug_outer'), ('swap_b', 'twin_outer')))


@test
def jit_code_in_place_of_a_file_and_back():
    check_turns('mixed', files(), (('reuse_lib', 'plug_outer'), ('reuse_jit', '[jit]')))


@test
def waits_that_only_a_file_tells_apart():
    """The same words are on the stack whichever of two files with the same code is mapped: the system call alone,
    which the kernel's stack shows, tells which one it was. What is known of a stack must not outlive its file."""
    names = {'libfirst.so': '_sys_nanosleep', 'libsecond.so': '_sys_clock_nanosleep'}
    copies = [TABLES.copy_of(TABLES.lib(), name) for name in names]
    w = TABLES.Program('naps', *(TABLES.entry(path) for path in copies))
    agent = Agent('--offcpu', '--offcpu-output', 'o.pb.gz', '--pid', w.pid, '--duration', f'{SECONDS}s')
    r = agent.finish()
    equal(r.rc, 0, r)
    p = load('o.pb.gz')
    naps = {name: 0 for name in names}
    mixed = unnamed = 0
    for s in p.samples:
        files = [os.path.basename(f.mapping.path) for f in s.user if f.mapping and f.name in ('plug_outer', 'plug_inner')]
        calls = [name for name, call in names.items() if any(f.name.endswith(call) for f in s.kernel)]
        if not calls:
            continue
        if not files:
            unnamed += s.count
        elif set(files) == set(calls):
            naps[calls[0]] += s.count
        else:
            mixed += s.count
    note(f'{naps}; {mixed} mixed up, {unnamed} without a file')
    check(all(n >= 500 for n in naps.values()), p.text())
    check(mixed + unnamed <= FIRST_S / NAP_S, p.text())


if __name__ == '__main__':
    sys.exit(main())
