#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs and libraries whose ELF is damaged but that still run: what is damaged is skipped and counted, the rest stays.

usage: test-damaged.py PERF-AGENT SPIN
"""
import os
import struct
import sys

from privlib import Profile, Workload, check, equal, is_address, main, run, test

OUT = 'out.pb.gz'
U16, U32, U64 = '<H', '<I', '<Q'
HUGE = 0xfffffffffffffff0


class Elf:
    """The bytes of a 64-bit ELF file and where its fields are."""

    def __init__(self, path):
        with open(path, 'rb') as f:
            self.data = bytearray(f.read())
        check(self.data[:5] == b'\x7fELF\x02', path)

    def get(self, form, at):
        return struct.unpack_from(form, self.data, at)[0]

    def put(self, form, at, value):
        struct.pack_into(form, self.data, at, value)

    def sections(self, kind):
        """Offsets of the section headers of this type."""
        start, size, count = self.get(U64, 40), self.get(U16, 58), self.get(U16, 60)
        return [at for at in range(start, start + size * count, size) if self.get(U32, at + 4) == kind]

    def notes(self):
        """File offsets of notes by program headers: it is those that describe what is mapped."""
        start, size, count = self.get(U64, 32), self.get(U16, 54), self.get(U16, 56)
        return [self.get(U64, at + 8) for at in range(start, start + size * count, size) if self.get(U32, at) == 4]

    def write(self, path):
        with open(path, 'wb') as f:
            f.write(self.data)
        os.chmod(path, 0o755)
        return path


SYMTAB, STRTAB = 2, 3


def section_headers_past_the_end(e):
    e.put(U64, 40, HUGE)


def section_headers_in_text(e):
    e.put(U64, 40, 0x1003)


def no_of_sections(e):
    e.put(U16, 60, 0xffff)


def size_of_a_section_header(e):
    e.put(U16, 58, 1)


def names_of_sections(e):
    e.put(U16, 62, 0xfff0)


def size_of_symtab(e):
    for at in e.sections(SYMTAB):
        e.put(U64, at + 32, HUGE)


def place_of_symtab(e):
    for at in e.sections(SYMTAB):
        e.put(U64, at + 24, HUGE)


def entry_size_of_symtab(e):
    for at in e.sections(SYMTAB):
        e.put(U64, at + 56, 1)


def link_of_symtab(e):
    for at in e.sections(SYMTAB):
        e.put(U32, at + 40, 0x7fffffff)


def size_of_strings(e):
    for at in e.sections(STRTAB):
        e.put(U64, at + 32, HUGE)


def names_of_symbols(e):
    for at in e.sections(SYMTAB):
        start, size = e.get(U64, at + 24), e.get(U64, at + 32)
        for symbol in range(start, start + size, 24):
            e.put(U32, symbol, 0x7ffffff0)


def name_size_of_notes(e):
    for at in e.notes():
        e.put(U32, at, 0xfffffff0)


def value_size_of_notes(e):
    for at in e.notes():
        e.put(U32, at + 4, 0xffffffff)


# Damage, and whether names are left: yes, no, or unknown here (.dynsym or DWARF may have some).
# Then whether it is counted: what cannot be distinguished from sound bytes, or is not needed for anything, is not.
CASES = (
    (section_headers_past_the_end, False, True), (section_headers_in_text, None, False), (no_of_sections, None, True),
    (size_of_a_section_header, False, True), (names_of_sections, True, False), (size_of_symtab, None, True),
    (place_of_symtab, None, True), (entry_size_of_symtab, None, True), (link_of_symtab, None, True),
    (size_of_strings, None, True), (names_of_symbols, None, True), (name_size_of_notes, True, True),
    (value_size_of_notes, True, True),
)


# spin_thread never runs, but a heuristic frame, walked before the unwind table came, may be in it.
NAMES = {'spin_a', 'spin_b', 'spin_pair', 'spin_run', 'spin_thread', 'main', '_start'}


def check_frames(samples, name, named):
    """Frames of the file @name: all sampled, with names (@named: surely, surely not, either) or as addresses in it."""
    own = [f for s in samples for f, m in zip(s.frames, s.files) if m.endswith('/' + name)]
    check(own, 'no frame of', name, samples[:3])
    plain = [f for f in own if is_address(f)]
    check(set(own) - set(plain) <= NAMES, 'names that are not there', name, set(own) - set(plain) - NAMES)
    if named is True:
        check(not plain, name, plain[:9])
    if named is False:
        equal(len(plain), len(own), name, own[:9])
    return plain


def check_profile(r, name, named, counted):
    """The frames, and that damage is counted (@counted) as a file or an item, or is the reason of unnamed frames."""
    equal(r.rc, 0, r)
    p = Profile(OUT)
    plain = check_frames(p.samples, name, named)
    count = int(p.comment('images_damaged') or 0) + int(p.comment('elf_bad_items') or 0)
    if counted:
        check(count or p.comment('unnamed_frames_damaged_elf_file'), p.comments)
    if plain:
        reasons = [c for c in p.comments if c.startswith('unnamed_frames_')]
        check(reasons, 'no reason', p.comments)
    # Other files are named as before.
    kernel = [f for s in p.samples for f, m in zip(s.frames, s.files) if m == '[kernel]']
    check(not kernel or any(not is_address(f) for f in kernel), kernel[:9])
    return p


def damage_test(damage, named, counted):
    def program():
        e = Elf(SPIN)
        damage(e)
        path = e.write(os.path.abspath('damaged'))
        with Workload([path, '--seconds', '100']) as w:
            r = run([AGENT, '--profile', '--pid', str(w.pid), '--duration', '400ms', '--profile-output', OUT])
            check_profile(r, 'damaged', named, counted)

    program.__name__ = 'program with damaged ' + damage.__name__
    test(program)


for case in CASES:
    damage_test(*case)


@test
def undamaged_is_named():
    """The same steps without damage: what the cases above see comes from the damage."""
    path = Elf(SPIN).write(os.path.abspath('damaged'))
    with Workload([path, '--seconds', '100']) as w:
        r = run([AGENT, '--profile', '--pid', str(w.pid), '--duration', '400ms', '--profile-output', OUT])
        p = check_profile(r, 'damaged', True, False)
        equal([c for c in p.comments if 'damaged' in c.split(':')[0] or 'bad' in c.split(':')[0]], [], p.comments)


@test
def all_of_them_at_once():
    """One capture of the machine with a process of each kind, and a sound one: each file's damage costs its own names."""
    running = []
    try:
        for damage, named, counted in CASES:
            e = Elf(SPIN)
            damage(e)
            w = Workload([e.write(os.path.abspath(damage.__name__)), '--seconds', '100'])
            running.append((w, damage.__name__, named, counted))
        sound = Elf(SPIN).write(os.path.abspath('sound'))
        running.append((Workload([sound, '--seconds', '100']), 'sound', True, False))
        # Fifteen programs share the CPUs: often enough that each one is met.
        r = run([AGENT, '--profile', '-a', '--sample-rate', '499', '--duration', '3s', '--profile-output', OUT])
        equal(r.rc, 0, r)
        p = Profile(OUT)
        for w, name, named, _ in running:
            check_frames(p.of(pid=w.pid), name, named)
        # A file counts once, however many items of it are damaged; one whose names are lost may be a reason instead.
        damaged = int(p.comment('images_damaged') or 0)
        check(damaged >= sum(counted for *_, counted in running) - 1, damaged, p.comments)
    finally:
        for w, *_ in running:
            w.__exit__()


if __name__ == '__main__':
    AGENT, SPIN = (os.path.abspath(a) for a in sys.argv[1:3])
    sys.exit(main())
