#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""perf-agent report --annotate against perf annotate, on a perf.data.

usage: test-annotate-oracle.py PERF_AGENT WORKLOAD

Each instruction of the hottest functions has the samples and the text that perf shows. Output is TAP.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from oraclelib import end, report, skip_all

agent, workload = map(os.path.abspath, sys.argv[1:])
FUNCTIONS = ['apply_discounts', 'compare_goods', 'sort_shelves', 'parse_order', 'hash_ledger']


def run(*argv):
    return subprocess.run(argv, capture_output=True, text=True, errors='replace', check=False)


def theirs(path, function):
    """Samples and text of each instruction: {address: (samples, text)}."""
    got = run('perf', 'annotate', '--stdio', '--show-nr-samples', '-i', path, '-s', function)
    found = re.findall(r'^ *(\d+) : +([0-9a-f]+):\s+(.*)$', got.stdout, re.M)
    return {int(address, 16): (int(samples), text.strip()) for samples, address, text in found}


def ours(path, function):
    got = run(agent, 'report', '--format', 'json', '--value', 'samples', '--annotate', function, path)
    if got.returncode:
        print('# ' + got.stderr)
        return {}, 0, 0
    tables = json.loads(got.stdout)['sections'][0]['tables']
    code = [t for t in tables if t['table'] == 'instructions' and t['symbol'] == function]
    rows = code[0]['rows'] if code else []
    # Without callers, the cumulative value of an instruction is that of the samples at it, also of inlined code.
    return ({int(r['address'], 16): (r['cum'], r['text']) for r in rows},
            tables[0]['rows'][0]['self'], sum(r['self'] for t in tables if t['table'] == 'instructions' for r in t['rows']))


def words(instructions):
    """Blanks and names of targets apart: the two ask objdump in different ways."""
    return {a: (n, re.sub(r'\s*[<#].*', '', ' '.join(text.split()))) for a, (n, text) in instructions.items()}


for tool in ['perf', 'objdump']:
    if not shutil.which(tool):
        skip_all(f'no {tool}')
with tempfile.TemporaryDirectory() as folder:
    data = os.path.join(folder, 'perf.data')
    made = run('perf', 'record', '-q', '-e', 'cpu-clock', '-F', '499', '-o', data, workload, '--seconds', '2')
    if made.returncode:
        skip_all(f'perf record: {made.stderr.strip().splitlines()[-1:]}')
    seen = 0
    for name in FUNCTIONS:
        want = theirs(data, name)
        got, own, listed = ours(data, name)
        samples = sum(n for n, _ in want.values())
        same = bool(want) and words(got) == words(want)
        seen += samples > 20
        report(same, f'{len(want)} instructions of {name} with {samples} samples')
        if not same:
            for address in sorted(set(got) | set(want)):
                if words(got).get(address) != words(want).get(address):
                    print(f'# {address:#x}: ours {got.get(address)}, perf {want.get(address)}')
        report(own == listed, f'the self values of {name} add up to {own}')
    report(seen > 2, 'most functions have samples')
end()
