# SPDX-License-Identifier: Apache-2.0
"""Shared by the live tests: workloads, runs of perf-agent, a pprof reader of its own, bounds, TAP.

A test file is called with the path of perf-agent and those of the workloads. Each test runs in an empty folder of its
own; what it started is ended by its number when it ends. Bounds are statistical, never of time: these machines are
shared.

What depends on chance is compared at five standard deviations: one of 1.7 million such comparisons fails where nothing
is wrong, and a run of all live tests makes some hundreds (each file prints how many), so fewer than one run in a
thousand. No test is run again for that; a test is once where the machine provably had no time, three in all of
tools/check (taplib.py), and each is printed.
"""
import gzip
import json
import math
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

from commentlib import unpacked
from taplib import note, note_crash, run_tests

WAIT_S = 60  # longest that a start or an end may take on a loaded machine
TESTS = []
STARTED = []  # Popen of the test in work
NS = 1_000_000_000
SIGMAS = 5  # of each comparison that depends on chance

compared = 0       # such comparisons of this file
perf_agent = None  # path
workload = {}      # name -> path


# ---- assertions ---------------------------------------------------------------------------------------------------

def test(function):
    TESTS.append(function)
    return function


def check(condition, *what):
    if not condition:
        raise AssertionError('\n'.join(map(str, what)))


def equal(got, want, *what):
    check(got == want, f'got  {got!r}', f'want {want!r}', *what)


def within(got, low, high, *what):
    check(low <= got <= high, f'got {got!r}, want {low!r} … {high!r}', *what)


def room_ns(cpu_ns, window_ns, period_ns):
    """By how much a total may differ from the CPU time: check_total says why."""
    global compared
    compared += 1
    share = min(1.0, cpu_ns / window_ns)
    deviation = math.sqrt(window_ns / period_ns * share * (1 - share)) * period_ns
    return 0.01 * cpu_ns + SIGMAS * deviation + period_ns


def check_total(got_ns, cpu_ns, window_ns, period_ns, *what, extra_ns=0):
    """A total against a CPU clock: 1 % + five standard deviations of ticks that hit with the share of the clock, and one
    tick, since a window holds a whole number of them. extra_ns: CPU time beyond the clock's window at most."""
    room = room_ns(cpu_ns, window_ns, period_ns)
    note(f'{what[0] if what else "total"}: {got_ns / 1e9:.4f} s of {cpu_ns / 1e9:.4f} s, {100 * got_ns / cpu_ns - 100:+.2f} %, '
         f'room {100 * room / cpu_ns:.2f} % + {100 * extra_ns / cpu_ns:.2f} %')
    within(got_ns, cpu_ns - room, cpu_ns + room + extra_ns, f'CPU clock {cpu_ns}, window {window_ns}', *what)


LATE_NS, LATE_PCT = 15000, 15
CLOCKS_NS = 150  # between two programs at one switch that both read the clock


def check_covered(p, cpu_ns, window_ns, *what, switches=0, stolen_ns=0, extra_ns=0):
    """The weight of the samples before they were scaled, against the time between switches: ticks that are biased show
    here, though scaling mends the total. Nothing where the profile has no such time. stolen_ns: time that a hypervisor
    took, in which no tick came. switches: away from the target. A tick that is due just before one of them comes when the
    thread has gone, where the machine takes time to deliver an interrupt (10 us and more in virtual machines): LATE_NS
    each, at most LATE_PCT of the time. Ticks in lockstep lost 25 to 75 %. extra_ns: as of check_total."""
    measured = float(p.comments['cpu_time_ms']) * 1e6
    room = 100 * room_ns(cpu_ns, window_ns, p.period) / cpu_ns
    stolen = 100 * stolen_ns / cpu_ns + min(100 * switches * LATE_NS / cpu_ns, LATE_PCT)
    covered = float(p.comments['cpu_time_covered_pct'])
    note(f'covered before scaling: {covered:.2f} % of {measured / 1e9:.4f} s, --pmu {cpu_ns / 1e9:.4f} s, room {room:.2f} %'
         f' + {stolen:.2f} %: {what[0] if what else "total"}')
    equal(p.comments['cpu_time_clock'], 'sched_switch', p.text())
    apart = 0.01 * cpu_ns + switches * CLOCKS_NS
    within(measured, cpu_ns - apart, cpu_ns + apart + extra_ns, 'time between switches', *what)
    within(covered, 100 - room - stolen, 100 + room, 'weight of the samples before scaling, in percent', *what)


def taken_ns():
    """Time that a hypervisor and interrupts took from all CPUs, which is no thread's by the scheduler's clocks but
    passes for who was on the CPU; in steps of 10 ms."""
    with open('/proc/stat', encoding='ascii') as f:
        fields = list(map(int, f.readline().split()[1:]))
    return sum(fields[5:8]) * (NS // os.sysconf('SC_CLK_TCK'))


def stolen_ns():
    """The part that a hypervisor took, without a tick."""
    with open('/proc/stat', encoding='ascii') as f:
        return int(f.readline().split()[8]) * (NS // os.sysconf('SC_CLK_TCK'))


def check_share(part, whole, want, *what):
    """A share of a number of samples: 1 % of it + five standard deviations."""
    global compared
    compared += 1
    check(whole > 0, 'no samples', *what)
    room = 0.01 * want + SIGMAS * math.sqrt(want * (1 - want) / whole)
    within(part / whole, want - room, want + room, f'{part} of {whole} samples', *what)


# ---- processes ------------------------------------------------------------------------------------------------------

class Workload:
    """A workload that said "ready PID"; prefix: words before it (taskset …)."""

    def __init__(self, name, *args, prefix=(), path=None):
        self.path = path or workload[name]
        self.p = subprocess.Popen([*prefix, self.path, *map(str, args)], stdout=subprocess.PIPE,
                                  stdin=subprocess.DEVNULL, text=True)
        STARTED.append(self.p)
        line = self.p.stdout.readline().split()
        check(len(line) == 2 and line[0] == 'ready', f'{name} {args} said {line} instead of "ready PID"')
        self.pid = int(line[1])

    def line(self):
        return json.loads(self.p.stdout.readline())

    def finish(self):
        """Waits for its end; what it measured of itself, one dict a line."""
        out, _ = self.p.communicate(timeout=WAIT_S)
        equal(self.p.returncode, 0, self.path)
        return [json.loads(text) for text in out.splitlines()]

    def stop(self):
        end(self.p)

    def clocks(self):
        """CPU time of each thread in ns, by the scheduler."""
        ret = {}
        for tid in os.listdir(f'/proc/{self.pid}/task'):
            with open(f'/proc/{self.pid}/task/{tid}/schedstat', encoding='ascii') as f:
                ret[int(tid)] = int(f.read().split()[0])
        return ret


def end(p):
    if p.poll() is None:
        p.kill()
    p.wait(WAIT_S)
    if p.stdout:
        p.stdout.close()


def start(argv, **more):
    """A program of the system, output discarded."""
    p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)
    STARTED.append(p)
    return p


class Agent:
    """A run of perf-agent. Standard output is collected, standard error line by line as it comes."""

    def __init__(self, *args, modes=('--profile',)):
        # The cache that an earlier capture left is no part of a test, and stays as it is.
        env = {'XDG_CACHE_HOME': '/nonexistent', **os.environ, 'TERM': 'dumb'}
        self.args = [str(a) for a in args]
        self.p = subprocess.Popen([perf_agent, *modes, *self.args], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
        STARTED.append(self.p)
        self.pid = self.p.pid
        self.lines, self.out = [], b''
        self.news = threading.Condition()
        self.readers = [threading.Thread(target=self._read_err), threading.Thread(target=self._read_out)]
        for t in self.readers:
            t.start()

    def _read_err(self):
        for raw in self.p.stderr:
            with self.news:
                self.lines.append(raw.decode('utf-8', 'replace').rstrip('\n'))
                self.news.notify_all()
        with self.news:
            self.lines.append(None)
            self.news.notify_all()

    def _read_out(self):
        self.out = self.p.stdout.read()

    def wait_line(self, text):
        """Waits for a line with this text in it."""
        def there():
            return any(line is None or text in line for line in self.lines)
        with self.news:
            self.news.wait_for(there, WAIT_S)
            check(any(line and text in line for line in self.lines), f'no line with {text!r}', *self.lines)

    def wait_started(self):
        self.wait_line('perf-agent: profiling ')
        return self

    def finish(self):
        self.p.wait(WAIT_S)
        for t in self.readers:
            t.join(WAIT_S)
        self.p.stdout.close()
        self.p.stderr.close()
        r = Result(self)
        note_crash(r.rc, '\n'.join(r.lines))
        return r


class Result:
    def __init__(self, agent):
        self.rc, self.out, self.pid = agent.p.returncode, agent.out, agent.pid
        self.lines = [line for line in agent.lines if line is not None]
        self.args = agent.args

    def __repr__(self):
        return f'perf-agent {" ".join(self.args)}\nrc {self.rc}\nstderr:\n' + '\n'.join(self.lines)


def capture(*args, output='p.pb.gz', status=0):
    """Runs perf-agent to its end, which must be a good one, with the status of the command; returns its profile."""
    before_ns = time.time_ns()
    r = Agent('--profile-output', output, *args).finish()
    equal(r.rc, status, r)
    p = load(output)
    p.result, p.before_ns, p.after_ns = r, before_ns, time.time_ns()
    return p


def capture_alongside(loads, seconds, *args):
    """A capture of about so many seconds, and what the threads of the workloads spent in it by their own clocks:
    profile, {tid: ns}, length of the clocks' window, how much more the profile may hold: what the capture was longer than
    that, and what a hypervisor took, which is in the time between switches and not in the threads' clocks."""
    stolen = stolen_ns()
    agent = Agent('--profile-output', 'p.pb.gz', '--duration', f'{WAIT_S}s', *args).wait_started()
    first = {tid: ns for w in loads for tid, ns in w.clocks().items()}
    first_ns = time.time_ns()
    time.sleep(seconds)
    last = {tid: ns for w in loads for tid, ns in w.clocks().items()}
    last_ns = time.time_ns()
    os.kill(agent.pid, signal.SIGINT)
    r = agent.finish()
    equal(r.rc, 0, r)
    p = load('p.pb.gz')
    p.result = r
    spent = {tid: last[tid] - first.get(tid, 0) for tid in last}
    edges = (first_ns - p.time_nanos) + (p.time_nanos + p.duration_nanos - last_ns)
    within(edges, 0, 2 * NS, 'capture longer than the clocks were read', r)
    return p, spent, last_ns - first_ns, edges + stolen_ns() - stolen


# ---- pprof ----------------------------------------------------------------------------------------------------------

def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7f) << shift
        at += 1
        shift += 7
        if byte < 0x80:
            return value, at
        check(shift < 70, 'varint of more than 10 bytes')


def fields(data):
    """(number, value) of each field of a message; value: int or bytes."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        else:
            equal(tag & 7, 2, 'wire type')
            size, at = varint(data, at)
            check(at + size <= len(data), 'field longer than its message')
            value, at = data[at:at + size], at + size
        yield tag >> 3, value


def numbers(value):
    """A repeated number, packed or one of them."""
    if isinstance(value, int):
        return [value]
    ret, at = [], 0
    while at < len(value):
        n, at = varint(value, at)
        ret.append(n)
    return ret


def signed(n):
    return n - (1 << 64) if n >> 63 else n


class Item:
    def __init__(self, **values):
        self.__dict__.update(values)

    def __repr__(self):
        return ' '.join(f'{k}={v:#x}' if isinstance(v, int) and v > 9999 else f'{k}={v!r}'
                        for k, v in self.__dict__.items())


def single(data):
    return {number: value for number, value in fields(data)}


class Frame:
    """A location with the names of its lines: name is the function, functions[:-1] what was inlined into it."""

    def __init__(self, ident, address, mapping, functions, lines):
        self.id, self.address, self.mapping, self.functions, self.lines = ident, address, mapping, functions, lines
        self.name = functions[-1].name if functions else None
        self.kernel = bool(mapping) and mapping.path == '[kernel]'
        # perf-agent's own words for what is no frame are in brackets and have no mapping.
        self.synthetic = not mapping and bool(self.name) and self.name.startswith('[')
        self.named = bool(self.name) and not self.name.startswith('0x')

    def __repr__(self):
        return f'{self.name}@{self.address:#x}({self.mapping.path if self.mapping else None})'


class Sample:
    """frames and names: leaf first."""

    def __init__(self, frames, values, labels):
        self.frames, self.values, self.labels = frames, values, labels
        self.names = [f.name for f in frames]
        self.user = [f for f in frames if not f.kernel and not f.synthetic]
        self.kernel = [f for f in frames if f.kernel]
        self.user_names = [f.name for f in self.user]
        self.count, self.ns = values
        self.pid, self.tid, self.comm = labels.get('pid'), labels.get('tid'), labels.get('comm')

    def __repr__(self):
        return f'{self.values} {self.labels} {self.names}'


class Profile:
    def __init__(self, data):
        raw = {n: [] for n in range(1, 16)}
        for number, value in fields(data):
            raw[number].append(value)
        strings = [s.decode() for s in raw[6]]
        equal(strings[0], '', 'string 0')
        self.strings = strings

        def text(index):
            return strings[index]

        def kind(data):
            m = single(data)
            return text(m.get(1, 0)), text(m.get(2, 0))

        def last(number):
            return raw[number][-1] if raw[number] else 0

        self.sample_types = [kind(v) for v in raw[1]]
        self.mappings = []
        for v in raw[3]:
            m = single(v)
            self.mappings.append(Item(id=m[1], start=m.get(2, 0), limit=m.get(3, 0), offset=m.get(4, 0),
                                      path=text(m.get(5, 0)), build_id=text(m.get(6, 0)),
                                      has_functions=bool(m.get(7)), has_filenames=bool(m.get(8)),
                                      has_line_numbers=bool(m.get(9)), has_inline_frames=bool(m.get(10))))
        self.functions = {}
        for v in raw[5]:
            m = single(v)
            self.functions[m[1]] = Item(id=m[1], name=text(m.get(2, 0)), system_name=text(m.get(3, 0)),
                                        file=text(m.get(4, 0)), start_line=m.get(5, 0))
        mappings = {m.id: m for m in self.mappings}
        self.frames = {}
        for v in raw[4]:
            m = single(v)
            lines = [single(line) for number, line in fields(v) if number == 4]
            functions = [self.functions[line[1]] for line in lines]
            check(m[1] not in self.frames, 'two locations of one id')
            self.frames[m[1]] = Frame(m[1], m.get(3, 0), mappings[m[2]] if m.get(2) else None, functions,
                                      [line.get(2, 0) for line in lines])
        self.samples = []
        for v in raw[2]:
            ids, values, labels = [], [], {}
            for number, value in fields(v):
                if number == 1:
                    ids += numbers(value)
                elif number == 2:
                    values += map(signed, numbers(value))
                else:
                    m = single(value)
                    labels[text(m[1])] = text(m[2]) if 2 in m else signed(m.get(3, 0))
            equal(len(values), len(self.sample_types), 'values of a sample')
            self.samples.append(Sample([self.frames[i] for i in ids], values, labels))
        self.time_nanos, self.duration_nanos = last(9), last(10)
        self.period_type = kind(last(11)) if raw[11] else None
        self.period = last(12)
        self.raw_comments = [text(i) for v in raw[13] for i in numbers(v)]
        self.comment_lines = unpacked(self.raw_comments)
        self.comments = dict(c.split(': ', 1) for c in self.comment_lines if ': ' in c)
        self.default_type = text(last(14))

    def of(self, **labels):
        return [s for s in self.samples if all(s.labels.get(k) == v for k, v in labels.items())]

    def number(self, key):
        """A whole number among the comments; those of value 0 may be left out."""
        return int(self.comments.get(key, 0))

    def files(self, key):
        """Values of a key that has several lines: (file, share)."""
        words = [c[len(key) + 2:].rsplit(' ', 1) for c in self.comment_lines if c.startswith(key + ': ')]
        return [(name, float(share)) for name, share in words]

    def text(self):
        return '\n'.join(self.comment_lines)


def decode(data):
    return Profile(gzip.decompress(data))


def load(path):
    with open(path, 'rb') as f:
        return decode(f.read())


def count(samples):
    return sum(s.count for s in samples)


def weight(samples):
    return sum(s.ns for s in samples)


def check_conserved(p):
    """seen = in the profile + dropped, dropped = the sum of its reasons, and the samples add up to it."""
    reasons = {k: int(v) for k, v in p.comments.items() if k.startswith('dropped_')}
    check('samples_seen' in p.comments and 'samples_in_profile' in p.comments and 'dropped' in p.comments, p.text())
    equal(p.number('samples_seen'), p.number('samples_in_profile') + p.number('dropped'), p.text())
    equal(p.number('dropped'), sum(reasons.values()), p.text())
    equal(count(p.samples), p.number('samples_in_profile'), p.text())
    for s in p.samples:
        check(s.ns > 0, s)
    clock = p.comments['event'] == 'software/cpu-clock'
    equal('cpu_time_ms' in p.comments, clock, 'time between switches is measured for cpu-clock, and for nothing else', p.text())
    equal(p.comments.get('cpu_time_clock'), 'sched_switch' if clock else None, p.text())
    if not clock or p.number('dropped') > p.number('dropped_agent'):
        return
    # All of the target's time is in the samples, to the nanosecond that each may be rounded by. What is missing is time of
    # threads none of which has a sample, which ten periods have by chance once in 20,000 captures.
    time_ns = float(p.comments['cpu_time_ms']) * 1e6
    within(weight(p.samples), time_ns - 10 * p.period - len(p.samples) - 500, time_ns + 500, p.text())


# ---- ELF ------------------------------------------------------------------------------------------------------------

def tool(*argv):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, timeout=WAIT_S, text=True,
                          env={**os.environ, 'LC_ALL': 'C'}).stdout


def build_id(path):
    return re.search(r'Build ID: ([0-9a-f]+)', tool('readelf', '-n', path))[1]


class Symbols:
    """Functions of a file by nm, by file offset."""

    def __init__(self, path):
        with open(path, 'rb') as f:
            head = f.read(64)
            check(head[:5] == b'\x7fELF\x02', f'{path}: not ELF64')
            table, size, n = struct.unpack_from('<Q', head, 32)[0], *struct.unpack_from('<HH', head, 54)
            f.seek(table)
            data = f.read(size * n)
        self.segments = []
        for i in range(n):
            kind, _, offset, vaddr, _, filesz = struct.unpack_from('<IIQQQQ', data, i * size)
            if kind == 1:
                self.segments.append((offset, offset + filesz, vaddr))
        self.symbols = []
        for line in tool('nm', '-S', '--defined-only', path).splitlines():
            parts = line.split()
            if len(parts) == 4 and parts[2] in 'tTwWiu':
                self.symbols.append((int(parts[0], 16), int(parts[1], 16), parts[3]))

    def at(self, offset):
        """Names that cover a file offset."""
        for first, limit, vaddr in self.segments:
            if first <= offset < limit:
                address = offset - first + vaddr
                return {name for value, size, name in self.symbols if value <= address < value + size}
        return set()


# ---- TAP ------------------------------------------------------------------------------------------------------------

CAPABILITIES = {'CAP_PERFMON': 38, 'CAP_BPF': 39}


def missing_capabilities():
    with open('/proc/self/status', encoding='ascii', errors='replace') as f:
        held = int(re.search(r'^CapEff:\s*([0-9a-f]+)', f.read(), re.M)[1], 16)
    return [name for name, bit in CAPABILITIES.items() if not held >> bit & 1]


def main():
    """Runs the tests of the calling file; returns the exit status."""
    global perf_agent
    perf_agent = os.path.abspath(sys.argv[1])
    for path in sys.argv[2:]:
        workload[os.path.basename(path)] = os.path.abspath(path)
    missing = missing_capabilities()
    if missing:
        print(f'1..0 # SKIP needs {", ".join(missing)}')
        return 0
    status = run_tests(TESTS, run_in_folder)
    note(f'{compared} comparisons at {SIGMAS} standard deviations')
    return status


def run_in_folder(t):
    """Runs a test in an empty folder and ends what it started; returns why it was skipped, if it was."""
    home, folder = os.getcwd(), tempfile.mkdtemp(prefix='perf-agent-live-')
    os.chdir(folder)
    try:
        return t()
    finally:
        for p in STARTED:
            end(p)
        STARTED.clear()
        os.chdir(home)
        shutil.rmtree(folder, ignore_errors=True)  # a rest of it disturbs no other test
