#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""perf-agent report against go tool pprof, on profiles that Go's runtime writes.

usage: test-report-oracle.py PERF_AGENT GO_WORKLOADS

Self and cumulative values of all functions are those of -top, with each filter, callers and callees those of -peek, and the
lines of functions with their values those of -list.
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


def listings(text):
    """The lines of each function that -list has the source of: {name: {line: (flat, cum, text)}}."""
    found = {}
    for block in text.split('ROUTINE ======================== ')[1:]:
        head, _, body = block.partition('\n')
        rows = re.findall(r'^ *(\.|-?\d+)[a-zA-Z]* +(\.|-?\d+)[a-zA-Z]* +(\d+): ?(.*)$', body, re.M)
        if rows:
            found[head.rpartition(' in ')[0]] = {int(line): (int(flat.replace('.', '0')), int(cum.replace('.', '0')), source.strip())
                                                 for flat, cum, line, source in rows}
    return found


def check_list(folder, name, values, unit, function):
    path = os.path.join(folder, name + '.pb.gz')
    goroot = subprocess.run(['go', 'env', 'GOROOT'], capture_output=True, text=True, check=True).stdout.strip()
    dirs = [sources, goroot]
    want = listings(pprof(folder, '-list', f'^{re.escape(function)}$', f'-sample_index={values}', f'-unit={unit}',
                          '-source_path=' + ':'.join(dirs), path)).get(function, {})
    tables = ours('--value', values, '--annotate', function, *['--source-dir=' + d for d in dirs], path)
    source = [t for t in tables if t['table'] == 'source']
    got = {r['line']: (r['self'], r['cum'], ' '.join(r['text'].split())) for t in source[:1] for r in t['rows']}
    want = {line: (flat, cum, ' '.join(text.split())) for line, (flat, cum, text) in want.items()}
    # The two begin and end listings at different lines.
    differ = [line for line in want if line in got and got[line] != want[line]]
    valued = {line for line, (_, cum, _) in want.items() if cum}
    same = bool(valued) and not differ and valued == {line for line, (_, cum, _) in got.items() if cum}
    code = [r for t in tables if t['table'] == 'instructions' for r in t['rows']]
    own = tables[0]['rows'][0]['self'] if tables else None
    report(same, f'{name}: {values} of {len(valued)} lines of {function}')
    report(sum(r['self'] for r in code) == own and bool(code), f'{name}: {values} of instructions of {function} add up')
    if not same:
        print(f'# ours:  {got}\n# -list: {want}')


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
    for name, values, unit, function in [('cpu', 'cpu', 'ns', 'main.recurse'), ('cpu', 'cpu', 'ns', 'main.spin'),
                                         ('cpu', 'cpu', 'ns', 'main.main'), ('cpu', 'cpu', 'ns', 'runtime/pprof.Do'),
                                         ('heap', 'alloc_space', 'B', 'main.allocate'),
                                         ('heap', 'alloc_space', 'B', 'compress/flate.NewWriter'),
                                         ('mutex', 'delay', 'ns', 'main.contend')]:
        check_list(folder, name, values, unit, function)
end()
