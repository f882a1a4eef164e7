# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of privileges, containers and bad input: running perf-agent as another user, reading a pprof."""
import ctypes
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile

from commentlib import unpacked
from taplib import note_crash, run_tests

WAIT_S = 60  # longest that anything here may take on a loaded machine
NOBODY = 65534
CAPS = {'CAP_SYS_PTRACE': 19, 'CAP_SYS_ADMIN': 21, 'CAP_SYSLOG': 34, 'CAP_PERFMON': 38, 'CAP_BPF': 39}
TESTS = []

# The cache that an earlier capture left is no part of a test, and stays as it is.
os.environ.setdefault('XDG_CACHE_HOME', '/nonexistent')


def test(function):
    TESTS.append(function)
    return function


class Result:
    def __init__(self, rc, err):
        self.rc, self.err, self.lines = rc, err, err.splitlines()
        note_crash(rc, err)
        self.notes = [n.split('note: ', 1)[1] for n in self.lines if n.startswith('perf-agent: note: ')]

    def __repr__(self):
        return f'rc {self.rc}\n{self.err}'


def check(condition, *what):
    if not condition:
        raise AssertionError('\n'.join(map(str, what)))


def equal(got, want, *what):
    check(got == want, f'got  {got!r}', f'want {want!r}', *what)


def run(command, **more):
    """Runs it in the current folder; standard error and status."""
    p = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                       timeout=WAIT_S, **more)
    return Result(p.returncode, p.stderr.decode('utf-8', 'replace'))


def as_nobody(caps, command):
    """The command line that runs @command as uid 65534 with these capabilities and no others."""
    text = '-all' + ''.join(',+' + c[4:].lower() for c in caps)
    return ['setpriv', f'--reuid={NOBODY}', f'--regid={NOBODY}', '--clear-groups', f'--inh-caps={text}',
            f'--ambient-caps={text}', f'--bounding-set={text}', *command]


class Workload:
    """A running workload; pid is that of its ready line (its own view) or of the process that we started."""

    def __init__(self, command, shell_pid=False, **more):
        self.p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, **more)
        line = self.p.stdout.readline().decode()
        check(line.startswith('ready '), f'{command}: no ready line but {line!r}')
        self.said = int(line.split()[1])
        self.pid = self.p.pid

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.p.kill()
        self.p.wait()
        self.p.stdout.close()


# ---- pprof ----------------------------------------------------------------------------------------------------------


def fields(data):
    """(number, value) of one protobuf message; value is an int or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            check(key & 7 == 2, f'wire type {key & 7}')
            size = varint()
            check(at + size <= len(data), 'a field past the end')
            yield key >> 3, data[at:at + size]
            at += size


def numbers(value):
    """A repeated number, packed or not."""
    if isinstance(value, int):
        return [value]
    out, current, shift = [], 0, 0
    for byte in value:
        current |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            out.append(current)
            current = shift = 0
    return out


class Sample:
    def __init__(self, frames, files, weight, labels):
        self.frames = frames  # names, leaf first
        self.files = files    # path of each frame's mapping
        self.weight, self.labels = weight, labels

    def __repr__(self):
        return f'{self.labels} {self.frames}'


class Profile:
    def __init__(self, path):
        with gzip.open(path) as f:
            data = f.read()
        strings, samples, functions, locations, mappings, comments = [], [], {}, {}, {}, []
        for number, value in fields(data):
            if number == 6:
                strings.append(value.decode('utf-8', 'replace'))
            elif number == 2:
                samples.append(list(fields(value)))
            elif number == 3:
                one = dict(fields(value))
                mappings[one[1]] = one.get(5, 0)
            elif number == 4:
                one = list(fields(value))
                lines = [dict(fields(v)) for n, v in one if n == 4]
                plain = {n: v for n, v in one if n != 4}
                locations[plain[1]] = (plain.get(2, 0), plain.get(3, 0), [line[1] for line in lines])
            elif number == 5:
                one = dict(fields(value))
                functions[one[1]] = one.get(2, 0)
            elif number == 13:
                comments += numbers(value)
        self.comments = unpacked([strings[c] for c in comments])
        self.samples = []
        for one in samples:
            ids, values, labels = [], [], {}
            for number, value in one:
                if number == 1:
                    ids += numbers(value)
                elif number == 2:
                    values += numbers(value)
                elif number == 3:
                    label = dict(fields(value))
                    labels[strings[label[1]]] = strings[label[2]] if label.get(2) else label.get(3, 0)
            frames, files = [], []
            for i in ids:
                mapping, _, named = locations[i]
                path = strings[mappings[mapping]] if mapping else ''
                for function in named[-1:]:  # not what was inlined into it
                    frames.append(strings[functions[function]])
                    files.append(path)
            self.samples.append(Sample(frames, files, values[1], labels))

    def comment(self, key):
        for c in self.comments:
            if c.startswith(key + ': '):
                return c[len(key) + 2:]
        return None

    def of(self, **labels):
        return [s for s in self.samples if all(s.labels.get(k) == v for k, v in labels.items())]


def kernel_frames(samples):
    return [f for s in samples for f, m in zip(s.frames, s.files) if m == '[kernel]']


def is_address(name):
    return re.match(r'0x[0-9a-f]+( \[.*\])?$', name) is not None


# ---- what this environment allows -----------------------------------------------------------------------------------


def bounding(cap):
    return ctypes.CDLL(None, use_errno=True).prctl(23, CAPS[cap], 0, 0, 0) == 1  # PR_CAPBSET_READ


def effective():
    with open('/proc/self/status', encoding='ascii') as f:
        value = int(re.search(r'^CapEff:\s*([0-9a-f]+)', f.read(), re.M)[1], 16)
    return {name for name, bit in CAPS.items() if value >> bit & 1}


def sysctl(name):
    try:
        with open('/proc/sys/kernel/' + name, encoding='ascii') as f:
            return int(f.read())
    except OSError:
        return None


def skip_reason(tools=()):
    """Why nothing here can run, or None."""
    missing = set(CAPS) - effective()
    if missing:
        return 'needs ' + ', '.join(sorted(missing))
    if not os.path.exists('/sys/kernel/btf/vmlinux'):
        return 'a kernel without BTF'
    gone = [t for t in tools if not shutil.which(t)]
    return 'not installed: ' + ', '.join(gone) if gone else None


def main(tools=(), reason=None):
    """Runs each test in an empty folder that everybody may write to; returns the exit status."""
    reason = reason or skip_reason(tools)
    if reason:
        print(f'1..0 # SKIP {reason}')
        return 0
    return run_tests(TESTS, run_in_folder)


def run_in_folder(t):
    home = os.getcwd()
    with tempfile.TemporaryDirectory(prefix='perf-agent-live-') as folder:
        os.chmod(folder, 0o1777)
        os.chdir(folder)
        try:
            return t()
        finally:
            os.chdir(home)


def copies(*programs):
    """World-readable copies in a new folder (a build tree may be closed to others), removed at exit."""
    import atexit
    folder = tempfile.mkdtemp(prefix='perf-agent-copies-')
    atexit.register(shutil.rmtree, folder, True)
    os.chmod(folder, 0o755)
    out = []
    for program in programs:
        path = os.path.join(folder, os.path.basename(program))
        shutil.copyfile(program, path)
        os.chmod(path, 0o755)
        out.append(path)
    return out
