#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""perf-agent report --annotate: a C program whose lines and instructions are known, in profiles made here. TAP on standard
output.

    test-annotate.py PERF-AGENT SCHEMA
"""
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from cli_harness import WAIT_S, check, equal, finish, main, start, test
from cli_schema import follows

AGENT, SCHEMA = map(os.path.abspath, sys.argv[1:3])
BASE = 0x7f0000000000  # of the mapping
SOURCE = '''#include <stdint.h>

static inline __attribute__((always_inline)) uint64_t square(uint64_t x)
{
	return x * x + 3; // inlined
}

__attribute__((noinline)) uint64_t hot(uint64_t n)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum ^= square(sum + i); // hot
	return sum;
}

int main(int argc, char **argv)
{
	(void)argv;
	return (int)hot((uint64_t)argc); // call
}
'''
LINE = {word: 1 + next(i for i, line in enumerate(SOURCE.split('\n')) if line.endswith('// ' + word))
        for word in ['inlined', 'hot', 'call']}


def varint(n):
    out = b''
    while n > 0x7f:
        out += bytes([n & 0x7f | 0x80])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value & (1 << 64) - 1)
    return varint(number << 3 | 2) + varint(len(value)) + value


class Profile:
    """Samples of one mapping: [((address, ((function, file, line), …)), …)], leaf first."""

    def __init__(self, path, build_id='', offset=0, size=1 << 20):
        self.strings, self.functions, self.locations, self.samples = {'': 0}, {}, {}, b''
        self.mapping = (field(1, 1) + field(2, BASE) + field(3, BASE + size) + field(4, offset) + field(5, self.text(path)) +
                        field(6, self.text(build_id)))

    def text(self, s):
        return self.strings.setdefault(s, len(self.strings))

    def add(self, value, *frames):
        ids = []
        for address, lines in frames:
            body = field(2, 1) + field(3, BASE + address)
            for name, path, line in lines:
                key = field(2, self.text(name)) + field(4, self.text(path))
                number = self.functions.setdefault(key, len(self.functions) + 1)
                body += field(4, field(1, number) + field(2, line))
            ids.append(self.locations.setdefault(body, len(self.locations) + 1))
        self.samples += field(2, b''.join(field(1, i) for i in ids) + field(2, value))

    def write(self, name):
        out = field(1, field(1, self.text('samples')) + field(2, self.text('count'))) + self.samples + field(3, self.mapping)
        for body, number in self.locations.items():
            out += field(4, field(1, number) + body)
        for key, number in self.functions.items():
            out += field(5, field(1, number) + key)
        for s in self.strings:
            out += field(6, s.encode())
        with open(name, 'wb') as f:
            f.write(gzip.compress(out))
        return name


def run(*argv):
    return subprocess.run(argv, capture_output=True, text=True, check=True, env={**os.environ, 'LC_ALL': 'C'}).stdout


class Program:
    """The program, and the truth about it."""

    def __init__(self, *flags, name='hot'):
        with open('hot.c', 'w', encoding='ascii') as f:
            f.write(SOURCE)
        run('gcc', '-g', '-O2', '-Wl,--build-id', *flags, '-o', f'./{name}', 'hot.c')
        self.path = os.path.abspath(name)
        self.build_id = re.search(r'Build ID: (\w+)', run('readelf', '-n', self.path))[1]
        # The executable segment: offset, address.
        self.offset, self.vaddr = next((int(m[1], 16), int(m[2], 16)) for m in re.finditer(
            r'LOAD\s+(0x\w+) (0x\w+) 0x\w+ 0x\w+ 0x\w+ R E', run('readelf', '-lW', self.path)))
        text = run('objdump', '-d', '-z', '--no-show-raw-insn', self.path)
        self.code = {}  # function: [(address, text)]
        for block in re.split(r'\n\n', text):
            head = re.match(r'[0-9a-f]+ <(\w+)>:\n', block)
            if head:
                self.code[head[1]] = [(int(a, 16), t.strip()) for a, t in re.findall(r'^ +([0-9a-f]+):\t(.*)$', block, re.M)]

    def place(self, address):
        """Address in the mapping."""
        return address - self.vaddr

    def profile(self, path=None, build_id=None, source=None):
        """Each instruction of hot has a value of its own, the first half of them at the line, the others inlined."""
        p = Profile(path or self.path, self.build_id if build_id is None else build_id, self.offset)
        source = source or os.path.abspath('hot.c')
        call = next(a + 4 for (a, t), _ in zip(self.code['main'], range(99)) if '<hot>' in t)
        caller = (self.place(call), (('main', source, LINE['call']),))
        self.values = {}
        for i, (address, _) in enumerate(self.code['hot']):
            inside = i >= len(self.code['hot']) // 2
            lines = (('hot', source, LINE['hot']),)
            if inside:
                lines = (('square', source, LINE['inlined']),) + lines
            p.add(10 + i, (self.place(address), lines), caller)
            self.values[address] = (0 if inside else 10 + i, 10 + i)
        return p


def report(*words, **more):
    return finish(start(AGENT, ['report', *words], **more))


def tables(*words, **more):
    r = report('--format=json', *words, **more)
    equal((r.rc, r.err), (0, ''), r)
    doc = json.loads(r.out)
    with open(SCHEMA, encoding='utf-8') as f:
        schema = json.load(f)
    follows(schema, schema, doc)
    got = doc['sections'][0]['tables']
    return got[0]['rows'], [t for t in got if t['table'] == 'source'], [t for t in got if t['table'] == 'instructions']


def refused(rc, text, *words, **more):
    r = report(*words, **more)
    equal((r.rc, r.out, len(r.lines)), (rc, '', 1), words, r)
    check(r.err.startswith('perf-agent: ') and text in r.err, f'no {text!r}', r)


def one(text, lst):
    equal(len(lst), 1, lst)
    check(text in (lst[0]['note'] or ''), f'no {text!r}', lst)
    return lst[0]


@test
def each_line_and_instruction_has_its_value():
    for flags in [('-fPIE', '-pie'), ('-no-pie',), ('-no-pie', '-Wl,-Ttext-segment=0x10000000')]:
        prog = Program(*flags)
        functions, sources, codes = tables('--annotate', 'hot', prog.profile().write('p.pb.gz'))
        total = sum(v for v, _ in prog.values.values()), sum(v for _, v in prog.values.values())
        equal([(f['function'], f['self'], f['cum']) for f in functions], [('hot', *total)])
        src, code = one('', sources), one('', codes)
        equal((src['file'], src['read']), (os.path.abspath('hot.c'),) * 2)
        equal({r['line']: (r['self'], r['cum']) for r in src['rows'] if r['cum']}, {LINE['hot']: total})
        # Five lines around it, as they are in the file.
        want = SOURCE.split('\n')[LINE['hot'] - 6:LINE['hot'] + 5]
        equal([r['text'] for r in src['rows']], want)
        equal(code['symbol'], 'hot')
        equal([(int(r['address'], 16), r['text']) for r in code['rows']], prog.code['hot'], flags)
        equal({int(r['address'], 16): (r['self'], r['cum']) for r in code['rows']}, prog.values, flags)


@test
def the_address_of_a_caller_is_inside_its_call():
    prog = Program()
    _, sources, codes = tables('--annotate', '^main$', prog.profile().write('p.pb.gz'))
    total = sum(v for _, v in prog.values.values())
    equal({r['line']: (r['self'], r['cum']) for r in sources[0]['rows'] if r['cum']}, {LINE['call']: (0, total)})
    rows = [r for r in codes[0]['rows'] if r['cum']]
    equal(len(rows), 1, rows)
    check('<hot>' in rows[0]['text'], rows)
    equal((rows[0]['self'], rows[0]['cum'], rows[0]['line']), (0, total, LINE['call']))


@test
def an_inlined_function_is_in_the_symbol_that_has_its_code():
    prog = Program()
    functions, sources, codes = tables('--annotate=square', prog.profile().write('p.pb.gz'))
    total = sum(c for s, c in prog.values.values() if not s)
    equal(functions[0]['self'], total)
    equal({r['line']: (r['self'], r['cum']) for r in sources[0]['rows'] if r['cum']}, {LINE['inlined']: (total, total)})
    equal(codes[0]['symbol'], 'hot')
    equal(sum(r['self'] for r in codes[0]['rows']), total)
    text = report('--annotate', 'square', 'p.pb.gz').out
    check(f'\ninstructions of square\nhot of {prog.path}\n' in text, text)


@test
def a_file_of_another_build_is_refused():
    prog = Program()
    p = prog.profile(build_id='0123456789abcdef').write('p.pb.gz')
    _, sources, codes = tables('--annotate', 'hot', p)
    equal(one(f'has build-id {prog.build_id}, the profile 0123456789abcdef', codes)['rows'], [])
    check(one('', sources)['read'])
    run('strip', '--remove-section=.note.gnu.build-id', '-o', 'none', 'hot')
    one('has build-id none, the profile', tables('--annotate', 'hot', prog.profile(path=os.path.abspath('none')).write('n.pb.gz'))[2])
    code = one('the file may be another build', tables('--annotate', 'hot', prog.profile(build_id='').write('e.pb.gz'))[2])
    equal(len(code['rows']), len(prog.code['hot']))
    one('', tables('--annotate', 'hot', prog.profile(build_id=prog.build_id.upper()).write('u.pb.gz'))[2])
    r = report('--annotate', 'hot', p)
    check(r.rc == 0 and f'note: {prog.path} is another build' in r.out, r)


@test
def a_stripped_file_has_the_symbols_of_its_debug_file():
    prog = Program()
    p = prog.profile().write('p.pb.gz')
    folder = f'debug/.build-id/{prog.build_id[:2]}'
    os.makedirs(folder)
    run('objcopy', '--only-keep-debug', 'hot', f'{folder}/{prog.build_id[2:]}.debug')
    run('strip', 'hot')
    bare = one('no symbol has these addresses', tables('--annotate', 'hot', p)[2])
    check('--debug-dir DIR' in bare['note'] and bare['symbol'] is None, bare)
    equal({int(r['address'], 16): (r['self'], r['cum']) for r in bare['rows']}, prog.values)
    code = one('', tables('--annotate', 'hot', '--debug-dir', 'nowhere', '--debug-dir=debug', p)[2])
    equal((code['symbol'], {int(r['address'], 16): (r['self'], r['cum']) for r in code['rows']}), ('hot', prog.values))


@test
def source_files_are_found_in_other_folders():
    prog = Program()
    p = prog.profile(source='/build/app/src/hot.c').write('p.pb.gz')
    missing = one('cannot read /build/app/src/hot.c: no such file or directory (ENOENT); give the folder that has it: '
                  '--source-dir DIR', tables('--annotate', 'hot', p)[1])
    equal((missing['read'], [(r['line'], r['text']) for r in missing['rows']]), (None, [(LINE['hot'], '')]))
    os.makedirs('tree/src')
    shutil.copy('hot.c', 'tree/src/hot.c')
    src = one('', tables('--annotate', 'hot', '--source-dir', 'tree', p)[1])
    equal((src['file'], src['read']), ('/build/app/src/hot.c', 'tree/src/hot.c'))
    text = report('--annotate', 'hot', '--source-dir', 'tree', p).out
    check('/build/app/src/hot.c, read from tree/src/hot.c\n' in text, text)
    one('give another folder', tables('--annotate', 'hot', '--source-dir', 'tree/src/..', '--source-dir=/nonexistent',
                                      prog.profile(source='other.c').write('q.pb.gz'))[1])
    relative = one('', tables('--annotate', 'hot', prog.profile(source='hot.c').write('r.pb.gz'))[1])
    equal(relative['read'], 'hot.c')


@test
def what_is_no_regular_file_is_not_opened():
    prog = Program()
    os.mkfifo('fifo')
    _, sources, codes = tables('--annotate', 'hot', prog.profile(path=os.path.abspath('fifo'), source='fifo').write('p.pb.gz'))
    one('fifo is not a regular file', sources)
    one('fifo is not a regular file', codes)
    _, sources, codes = tables('--annotate', 'hot', prog.profile(path='[kernel]', source='/dev/zero').write('q.pb.gz'))
    one('/dev/zero is not a regular file', sources)
    one('kernel code is not disassembled', codes)
    _, _, codes = tables('--annotate', 'hot', prog.profile(path=os.path.abspath('hot.c')).write('s.pb.gz'))
    one('hot.c is not an ELF file', codes)


@test
def names_and_text_are_no_options_and_no_commands():
    prog = Program(name='-D')
    with open('-x.c', 'wb') as f:
        f.write(b'\n' * (LINE['hot'] - 1) + b'\x1b[31mred \xff \xe2\x80\xae <script> ```\n')
    p = prog.profile(path='-D', source='-x.c').write('p.pb.gz')
    for form in ['text', 'markdown']:
        r = report('--annotate', 'hot', '--format', form, p)
        equal((r.rc, r.err), (0, ''), r)
        check('?[31mred ? ? <script> ```' in r.out and 'xor ' in r.out, r)
        check(not any(c < ' ' and c != '\n' for c in r.out), r)
    check('\n````\n' in r.out, r)


@test
def objdump_that_is_missing_or_fails():
    prog = Program()
    p = prog.profile().write('p.pb.gz')
    os.mkdir('bin')

    def with_tool(script):
        with open('bin/objdump', 'w', encoding='ascii') as f:
            f.write('#!/bin/sh\n' + script)
        os.chmod('bin/objdump', 0o755)
        code = one('', tables('--annotate', 'hot', p, env={'PATH': os.path.abspath('bin')})[2])
        equal({int(r['address'], 16): (r['self'], r['cum']) for r in code['rows']}, prog.values)
        return code['note']

    one('objdump is not in PATH; install the package binutils', tables('--annotate', 'hot', p,
                                                                       env={'PATH': os.path.abspath('bin')})[2])
    equal(with_tool('echo "objdump: no such machine" >&2; exit 1\n'), 'objdump: no such machine')
    equal(with_tool('exit 3\n'), 'objdump failed with exit status 3')
    equal(with_tool('echo nonsense; echo " 0:"; echo "  12zz:\tnop"\n'), 'objdump printed no instructions')
    equal(with_tool('exec /usr/bin/yes\n'), 'objdump was ended by signal 25: it printed more than 64 MiB')
    one('objdump is not in PATH', tables('--annotate', 'hot', p, env={'PATH': 'bin::./bin'})[2])
    # Its environment and descriptors: none of ours but the program and what it prints.
    with_tool('/usr/bin/env >seen; /bin/ls -l /proc/$$/fd >>seen; exit 1\n')
    with open('seen', encoding='utf-8') as f:
        seen = f.read()
    check(not re.search(r'HOME=|PATH=/\S*bin:', seen) and 'LC_ALL=C' in seen, seen)
    check(' 0 -> /dev/null' in seen and ' 3 -> ' + prog.path in seen and '.pb.gz' not in seen, seen)


@test
def objdump_ends_with_us():
    prog = Program()
    p = prog.profile().write('p.pb.gz')
    os.mkdir('bin')
    with open('bin/objdump', 'w', encoding='ascii') as f:
        f.write('#!/bin/sh\necho $$ >pid.new; /bin/mv pid.new pid; exec /bin/sleep 600\n')
    os.chmod('bin/objdump', 0o755)
    agent = start(AGENT, ['report', '--annotate', 'hot', p], env={'PATH': os.path.abspath('bin')})
    end = time.monotonic() + WAIT_S
    while not os.path.exists('pid') and time.monotonic() < end:
        time.sleep(0.02)
    with open('pid', encoding='ascii') as f:
        pid = int(f.read())
    agent.send_signal(signal.SIGKILL)
    agent.wait()

    def gone():
        try:
            with open(f'/proc/{pid}/stat', encoding='ascii') as f:
                return f.read().rpartition(')')[2].split()[0] == 'Z'
        except FileNotFoundError:
            return True

    while not gone() and time.monotonic() < end:
        time.sleep(0.02)
    check(gone(), 'objdump is still there')


@test
def options_that_do_not_go_together():
    Program().profile().write('p.pb.gz')
    for form in ['folded', 'pprof', 'html', 'svg']:
        refused(2, f'--annotate cannot be written as {form}', '--annotate', 'hot', '--format', form, 'p.pb.gz')
    refused(2, '--annotate and --tree are two views', '--annotate', 'hot', '--tree', 'p.pb.gz')
    refused(2, '--annotate needs a value', 'p.pb.gz', '--annotate')
    refused(2, '--source-dir needs --annotate', '--source-dir', '.', 'p.pb.gz')
    refused(2, '--debug-dir needs a value', '--annotate', 'hot', 'p.pb.gz', '--debug-dir=')
    refused(2, "annotate: '(' is not a regular expression", '--annotate', '(', 'p.pb.gz')
    refused(1, "p.pb.gz: no function matches 'nothing'", '--annotate', 'nothing', 'p.pb.gz')


if __name__ == '__main__':
    missing = [tool for tool in ['gcc', 'objdump', 'readelf', 'objcopy', 'strip'] if not shutil.which(tool)]
    if missing:
        print('1..0 # SKIP no ' + ', '.join(missing))
        sys.exit(0)
    sys.exit(main())
