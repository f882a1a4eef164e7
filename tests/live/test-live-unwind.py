#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Stacks through code without frame pointers, against programs that publish the stack they are in
(tests/workloads/shapes/shape.h says how). Each shape is one test.

Of each sample of the program the functions from its first published one on must be one of the published chains, less
functions at the leaf end, without a gap and without a foreign frame in between; what is above are functions of
libraries, at most `above` of them; what is below ends with the entry point, or with a thread's start.
"""
import json
import math
import os
import platform
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

from livelib import (NS, SIGMAS, WAIT_S, Agent, Symbols, Workload, check, check_conserved, count, equal, load, main, note,
                     test, weight, within, workload)

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'workloads', 'shapes')
RUN_S = 60          # of a program: longer than its test, which ends it
CPU_S = 0.25        # of CPU time that a program gets while it is watched, however long that takes
RATE_HZ = 999
ENOUGH = 100        # samples without which a test says nothing

# Weight that must show a published chain. The rest of what a program does between "ready" and its end: it asks the
# clock a thousand times a second, and a page fault or an interrupt may hit the kernel while it starts or ends.
CHAIN_SHARE = 0.99
COMPLETE_PCT = 99.9
# Weight of samples that came before the table and beyond the copies that a process may have of each file: they are
# heuristic, and the profile says so. On a busy machine a table may come later than the 32nd sample.
EARLY_PCT = 10

X86 = platform.machine() == 'x86_64'
OPTIMIZED = ['-O2', '-g', '-std=gnu17', '-D_GNU_SOURCE', '-fomit-frame-pointer', '-fno-stack-protector']
PORTABLE = ['shapes.c', 'shape.c', 'frames.c', 'signals.c', 'tasks.c'] + (['asm.c', 'asm_x86.S'] if X86 else [])


# ---- programs -------------------------------------------------------------------------------------------------------

class Missing(Exception):
    """A tool that a test needs is missing."""


def built(name, make):
    """A program that is built once, when it is first asked for: make(path) returns the commands."""
    if name not in BUILT:
        folder = os.path.join(HOME, 'built')
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, name)
        BUILT[name] = path
        for argv in make(path):
            r = subprocess.run(argv, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               timeout=5 * WAIT_S, check=False)
            if r.returncode:
                BUILT[name] = Missing(f'{os.path.basename(argv[0])} does not build {name}: '
                                      + r.stdout.strip().split('\n')[0][:100])
                note(r.stdout)
                break
    if isinstance(BUILT[name], Missing):
        raise BUILT[name]
    return BUILT[name]


def compiler(*names):
    for name in names:
        if shutil.which(name):
            return name
    raise Missing(f'no {names[0]}')


def src(*names):
    return [os.path.join(SOURCES, n) for n in names]


def musl():
    cc = compiler('musl-gcc')
    return built('shapes-musl', lambda out: [[cc, *OPTIMIZED, '-static', '-o', out, *src(*PORTABLE)]])


def fortran():
    fc = compiler('gfortran')
    return built('shape-fortran', lambda out: [
        [fc, '-O2', '-g', '-fomit-frame-pointer', '-c', '-o', 'matmul.o', *src('matmul.f90')],
        ['cc', *OPTIMIZED, '-c', *src('fortran.c', 'shape.c')],
        [fc, '-o', out, 'fortran.o', 'shape.o', 'matmul.o']])


def rust(panic):
    def make():
        rustc = compiler('rustc')
        return built('rust-' + panic, lambda out: [
            [rustc, '-C', 'opt-level=3', '-C', 'panic=' + panic, '-o', out, *src('rust.rs')]])
    return make


def bits32():
    if not X86:
        raise Missing('no 32-bit programs for this processor')
    return built('bits32', lambda out: [
        ['cc', '-m32', '-O2', '-ffreestanding', '-nostdlib', '-static', '-fno-pie', '-no-pie', '-fomit-frame-pointer',
         '-fno-stack-protector', '-o', out, *src('bits32.c')]])


def own(name):
    """One that the build made."""
    def make():
        if name == 'shape-exceptions' and name not in workload:
            raise Missing('no C++ compiler')
        return workload[name]
    return make


def copy(change):
    """A copy of shapes in the test's own folder, changed."""
    def make():
        path = os.path.abspath('shapes-copy')
        shutil.copy(workload['shapes'], path)
        change(path)
        return path
    return make


def strip_symbols(path):
    subprocess.run(['strip', path], check=True, timeout=WAIT_S)


def strip_sections(path):
    """Clears what the header says of sections: the loader needs none of it."""
    with open(path, 'r+b') as f:
        f.seek(40)
        f.write(struct.pack('<Q', 0))
        f.seek(58)
        f.write(struct.pack('<HHH', 0, 0, 0))


def replace(path):
    shutil.copy(workload['shape-load'], path + '.new')
    os.rename(path + '.new', path)


# ---- what a profile shows -------------------------------------------------------------------------------------------

class Seen:
    """A profile against what a program published."""

    def __init__(self, profile, said, above, names_of=None):
        self.p, self.chains, self.above = profile, said['chains'], above
        self.heads = {name for chain in self.chains for name in chain if name != '?'}
        self.twin = Symbols(names_of) if names_of else None
        self.command = False  # also in the profile: the command's start and end, where it is not in its chain yet
        self.good, self.bad, self.other = [], [], []
        self.below = {}  # names below the chain -> samples
        for s in profile.samples:
            self.sort(s)

    def names(self, s):
        return [self.name(f) for f in s.user]

    def name(self, f):
        """Its own name, or that of the twin with symbols: by file offset."""
        if self.twin and f.mapping and os.path.basename(f.mapping.path).startswith('shapes-copy'):
            found = sorted(self.twin.at(f.address - f.mapping.start + f.mapping.offset))
            return found[0] if found else None
        return re.sub(r'@@?[A-Z].*$', '', f.name) if f.name else None

    def sort(self, s):
        names = self.names(s)
        first = next((i for i, n in enumerate(names) if n in self.heads), None)
        if first is None:
            self.other.append(s)
            return
        for chain in self.chains:
            for skip, name in enumerate(chain):
                rest = chain[skip:]
                part = names[first:first + len(rest)]
                if name == names[first] and len(part) == len(rest) and \
                        all(want in ('?', got) for want, got in zip(rest, part)) and first <= self.above:
                    self.good.append(s)
                    below = tuple(names[first + len(rest):]) + tuple(f.name for f in s.frames if f.synthetic)
                    self.below[below] = self.below.get(below, 0) + s.count
                    return
        self.bad.append(s)

    def share(self):
        return weight(self.good) / max(1, weight(self.good + self.bad if self.command else self.p.samples))

    def misses(self):
        return count(self.bad) + (0 if self.command else count(self.other))

    def show(self, samples):
        return [f'{s.count} × {self.names(s)} {[f.name for f in s.frames if f.synthetic]} '
                f'{[hex(f.address) for f in s.user[:4]]}' for s in sorted(samples, key=lambda s: -s.count)[:6]]

    def facts(self):
        pct = {k: v for k, v in self.p.comments.items() if '_pct' in k or k == 'unwind'}
        return [f'good {count(self.good)}, bad {count(self.bad)}, other {count(self.other)}', pct,
                f'below: {sorted(self.below.items(), key=lambda i: -i[1])[:4]}',
                'bad:', *self.show(self.bad), 'other:', *self.show(self.other), 'good:', *self.show(self.good)[:2]]


def heuristic_pct(p):
    check('heuristic_stacks_pct' in p.comments, p.text())
    return float(p.comments['heuristic_stacks_pct'])


def early_pct(p):
    return float(p.comments.get('walk_no_table_yet_pct', 0))


def incomplete(p):
    """Samples whose user stack does not end at its root, by the comments' hundredths."""
    return round((100 - float(p.comments['complete_stacks_pct'])) * count(p.samples) / 100)


def attach(program, shape, *args, after_start=None):
    w = Workload(shape, '--shape', shape, '--seconds', RUN_S, *args, path=program)
    said = w.line()
    if after_start:
        after_start(w.path)
    return w, said


def capture_pid(w, *args, cpu_s=CPU_S):
    agent = Agent('--profile-output', 'p.pb.gz', '--pid', w.pid, '--duration', f'{WAIT_S}s', '--sample-rate', RATE_HZ,
                  *args).wait_started()
    began = sum(w.clocks().values())
    while sum(w.clocks().values()) - began < cpu_s * NS and agent.p.poll() is None:
        time.sleep(0.02)
    if agent.p.poll() is None:
        os.kill(agent.pid, signal.SIGINT)
    r = agent.finish()
    equal(r.rc, 0, r)
    return load('p.pb.gz')


def capture_command(program, shape, *args):
    """For what runs in children. The chains come on perf-agent's own standard output."""
    seconds = 0.5
    while True:
        r = Agent('--profile-output', 'p.pb.gz', '--sample-rate', RATE_HZ, *args, '--', program, '--shape', shape,
                  '--seconds', seconds).finish()
        equal(r.rc, 0, r)
        p = load('p.pb.gz')
        seconds *= 2
        if count(p.samples) >= ENOUGH or seconds > RUN_S:
            return p, json.loads(r.out.decode().splitlines()[1])


# ---- shapes ---------------------------------------------------------------------------------------------------------

def judge(seen, said, heuristic, complete, root, below_max, share, complete_pct):
    p = seen.p
    check_conserved(p)
    check(count(p.samples) >= ENOUGH, *seen.facts())
    early = early_pct(p)
    note(f'{count(p.samples)} samples, {seen.share():.2%} show a chain, {p.comments.get("complete_stacks_pct")} % '
         f'complete, {heuristic_pct(p)} % heuristic, {early} % without a table')
    check(early <= EARLY_PCT, *seen.facts())
    # Two samples of a machine that had time for two hundred are more than 1 %.
    # Where some stacks cannot be right, how many were hit is a matter of chance.
    luck = SIGMAS * math.sqrt(share * (1 - share) / count(p.samples)) if share < CHAIN_SHARE else 0
    check(seen.share() >= share - luck - early / 100 or seen.misses() <= 2,
          f'{seen.share():.2%} of the weight shows a published chain', *seen.facts())
    if share < CHAIN_SHARE:
        moment = [s for s in seen.bad + seen.other if any((name or '').startswith('_Unwind_') for name in s.user_names[:2])]
        check(seen.misses() - count(moment) <= 2 + 0.01 * count(p.samples), 'not in the unwinder of libgcc', *seen.facts())
    if complete:
        # One sample of a short capture is more than 0.1 % of it. Of a command there are samples of its start too: after
        # execve the stack of before is gone.
        room = max(1, count(seen.other) if seen.command else 0)
        check(float(p.comments['complete_stacks_pct']) >= complete_pct - 100 * luck - early or
              incomplete(p) <= room + early * count(p.samples) / 100, *seen.facts())
    if heuristic == 'none':
        # By hundredths; and of a command's start, which is no part of the shape, the dynamic linker's first steps.
        room = 100 * count(seen.other) / count(p.samples) if seen.command else 0
        check(heuristic_pct(p) <= early + room + 0.01, *seen.facts())
    elif heuristic == 'some':
        check(heuristic_pct(p) > early, *seen.facts())
        # All of it in the program itself, whose code without rules it is. Samples before the table have counts of their own.
        own = dict(p.files('heuristic_in'))
        check(own.get('shapes', 0) >= heuristic_pct(p) - early - 1, p.text())
        check(sum(own.values()) - own['shapes'] <= early + 1, p.text())
    # In that moment some have the chain and lack what is below it: 1.2 to 1.3 % of 1,900 [tried].
    enough = (CHAIN_SHARE - early / 100 - (0.02 if share < CHAIN_SHARE else 0)) * count(seen.good)
    if root:
        ends = sum(n for below, n in seen.below.items() if 0 < len(below) <= below_max and below[-1] == root)
        check(ends >= enough, f'{ends} of {count(seen.good)} end with {root}', *seen.facts())
    elif complete:
        ends = sum(n for below, n in seen.below.items()
                   if len(below) <= 3 and not any((name or '').startswith('[') for name in below))
        check(ends >= enough, 'frames below a thread', *seen.facts())
    for name, address in [said['exact']] if 'exact' in said else []:
        # While the handler spins: at its end it says that the program goes on after that.
        at = {f.address for s in seen.good if s.user_names[0] == 'shape_spin' for f in s.user if f.name == name}
        check(at == {int(address, 16)}, f'{name} was interrupted at {address}, and not at {at}', *seen.facts())


def shape(name, program=own('shapes'), title=None, above=2, heuristic='none', complete=True, root='_start', args=(),
          names_of=None, after_start=None, command=False, how='auto', more=None, below_max=4,
          share=CHAIN_SHARE, complete_pct=COMPLETE_PCT, cpu_s=CPU_S):
    """A test of one shape. above: frames of libraries above the published ones; heuristic: none, some or any; complete:
    the stacks reach their root; root: the last frame, at most below_max below main, None where it is a thread's;
    names_of: the program with the symbols that this one lacks; command: it runs in children, so perf-agent starts it;
    more: further checks, which may say why there was nothing to check."""
    def run():
        try:
            path = program()
        except Missing as e:
            return str(e)
        options = ['--unwind', how]
        extra = [a() if callable(a) else a for a in args]
        if command:
            p, said = capture_command(path, name, *options)
        else:
            w, said = attach(path, name, *extra, after_start=after_start)
            p = capture_pid(w, *options, cpu_s=cpu_s)
            if early_pct(p) > EARLY_PCT / 2:  # their number does not grow with the time
                p = capture_pid(w, *options, cpu_s=4 * cpu_s)
            w.stop()
        twin = names_of() if names_of else None
        seen = Seen(p, said, above, twin)
        seen.command = command
        judge(seen, said, heuristic, complete, root, below_max, share, complete_pct)
        return more(seen, said) if more else None
    run.__name__ = title or name
    test(run)


def only_with(condition, *shapes):
    return shapes if condition else ()


for each in ('deep', 'pushes', 'tail', 'dynamic', 'align', 'drap'):
    shape(each)
for each in ('signal', 'sigpush', *only_with(X86, 'sigfirst')):
    shape(each, above=3)
# The copy that a deferred sample takes with it holds neither a frame of 100 KB nor a second stack: with tables from the
# start.
for each in ('huge', 'sigaltstack', *only_with(X86, 'signested')):
    shape(each, above=3, how='dwarf')

shape('thread', root=None)
# The return address of a coroutine's first function says by its code alone that nothing is below.
shape('coroutine', root=None)
# The stack snapshot of a deferred sample continues after absent pages.
shape('hollow', root=None, more=lambda seen, _: check('deferred_samples' in seen.p.comments and
                                                      'walk_read_fault_pct' not in seen.p.comments, seen.p.text()))
# glibc's clone says nothing of its frame while it runs on two stacks.
shape('clone', root=None, command=True, heuristic='any')
shape('vfork', command=True)
shape('syscall')


def in_vdso(seen, _):
    part = [s for s in seen.good if s.user[0].mapping and s.user[0].mapping.path == '[vdso]']
    if not part:
        return 'the clock of this machine is not read in the vDSO'
    check(count(part) >= 0.2 * count(seen.good), *seen.facts())
    return None


shape('vdso', more=in_vdso)
# Frames of JIT code are followed by frame pointer, and counted apart.
shape('jit')

if X86:
    for each in ('cfa-rax', 'cfa-r11', 'odd-saves', 'val-offset', 'val-expr', 'cfa-deref', 'cfa-expr', 'reg-expr',
                 'reg-reg', 'ra-reg', 'ra-moved'):
        shape('asm-' + each)
    # A stack pointer below which nothing can be read: every stack is whole, and none is taken for that of a task that
    # has released its mm.
    for each in ('auto', 'dwarf'):
        shape('asm-low', how=each, title='asm-low ' + each, root=None, more=lambda seen, _: check(
            'walk_mm_released_pct' not in seen.p.comments and 'walk_read_fault_pct' not in seen.p.comments,
            seen.p.text()))
    # Without call-frame information, but found: a frame pointer, or a return address on top of the stack.
    shape('asm-bare-leaf', heuristic='some')
    shape('asm-fp-leaf', heuristic='some')
    shape('asm-fp-call', heuristic='some')


def bare_assembly(name):
    """A profile of a function of that name without call-frame information, and its samples in what that calls."""
    w, said = attach(workload['shapes'], name)
    p = capture_pid(w, '--unwind', 'auto')
    seen = Seen(p, said, 2)
    top = [s for s in p.samples if s.user_names[:2] == ['shape_spin', name.replace('-', '_')]]
    check(count(top) >= 0.95 * count(p.samples), *seen.facts())
    return p, seen, top


@test
def asm_bare_call():
    """Nothing says where the return address of this function is: frames below it are heuristic and called so,
    or the stack is incomplete."""
    if not X86:
        return 'no such assembly for this processor'
    p, seen, top = bare_assembly('asm-bare-call')
    check(heuristic_pct(p) + 100 - float(p.comments['complete_stacks_pct']) >= 95, *seen.facts())
    return None


@test
def asm_bare_pops():
    """The code after the call pops the frame and returns: no heuristic frame is needed."""
    if not X86:
        return 'no such assembly for this processor'
    p, seen, _ = bare_assembly('asm-bare-pops')
    equal(heuristic_pct(p), 0, *seen.facts())
    check(float(p.comments['complete_stacks_pct']) >= 99, *seen.facts())
    return None


@test
def asm_bare_zero():
    """A frame pointer of zero is the end of a chain of frame records, and nothing where there is no chain: these stacks
    do not reach their root, and the file is named."""
    if not X86:
        return 'no such assembly for this processor'
    p, seen, top = bare_assembly('asm-bare-zero')
    check(count([s for s in top if len(s.user) == 2]) >= 0.99 * count(top), *seen.facts())
    check(incomplete(p) >= count(top), *seen.facts())
    check(dict(p.files('incomplete_in')).get('shapes', 0) >= 100 * count(top) / count(p.samples) - 0.01, p.text())
    return None


def unread_in_children(seen, _):
    """The children were seen, before they had the page of their trampoline."""
    child = [s for s in seen.good if 'apart_child_work' in seen.names(s)]
    unread = [s for s in child if 'apart_raise' not in seen.names(s)]
    note(f'{count(child)} samples of children, {count(unread)} of them without the trampoline')
    if not unread:
        return 'the trampoline was there in all children'
    return None


if X86:
    # Were a child's missing page believed of its parent, the parent's stacks would end at its trampoline from then on.
    shape('apart', own('shape-apart'), title='trampoline whose page a child lacks', command=True, heuristic='any',
          complete=False, root=None, above=4, more=unread_in_children)
    # The end of a stack that was met together with a library whose table was not there yet is still its end later.
    shape('byhand', own('shape-byhand'), title='root by hand below a library without a table', command=True,
          heuristic='any', root=None)


def in_stub(seen, _):
    """Samples in the stub itself: the program's own code, called by the loop, without being the loop."""
    loop = [s for s in seen.good if len(s.user) > 1 and s.user[1].name == 'plt_loop']
    stub = [s for s in loop if s.user[0].mapping and s.user[0].mapping.id == s.user[1].mapping.id]
    note(f'{count(stub)} of {count(seen.good)} samples in stubs')
    check(count(stub) >= 0.02 * count(seen.good), *seen.facts())


for each in ('lazy', 'now', *only_with(X86, 'ibt')):
    shape('plt', own('shape-plt-' + each), title=f'plt {each}', more=in_stub)
# The dynamic linker's own functions are above: it looks a symbol up in one library after another.
for each in ('lazy', *only_with(X86, 'ibt')):
    shape('plt-resolve', own('shape-plt-' + each), title=f'plt {each} resolved again and again', above=8)


shape('reload', own('shape-load'), args=('--file', own('libshape.so')), title='library loaded again elsewhere',
      above=20)
shape('twice', own('shape-load'), args=('--file', own('libshape.so')), title='library mapped twice')

# Above are the functions of the C++ library, of libgcc and of the dynamic linker, which both ask for tables. Before
# libgcc jumps to a handler it writes the handler's registers over those that its own function has saved, so that for a
# moment nothing in memory says where that function's caller is: in two samples of a hundred and twenty libdw too finds
# functions that were left already.
EH_SHARE = 0.95
shape('throw', own('shape-exceptions'), title='exceptions', above=12, share=EH_SHARE,
      complete_pct=100 * EH_SHARE, cpu_s=8 * CPU_S)

for each in ('static', 'static-pie'):
    for kind in ('deep', 'signal', 'thread') if each == 'static' else ('deep', 'thread'):
        shape(kind, own('shapes-' + each), title=f'{kind} {each}', root=None if kind == 'thread' else '_start',
              above=3)
shape('deep', own('shapes-no-build-id'), title='deep without build id')
shape('deep', copy(strip_sections), title='deep without section headers', names_of=own('shapes'))
shape('deep', copy(strip_symbols), title='deep stripped', names_of=own('shapes'))
shape('drap', copy(lambda path: None), title='drap deleted after its start', after_start=os.unlink)
shape('drap', copy(lambda path: None), title='drap replaced after its start', after_start=replace)
for each in ('deep', 'pushes', 'dynamic', 'align', 'sigpush'):
    shape(each, own('shapes-clang'), title=each + ' by clang', above=3)

# Debian's musl has no call-frame information, so below main and around a system call there are heuristic frames, or none.
for each in ('deep', 'signal', 'sigaltstack', 'thread'):
    shape(each, musl, title=each + ' with musl', heuristic='any', complete=False, root=None, above=3,
          how='dwarf' if each == 'sigaltstack' else 'auto')

# Above are malloc and free with what they call, too.
shape('matmul', fortran, title='fortran', above=12)
# The compiler gives no call-frame information to the `main` that it makes itself: one heuristic frame. Below are the frames of
# Rust's start, above those of a panic and of an unwinder that has one more call for each.
shape('spin', rust('abort'), title='rust panic=abort', above=3, below_max=12, heuristic='any')
# A panic does little else than unwind: 5.1 to 5.8 % of 2,000 samples each are in libgcc's moment [tried, in eight runs].
PANIC_SHARE = 0.93
shape('panic', rust('unwind'), title='rust panic=unwind', above=30, below_max=12, heuristic='any', share=PANIC_SHARE,
      complete_pct=100 * PANIC_SHARE, cpu_s=8 * CPU_S)


@test
def bits_of_32():
    """32-bit tasks are recognised: no frame of theirs is made up by 64-bit rules."""
    try:
        path = bits32()
    except Missing as e:
        return str(e)
    w = Workload('bits32', path=path)
    p = capture_pid(w, '--unwind', 'auto')
    check_conserved(p)
    check(count(p.samples) >= ENOUGH, p.text())
    within(float(p.comments.get('walk_32_bit_task_pct', 0)), 99, 100, p.text())
    # A return is known by its instruction: then the caller is there as well.
    check(all(s.user_names in (['bits32_spin'], ['bits32_spin', '_start'], ['_start']) for s in p.samples),
          *p.samples[:5])
    check(count([s for s in p.samples if len(s.user) == 1]) >= 0.99 * count(p.samples), *p.samples[:5])
    return None


# ---- the ways of walking --------------------------------------------------------------------------------------------

shape('deep', how='dwarf', title='deep by dwarf')


@test
def frame_pointers_lose_what_has_none():
    """The same program by frame pointers: were it complete, the tests above would prove nothing."""
    w, said = attach(workload['shapes'], 'deep')
    p = capture_pid(w, '--unwind', 'fp')
    seen = Seen(p, said, 2)
    equal(p.comments['unwind'], 'fp')
    check(seen.share() < 0.05, *seen.facts())
    return None


if __name__ == '__main__':
    BUILT = {}
    with tempfile.TemporaryDirectory(prefix='perf-agent-shapes-') as HOME:
        sys.exit(main())
