#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Our reading of DWARF against llvm-symbolizer, over programs compiled here in every format.

usage: test-dwarf-oracle.py DWARF_DRIVER [-k WORD] [-v] [ELF_FILE...]

Each case compiles a program or library, and asks for random addresses of its text: linkage name, name, file, line,
column and first line of every level of inlining. llvm-symbolizer puts the symbol table's name in the place of the
outermost function's; so it is asked over a copy without symbol tables. eu-addr2line and addr2line are counted as second
opinions. What differs fails, but where a rule that is coded here (Discarded, NotSplit) says why and
what is right. A compiler or tool that is not there is a SKIP.
"""
import concurrent.futures
import glob
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

from dwarf_sources import write_sources
from dwarf_tools import Failed, Skip, build, run, tool

ADDRESSES = 2000
OPINIONS = 300  # addresses that the others are asked for: addr2line takes its time
INSTALLED = 4  # files of this machine
VERBOSE = '-v' in sys.argv
results = []

# ---- tools -----------------------------------------------------------------------------------------------------------

class Log:
    """Lines of a case; printed whole, in the order of the cases."""

    def __init__(self):
        self.lines = []
        self.addresses = 0

    def note(self, text):
        self.lines.append(f'# {text}')

    def report(self, ok, what):
        self.lines.append((ok, what))

    def print(self):
        for line in self.lines:
            if isinstance(line, tuple):
                results.append(line[0])
                line = f"{'ok' if line[0] else 'not ok'} {len(results)} - {line[1]}"
            print(line, flush=True)


def bare_copy(path):
    """A copy in which the symbol tables are sections of another type; nothing else changes."""
    copy = path + '.bare'
    with open(path, 'rb') as f:
        data = bytearray(f.read())
    is64 = data[4] == 2
    at, = struct.unpack_from('<Q' if is64 else '<I', data, 40 if is64 else 32)
    size, n = struct.unpack_from('<HH', data, 58 if is64 else 46)
    for i in range(n):
        kind, = struct.unpack_from('<I', data, at + i * size + 4)
        if kind in (2, 11):  # SHT_SYMTAB, SHT_DYNSYM: now SHT_PROGBITS
            struct.pack_into('<I', data, at + i * size + 4, 1)
    with open(copy, 'wb') as f:
        f.write(data)
    return copy


def text_ranges(path):
    ranges = []
    for line in run(['readelf', '-SW', path]).splitlines():
        f = line.split(']', 1)[1].split() if ']' in line else []
        if len(f) >= 10 and f[0].startswith('.text') and f[1] in ('PROGBITS', 'NOBITS') and int(f[4], 16):
            ranges.append((int(f[2], 16), int(f[2], 16) + int(f[4], 16)))
    return ranges


def addresses(path, seed):
    ranges = text_ranges(path)
    if not ranges:
        raise Failed(f'{path}: no text')
    rng = random.Random(seed)
    total = sum(hi - lo for lo, hi in ranges)
    if total <= ADDRESSES:
        return [a for lo, hi in ranges for a in range(lo, hi)]
    found = set()
    for _ in range(ADDRESSES):
        at = rng.randrange(total)
        for lo, hi in ranges:
            if at < hi - lo:
                found.add(lo + at)
                break
            at -= hi - lo
    return sorted(found)


# A frame is (linkage name, name, file, line, column, first line); "" and 0: unknown.

def ours(driver, path, args, addrs):
    frames = {a: [] for a in addrs}
    out = run([driver, path] + args, ''.join(f'{a:x}\n' for a in addrs)).splitlines()
    for line in out:
        if line.startswith('#'):
            continue
        a, _, linkage, name, file, row, column, first = line.split('\t')
        frames[int(a, 16)].append((linkage or name, name, file, int(row), int(column), int(first)))
    return frames, out[-1]


def llvm(path, args, addrs):
    def ask(functions):
        out = run([tool('llvm-symbolizer-14', 'llvm-symbolizer'), '--obj=' + path, '--output-style=JSON', '--inlining',
                   '--no-demangle', '--functions=' + functions] + args, ''.join(f'0x{a:x}\n' for a in addrs))
        answers = [json.loads(line) for line in out.splitlines() if line.strip()]
        if len(answers) != len(addrs):
            raise Failed(f'llvm-symbolizer: {len(answers)} answers to {len(addrs)} addresses')
        return answers
    frames = {}
    for a, long, short in zip(addrs, ask('linkage'), ask('short')):
        if int(long['Address'], 16) != a:
            raise Failed(f"llvm-symbolizer: {long['Address']} where {a:x} was asked for")
        frames[a] = [(l['FunctionName'], s['FunctionName'], l['FileName'], l['Line'], l['Column'], l['StartLine'])
                     for l, s in zip(long['Symbol'], short['Symbol'])]
        if len(frames[a]) == 1 and frames[a][0][1:] == ('', '', 0, 0, 0):
            frames[a] = []  # a name of the symbol table, or nothing
    return frames


def gnu(args, addrs):
    """Function and line of each level, by eu-addr2line or addr2line."""
    out = run(args, ''.join(f'0x{a:x}\n' for a in addrs)).splitlines()
    frames = {}
    i = -1
    while out:
        line = out.pop(0)
        if re.fullmatch(r'0x[0-9a-f]+', line):
            i = int(line, 16)
            frames[i] = []
        elif out:
            where = out.pop(0)
            m = re.match(r'(.*?):(\d+|\?)', where)
            frames[i].append((re.sub(r' inlined at .*', '', line), int(m[2]) if m and m[2] != '?' else 0))
    return frames


def second_opinions(path, got, addrs):
    counts = []
    addrs = addrs[::len(addrs) // OPINIONS + 1]
    for args in (['eu-addr2line', '-a', '-i', '-f', '-e', path], ['addr2line', '-a', '-i', '-f', '-e', path]):
        if not shutil.which(args[0]):
            continue
        try:
            theirs = gnu(args, addrs)
        except Failed:
            continue
        same = sum(1 for a in addrs
                   if [f[3] for f in got[a] if f[3]] == [line for _, line in theirs.get(a, []) if line])
        counts.append(f'{args[0]} {100 * same / len(addrs):.1f} %')
    return ', '.join(counts)


# ---- comparison ------------------------------------------------------------------------------------------------------

def symbols(path):
    """Functions of .symtab: (start, end, name)."""
    found = []
    for line in run(['nm', '-S', '--defined-only', path]).splitlines():
        f = line.split()
        if len(f) == 4 and f[2] in 'tTwW':
            found.append((int(f[0], 16), int(f[0], 16) + int(f[1], 16), f[3]))
    return found


class Discarded:
    """Functions that the linker threw away lie at 0 in the debug information of GNU's linkers. llvm-symbolizer takes
    them for code there, and so does not find what really is at addresses below their size. We have to find the
    function that the symbol table has, and nothing where it has none of this program's.
    """
    why = 'llvm-symbolizer takes a discarded function for one at 0, we have that of the symbol table'

    def __init__(self, path, objects, size):
        self.size = size
        self.syms = symbols(path)
        self.known = {name for o in objects for _, _, name in symbols(o)}

    def right(self, addr, got):
        if addr >= self.size:
            return False
        names = [name.split('.')[0] for lo, hi, name in self.syms if lo <= addr < hi and name in self.known]
        if not names:
            return not got
        return got and got[-1][0] in names and all(f[2] for f in got)


class NotSplit:
    """llvm-symbolizer 14 takes some addresses of clang's split units for calls that lie elsewhere: its function is not
    even that of the symbol table. The same program with its debug information in one piece is then the oracle; the
    code of both is the same.
    """
    why = 'llvm-symbolizer says what we say of the same code without -gsplit-dwarf'

    def __init__(self, path, addrs):
        self.path = path
        self.frames = llvm(bare_copy(path), [], addrs)

    def right(self, addr, got):
        return got == self.frames[addr]


def check(log, driver, name, path, *, theirs=None, our_args=(), llvm_args=(), opinions=True,
          excuse=None):
    """
    @theirs: the file that llvm-symbolizer reads, where it cannot read @path
    @excuse: makes of (path, addresses) what knows when a difference is right
    """
    addrs = addresses(path, name)
    bare = bare_copy(theirs or path)
    if not theirs and os.path.exists(path + '.dwp'):
        shutil.copy(path + '.dwp', bare + '.dwp')
    got, stats = ours(driver, path, list(our_args), addrs)
    want = llvm(bare, list(llvm_args), addrs)
    named = sum(1 for a in addrs if want[a])
    inlined = sum(len(want[a]) - 1 for a in addrs if want[a])
    rule = excuse(path, addrs) if excuse else None
    bad, excused = 0, 0
    for a in addrs:
        if want[a] == got[a]:
            continue
        if rule and rule.right(a, got[a]):
            excused += 1
            continue
        bad += 1
        if bad <= (1000 if VERBOSE else 5):
            log.note(f'{name} {a:x}:')
            for i in range(max(len(want[a]), len(got[a]))):
                w = want[a][i] if i < len(want[a]) else None
                g = got[a][i] if i < len(got[a]) else None
                log.note(f'  {"same" if w == g else "theirs"} {w}')
                if w != g:
                    log.note(f'  ours   {g}')
    if excused:
        log.note(f'{name}: {excused} differ: {rule.why}')
    if ' bad 0 ' not in stats or 'over_limit 0 over_steps 0' not in stats:
        log.note(f'{name}: {stats[2:]}')
    more = second_opinions(path, got, addrs) if opinions else ''
    log.report(bad == 0 and named > 0,
               f'{name}: {len(addrs)} addresses, {named} with frames, {inlined} inlined, {bad} mismatches' +
               (f' ({more})' if more else ''))
    log.addresses += len(addrs)


# ---- cases -----------------------------------------------------------------------------------------------------------

def build_c(folder, cc, flags, out='a.out', link=(), main=True):
    cc = tool(cc)
    objects = []
    for src in ('a.c', 'sub/b.c'):
        obj = os.path.join(folder, os.path.basename(src) + '.o')
        build([cc, '-c', '-Isub', *(['-DMAIN'] if main else []), *flags, '-o', obj, src], folder)
        objects.append(obj)
    build([cc, *[f for f in flags if f.startswith(('-g', '-O', '-f'))], *link, '-o', out, *objects], folder)
    return os.path.join(folder, out)


def build_cxx(folder, cxx, flags, out='a.out', link=()):
    cxx = tool(cxx)
    objects = []
    for src in ('a.cc', 'sub/b.cc'):
        obj = os.path.join(folder, os.path.basename(src) + '.o')
        build([cxx, '-std=c++17', '-c', '-Isub', *flags, '-o', obj, src], folder)
        objects.append(obj)
    build([cxx, *[f for f in flags if f.startswith(('-g', '-O', '-f'))], *link, '-o', out, *objects], folder)
    return os.path.join(folder, out)


def plain(builder, cc, flags, **kw):
    return lambda folder, check_: check_(builder(folder, cc, flags.split(), **kw))


def text_of(path):
    run(['objcopy', '-O', 'binary', '-j', '.text', path, path + '.text'])
    with open(path + '.text', 'rb') as f:
        return f.read()


def split(builder, cc, flags, dwp=()):
    """With .dwo files, or those packed by a tool and gone."""
    def case(folder, check_):
        whole = builder(folder, cc, flags.split(), out='whole')
        path = builder(folder, cc, flags.split() + ['-gsplit-dwarf'])
        excuse = None
        if text_of(whole) == text_of(path):
            excuse = lambda p, addrs: NotSplit(whole, addrs)
        if not dwp:
            check_(path, excuse=excuse)
            return
        os.makedirs(os.path.join(folder, 'packed'))
        moved = os.path.join(folder, 'packed', 'a.out')
        shutil.copy(path, moved)
        build([tool(*dwp), '-e', path, '-o', moved + '.dwp'], folder, 10)
        for dwo in glob.glob(os.path.join(folder, '**', '*.dwo'), recursive=True):
            os.remove(dwo)
        check_(moved, our_args=['dwp=' + moved + '.dwp'], opinions=False, excuse=excuse)
    return case


def gc_sections(cc, flags, ld):
    def case(folder, check_):
        link = ['-Wl,--gc-sections', *flags]
        if ld:
            link.append('-fuse-ld=' + ld)
        if ld == 'lld' and not shutil.which('ld.lld'):  # Rust brings one
            root = run([tool('rustc'), '--print', 'sysroot']).strip()
            link += ['-B' + os.path.dirname(p) for p in glob.glob(root + '/lib/rustlib/*/bin/gcc-ld/ld.lld')]
        path = build_c(folder, cc, ['-g', '-O2', '-ffunction-sections', *flags], link=link)
        names = {name for _, _, name in symbols(path)}
        size = max(hi - lo for lo, hi, name in symbols(os.path.join(folder, 'b.c.o')) if name == 'unused_big')
        if 'unused_big' in names:
            raise Failed('the linker kept what is not used')
        objects = [os.path.join(folder, o) for o in ('a.c.o', 'b.c.o')]
        # lld writes -1, which is no address to any reader.
        strict = ld == 'lld' or '-no-pie' in flags
        check_(path, excuse=None if strict else lambda p, addrs: Discarded(p, objects, size))
    return case


def zstd(folder, check_):
    path = build_c(folder, 'gcc', ['-g', '-O2'])
    packed = path + '.zstd'
    build(['objcopy', '--compress-debug-sections=zstd', path, packed], folder)
    if 'ZSTD' not in run(['readelf', '-tW', packed]):
        raise Skip('objcopy does not compress with zstd')
    check_(packed, theirs=path, opinions=False)


WINDOWS_UNITS = 12
WINDOWS_SOURCE = """
#include <algorithm>
#include <map>
#include <string>
#include <vector>
namespace unit00 {
struct key_00 { int a; std::string b; bool operator<(const key_00 &o) const { return a < o.a || (a == o.a && b < o.b); } };
static inline int help_00(int x) { int s = 0; for (int i = 0; i < x; i++) s += x * i; return s; }
int work_00(int n)
{
	std::map<key_00, std::vector<std::string>> m;
	std::vector<key_00> v;
	for (int i = 0; i < n; i++) {
		key_00 key{help_00(i), std::to_string(i)};
		m[key].push_back(key.b);
		v.push_back(key);
	}
	std::sort(v.begin(), v.end());
	std::stable_sort(v.begin(), v.end(), [](const key_00 &x, const key_00 &y) { return y < x; });
	return (int)(m.size() + v.size());
}
}
"""


def windows(folder, check_):
    """Packed sections larger than the share of memory for whole ones. One unit is compiled, and has copies."""
    tool('as')
    with open(os.path.join(folder, 'unit.cc'), 'w') as f:
        f.write(WINDOWS_SOURCE)
    build([tool('g++'), '-std=c++17', '-O1', '-g', '-S', '-o', 'unit00.s', 'unit.cc'], folder)
    with open(os.path.join(folder, 'unit00.s')) as f:
        text = f.read()
    numbers = [f'{i:02d}' for i in range(WINDOWS_UNITS)]
    for no in numbers:
        with open(os.path.join(folder, f'unit{no}.s'), 'w') as f:
            f.write(re.sub(r'(unit|key_|help_|work_)00', r'\g<1>' + no, text))
        build(['as', '-o', f'unit{no}.o', f'unit{no}.s'], folder)
    with open(os.path.join(folder, 'main.cc'), 'w') as f:
        f.write(''.join(f'namespace unit{no} {{ int work_{no}(int); }}\n' for no in numbers))
        f.write('int main(int c, char **) { return ' + ' + '.join(f'unit{no}::work_{no}(c)' for no in numbers) + '; }\n')
    build(['g++', '-g', '-o', 'whole', 'main.cc', *(f'unit{no}.o' for no in numbers)], folder)
    path = os.path.join(folder, 'whole')
    made = [('zlib', path, '4')]
    if shutil.which('dwz'):
        build(['dwz', '-o', path + '.dwz', path], folder)
        made.append(('zlib', path + '.dwz', '4'))
    made.append(('zstd', path, '12'))
    for packing, source, budget in made:
        packed = source + '.' + packing
        build(['objcopy', f'--compress-debug-sections={packing}', source, packed], folder)
        if packing == 'zstd' and 'ZSTD' not in run(['readelf', '-tW', packed]):
            continue
        check_(packed, theirs=path, opinions=False, our_args=[f'max_bytes={int(budget) << 20}'])


def dwz_multi(builder, cc, flags):
    """Two programs with a common file."""
    def case(folder, check_):
        dwz = tool('dwz')
        path = builder(folder, cc, flags.split())
        second, one, two = (os.path.join(folder, n) for n in ('second', 'one.dwz', 'two.dwz'))
        shutil.copy(path, second)
        shutil.copy(path, one)
        shutil.copy(second, two)
        build([dwz, '-m', os.path.join(folder, 'common'), '-M', os.path.join(folder, 'common'), one, two], folder)
        check_(one, theirs=path, our_args=['alt=' + os.path.join(folder, 'common')])
    return case


def dwz_single(builder, cc, flags):
    def case(folder, check_):
        dwz = tool('dwz')
        path = builder(folder, cc, flags.split())
        out = os.path.join(folder, 'one.dwz')
        build([dwz, '-o', out, path], folder)
        check_(out, theirs=path)
    return case


def rust(flags):
    def case(folder, check_):
        build([tool('rustc'), *flags.split(), '-o', 'a.out', 'a.rs'], folder)
        check_(os.path.join(folder, 'a.out'))
    return case


def fortran(flags):
    def case(folder, check_):
        build([tool('gfortran'), *flags.split(), '-o', 'a.out', 'a.f90'], folder)
        check_(os.path.join(folder, 'a.out'))
    return case


def assembly(cc, flags):
    def case(folder, check_):
        build([tool(cc), *flags.split(), '-nostdlib', '-static', '-o', 'a.out', 'a.s'], folder)
        check_(os.path.join(folder, 'a.out'))
    return case


def has_debug_info(path):
    """Without readelf: there are thousands."""
    try:
        if not os.path.isfile(path) or os.path.islink(path):
            return False
        with open(path, 'rb') as f:
            head = f.read(64)
            if head[:6] != b'\x7fELF\x02\x01':
                return False
            at, = struct.unpack_from('<Q', head, 40)
            size, n, names = struct.unpack_from('<HHH', head, 58)
            f.seek(at)
            table = f.read(size * n)
            off, length = struct.unpack_from('<QQ', table, size * names + 24)
            f.seek(off)
            return b'.debug_info\0' in f.read(min(length, 1 << 20))
    except (OSError, struct.error):
        return False


def installed():
    """Programs and libraries of this machine that have debug information: usually Go's, and no other."""
    found = []
    for pattern in ('/usr/bin/*', '/usr/local/bin/*', '/usr/lib/*-linux-gnu/*.so*',
                    '/usr/lib/debug/.build-id/*/*.debug'):
        found += [p for p in sorted(glob.glob(pattern)) if has_debug_info(p)]
    go = shutil.which('go')
    if go and has_debug_info(os.path.realpath(go)):
        found.append(os.path.realpath(go))
    random.Random(1).shuffle(found)
    return found[:INSTALLED]


def copy_of(path):
    def case(folder, check_):
        copy = os.path.join(folder, os.path.basename(path))
        shutil.copy(path, copy)
        check_(copy, opinions=False)
    return case


def cases():
    for cc in ('gcc', 'clang-14'):
        for version in (2, 3, 4, 5):
            for opt in ('-O0', '-O2', '-O3'):
                if opt == '-O3' and version not in (4, 5):
                    continue
                flags = f'-g -gdwarf-{version} {opt}'
                yield f'C {cc} {flags}', plain(build_c, cc, flags)
        yield f'C {cc} -g1', plain(build_c, cc, '-g1 -O2')
        yield f'C {cc} -g3', plain(build_c, cc, '-g3 -O2')
        yield f'C {cc} 64-bit format', plain(build_c, cc, '-g -gdwarf-5 -gdwarf64 -O2')
        yield f'C {cc} -flto', plain(build_c, cc, '-g -O2 -flto')
        yield f'C {cc} zlib', plain(build_c, cc, '-g -O2 -gz=zlib')
        yield f'C {cc} zlib-gnu', plain(build_c, cc, '-g -O2 -gz=zlib-gnu',
                                            link=['-Wl,--compress-debug-sections=zlib-gnu'])
        yield f'C {cc} library', plain(build_c, cc, '-g -O2 -fPIC', link=['-shared'], main=False)
        yield f'C {cc} static-pie', plain(build_c, cc, '-g -O2 -fPIE', link=['-static-pie'])
        yield f'C {cc} no-pie', plain(build_c, cc, '-g -O2 -fno-pie', link=['-no-pie'])
        for ld in ('', 'gold', 'lld'):
            yield f'C {cc} gc-sections {ld}'.strip(), gc_sections(cc, ['-fPIE', '-pie'], ld)
            yield f'C {cc} gc-sections no-pie {ld}'.strip(), gc_sections(cc, ['-fno-pie', '-no-pie'], ld)
        yield f'C {cc} -m32', plain(build_c, cc, '-g -O2 -m32', 
                                        link=['-m32', '-nostdlib', '-Wl,-e,main', '-Wl,--unresolved-symbols=ignore-all'])
        for version in (4, 5):
            flags = f'-g -O2 -gdwarf-{version}'
            yield f'C {cc} split dwo {version}', split(build_c, cc, flags)
            yield f'C {cc} split llvm-dwp {version}', split(build_c, cc, flags, ('llvm-dwp-14', 'llvm-dwp'))
            yield f'C {cc} split dwp {version}', split(build_c, cc, flags, ('dwp',))
        yield f'C {cc} dwz', dwz_single(build_c, cc, '-g -O2')
        yield f'C {cc} dwz -m', dwz_multi(build_c, cc, '-g -O2')
    yield 'C gcc zstd', zstd
    yield 'C clang-14 aranges', plain(build_c, 'clang-14', '-g -O2 -gdwarf-aranges')
    yield 'C clang-14 type units', plain(build_c, 'clang-14', '-g -O2 -gdwarf-5 -fdebug-types-section')
    yield 'C++ packed, by windows', windows
    for cxx in ('g++', 'clang++-14'):
        for version in (3, 4, 5):
            yield f'C++ {cxx} -O2 {version}', plain(build_cxx, cxx, f'-g -O2 -gdwarf-{version}')
        yield f'C++ {cxx} -O0', plain(build_cxx, cxx, '-g -O0')
        yield f'C++ {cxx} -O3 -flto', plain(build_cxx, cxx, '-g -O3 -flto')
        yield f'C++ {cxx} -g1', plain(build_cxx, cxx, '-g1 -O2')
        yield f'C++ {cxx} type units', plain(build_cxx, cxx, '-g -O2 -fdebug-types-section')
        yield f'C++ {cxx} gc-sections', plain(build_cxx, cxx, '-g -O2 -ffunction-sections', link=['-Wl,--gc-sections'])
        yield f'C++ {cxx} split dwo', split(build_cxx, cxx, '-g -O2')
        yield f'C++ {cxx} split llvm-dwp', split(build_cxx, cxx, '-g -O2', ('llvm-dwp-14', 'llvm-dwp'))
        yield f'C++ {cxx} dwz', dwz_single(build_cxx, cxx, '-g -O2')
        yield f'C++ {cxx} dwz -m', dwz_multi(build_cxx, cxx, '-g -O2')
    for mangling in ('legacy', 'v0'):
        flags = f'-g -Z unstable-options -C symbol-mangling-version={mangling}'
        yield f'Rust {mangling}', rust(flags + ' -O')
        yield f'Rust {mangling} -O0', rust(flags)
    yield 'Rust lines only', rust('-C debuginfo=1 -O')
    yield from ((f'installed {path}', copy_of(path)) for path in installed())
    for opt in ('-O0', '-O2'):
        yield f'Fortran {opt}', fortran(f'-g {opt}')
    yield 'Fortran -gdwarf-4', fortran('-g -O2 -gdwarf-4')
    for cc in ('gcc', 'clang-14'):
        for version in (2, 3, 4, 5):
            yield f'assembly {cc} {version}', assembly(cc, f'-g -Wa,-gdwarf-{version}' if cc == 'gcc' else
                                                       f'-g -gdwarf-{version}')


def run_case(driver, name, case):
    log = Log()
    with tempfile.TemporaryDirectory(prefix='dwarf-oracle-') as folder:
        write_sources(folder)
        try:
            case(folder, lambda path, **kw: check(log, driver, name, path, **kw))
        except Skip as e:
            log.report(True, f'{name} # SKIP {e}')
        except Failed as e:
            log.note(str(e))
            log.report(False, name)
    return log


def main():
    args = sys.argv[1:]
    driver = os.path.abspath(args.pop(0))
    word = ''
    files = []
    while args:
        a = args.pop(0)
        if a == '-k':
            word = args.pop(0)
        elif a != '-v':
            files.append(a)
    missing = [t for t in ('readelf', 'objcopy') if not shutil.which(t)]
    if not shutil.which('llvm-symbolizer-14') and not shutil.which('llvm-symbolizer'):
        missing.append('llvm-symbolizer')
    if missing:
        print(f"1..0 # SKIP {', '.join(missing)} not installed")
        return 0
    os.environ['RUSTC_BOOTSTRAP'] = '1'  # for -Z
    chosen = [(name, case) for name, case in cases() if word in name] if not files else []
    chosen += [(path, copy_of(path)) for path in files]
    total = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for log in pool.map(lambda c: run_case(driver, *c), chosen):
            log.print()
            total += log.addresses
    print(f'# {total} addresses compared')
    print(f'1..{len(results)}')
    return 0 if all(results) else 1


if __name__ == '__main__':
    sys.exit(main())
