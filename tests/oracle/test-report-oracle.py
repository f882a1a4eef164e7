#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""perf-agent report against go tool pprof, on profiles that Go's runtime writes.

usage: test-report-oracle.py PERF_AGENT GO_WORKLOADS

Self and cumulative values of all functions are those of -top, with each filter, and callers and callees those of -peek.
Output is TAP.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'live'))
from golib import Go  # noqa: E402
from oraclelib import end, report, skip_all  # noqa: E402

agent, sources = map(os.path.abspath, sys.argv[1:])
# Profile, values, unit of -top, filters.
CASES = [
    ('cpu', 'cpu', 'ns', {}), ('cpu', 'samples', '', {}),
    ('heap', 'alloc_space', 'B', {}), ('heap', 'inuse_objects', '', {}),
    ('mutex', 'delay', 'ns', {}), ('block', 'contentions', '', {}), ('goroutine', 'goroutine', '', {}),
    ('cpu', 'cpu', 'ns', {'focus': 'main.recurse'}),
    ('cpu', 'cpu', 'ns', {'focus': r'^main\.(recurse|nothing)$', 'ignore': 'runtime'}),
    ('cpu', 'cpu', 'ns', {'ignore': 'RECURSE'}), ('cpu', 'cpu', 'ns', {'ignore': '(?i)RECURSE'}),
    ('cpu', 'cpu', 'ns', {'focus': r'main\.go$'}),  # a source file
    ('cpu', 'cpu', 'ns', {'focus': '/profiles$'}),  # the program
    ('cpu', 'cpu', 'ns', {'hide': r'main\.spin|time\.'}), ('cpu', 'cpu', 'ns', {'show': r'^main\.'}),
    ('cpu', 'cpu', 'ns', {'hide': r'main\.go', 'focus': 'main.spin'}),
    ('cpu', 'cpu', 'ns', {'focus': 'nothing of this name'}),
    ('cpu', 'cpu', 'ns', {'tagfocus': 'request=sl.w'}), ('cpu', 'cpu', 'ns', {'tagignore': 'request=slow'}),
    ('cpu', 'cpu', 'ns', {'tagfocus': 'slow'}), ('cpu', 'cpu', 'ns', {'tagfocus': 'slow,shard:7'}),
    ('cpu', 'cpu', 'ns', {'tagfocus': 'slow,shard:8'}), ('cpu', 'cpu', 'ns', {'tagfocus': 'request=fast,slow'}),
    ('cpu', 'cpu', 'ns', {'tagfocus': 'shard=7'}),  # a number, which a text is not
    ('cpu', 'cpu', 'ns', {'tagignore': 'nokey=x'}),
    ('heap', 'alloc_space', 'B', {'tagfocus': 'bytes=8kb:16kb'}), ('heap', 'alloc_space', 'B', {'tagfocus': '9kb:'}),
    ('heap', 'alloc_space', 'B', {'tagignore': 'bytes=:1kb'}), ('heap', 'alloc_space', 'B', {'tagfocus': 'bytes=10240b'}),
    ('heap', 'alloc_objects', '', {'tagfocus': 'bytes=10240'}), ('heap', 'alloc_space', 'B', {'tagfocus': '1ms:'}),
]


def pprof(folder, *argv):
    env = dict(os.environ, HOME=folder, PPROF_TMPDIR=folder, PPROF_BINARY_PATH=folder, GOCACHE=cache)
    got = subprocess.run(['go', 'tool', 'pprof', '-symbolize=none', *argv], capture_output=True, text=True, check=False, env=env)
    if got.returncode:
        print('# ' + got.stderr.replace('\n', '\n# '))
    return got.stdout


def ours(*argv):
    """The tables; none if the filters leave no sample."""
    got = subprocess.run([agent, 'report', '--format', 'json', '--rows', 'all', *argv], capture_output=True, text=True, check=False)
    if got.returncode == 1 and 'the filters leave no sample' in got.stderr:
        return [{'rows': []}]
    if got.returncode:
        print(f'# {got.stderr}')
        return []
    return json.loads(got.stdout)['sections'][0]['tables']


def top(text):
    rows = {}
    for line in text.splitlines():
        m = re.match(r'\s*(-?\d+)[a-zA-Z]*\s+\S+%\s+\S+%\s+(-?\d+)[a-zA-Z]*\s+\S+%\s+(.*?)(?: \((?:partial-)?inline\))?$', line)
        if m and int(m[2]):
            rows[m[3]] = (int(m[1]), int(m[2]))
    return rows


def peek(text, name):
    """Callers and callees of a function in the text of -peek."""
    for block in re.split(r'-{20,}[+]-{20,}\n', text):
        callers, callees, inside = {}, {}, None
        for line in block.splitlines():
            m = re.match(r'\s*(\d+)[a-zA-Z]*\s+\S+%\s+\|\s{3}(\S.*?)(?: \((?:partial-)?inline\))?$', line)
            if m:
                (callers if inside is None else callees)[m[2]] = int(m[1])
            elif re.search(r'\|\s\S', line):
                inside = re.sub(r' \((?:partial-)?inline\)$', '', line.split('| ', 1)[1].strip())
        if inside == name:
            return callers, callees
    return None


def check_case(folder, name, values, unit, filters):
    path = os.path.join(folder, name + '.pb.gz')
    words = [f'-{k}={v}' for k, v in filters.items()]
    want = top(pprof(folder, '-top', f'-sample_index={values}', '-nodecount=0', '-nodefraction=0', '-edgefraction=0',
                     *([f'-unit={unit}'] if unit else []), *words, path))
    tables = ours('--cum', '--value', values, *['-' + w for w in words], path)
    got = {r['function']: (r['self'], r['cum']) for r in tables[0]['rows'] if r['cum']} if tables else None
    report(got == want, f'{name}: {values} of {len(want)} functions {filters or ""}')
    if got != want:
        print(f'# ours: {got}\n# -top: {want}')
    return want


if not shutil.which('go'):
    skip_all('no Go toolchain')
# go tool builds pprof when it is not in the cache, which is below HOME by default.
cache = subprocess.run(['go', 'env', 'GOCACHE'], capture_output=True, text=True, check=True).stdout.strip()
with tempfile.TemporaryDirectory() as folder:
    program = Go(sources, folder).build('profiles', './profiles')
    if not program:
        skip_all('the Go toolchain does not build the program')
    subprocess.run([program, folder], check=True)
    found = [bool(check_case(folder, *case)) for case in CASES]
    report(sum(found) > len(CASES) / 2, 'most filters leave something')
    path = os.path.join(folder, 'cpu.pb.gz')
    for function in ['main.recurse', 'main.spin']:
        want = peek(pprof(folder, '-peek', f'^{function}$', '-unit=ns', '-nodefraction=0', '-edgefraction=0', path), function)
        tables = ours('--peek', function, path)
        got = tuple({r['function']: r['value'] for r in t['rows']} for t in tables[1:3])
        report(want is not None and got == want and any(want), f'callers and callees of {function}')
        if got != want:
            print(f'# ours:  {got}\n# -peek: {want}')
end()
