#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""perf-agent report: options, formats, odd names and files that are no profiles. Needs no privileges. TAP on standard output.

    test-report.py PERF-AGENT SCHEMA
"""
import fcntl
import gzip
import json
import os
import pty
import stat
import struct
import subprocess
import sys
import termios

sys.dont_write_bytecode = True
from cli_harness import check, equal, finish, main, start, test
from cli_schema import follows

AGENT, SCHEMA = map(os.path.abspath, sys.argv[1:3])
STACKS = b'main;serve;parse 30\nmain;serve;read 10\nmain;idle 60\n'
ODD = [b'<script>alert(1)</script>', b'quote"\'s', b'\x1b[31mred', b'\xff\xfe', b'a|b`c', b'x\xc2\x9by', b'_Z<b>&amp;',
       'u\u202ev\u2066w\u061c'.encode()]


def write(name, data):
    with open(name, 'wb') as f:
        f.write(data)
    return name


def report(*words, **more):
    return finish(start(AGENT, ['report', *words], **more))


def report_json(*words):
    r = report('--format=json', *words)
    equal((r.rc, r.err), (0, ''), r)
    return json.loads(r.out)


def rows(doc, table=0, section=0):
    return doc['sections'][section]['tables'][table]['rows']


def values(doc):
    return {r['function']: (r['self'], r['cum']) for r in rows(doc)}


def refused(rc, text, *words, **more):
    r = report(*words, **more)
    equal((r.rc, r.out, len(r.lines)), (rc, '', 1), words, r)
    check(r.err.startswith('perf-agent: ') and text in r.err, f'no {text!r}', r)


@test
def functions_by_self_and_by_cumulative_value():
    write('a', STACKS)
    r = report('a')
    equal((r.rc, r.err), (0, ''), r)
    lines = r.out.splitlines()
    equal(lines[:3], ['a: value; folded stacks', 'quality: not known',
                      '  note: the numbers have no unit; --value samples, cpu or offcpu (us) gives it'])
    equal([line.split()[-1] for line in lines[5:]], ['idle', 'parse', 'read'], r)
    equal(report('--value', 'samples', 'a').out.splitlines()[:2], ['a: samples; folded stacks', 'quality: not known; 100 samples: shares are about ± 10 %'])
    lines = report('--value', 'offcpu', 'a').out.splitlines()
    equal((lines[:2], lines[4].split()[:2]), (['a: offcpu; folded stacks', 'quality: not known'], ['60.0', 'us']))
    equal(values(report_json('--cum', 'a')), {'main': (0, 100), 'idle': (60, 60), 'serve': (0, 40), 'parse': (30, 30),
                                              'read': (10, 10)})
    equal([r['function'] for r in rows(report_json('--cum', 'a'))], ['main', 'idle', 'serve', 'parse', 'read'])
    equal([r['function'] for r in rows(report_json('--cum=false', '-rows', '1', 'a'))], ['idle'])
    equal(len(rows(report_json('--cum', '--rows=all', 'a'))), 5)


@test
def several_files_and_standard_input():
    write('a', STACKS)
    equal(values(report_json('a', 'a', '--', 'a'))['parse'], (90, 90))
    with open('a', 'rb') as f:
        doc = json.loads(finish(start(AGENT, ['report', '-', '--format', 'json'], stdin=f)).out)
    equal(doc['sources'][0]['file'], 'standard input')
    refused(2, "'-' is given twice; standard input can be read once", '-', 'a', '-')
    refused(2, "'-' is given twice", '--diff', '-', '-')
    equal(values(doc)['idle'], (60, 60))


@test
def filters_select_samples():
    write('a', STACKS)
    equal(values(report_json('--focus', 'serve', 'a')), {'parse': (30, 30), 'read': (10, 10)})
    equal(values(report_json('--ignore', 'serve', 'a')), {'idle': (60, 60)})
    equal(values(report_json('--hide=parse|read', 'a')), {'idle': (60, 60), 'serve': (40, 40)})
    equal(values(report_json('--show=serve', 'a')), {'serve': (40, 40)})
    refused(1, "the filters leave no sample: focus 'nothing', hide 'x'", '--focus', 'nothing', '--hide', 'x', 'a')
    refused(1, "the filters leave no sample: tagfocus 'pid=1'", '--tagfocus', 'pid=1', 'a')
    equal(values(report_json('--tagignore', 'pid=1', 'a'))['idle'], (60, 60))
    refused(1, "the filters leave no sample: hide '.'", '--hide', '.', 'a')
    refused(2, "--tagfocus: '=' has neither a key nor a value", '--tagfocus', '=', 'a')


@test
def the_quality_of_a_filtered_report_is_that_of_what_is_left():
    write('a', STACKS * 10)
    source, = report_json('--value', 'samples', 'a')['sources']
    equal((source['samples'], source['samples_left'], source['share_error_pct']), (1000, None, 3.1), source)
    source, = report_json('--value', 'samples', '--focus', 'read', 'a')['sources']
    equal((source['samples'], source['samples_left'], source['share_error_pct']), (1000, 100, 9.8), source)
    equal(source['lines'][1], 'quality: not known; 100 of 1,000 samples pass the filters: shares are about ± 10 %')
    write('b', STACKS)
    equal([(s['samples'], s['samples_left']) for s in report_json('--value', 'samples', '--focus', 'read', 'a', 'b')['sources']], [(1000, 100), (100, 10)])
    equal([s['samples_left'] for s in report_json('--value', 'samples', '--hide', 'read', 'a')['sources']], [None])


@test
def wrong_options_are_refused_before_a_file_is_read():
    write('a', STACKS)
    refused(2, 'no profile given')
    refused(2, 'no profile given', '--cum')
    refused(2, '--format: ', '--format', 'xml', 'a')
    refused(2, '--rows: ', '--rows', '0', 'a')
    refused(2, '--rows: ', '--rows', '-1', 'a')
    refused(2, '--cum: ', '--cum=maybe', 'a')
    refused(2, '--focus needs a value', 'a', '--focus')
    refused(2, '--focus needs a value', 'a', '--focus=')
    refused(2, 'report: unknown option --xyz; see perf-agent report --help', '--xyz', 'a')
    refused(2, 'report: unknown option --focsu; did you mean --focus?', '--focsu=x', 'a')
    refused(2, 'report: unknown option -tagfoc; did you mean --tagfocus?', '-tagfoc', 'a')
    refused(2, 'is an option of a capture', '--pid', '1', 'a')
    for option in ['focus', 'ignore', 'hide', 'show', 'tagfocus', 'tagignore']:
        refused(2, f"--{option}: '(' is not a regular expression", f'--{option}=(', 'nofile')
    refused(1, "a has no values of the type 'cycles'; its types: value", '--value', 'cycles', 'a')


@test
def files_that_are_no_profiles_are_refused():
    refused(1, 'nofile', 'nofile')
    refused(1, 'empty', write('empty', b''))
    refused(1, 'elf: ', write('elf', b'\x7fELF' + bytes(100)))
    refused(1, "text: no profile: expected pprof, perf.data or folded stacks (lines such as 'main;work 12'), found text: line 1: ",
            write('text', b'no profile at all\n'))
    refused(1, 'late: line 2: no number', write('late', b'main 1\nno profile at all\n'))
    refused(1, 'binary: ', write('binary', bytes(range(256)) * 9))
    os.mkdir('folder')
    refused(1, 'folder', 'folder')
    write('a', STACKS)
    refused(1, 'text: ', 'a', 'text')  # no half report


@test
def names_are_text_everywhere():
    data = STACKS * 9 + b''.join(b'main;' + name + b' 5\n' for name in ODD)
    write('odd', data)
    for form in ['text', 'markdown', 'json']:
        p = start(AGENT, ['report', '--full-names', '--format', form, 'odd'])
        out, err = p.communicate(timeout=30)
        equal((p.returncode, err), (0, b''))
        text = out.decode('utf-8')
        check(not any(c < ' ' and c != '\n' or '\x7f' <= c < '\xa0' or c in '\u202e\u2066\u061c' for c in text), form, out)
        equal(text.count('alert(1)</script>'), 1, text)
    equal(len(rows(report_json('odd'))), 3 + len(ODD))
    # A bar in a name is no cell of a table.
    r = report('--format', 'markdown', 'odd')
    table = [line for line in r.out.splitlines() if line.startswith('|')]
    equal({line.replace('\\|', '').count('|') for line in table}, {7}, r)


@test
def json_follows_its_schema():
    write('a', STACKS)
    with open(SCHEMA, encoding='utf-8') as f:
        schema = json.load(f)
    doc = report_json('a')
    follows(schema, schema, doc)
    write('b', STACKS + b'main;new 7\n')
    for view in [['--peek', 'parse'], ['--annotate', 'parse'], ['--tree'], ['--by', 'module'], ['--diff', 'b']]:
        follows(schema, schema, report_json(*view, 'a'))
    for damaged in [dict(doc, more=1), dict(doc, view='?'), dict(doc, sources=[]), {k: v for k, v in doc.items() if k != 'view'}]:
        try:
            follows(schema, schema, damaged)
        except Exception:
            continue
        check(False, 'the schema accepts', damaged)


@test
def callers_and_callees():
    write('a', STACKS + b'main;query;parse;parse;read 7\n')
    tables = report_json('--peek', 'parse', 'a')['sections'][0]['tables']
    equal([(t['table'], t.get('of')) for t in tables], [('functions', None), ('callers', 'parse'), ('callees', 'parse')])
    equal([[(r['function'], r['value']) for r in t['rows']] for t in tables[1:]], [[('serve', 30), ('query', 7)], [('read', 7)]])
    text = report('--peek', 'parse|idle', 'a').out
    check(text.index('callers of idle') < text.index('callers of parse'), text)
    check('\n## callers of `idle`\n' in report('--format', 'markdown', '--peek', 'idle', 'a').out)
    refused(1, "a: no function matches 'nothing'", '--peek', 'nothing', 'a')
    refused(2, "--peek: '(' is not a regular expression", '--peek', '(', 'a')


@test
def a_tree_of_calls():
    write('a', STACKS)
    want = [('main', 0, 100, 0), ('idle', 1, 60, 60), ('serve', 1, 40, 0), ('parse', 2, 30, 30), ('read', 2, 10, 10)]
    equal([(r['function'], r['depth'], r['cum'], r['self']) for r in rows(report_json('--tree', 'a'))], want)
    equal([r['function'] for r in rows(report_json('--tree', '--min-share', '30%', 'a'))], ['main', 'idle', 'serve', 'parse'])
    lines = report('--tree', '--rows', '3', 'a').out.splitlines()
    check(lines[-2].rstrip().endswith('0 %   serve'), lines)
    equal(lines[-1], 'and 2 more')
    refused(2, '--min-share: ', '--min-share', '101', '--tree', 'a')


@test
def values_by_file_and_label():
    write('a', STACKS)
    equal([(r['name'], r['self'], r['cum']) for r in rows(report_json('--by', 'module', 'a'))], [('[unknown]', 100, 100)])
    refused(1, "a has no label 'state'; its labels: none", '--by', 'state', 'a')
    refused(2, '--by and --tree are two views', '--by', 'module', '--tree', 'a')
    refused(2, '--tree cannot be written as svg; use text, markdown or json', '--tree', '--format', 'svg', 'a')


@test
def changes_between_two_profiles():
    write('a', b'main;same 1000\nmain;less 500\nmain;gone 400\nmain;noise 100\n')
    write('b', b'main;same 1000\nmain;less 200\nmain;new 695\nmain;noise 105\n')
    doc = report_json('--diff', '--value', 'samples', 'a', 'b')
    equal([s['file'] for s in doc['sources']], ['a', 'b'])
    got = {r['function']: (r['before'], r['after'], r['change'], r['verdict']) for r in rows(doc)}
    equal(got, {'new': (0, 695, 695, 'new'), 'gone': (400, 0, -400, 'gone'), 'less': (500, 200, -300, ''),
                'noise': (100, 105, 5, 'within noise')})
    equal([r['function'] for r in rows(doc)], ['new', 'gone', 'less', 'noise'])
    less = next(r for r in rows(doc) if r['function'] == 'less')
    check(abs(less['z'] + 300 / 700 ** 0.5) < 0.01, less)
    equal({r['verdict'] for r in rows(report_json('--diff', 'a', 'b'))}, {'new', 'gone', ''})  # of what may be microseconds
    write('twice', b'main;same 2000\nmain;less 1000\nmain;gone 800\nmain;noise 200\n')
    equal(rows(report_json('--diff', 'a', 'twice')), [])  # the same shares
    check('before is multiplied by 2, to the total of after' in report('--diff', 'a', 'twice').out)
    lines = report('--diff', 'a', 'b').out.splitlines()
    check(any(line.split()[-2:] == ['gone', 'gone'] and '-400' in line.split() for line in lines), lines)
    for name in ['d.html', 'd.svg']:
        equal(report('--diff', '--output', name, 'a', 'b').rc, 0)
        with open(name, encoding='utf-8') as f:
            check('svg' in f.read(), name)
    refused(2, '--diff compares two profiles, not 1', '--diff', 'a')
    refused(2, '--diff compares two profiles, not 3', '--diff', 'a', 'b', 'a')
    refused(2, '--diff cannot be written as pprof; use text, markdown, json, html or svg', '--diff', '--format', 'pprof', 'a', 'b')
    refused(1, 'nofile', '--diff', 'nofile', 'b')


@test
def profiles_are_converted():
    write('a', STACKS)
    r = report('--format', 'folded', '--focus', 'serve', 'a', 'a')
    equal((r.rc, r.out, r.err), (0, 'main;serve;parse 60\nmain;serve;read 20\n', ''))
    equal(report('--output', 'a.pb.gz', 'a').rc, 0)
    with open('a.pb.gz', 'rb') as f:
        raw = gzip.decompress(f.read())
    for word in [b'value', b'count', b'serve', b'idle']:
        check(word in raw, word)
    equal(report('--output', 'a.svg', 'a').rc, 0)
    with open('a.svg', encoding='utf-8') as f:
        text = f.read()
    check(text.startswith('<svg') or text.startswith('<?xml'), text[:80])
    check('parse' in text)
    equal(report('--output', 'a.html', '--value', 'samples', 'a').rc, 0)
    with open('a.html', encoding='utf-8') as f:
        check('<html' in f.read(2000))
    before = os.stat('a.html').st_mtime_ns
    for name, form, other in [('a.html', 'text', 'html'), ('a.PB.GZ', 'svg', 'pprof'), ('b.md', 'text', 'markdown'),
                              ('b.txt', 'json', 'text')]:
        refused(2, f"--output: '{name}' is the name of another format than --format {form}; its end selects {other}",
                '--format', form, '--output', name, 'a')
    equal(os.stat('a.html').st_mtime_ns, before)
    for form in ['text', 'markdown', 'folded']:
        equal(report('--output', 'b.txt', '--format', form, 'a').rc, 0)
    equal(report('--output', 'b.html', '--format', 'html', 'a').rc, 0)
    equal(report('--output', 'b.other', '--format', 'svg', 'a').rc, 0)
    refused(2, "--output: the end of 'c.xyz' selects no format; give --format, or use .txt (text), .md (markdown), .json (json), "
            '.folded (folded), .pb.gz (pprof), .html (html), .svg (svg)', '--output', 'c.xyz', 'a')
    for words in [[], ['--format', 'text']]:
        refused(2, "--output: 'x.data' is the name of a perf.data, which a report cannot write; --format is one of text, ",
                '-o', 'x.data', *words, 'a')
    for words in [['-o', 'c.folded'], ['-o=c.folded'], ['--output=c.folded']]:
        equal(report(*words, 'a').rc, 0)
        with open('c.folded', encoding='utf-8') as f:
            check(f.readline().startswith('main;'), words)
        os.unlink('c.folded')
    equal(report('-o', '-', '--format', 'folded', 'a').out, report('--format', 'folded', 'a').out)
    check(not [name for name in os.listdir('.') if name in ('c.xyz', 'x.data', '-')])


@test
def a_file_is_written_as_a_whole_or_not_at_all():
    write('a', STACKS)
    write('out', b'before')
    r = report('--output', 'out', 'a')
    equal((r.rc, r.out, r.err), (0, '', ''), r)
    with open('out', encoding='utf-8') as f:
        check('idle' in f.read())
    write('out', b'before')
    os.chmod('out', 0o640)
    refused(1, 'nofile', '--output', 'out', 'nofile')
    with open('out', 'rb') as f:
        equal(f.read(), b'before')
    equal(stat.S_IMODE(os.stat('out').st_mode), 0o640)
    refused(1, 'nodir', '--output', 'nodir/out', 'a')
    equal(sorted(os.listdir('.')), ['a', 'out'])


@test
def standard_output_that_is_full_or_closed():
    write('a', STACKS)
    if os.path.exists('/dev/full'):
        with open('/dev/full', 'wb') as full:
            r = finish(start(AGENT, ['report', 'a'], stdout=full))
        equal((r.rc, r.err), (1, 'perf-agent: cannot write to standard output: no space left on device (ENOSPC)\n'), r)
    p = subprocess.run(['sh', '-c', '"$0" report a | true; echo done', AGENT], capture_output=True, text=True, check=False,
                       timeout=30)
    equal((p.returncode, p.stdout, p.stderr), (0, 'done\n', ''))


def on_a_terminal(*words, columns=80, said='', **env):
    """Returns the text that a terminal gets. @said: words on standard error; none without."""
    primary, secondary = pty.openpty()
    fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))
    p = start(AGENT, ['report', *words], env={'PAGER': 'cat', 'NO_COLOR': '', **env}, stdin=secondary, stdout=secondary)
    os.close(secondary)
    out = b''
    while True:
        try:
            part = os.read(primary, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        out += part
    os.close(primary)
    r = finish(p)
    check(r.rc == 0 and (said in r.err if said else not r.err), out, r)
    return out.decode('utf-8').replace('\r\n', '\n')


@test
def a_terminal_has_colours_and_a_pager():
    write('a', b'main;' + b'long' * 50 + b' 5\n' + b'main;short 5\n')
    text = on_a_terminal('a')
    check('\x1b[1mfunction\x1b[0m' in text and '\x1b[1mquality: ' in text, text)
    plain = on_a_terminal('a', NO_COLOR='1')
    check('\x1b' not in plain and '\x1b' not in on_a_terminal('a', TERM='dumb'), plain)
    lines = plain.splitlines()
    check(all(len(line) <= 80 for line in lines) and any('\u2026' in line for line in lines), plain)
    check('\u2026' not in report('a').out and '\x1b' not in report('a').out)
    equal(on_a_terminal('a', PAGER='sed s/^/paged:/', NO_COLOR='1').splitlines(), ['paged:' + line for line in lines])
    equal(on_a_terminal('a', PAGER='head -n 1', NO_COLOR='1').splitlines(), lines[:1])
    equal(on_a_terminal('a', PAGER='', NO_COLOR='1').splitlines(), lines)
    # A pager that cannot be started loses nothing; the shell says why.
    write('nopager', b'')
    for pager, why in [('/nonexistent/pager -x', 'not found'), ('./nopager', 'ermission denied')]:
        equal(on_a_terminal('a', PAGER=pager, NO_COLOR='1', said=why).splitlines(), lines)


@test
def help_has_its_options():
    r = report('--help')
    equal((r.rc, r.err), (0, ''), r)
    for word in ['Usage: perf-agent report [OPTION...] FILE...', '--tagfocus', '--full-names', '--rows', '-o, --output']:
        check(word in r.out, word, r)
    equal(r.out.count('\n  perf-agent report '), 2, r)
    check('--offcpu' not in r.out and '--pc' not in r.out and len(r.out.splitlines()) < 60, r)
    equal(report('--cum', '-h').out, r.out)
    r = finish(start(AGENT, ['unwind-info', '--help']))
    check(r.rc == 0 and '--pc' in r.out and '--focus' not in r.out and r.out.count('\n  perf-agent unwind-info ') == 2, r)
    version = finish(start(AGENT, ['--version'])).out
    for command in ['report', 'unwind-info', 'top']:
        r = finish(start(AGENT, [command, '--version']))
        equal((r.rc, r.out, r.err), (0, version, ''), r)


@test
def standard_input_that_is_a_terminal_is_refused():
    primary, secondary = pty.openpty()
    r = report('-', stdin=secondary)
    os.close(primary)
    os.close(secondary)
    equal((r.rc, r.lines), (2, ["perf-agent: report: '-' is standard input, which is a terminal; give a file, or a pipe such as: "
                                'zcat FILE | perf-agent report -']), r)


@test
def code_without_names_is_a_row_for_each_file():
    write('u', b'main;0x12 [lib.so] 5\nmain;0x34 [lib.so] 6\nmain;0x56 [other] 7\nmain;f 1\n')
    equal([(r['function'], r['module'], r['self']) for r in rows(report_json('u'))],
          [('[lib.so]', 'lib.so', 11), ('[other]', 'other', 7), ('f', '', 1)])
    equal([r['function'] for r in rows(report_json('--tree', '--addresses', 'u'))],
          ['main', '0x56 [other]', '0x34 [lib.so]', '0x12 [lib.so]', 'f'])
    equal(report('--format', 'folded', 'u').out.splitlines()[0], 'main;0x12 [lib.so] 5')


if __name__ == '__main__':
    sys.exit(main())
