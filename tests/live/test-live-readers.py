#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Profiles of the running kernel as other people's tools read them: go tool pprof and protoc."""
import collections
import gzip
import os
import re
import shutil
import subprocess
import sys

from livelib import WAIT_S, Workload, capture, check, equal, main, test

PROTO_DIRS = ('/usr/share/gocode/src/github.com/google/pprof/proto', '/usr/include/google/pprof/proto')
RUN_S = 40  # of a workload: longer than any test of this file, which ends it
GO_WAIT_S = 5 * WAIT_S  # the first call of go tool pprof compiles it


def run(argv, data=None):
    env = {**os.environ, 'PPROF_TMPDIR': os.getcwd(), 'GOTOOLCHAIN': 'local', 'GOFLAGS': ''}
    p = subprocess.run(argv, input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=GO_WAIT_S, env=env,
                       check=False)
    equal(p.returncode, 0, argv, p.stderr.decode('utf-8', 'replace'))
    return p.stdout.decode()


def line_of(text):
    """'name file:line:column s=n(linkage name)': name, file, line"""
    m = re.match(r'(.*?) ?(\S*?):(\d+)(?::\d+)? s=\d+', text)
    return m[1].strip(), m[2], int(m[3])


def pprof_raw(path):
    """The answer of go tool pprof -raw: its head, samples [(values, ids, {label: value})], {id: (address, mapping, names)}"""
    head, rest = run(['go', 'tool', 'pprof', '-symbolize=none', '-raw', path]).split('Samples:\n', 1)
    samples_text, rest = rest.split('Locations\n', 1)
    locations_text, mappings_text = rest.split('Mappings\n', 1)
    samples = []
    for line in samples_text.splitlines()[1:]:
        m = re.fullmatch(r'\s*(\d+)\s+(\d+): ([\d ]*)', line)
        if m:
            samples.append(((int(m[1]), int(m[2])), tuple(map(int, m[3].split())), {}))
            continue
        for key, strings, n in re.findall(r'(\w+):\[(?:([^\]]*))()\]', line):
            samples[-1][2][key] = int(strings) if key in ('pid', 'tid') else strings
    locations = {}
    last = None
    for line in locations_text.splitlines():
        m = re.match(r'\s*(\d+): 0x([0-9a-f]+) (?:M=(\d+) )?(.*)', line)
        if m:
            last = int(m[1])
            locations[last] = (int(m[2], 16), int(m[3] or 0), [line_of(m[4])])
        elif last and line.strip():
            locations[last][2].append(line_of(line.strip()))  # the function that it was inlined into
    mappings = [m for m in map(str.strip, mappings_text.splitlines()) if m]
    return head, samples, locations, mappings


@test
def go_tool_pprof_reads_the_same():
    if not shutil.which('go'):
        return 'no go'
    w = Workload('syscalls', '--seconds', RUN_S)
    p = capture('--pid', w.pid, '--duration', '1s', '--sample-rate', 999, '--tag', 'k=v')
    w.stop()
    head, samples, locations, mappings = pprof_raw('p.pb.gz')
    equal([line[9:] for line in head.splitlines() if line.startswith('Comment: ')], p.raw_comments)
    check(f'Period: {p.period}\n' in head and 'PeriodType: cpu nanoseconds\n' in head, head)

    def ours(s):
        frames = tuple((f.address, tuple((fn.name, fn.file, line) for fn, line in zip(f.functions, f.lines)))
                       for f in s.frames)
        return tuple(s.values), frames, tuple(sorted(s.labels.items()))

    def theirs(values, ids, labels):
        frames = tuple((locations[i][0], tuple(locations[i][2])) for i in ids)
        return values, frames, tuple(sorted(labels.items()))
    mine = collections.Counter(map(ours, p.samples))
    other = collections.Counter(theirs(*s) for s in samples)
    check(len(mine) > 10, len(mine))
    check(mine == other, 'only we:', *list((mine - other).items())[:3], 'only pprof:', *list((other - mine).items())[:3])
    equal(len(mappings), len(p.mappings))
    for ours_map, line in zip(p.mappings, mappings):
        want = f'{ours_map.id}: {ours_map.start:#x}/{ours_map.limit:#x}/{ours_map.offset:#x} {ours_map.path} {ours_map.build_id}'
        equal(line.split(' [')[0] if not ours_map.path.startswith('[') else line[:len(want.strip())], want.strip())
    top = run(['go', 'tool', 'pprof', '-symbolize=none', '-top', 'p.pb.gz'])
    check('syscalls_enter' in top, top)
    head = top.split('flat%')[0].splitlines()
    check('k=v' in head and 'samples_seen' not in top, 'a tag is shown before the table, the quality is not', top)


@test
def go_tool_pprof_reads_an_empty_profile():
    if not shutil.which('go'):
        return 'no go'
    w = Workload('idle', '--seconds', RUN_S)
    p = capture('--pid', w.pid, '--duration', '1s')
    head, samples, locations, _ = pprof_raw('p.pb.gz')
    equal((samples, locations), ([], {}))
    check('; empty: ' in head, head)
    equal(p.samples, [])


@test
def protoc_reads_the_same():
    folder = next((d for d in PROTO_DIRS if os.path.exists(os.path.join(d, 'profile.proto'))), None)
    if not shutil.which('protoc') or not folder:
        return 'no protoc, or no profile.proto'
    w = Workload('spin', '--seconds', RUN_S, '--threads', 2)
    p = capture('--pid', w.pid, '--duration', '1s', '--sample-rate', 999)
    with open('p.pb.gz', 'rb') as f:
        raw = gzip.decompress(f.read())
    text = run(['protoc', f'--proto_path={folder}', '--decode=perftools.profiles.Profile', 'profile.proto'], raw)
    # A field that profile.proto does not know would be shown by its number. The column of a line came in 2023.
    unknown = re.findall(r'^\s*\d+[:{ ].*$', text, re.M)
    equal([u for u in unknown if not re.fullmatch(r'    3: \d+', u)], [])
    blocks = collections.Counter(re.findall(r'^(\w+) \{$', text, re.M))
    equal(blocks['sample'], len(p.samples))
    equal(blocks['mapping'], len(p.mappings))
    equal(blocks['location'], len(p.frames))
    equal(blocks['function'], len(p.functions))
    equal(len(re.findall(r'^string_table: ', text, re.M)), len(p.strings))
    samples = []
    for block in re.findall(r'^sample \{\n(.*?)^\}$', text, re.M | re.S):
        samples.append((list(map(int, re.findall(r'^  location_id: (\d+)$', block, re.M))),
                        list(map(int, re.findall(r'^  value: (\d+)$', block, re.M))),
                        list(map(int, re.findall(r'^    num: (\d+)$', block, re.M)))))
    equal(samples, [([f.id for f in s.frames], s.values, [s.pid, s.tid]) for s in p.samples])
    for key, value in (('time_nanos', p.time_nanos), ('duration_nanos', p.duration_nanos), ('period', p.period)):
        equal(re.findall(rf'^{key}: (\d+)$', text, re.M), [str(value)])


if __name__ == '__main__':
    sys.exit(main())
