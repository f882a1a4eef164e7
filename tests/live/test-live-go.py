#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Stacks of Go programs that are known by construction: depth, closures, goroutines, the thread's stack, C both ways,
signals; with and without symbols. The programs are built here, without the network."""
import collections
import os
import re
import shutil
import sys
import tempfile

from golib import Go
from livelib import Workload, capture, check, check_conserved, count, main, note, test, weight

SECONDS = 40  # of a workload: longer than any test of this file, which ends it
RATE_HZ, TIME = 999, '4s'  # a thousand samples after the 3 s in which the programs stay on one stack

built = {}  # name -> path
ROOT = ['main.main', 'runtime.main', 'runtime.goexit']


def names_of(sample):
    """Leaf first; Go's linker marks assembly by a suffix, and compilers name what go statements call in their way."""
    return [re.sub(r'(goroutines|channels|grow)[.·](func|dwrap)[.·]?1$', r'\1.gowrap1', n.removesuffix('.abi0'))
            for n in sample.user_names if n]


def ends_with(sample, want):
    """Whether from want[0] on the stack is want, down to the root."""
    names = names_of(sample)
    return want[0] in names and names[names.index(want[0]):] == want


def has_in_order(sample, want):
    rest = iter(names_of(sample))
    return all(name in rest for name in want)


def profile(name, mode, *args):
    w = Workload(name, mode, SECONDS, path=built[name])
    p = capture('--pid', w.pid, '--duration', TIME, '--sample-rate', RATE_HZ, '--unwind', 'auto', *args)
    w.stop()
    check_conserved(p)
    # The deferred samples are walked from copies of one stack, until there is a table: what lies on another stack is not
    # in them. The programs stay on one stack meanwhile.
    p.work = [s for s in p.samples if 'main.warm' not in s.names]
    return p


def most(part, whole, *what, share=0.99):
    """By weight."""
    check(count(whole) > 100, f'{count(whole)} samples', *what)
    note(f'{what[0]}: {count(part)} of {count(whole)} samples')
    check(weight(part) >= share * weight(whole),
          f'{count(part)} of {count(whole)} samples', *what, *[names_of(s) for s in whole if s not in part][:5])


def complete(p):
    part = (100 - float(p.comments['complete_stacks_pct'])) / 100 * count(p.samples)
    note(f'incomplete: {part:.0f} of {count(p.work)} samples')
    check(part <= 0.01 * count(p.work), p.text())


def chain(name, mode, want):
    p = profile(name, mode)
    leaf = [s for s in p.work if want[0] in names_of(s)]
    most(leaf, p.work, f'{want[0]} is where the time goes', share=0.7)
    most([s for s in leaf if ends_with(s, want)], leaf, f'{name} {mode}')
    complete(p)


@test
def recursion_is_complete_and_in_order():
    chain('pure', 'deep', ['main.spin', *['main.deep'] * 41, 'main.main.func1', *ROOT])


@test
def closures_are_complete_and_in_order():
    chain('pure', 'closure', ['main.spin', 'main.closure.func1.1', 'main.call', 'main.closure.func1', 'main.call',
                              'main.closure', *ROOT])


@test
def goroutines_end_where_they_began():
    chain('pure', 'goroutines', ['main.spin', *['main.step'] * 31, 'main.worker', 'main.goroutines.gowrap1',
                                 'runtime.goexit'])


@test
def work_on_the_threads_stack_leads_back_to_the_goroutine():
    p = profile('pure', 'system')
    inside = [s for s in p.work if 'runtime.systemstack' in names_of(s)]
    most(inside, p.work, 'runtime.systemstack', share=0.7)
    want = ['runtime.systemstack', 'runtime.Stack', *['main.dump'] * 21, 'main.system', *ROOT]
    most([s for s in inside if ends_with(s, want)], inside, 'pure system')
    complete(p)


@test
def allocation_and_collection_are_complete():
    p = profile('pure', 'gc')
    inside = [s for s in p.samples if 'main.allocate' in names_of(s)]
    most([s for s in inside if ends_with(s, ['main.allocate', 'main.gc', *ROOT])], inside, 'pure gc')
    complete(p)


@test
def parking_and_waking_are_complete():
    p = profile('pure', 'channels')
    complete(p)
    for name, want in (('main.echo', ['main.echo', 'main.channels.gowrap1', 'runtime.goexit']),
                       ('main.channels', ['main.channels', *ROOT])):
        inside = [s for s in p.samples if name in names_of(s)]
        most([s for s in inside if ends_with(s, want)], inside, name)


@test
def growing_stacks_lead_to_the_functions_that_needed_them():
    p = profile('pure', 'grow')
    complete(p)
    inside = [s for s in p.work if 'runtime.newstack' in names_of(s)]
    check(weight(inside) >= 0.2 * weight(p.work), f'{count(inside)} of {count(p.work)} samples in runtime.newstack')

    def good(sample):
        names = names_of(sample)
        callers = names[names.index('runtime.newstack') + 1:]
        depth = callers.count('main.sprout')
        # If the scheduler continues with another goroutine, newstack is the outermost frame.
        return callers == ['runtime.morestack', *['main.sprout'] * depth, 'main.seedling', 'main.grow.gowrap1',
                           'runtime.goexit'] and depth <= 12 or not callers and 'runtime.schedule' in names
    most([s for s in inside if good(s)], inside, 'pure grow')
    depths = {names_of(s).count('main.sprout') for s in inside if good(s)}
    check(len(depths) > 1, 'the stacks grew at one depth only', depths)


@test
def signals_lead_to_what_they_interrupted():
    p = profile('pure', 'signals')
    complete(p)
    kick = [s for s in p.samples if 'main.kick' in names_of(s)]
    most([s for s in kick if ends_with(s, ['main.kick', 'main.signals', *ROOT])], kick, 'main.kick')
    # The handler is on its own stack, called by the kernel wherever the goroutine was.
    handler = [s for s in p.samples if 'runtime.sigtrampgo' in names_of(s)]
    check(handler, 'no sample in a handler')
    good = [s for s in handler if {'runtime.goexit', 'runtime.mstart', 'runtime.mcall', 'runtime.newstack'}
            & set(names_of(s)[-1:])]
    note(f'handlers: {count(good)} of {count(handler)} samples')
    check(count(good) >= 0.95 * count(handler), *[names_of(s) for s in handler if s not in good][:5])


@test
def stripped_program_is_as_complete():
    for mode, frames in (('deep', 46), ('system', 27)):
        p = profile('stripped', mode)
        # main.warm has no name here, and is not so deep; the runtime's own threads begin elsewhere. Of the program's own
        # samples 1 % are on the way down, or in the runtime below main: whole, and less deep. That all are whole is what
        # complete() asks.
        deep = [s for s in p.samples if len(s.user) > 8]
        root = collections.Counter(tuple(names_of(s)[-2:]) for s in deep).most_common(1)[0][0]
        work = [s for s in deep if ends_with(s, list(root))]
        check(weight(work) >= 0.97 * weight(deep), f'{count(work)} of {count(deep)} samples begin in main')
        most([s for s in work if len(s.user) >= frames], work, f'stripped {mode}', share=0.96)
        complete(p)


def cgo(mode, name='cgo'):
    to_c = ['c_spin', 'c_work', '_cgo_Cfunc_c_work', 'runtime.asmcgocall', 'runtime.cgocall', 'main._Cfunc_c_work',
            'main.toC']
    from_c = ['_cgoexp_goBack', 'runtime.cgocallback', 'crosscall2', 'goBack', 'c_back', *['c_outer'] * 4,
              '_cgo_Cfunc_c_outer', 'runtime.asmcgocall', 'runtime.cgocall', 'main._Cfunc_c_outer', 'main.fromC']
    want = {'toc': to_c + ROOT,
            'fromc': ['main.spin', *from_c, *ROOT],
            'nested': to_c + from_c + ROOT,
            'grow': ['main.spin', *['main.grow'] * 101, *from_c, 'runtime.goexit']}[mode]
    p = profile(name, mode)

    def plain(sample):
        """Without the hash in cgo's names and what compilers append, and one name for a function's copies."""
        ret = []
        for n in names_of(sample):
            parts = n.split('_')
            if n.startswith('_cgo_') and len(parts) > 3:
                n = '_'.join(['_cgo', *parts[3:]])
            if n.startswith('_cgoexp_'):
                n = '_'.join(['_cgoexp', *parts[3:]])
            ret.append(n.removesuffix('.localalias'))
        return ret

    def good(sample):
        rest = iter(plain(sample))
        return all(n in rest for n in want)
    leaf = [s for s in p.work if want[0] in names_of(s)]
    most(leaf, p.work, f'{want[0]} is where the time goes', share=0.6)
    most([s for s in leaf if good(s)], leaf, f'{name} {mode}', want)
    complete(p)


@test
def c_called_from_go_leads_back():
    cgo('toc')


@test
def go_called_from_c_leads_back_through_c():
    cgo('fromc')


@test
def c_called_from_go_called_from_c_leads_back():
    cgo('nested')


@test
def stack_that_moves_while_c_waits_is_followed():
    cgo('grow')


@test
def position_independent_program_is_as_complete():
    p = profile('pie', 'nested')
    work = [s for s in p.samples if len(s.user) > 8]
    most([s for s in work if len(s.user) >= 24], work, 'position-independent, stripped', share=0.9)
    complete(p)


def run():
    if not shutil.which('go'):
        print('1..0 # SKIP no Go toolchain')
        return 0
    if os.uname().machine != 'x86_64':
        print('1..0 # SKIP changes of stacks are known for x86-64')
        return 0
    with tempfile.TemporaryDirectory(prefix='perf-agent-go-') as folder:
        go = Go(sys.argv.pop(2), folder)
        for name, package, *flags in (('pure', './pure'), ('stripped', './pure', '-ldflags=-s -w'), ('cgo', './cgo'),
                                      ('pie', './cgo', '-buildmode=pie', '-ldflags=-s -w')):
            built[name] = go.build(name, package, *flags)
        if not all(built.values()):
            print('1..0 # SKIP the Go toolchain does not build the programs')
            return 0
        return main()


sys.exit(run())
