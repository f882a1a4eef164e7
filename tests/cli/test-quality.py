#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The report at the end of a run, against the scripted library of fake_perfagent.c. TAP on standard output.

    test-quality.py PERF-AGENT-FAKE QUALITY.SCHEMA.JSON
"""
import json
import os
import re
import sys

sys.dont_write_bytecode = True
from cli_harness import check, equal, finish, main, start, test  # noqa: E402

FAKE, SCHEMA = map(os.path.abspath, sys.argv[1:3])
UMASK = os.umask(0o22)
os.umask(UMASK)
ME = ['--profile', '--pid', str(os.getpid()), '--duration', '50ms', '--profile-output', 'p']
READ = 'to read: perf-agent report p, or go tool pprof -http=: p'
TOP = '1 1 /bin/x f'


def run(*args, env=None, **more):
    return finish(start(FAKE, args, env, **more))


def said(seen=1000, quality=(), top=TOP, words=(), **env):
    """The lines from the verdict on."""
    r = run(*ME, *words, env={'FAKE_SEEN': str(seen), 'FAKE_QUALITY': '\n'.join(quality), 'FAKE_TOP': top, **env})
    equal(r.rc, 0, r)
    at = r.lines.index('perf-agent: profile written: p')
    return r.lines[at + 1:]


@test
def a_good_run_has_one_line():
    equal(said(1912, ['complete_stacks_pct: 100.00', 'agent_cpu_pct: 1.31', 'lost_stacks_pct: 0.00', 'cut_stacks_pct: 0.00',
                      'heuristic_stacks_pct: 1.00', 'heuristic_in: a.so 1.00', 'named_user_pct: 99.99', 'idle_pct: 0.00']),
          ['quality: good, 1,912 samples, 0 lost; overhead 1.3 % CPU', READ])


@test
def the_verdict_has_at_most_100_columns():
    line = said(10**12, ['agent_cpu_pct: 1234.5', 'idle_pct: 99.99'], FAKE_DROPPED=str(10**11))[0]
    equal(line, 'quality: poor, 900,000,000,000 samples, 99.99 % idle, 100,000,000,000 lost; overhead 1234.5 % CPU')
    check(len(line) <= 100, line)


@test
def the_verdict_says_what_it_knows():
    for seen, quality, env, want in [
            (1000, ['agent_cpu_pct: 0.04'], {}, 'quality: good, 1,000 samples, 0 lost; overhead <0.1 % CPU'),
            (1000, [], {'FAKE_ELAPSED_MS': '10000', 'FAKE_AGENT_MS': '50'},
             'quality: good, 1,000 samples, 0 lost; overhead 0.5 % CPU'),
            (1000, [], {}, 'quality: good, 1,000 samples, 0 lost'),
            (1000, ['idle_pct: 92.1'], {}, 'quality: good, 1,000 samples, 92.1 % idle, 0 lost'),
            (1000, [], {'FAKE_OWN': '300'}, 'quality: good, 700 samples, 0 lost'),
            (1000, [], {'FAKE_DROPPED': '4'}, 'quality: good, 996 samples, 4 lost'),
            (1000, [], {'FAKE_DROPPED': '5'}, 'quality: fair, 995 samples, 5 lost'),
            (1000, [], {'FAKE_DROPPED': '50'}, 'quality: poor, 950 samples, 50 lost'),
            (0, ['agent_cpu_pct: 0.3'], {}, 'quality: no samples; overhead 0.3 % CPU'),
            (7, [], {'FAKE_DROPPED': '7'}, 'quality: poor, 0 samples, 7 lost')]:
        equal(said(seen, quality, **env)[0], want)
    equal(run(*ME, env={'FAKE_STATS_FAIL': '1'}).lines[-2], 'quality: unknown: invalid argument (EINVAL)')


NAMES = 'unnamed_in: [jit] (JIT code without names) '
JIT = 'of the time is JIT code without names'
SYMBOLS = 'install their debug symbols (Debian: packages named -dbgsym), or give --debug-dir'
DOC = 'docs/troubleshooting.md'

# statistics, functions, the verdict, the defects
DEFECTS = [
    # few samples
    ({'seen': 99}, 'fair', ['99 samples: shares are about ± 10 %: capture for longer, or raise --sample-rate']),
    ({'seen': 23}, 'fair', ['23 samples: shares are about ± 20 %: capture for longer, or raise --sample-rate']),
    ({'seen': 1}, 'poor', ['1 sample: shares are about ± 50 %: capture for longer, or raise --sample-rate']),
    ({'seen': 100}, 'good', []),
    # JIT code without names, by run time
    ({'quality': [NAMES + '31.00'], 'top': TOP + '\n1 1 /usr/bin/node main'}, 'poor',
     [f'31.0 % {JIT}: start node with --perf-basic-prof (docs/jit.md)']),
    ({'quality': ['target: pid 7 (java)', NAMES + '6.00'], 'top': TOP + '\n1 1 /usr/lib/jvm/libjvm.so f'}, 'fair',
     [f'6.0 % {JIT}: run jcmd 7 Compiler.perfmap during the capture (docs/jit.md)']),
    ({'quality': [NAMES + '31.00'], 'top': TOP + '\n1 1 /x/libcoreclr.so f'}, 'poor',
     [f'31.0 % {JIT}: set DOTNET_PerfMapEnabled=1 (docs/jit.md)']),
    ({'quality': [NAMES + '31.00']}, 'poor', [f'31.0 % {JIT}: have the run time write a perf map (docs/jit.md)']),
    ({'quality': [NAMES + '1.99']}, 'good', []),
    ({'quality': ['incomplete_in: [jit] 6.00'], 'top': TOP + '\n1 1 /usr/lib/jvm/libjvm.so f'}, 'fair',
     ['6.0 % of the stacks end in JIT code: start java with -XX:+PreserveFramePointer (docs/jit.md)']),
    # Python's evaluator
    ({'top': '10 9 /bin/python3 _PyEval_EvalFrameDefault'}, 'poor',
     ['90.0 % of the time is Python code without names: start python3 with -X perf (3.12 and later; docs/jit.md)']),
    ({'top': '10 9 /usr/bin/python3.13 _PyEval_EvalFrameDefault'}, 'poor',
     ['90.0 % of the time is Python code without names: start python3 with -X perf (3.12 and later; docs/jit.md)']),
    ({'top': '8 1 /x/python3.12 _PyEval_EvalFrameDefault\n10 9 /usr/lib/libpython3.11.so.1.0 _PyEval_EvalFrameDefault\n'
             '1 1 /x/python3.13 _PyEval_EvalFrameDefault'}, 'poor',
     ['47.4 % of the time is Python code without names: Python 3.11 has no -X perf: run the program with Python 3.12 or later '
      'and -X perf (docs/jit.md)']),
    ({'top': '9 10 /bin/python3 _PyEval_EvalFrameDefault\n1 1 [jit] py::fib'}, 'good', []),
    # code without names
    ({'quality': ['unnamed_in: a b.so (no symbol table) 8.00', 'unnamed_in: c (no symbol covers the address) 4.00',
                  'unnamed_in: d (no symbol table) 0.90', 'unnamed_in: e (file not readable) 3.00']}, 'fair',
     [f'12.9 % of the time is code of files without symbols (a b.so 8.0 %, c 4.0 %): {SYMBOLS}',
      f'3.0 % of the time is code without names: e (file not readable) 3.0 %: {DOC}#frames-without-a-name']),
    # stacks
    ({'quality': ['lost_stacks_pct: 0.01']}, 'good', ['<0.1 % of the time lost its stack ([stack lost]): lower --sample-rate']),
    ({'quality': ['lost_stacks_pct: 7.00']}, 'poor', ['7.0 % of the time lost its stack ([stack lost]): lower --sample-rate']),
    ({'quality': ['complete_stacks_pct: 99.10', 'walk_no_rule_pct: 0.90']}, 'good', []),
    ({'quality': ['complete_stacks_pct: 90.00', 'walk_no_walk_pct: 7.00', 'walk_root_reached_pct: 90.00', 'walk_read_fault_pct: 3.10',
                  'walk_bad_rule_pct: 0.00', 'walk_no_rule_pct: 6.50', 'walk_32_bit_task_pct: 0.40', 'walk_mm_released_pct: 2.00',
                  'incomplete_in: a file.so 6.00', 'incomplete_in: [others] 4.00']}, 'fair',
     [f'10.0 % of the user stacks are incomplete (6.5 % no rule, 3.1 % read fault); they end in a file.so 6.0 %, [others] 4.0 %: '
      f'{DOC}#incomplete-stacks']),
    ({'quality': ['complete_stacks_pct: 90.00', 'walk_32_bit_task_pct: 0.40', 'walk_jit_code_pct: 0.30']}, 'fair',
     [f'10.0 % of the user stacks are incomplete (0.4 % 32-bit task): {DOC}#incomplete-stacks']),
    ({'quality': ['unwind: fp', 'complete_stacks_pct: 0.00']}, 'fair',
     ['100.0 % of the user stacks are incomplete: leave out --unwind fp']),
    ({'quality': ['walk_other_pid_namespace_pct: 40.00']}, 'poor',
     ['40.0 % of the stacks are of processes outside this pid namespace: run the container with --pid host '
      '(Kubernetes: hostPID: true)']),
    ({'quality': ['cut_stacks_pct: 6.00']}, 'fair',
     ['6.0 % of the stacks are deeper than the limit: callers are missing, at [truncated]']),
    ({'quality': ['heuristic_stacks_pct: 27.00', 'heuristic_in: a file.so (without table) 26.00',
                  'heuristic_in: [before its table] 1.00']}, 'good',
     ['27.0 % of the stacks have callers that were found heuristically, in a file.so (without table) 26.0 %, '
      '[before its table] 1.0 %: docs/unwinding.md']),
]


@test
def each_defect_has_a_line_with_its_remedy():
    for given, verdict, defects in DEFECTS:
        lines = said(**given)
        check(lines[0].startswith(f'quality: {verdict}, '), given, *lines)
        equal(lines[1:-1], ['  ' + d for d in defects], given)
        equal(lines[-1], READ)


@test
def losses_are_named_by_reason():
    equal(said(FAKE_DROPPED='7')[1:], ['  dropped 7 samples because the count table was full', READ])


@test
def quiet_runs_print_failures_alone():
    env = {'FAKE_SEEN': '9', 'FAKE_TOP': TOP, 'FAKE_NOTES': 'something', 'FAKE_LATE_NOTES': 'late'}
    for word in ('-q', '--quiet'):
        r = run(*ME, word, env=env)
        equal((r.rc, r.err), (0, ''), r)
    r = run('--profile', '-q', '--profile-output=p', '--', 'sh', '-c', 'exit 3', env=env)
    equal(r.err, '', r)
    r = run('-q', '--profile', '--pid', str(os.getpid()), '--duration', '50ms', '--profile-output', 'missing/p', env=env)
    equal((r.rc, r.lines), (1, ['perf-agent: write missing/p: ENOENT']), r)
    r = run(*ME, '-q', '--verbose')
    equal((r.rc, r.lines), (2, ['perf-agent: -q/--quiet and -v/--verbose cannot be combined']), r)


@test
def verbose_runs_print_all_statistics():
    statistics = ['perf-agent: 0.1.0', 'complete_stacks_pct: 100.00', 'agent_cpu_ms: 12.1']
    for word in ('-v', '--verbose'):
        equal(said(quality=statistics, words=[word]), ['quality: good, 1,000 samples, 0 lost', *['    ' + f for f in statistics], READ])


@test
def how_to_read_the_file_is_quoted_for_a_shell():
    os.mkdir('my dir')
    for path, quoted in [('my dir/it\'s', "'my dir/it'\\''s'"), ('-x', './-x'), ('a+b@c=1,2:%', 'a+b@c=1,2:%'), ('$(x)', "'$(x)'"),
                         ('-a b', "'./-a b'"), ("a\nb'\\", "$'a\\012b\\'\\\\'"),
                         (b'\xff\xe2\x80\xae;\xc3\xa9', "$'\\377\\342\\200\\256;\u00e9'")]:
        r = run(*ME[:-1], path, env={'FAKE_TOP': TOP, 'FAKE_SEEN': '9'})
        equal(r.lines[-1], f'to read: perf-agent report {quoted}, or go tool pprof -http=: {quoted}', r)
    r = run(*ME[:-1], '-', env={'FAKE_TOP': TOP, 'FAKE_SEEN': '9'})
    check('to read' not in r.err, r)
    r = run(*ME[:-1], 'none/p', env={'FAKE_TOP': TOP, 'FAKE_SEEN': '9'})
    check('to read' not in r.err, r)


@test
def own_code_has_the_rows_that_say_more():
    """A single row if the first table lacks it; none of a few samples."""
    for top, names in [('50 50 /lib/libc.so.6 write\n48 48 /lib/libc.so.6 read\n0 72 /bin/x rec', ['rec']),
                       ('980 980 /lib/libc.so.6 write\n0 3 /bin/x initialize\n0 5 /bin/x rec', ['rec']),
                       ('980 980 /lib/libc.so.6 write\n0 3 /bin/x initialize\n0 2 /bin/x rec', [])]:
        r = run(*ME[:-1], 'own', env={'FAKE_SEEN': '990', 'FAKE_TOP': top, 'FAKE_UNIT': 'cycles'})
        at = [i for i, line in enumerate(r.lines) if 'own code' in line]
        own = r.lines[at[0] + 1:r.lines.index('perf-agent: profile written: own')] if at else []
        equal([line.split()[2] for line in own], names, r)


def problems(value, schema, path='$'):
    """Yields each place at which a value does not fit a schema, by the keywords that ours has."""
    kinds = {'object': dict, 'array': list, 'string': str, 'number': (int, float), 'integer': int}
    unknown = set(schema) - {'$schema', 'title', 'description', 'type', 'enum', 'required', 'properties', 'additionalProperties',
                             'items', 'maxItems', 'minimum'}
    check(not unknown, unknown)
    types = schema.get('type', [])
    types = [types] if isinstance(types, str) else types
    if types and not any(isinstance(value, kinds[t]) for t in types):
        yield f'{path}: {value!r} is no {types}'
        return
    if 'enum' in schema and value not in schema['enum']:
        yield f'{path}: {value!r} is none of {schema["enum"]}'
    if 'minimum' in schema and value < schema['minimum']:
        yield f'{path}: {value} is too small'
    if isinstance(value, list):
        if len(value) > schema.get('maxItems', len(value)):
            yield f'{path}: too long'
        for i, item in enumerate(value):
            yield from problems(item, schema.get('items', {}), f'{path}[{i}]')
    if isinstance(value, dict):
        known, more = schema.get('properties', {}), schema.get('additionalProperties', True)
        yield from (f'{path}: no {key}' for key in schema.get('required', []) if key not in value)
        for key, item in value.items():
            if key not in known and not more:
                yield f'{path}: {key} is unknown'
            yield from problems(item, known.get(key, more if isinstance(more, dict) else {}), f'{path}.{key}')


def quality(*words, **env):
    r = run(*words, '--quality-output', 'q.json', env=env)
    equal(r.rc, 0, r)
    check('perf-agent: quality written: q.json' in r.lines, r)
    with open('q.json', encoding='utf-8') as f, open(SCHEMA, encoding='utf-8') as s:
        ret = json.load(f)
        equal(list(problems(ret, json.load(s))), [], ret)
    return ret


@test
def quality_output_fits_its_schema():
    got = quality(*ME, FAKE_SEEN='1912', FAKE_DROPPED='12', FAKE_TOP=TOP, FAKE_NOTES='a "note"\nwith \\ and \x1b[1m', FAKE_QUALITY='\n'.join(
        ['perf-agent: 0.1.0', 'target: command "x": y (pid 1)', 'filter_comm: a', 'duration_s: 1.002', NAMES + '31.00',
         'unnamed_in: b (no symbol table) 8.00', 'agent_cpu_pct: 1.31', 'code: 007']))
    equal(got['notes'], ['a "note"', 'with \\ and ?[1m'])
    one, = got['profiles']
    equal({k: one[k] for k in ('kind', 'file', 'verdict', 'kept', 'lost', 'overhead_cpu_pct')},
          {'kind': 'on-cpu', 'file': 'p', 'verdict': 'poor', 'kept': 1900, 'lost': 12, 'overhead_cpu_pct': 1.31})
    equal(one['statistics'], {'perf-agent': '0.1.0', 'target': 'command "x": y (pid 1)', 'filter_comm': ['a'], 'duration_s': 1.002,
                              'unnamed_in': ['[jit] (JIT code without names) 31.00', 'b (no symbol table) 8.00'],
                              'agent_cpu_pct': 1.31, 'code': '007'})
    equal([(d['id'], d['level']) for d in one['defects']],
          [('dropped', 'fair'), ('jit_without_names', 'poor'), ('no_symbols', 'fair')])
    equal(one['defects'][2]['remedy'], SYMBOLS)
    got = quality(*ME, '--offcpu', '--offcpu-output=o')
    equal([(p['kind'], p['verdict'], p['file'], p['defects'], p['statistics']) for p in got['profiles']],
          [('on-cpu', 'none', 'p', [], {}), ('off-cpu', 'none', 'o', [], {})])
    for given, verdict, defects in DEFECTS:
        env = {'FAKE_SEEN': str(given.get('seen', 1000)), 'FAKE_QUALITY': '\n'.join(given.get('quality', ())),
               'FAKE_TOP': given.get('top', TOP)}
        one, = quality(*ME, *given.get('words', ()), **env)['profiles']
        equal((one['verdict'], len(one['defects'])), (verdict, len(defects)), given)


@test
def quality_output_is_an_output_like_others():
    r = run(*ME, '--quality-output=-')
    equal((r.rc, json.loads(r.out)['version']), (0, 1), r)
    r = run(*ME[:-2], '--profile-output=-', '--quality-output=-')
    check(r.rc == 2 and 'only one output can be standard output' in r.err, r)
    for words, said_so in [(['--profile-output=q', '--quality-output=r'], "--profile-output is given twice, with 'p' and with 'q'"),
                           (['--quality-output=p'], 'both are p'), (['--quality-output='], 'the path is empty'),
                           (['--quality-output=q.svg'], "'q.svg' is the name of another format")]:
        r = run(*ME, *words)
        check(r.rc == 2 and len(r.lines) == 1 and said_so in r.err, words, r)
    r = run('--pmu', '--pid', str(os.getpid()), '--quality-output=q')
    equal((r.rc, r.lines), (2, ['perf-agent: --quality-output needs --profile or --offcpu']), r)
    with open('q', 'w', encoding='ascii') as f:
        f.write('old')
    os.mkdir('d')
    r = run(*ME, '--quality-output=d/none/q')
    equal((r.rc, r.lines[-1]), (1, 'perf-agent: cannot write d/none/q: no such file or directory (ENOENT)'), r)
    check('perf-agent: profile written: p' in r.lines, r)
    equal(run(*ME, '--quality-output=/dev/full').rc, 1)
    equal(run(*ME, '--quality-output=q').rc, 0)
    equal((sorted(os.listdir('.')), os.stat('q').st_mode & 0o777), (['d', 'p', 'q'], 0o666 & ~UMASK))
    r = run(*ME, '--quality-output=auto')
    check(re.search(r'quality written: .*-\d{12}-quality\.json', r.err), r)


if __name__ == '__main__':
    main()
