#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""perf-agent unwind-info on real, odd and damaged files. Needs no privileges. TAP on standard output.

    test-unwind-info.py PERF-AGENT PROGRAM
"""
import os
import re
import shutil
import struct
import subprocess
import sys

sys.dont_write_bytecode = True
from cli_harness import check, equal, finish, main, start, test

AGENT, PROGRAM = map(os.path.abspath, sys.argv[1:3])
NUMBERS = ['functions', 'bad_functions', 'overlapping_functions', 'rows', 'rules', 'interned_rules', 'unsupported_bytes',
           'kernel_bytes']


def info(*words, **more):
    return finish(start(AGENT, ['unwind-info', *words], **more))


def statistics(path):
    r = info(path)
    equal((r.rc, r.err), (0, ''), r)
    return dict(line.split(': ', 1) for line in r.out.splitlines())


def refused(path, text, *words):
    r = info(path, *words)
    equal((r.rc, r.out, len(r.lines)), (1, '', 1), path, r)
    check(r.err.startswith(f'perf-agent: {path}: ') and text in r.err, f'no {text!r}', r)
    return r


def write(name, data):
    with open(name, 'wb') as f:
        f.write(data)
    return name


def program_bytes():
    with open(PROGRAM, 'rb') as f:
        return f.read()


def symbol(name):
    """Address and size by nm, None without it."""
    if not shutil.which('nm'):
        return None
    out = subprocess.run(['nm', '-S', PROGRAM], capture_output=True, text=True, check=False).stdout
    m = re.search(rf'^([0-9a-f]+) ([0-9a-f]+) [tT] {name}$', out, re.M)
    return (int(m[1], 16), int(m[2], 16)) if m else None


def is_x86():
    return os.uname().machine == 'x86_64'


@test
def statistics_of_a_program():
    f = statistics(PROGRAM)
    equal(list(f), ['sources', *NUMBERS])
    check('eh_frame' in f['sources'].split(), f)
    n = {k: int(f[k]) for k in NUMBERS}
    check(n['functions'] > 3 and n['rows'] >= n['functions'] and 0 < n['rules'] <= n['rows'], f)
    check(n['interned_rules'] <= n['rules'] and n['kernel_bytes'] >= 4 * n['rows'], f)
    equal((n['bad_functions'], n['unsupported_bytes']), (0, 0), f)


@test
def functions_are_those_that_readelf_counts():
    if not shutil.which('readelf'):
        return 'needs readelf'
    out = subprocess.run(['readelf', '--debug-dump=frames', PROGRAM], capture_output=True, text=True, check=True).stdout
    equal(int(statistics(PROGRAM)['functions']), len(re.findall(r' FDE cie=', out)))


@test
def rule_at_the_start_of_a_function():
    at = symbol('main')
    if not at:
        return 'needs nm and symbols'
    for word in [f'0x{at[0]:x}', f'{at[0]:X}']:
        r = info(PROGRAM, '--pc', word)
        equal((r.rc, r.err), (0, ''), r)
        lines = r.out.splitlines()
        equal(len(lines), 3, r)
        equal(lines[0], f'pc: 0x{at[0]:x}')
        check(re.fullmatch('offset: 0x[0-9a-f]+', lines[1]), r)
        if is_x86():
            equal(lines[2], 'rule: CFA=rsp+8 RA=[CFA-8]')
        else:
            check(lines[2].startswith('rule: CFA='), r)
    r = info(f'-pc={at[0]:x}', PROGRAM)
    equal((r.rc, len(r.out.splitlines())), (0, 3), r)


@test
def outermost_frame_is_reported():
    at = symbol('_start')
    if not at:
        return 'needs nm and symbols'
    r = info(PROGRAM, '--pc', hex(at[0]))
    equal(r.rc, 0, r)
    check(r.out.splitlines()[2].startswith('rule: root'), r)


@test
def address_outside_the_code_is_refused():
    for word in ['0', '0xffffffffffffffff', '0x7fffffffffff']:
        r = refused(PROGRAM, 'is outside its code', '--pc', word)
        check('as nm and readelf print them' in r.err, r)


@test
def what_is_no_file_is_refused():
    os.mkdir('folder')
    refused('folder', 'a directory, not a file')
    os.mkfifo('fifo')  # must not be waited for
    refused('fifo', 'a FIFO, not a file')
    refused('/dev/null', 'a device, not a file')
    refused('/dev/zero', 'a device, not a file')
    refused('missing', 'ENOENT')
    if os.geteuid() != 0:
        os.chmod(write('secret', program_bytes()), 0)
        refused('secret', 'EACCES')


@test
def what_is_no_elf_file_is_refused():
    refused(write('text', b'#!/bin/sh\necho hello\n'), 'not a little-endian ELF file')
    refused(write('empty', b''), 'ELF')
    refused(write('magic', b'\x7fELF'), 'ELF')
    data = bytearray(program_bytes())
    data[5] = 2
    refused(write('big-endian', data), 'ELF')


@test
def other_processors_are_refused():
    data = bytearray(program_bytes())
    other = 183 if is_x86() else 62
    struct.pack_into('<H', data, 18, other)
    refused(write('other', data), f'another processor (ELF machine {other})')
    # A whole 32-bit file of nothing but its header.
    header = b'\x7fELF\x01\x01\x01' + bytes(9) + struct.pack('<HHIIIIIHHHHHH', 2, 3, 1, 0, 0, 0, 0, 52, 32, 0, 40, 0, 0)
    refused(write('narrow', header), '32-bit')


@test
def file_without_information_is_refused():
    if not shutil.which('objcopy'):
        return 'needs objcopy'
    subprocess.run(['objcopy', '--remove-section=.eh_frame', '--remove-section=.eh_frame_hdr', PROGRAM, 'bare'],
                   check=True, capture_output=True)
    with open('bare', 'r+b') as f:
        data = bytearray(f.read())
        # The program header stays: PT_GNU_EH_FRAME -> PT_NULL.
        off, size, n = struct.unpack_from('<Q', data, 32)[0], *struct.unpack_from('<HH', data, 54)
        for i in range(n):
            if struct.unpack_from('<I', data, off + i * size)[0] == 0x6474e550:
                struct.pack_into('<I', data, off + i * size, 0)
        f.seek(0)
        f.write(data)
    r = refused('bare', 'no call-frame information')
    check('-fasynchronous-unwind-tables' in r.err, r)


@test
def cut_off_files_end_in_a_line_or_a_table():
    data = program_bytes()
    for size in [16, 63, 64, 100, len(data) // 4, len(data) // 2, len(data) - 1]:
        r = info(write('cut', data[:size]))
        check(r.rc in (0, 1), size, r)
        equal(len(r.lines), r.rc, size, r)
        check(r.rc == 0 or r.err.startswith('perf-agent: cut: '), size, r)


@test
def stripped_program_has_the_same_table():
    if not shutil.which('strip'):
        return 'needs strip'
    subprocess.run(['strip', '-o', 'stripped', PROGRAM], check=True, capture_output=True)
    equal(statistics('stripped')['rows'], statistics(PROGRAM)['rows'])


@test
def closed_output_is_a_failure():
    with open('/dev/full', 'wb') as full:
        r = info(PROGRAM, stdout=full)
    equal((r.rc, len(r.lines)), (1, 1), r)


if __name__ == '__main__':
    sys.exit(main())
