#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Rows of .gopclntab of Go programs, built here, against those of their .debug_frame at every pc, and against those of
the same programs stripped.

    test-go-rows.py DRIVER SOURCES
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'live'))
from golib import Go  # noqa: E402

driver, sources = sys.argv[1:3]


def skip(why):
    print(f'1..0 # SKIP {why}')
    sys.exit(0)


def rows(path):
    return subprocess.run([driver, 'rows', path], check=True, capture_output=True, text=True).stdout


def compare(path):
    r = subprocess.run([driver, 'compare', path], capture_output=True, text=True)
    lines = r.stdout.splitlines()
    if r.returncode or not lines:
        print('# ' + r.stderr.strip().replace('\n', '\n# '))
        return None
    for line in lines:
        print('# ' + line)
    return json.loads(lines[-1])


def check(name, path, stripped):
    """Returns the problem, or None."""
    c = compare(path)
    if c is None:
        return 'the driver failed'
    if c['differ']:
        return f'{c["differ"]} of {c["pcs"]} pcs differ'
    if c['functions'] < 1000 or c['pcs'] < 100000 or not 1 <= c['roots'] < 2000:
        return 'too little was compared'
    if not 0.5 < c['saved'] / c['pcs'] < 1:
        return f'the frame pointer is kept at {c["saved"]} of {c["pcs"]} pcs'
    # The text of both is the same, and so are its addresses.
    if stripped and rows(stripped) != rows(path):
        return f'{name}: the stripped program has other rows'
    return None


if not shutil.which('go'):
    skip('no Go toolchain')
if os.uname().machine != 'x86_64':
    skip('frame pointers are distinguished from x86-64 code')
with tempfile.TemporaryDirectory() as folder:
    go = Go(sources, folder)
    if not go.build('probe', './pure'):
        skip('the Go toolchain does not build the programs')
    cases = [('pure', './pure', []), ('position-independent', './pure', ['-buildmode=pie']), ('cgo', './cgo', []),
             ('position-independent cgo', './cgo', ['-buildmode=pie'])]
    print(f'1..{len(cases)}')
    failed = 0
    for i, (name, package, flags) in enumerate(cases, 1):
        full = go.build(f'full-{i}', package, *flags)
        stripped = go.build(f'stripped-{i}', package, *flags, '-ldflags=-s -w')
        if not full or not stripped:
            print(f'ok {i} - {name} # SKIP this toolchain does not build it')
            continue
        wrong = check(name, full, stripped)
        failed += wrong is not None
        print(f'{"not ok" if wrong else "ok"} {i} - {name}' + (f'\n# {wrong}' if wrong else ''))
    sys.exit(failed > 0)
