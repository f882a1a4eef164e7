#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Profiles that Go's runtime writes, through our reader and writer, against go tool pprof.

usage: test-decode-pprof.py DECODE_DRIVER GO_WORKLOADS

A program in Go writes profiles of itself. go tool pprof must show the same of each file and of what our
reader and our writer make of it. Our own text of it has the totals that -top has. Output is TAP.
"""

import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'live'))
from golib import Go  # noqa: E402
from oraclelib import end, report, skip_all  # noqa: E402

driver, sources = sys.argv[1:]
PROFILES = ['cpu', 'heap', 'mutex', 'block', 'goroutine']


def run(*argv, **env):
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=dict(os.environ, **env))


class Pprof:
    """go tool pprof, without its settings and without looking for files of programs. go compiles it where no cache has
    it; that of the user is the one that other tests use for it."""

    def __init__(self, folder, other_cache):
        cache = run('go', 'env', 'GOCACHE').stdout.strip()
        self.env = {'HOME': folder, 'PPROF_TMPDIR': folder, 'PPROF_BINARY_PATH': folder, 'GOCACHE': cache or other_cache,
                    'GOTOOLCHAIN': 'local'}

    def text(self, *argv):
        got = run('go', 'tool', 'pprof', '-symbolize=none', *argv, **self.env)
        if got.returncode != 0:
            print('# ' + got.stderr.replace('\n', '\n# '))
        return got.stdout


def self_values(text, column):
    """The self value of each function, from the driver's text."""
    sums, values = collections.Counter(), None
    for line in text.splitlines():
        tag, *fields = line.split('\t')
        if tag == 'sample':
            values = [int(v) for v in fields]
        elif tag == 'stack' and fields:
            sums[fields[0].split(' ', 1)[1].split('|')[0]] += values[column]
    return {name: v for name, v in sums.items() if v}


def top_values(text):
    """The flat column of -top -unit=count or of a unit without fractions."""
    rows = {}
    for line in text.splitlines():
        m = re.match(r'\s*(-?\d+)\S*\s+\S+%\s+\S+%\s+-?\d+\S*\s+\S+%\s+(.*)$', line)
        if m and int(m[1]):
            rows[re.sub(r' \(inline\)$', '', m[2])] = int(m[1])
    return rows


if not shutil.which('go'):
    skip_all('no Go toolchain')
with tempfile.TemporaryDirectory() as folder:
    go = Go(sources, folder)
    program = go.build('profiles', './profiles')
    if not program:
        skip_all('the Go toolchain does not build the program')
    subprocess.run([program, folder], check=True)
    pprof = Pprof(folder, go.env['GOCACHE'])
    for name in PROFILES:
        path, again = os.path.join(folder, name + '.pb.gz'), os.path.join(folder, name + '.again')
        wrote = run(driver, path, again)
        report(wrote.returncode == 0 and not wrote.stderr, f'{name}: is read without notes {wrote.stderr.strip()}')
        want, got = pprof.text('-raw', path), pprof.text('-raw', again)
        report('Locations' in want and got == want, f'{name}: -raw of it is the same after our reader and writer')
        text = run(driver, path).stdout
        n_types = len(re.findall(r'^type\t', text, re.M))
        report(n_types == (4 if name == 'heap' else 1 if name == 'goroutine' else 2), f'{name}: {n_types} sample types')
        types = re.findall(r'^type\t(\S+)\t(\S+)$', text, re.M)
        for i, (kind, unit) in list(enumerate(types))[-1:]:
            unit = {'nanoseconds': 'ns', 'bytes': 'B'}.get(unit, unit)
            want = top_values(pprof.text('-top', f'-sample_index={i}', f'-unit={unit}', '-nodecount=100000',
                                         '-nodefraction=0', '-edgefraction=0', path))
            got = self_values(text, i)
            report(got == want, f'{name}: {kind}: self values of {len(want)} functions as in -top')
            if got != want:
                print(f'# ours: {got}\n# -top: {want}')
    labels = run(driver, os.path.join(folder, 'cpu.pb.gz')).stdout
    report('request=slow\tshard=7' in labels, 'cpu: labels')
end()
