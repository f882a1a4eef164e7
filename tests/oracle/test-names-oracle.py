#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Names, lines and inlined calls of real programs' profiles against llvm-symbolizer, and JIT code against perf-maps.

usage: test-names-oracle.py PERF-AGENT [PROGRAM...]

Of the user frames at addresses for which llvm-symbolizer (same files) or the JIT's map has a name, 99.9 % by weight
must have that name; of those for which it has a line, that line and those inlined calls. Two symbols at one address
are one name. Output is TAP.
"""
import bisect
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TESTS = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
sys.path.insert(0, os.path.join(TESTS, 'live'))
# pylint: disable=wrong-import-position
import livelib

SECONDS, HZ = 3, 499
NEEDED = 0.999
JAVA = '''
import java.util.*;
public class Work {
  static int mix(int a) { return (a * 31 + 7) % 1000003; }
  static long round(int n) { Map<Integer, String> m = new TreeMap<>(); long t = 0;
    for (int i = 0; i < n; i++) m.put(mix(i), "v" + i); for (String s : m.values()) t += s.hashCode(); return t; }
  public static void main(String[] a) { long t = 0; long end = System.nanoTime() + 600L * 1000000000L;
    while (System.nanoTime() < end) t += round(20000); System.out.println(t); } }
'''


def stack_oracle():
    spec = importlib.util.spec_from_file_location('stack_oracle', os.path.join(TESTS, 'oracle', 'test-stack-oracle.py'))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


oracle = stack_oracle()
PROGRAMS = {name: oracle.PROGRAMS[name] for name in ('python3', 'openssl', 'sqlite3', 'cc1', 'cxx-exceptions')}


def program(fn):
    PROGRAMS[fn.__name__] = fn
    return fn


@program
def node():
    argv = oracle.PROGRAMS['node']()
    return [argv[0], '--perf-basic-prof', *argv[1:]]


@program
def java():
    oracle.write('Work.java', JAVA)
    r = subprocess.run([oracle.need('javac'), 'Work.java'], capture_output=True, text=True, check=False)
    if r.returncode:
        raise oracle.NotInstalled(f'javac: {r.stderr.strip()}')
    # -Xint would leave nothing to the compiler; the interpreter's code has no names in the map.
    return [oracle.need('java'), '-XX:+PreserveFramePointer', '-XX:+UnlockDiagnosticVMOptions', '-cp', '.', 'Work']


class Elf:
    """Names and addresses of one file, by other people's tools."""

    def __init__(self, path):
        self.path = path
        out = subprocess.run(['readelf', '-lW', path], capture_output=True, text=True, check=True).stdout
        self.loads = [tuple(int(x, 16) for x in m) for m in
                      re.findall(r'^\s+LOAD\s+(0x\w+) (0x\w+) 0x\w+ (0x\w+) 0x\w+', out, re.M)]

    def vaddr(self, offset):
        for off, vaddr, size in self.loads:
            if off <= offset < off + size:
                return vaddr + offset - off
        return None

    def aliases(self, names):
        """{name: set of its addresses} of the image and its debug file."""
        ret = {}
        files = [self.path]
        notes = subprocess.run(['readelf', '-nW', self.path], capture_output=True, text=True, check=False).stdout
        m = re.search(r'Build ID: ([0-9a-f]+)', notes)
        if m:
            files.append(f'/usr/lib/debug/.build-id/{m[1][:2]}/{m[1][2:]}.debug')
        for path in files:
            for options in ([], ['-D']):
                out = subprocess.run(['nm', *options, path], capture_output=True, text=True, errors='replace',
                                     check=False).stdout
                for line in out.splitlines():
                    words = line.split()
                    if len(words) == 3 and words[2].split('@')[0] in names:
                        ret.setdefault(words[2].split('@')[0], set()).add(int(words[0], 16))
        return ret


def symbolized(path, vaddrs):
    """{vaddr: [(name, file, line), …]}, innermost first."""
    text = ''.join(f'{v:#x}\n' for v in vaddrs)
    out = subprocess.run(['llvm-symbolizer', '--inlining', '--functions=linkage', '--no-demangle', f'--obj={path}'],
                         input=text, capture_output=True, text=True, errors='replace', check=True).stdout
    ret = {}
    for vaddr, block in zip(vaddrs, out.rstrip('\n').split('\n\n')):
        lines = block.strip('\n').split('\n')
        frames = []
        for name, place in zip(lines[::2], lines[1::2]):
            file, line, _ = place.rsplit(':', 2)
            frames.append((name, file, int(line)))
        ret[vaddr] = frames
    return ret


def frames_by_file(p):
    """{path: {file offset of the scan-up: (frame, weight)}} of user frames in files; and those of [jit]."""
    files, jit = {}, {}
    for s in p.samples:
        for f in s.user:
            m = f.mapping
            if not m:
                continue
            into = jit if m.path == '[jit]' else files.setdefault(m.path, {})
            key = f.address if m.path == '[jit]' else f.address - m.start + m.offset
            before = into.get(key, (f, 0))
            into[key] = (f, before[1] + s.count)
    return files, jit


class Tally:
    def __init__(self):
        self.known = self.same = self.lines = self.same_lines = self.jit = 0
        self.differences = {}

    def differ(self, what, weight):
        self.differences[what] = self.differences.get(what, 0) + weight


def compare_file(path, frames, t):
    if not path.startswith('/') or not os.path.exists(path):
        return
    elf = Elf(path)
    at = {elf.vaddr(off): fw for off, fw in frames.items() if elf.vaddr(off) is not None}
    theirs = symbolized(path, sorted(at))
    ours = {v: f.functions[-1].system_name or f.name for v, (f, _) in at.items()}
    odd = {v for v in at if theirs[v][-1][0] not in ('??', ours[v])}
    same_place = elf.aliases({ours[v] for v in odd} | {theirs[v][-1][0] for v in odd}) if odd else {}
    for v, (f, weight) in at.items():
        name = theirs[v][-1][0]
        if name != '??':
            t.known += weight
            # DWARF knows no clones; the symbol table does.
            if ours[v] == name or re.sub(r'\.(constprop|isra|part|cold)\b.*', '', ours[v]) == name or same_place.get(ours[v], set()) & same_place.get(name, set()):
                t.same += weight
            else:
                t.differ(f'{os.path.basename(path)} {v:#x}: {ours[v]}, llvm-symbolizer: {name}', weight)
        if any(line for _, _, line in theirs[v]) and name != '??':
            t.lines += weight
            if [line for _, _, line in theirs[v]] == f.lines:
                t.same_lines += weight
            else:
                t.differ(f'{os.path.basename(path)} {v:#x}: lines {f.lines}, llvm-symbolizer: {theirs[v]}', weight)


def compare_jit(path, frames, t):
    """Against the last line of the map that holds the address; where there were others, any of them."""
    entries = []
    with open(path, encoding='utf-8', errors='replace') as f:
        for line in f:
            m = re.match(r'(?:0x)?([0-9a-f]+) (?:0x)?([0-9a-f]+) (.*)', line.rstrip('\n'))
            if m:
                entries.append((int(m[1], 16), int(m[2], 16), m[3]))
    entries.sort()
    starts = [e[0] for e in entries]
    for address, (f, weight) in frames.items():
        i = bisect.bisect_right(starts, address)
        names = {e[2] for e in entries[max(0, i - 200):i] if e[0] <= address < e[0] + e[1]}
        if not names:
            continue
        t.known += weight
        t.jit += weight
        if f.functions[-1].system_name in names or f.name in names:
            t.same += weight
        else:
            t.differ(f'jit {address:#x}: {f.name}, map: {sorted(names)[:3]}', weight)


def run(agent, name):
    argv = PROGRAMS[name]()
    env = {**os.environ, 'LC_ALL': 'C'}
    env.pop('DEBUGINFOD_URLS', None)
    target = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=env)
    perf_map = f'/tmp/perf-{target.pid}.map'
    try:
        limit = time.monotonic() + oracle.START_LIMIT_S
        while target.poll() is None and oracle.cpu_s(target.pid) < oracle.WARM_S:
            if time.monotonic() > limit:
                raise RuntimeError(f'{name} does not work')
            time.sleep(0.01)
        if name == 'java':
            # Written on demand, as an agent would: before and after what is sampled.
            subprocess.run([oracle.need('jcmd'), str(target.pid), 'Compiler.perfmap'], stdout=subprocess.DEVNULL,
                           check=True)
        r = subprocess.run([agent, '--profile', '--pid', str(target.pid), '--duration', f'{SECONDS}s', '--sample-rate',
                            str(HZ), '--profile-output', 'p.pb.gz'], capture_output=True, text=True, check=False)
        if r.returncode:
            raise RuntimeError(f'{name}: {r.stderr}')
        p = livelib.load('p.pb.gz')
        files, jit = frames_by_file(p)
        t = Tally()
        for path, frames in files.items():
            compare_file(path, frames, t)
        if os.path.exists(perf_map):
            compare_jit(perf_map, jit, t)
    finally:
        if target.poll() is None:
            target.send_signal(signal.SIGKILL)
        target.wait()
        if os.path.exists(perf_map):
            os.unlink(perf_map)
    return t


def main():
    agent = os.path.abspath(sys.argv[1])
    names = sys.argv[2:] or list(PROGRAMS)
    missing = oracle.missing_capabilities()
    if missing or not shutil.which('llvm-symbolizer'):
        print(f'1..0 # SKIP needs {", ".join(missing) or "llvm-symbolizer"}')
        return 0
    print(f'1..{2 * len(names)}')
    number = failed = 0
    home = os.getcwd()
    for name in names:
        t, why, trouble = Tally(), None, None
        with tempfile.TemporaryDirectory(prefix='perf-agent-oracle-') as folder:
            os.chdir(folder)
            try:
                t = run(agent, name)
            except oracle.NotInstalled as e:
                why = str(e)
            except (RuntimeError, OSError, subprocess.SubprocessError) as e:
                trouble = str(e)
            finally:
                os.chdir(home)
        # Programs with JIT code must have much of it.
        least = 0.2 if name in ('node', 'java') else 0
        for what, same, known, enough in (('names', t.same, t.known, t.known and t.jit >= least * t.known),
                                          ('lines and inlined calls', t.same_lines, t.lines, True)):
            number += 1
            good = why or (not trouble and enough and same >= NEEDED * known)
            if not why and not trouble and not known and what != 'names':
                good = why = 'no debug information is installed'
            failed += not good
            print(f'{"ok" if good else "not ok"} {number} - {name}: {what}' + (f' # SKIP {why}' if why else ''))
            print(f'# {same} of {known} by weight ({t.jit} of JIT code)' + (f', {100 * same / known:.3f} %' if known else ''), flush=True)
        if trouble:
            print('# ' + trouble.replace('\n', '\n# '))
        for what, weight in sorted(t.differences.items(), key=lambda d: -d[1])[:10]:
            print(f'# {weight}: {what}'[:400])
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
