# SPDX-License-Identifier: Apache-2.0
"""Shared by tests of the command line: running it, terminals, TAP."""
import ctypes
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import tempfile
import termios
import time
import traceback

WAIT_S = 30  # longest that anything here may take on a loaded machine

TESTS = []


def test(function):
    TESTS.append(function)
    return function


class Result:
    def __init__(self, rc, out, err):
        self.rc, self.out, self.err = rc, out, err
        self.lines = err.splitlines()

    def __repr__(self):
        return f'rc {self.rc}\nstdout {self.out!r}\nstderr:\n{self.err}'


def environment(env):
    clean = {k: v for k, v in os.environ.items() if not k.startswith('FAKE_')}
    # The cache that an earlier capture left is no part of a test, and stays as it is.
    return {'XDG_CACHE_HOME': '/nonexistent', **clean, 'TERM': 'xterm', **(env or {})}


def default_signals():
    """Dispositions are inherited: nohup and a shell's & leave some of them ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def start(program, args, env=None, preexec_fn=None, **more):
    def prepare():
        default_signals()
        if preexec_fn:
            preexec_fn()

    more['preexec_fn'] = prepare
    more = {'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE, 'stdin': subprocess.DEVNULL, **more}
    return subprocess.Popen([program, *args], env=environment(env), **more)


def finish(p):
    out, err = p.communicate(timeout=WAIT_S)
    return Result(p.returncode, (out or b'').decode('utf-8', 'replace'), (err or b'').decode('utf-8', 'replace'))


def check(condition, *what):
    if not condition:
        raise AssertionError('\n'.join(map(str, what)))


def equal(got, want, *what):
    check(got == want, f'got  {got!r}', f'want {want!r}', *what)


def files():
    return sorted(os.listdir('.'))


def wait_for(p, text):
    """Reads standard error up to a line with text in it; returns what was read."""
    seen = b''
    end = time.monotonic() + WAIT_S
    os.set_blocking(p.stderr.fileno(), False)
    while text.encode() not in seen:
        check(time.monotonic() < end and p.poll() is None, f'{text!r} does not come', seen)
        if select.select([p.stderr], [], [], 0.1)[0]:
            seen += p.stderr.read() or b''
    os.set_blocking(p.stderr.fileno(), True)
    return seen.decode('utf-8', 'replace')


class Terminal:
    """Runs a command line with standard error (with stdout=None also standard output) on a terminal of the given width."""

    def __init__(self, program, args, env=None, width=80, stdout=subprocess.DEVNULL):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', 24, width, 0, 0))
        self.p = start(program, args, env, stdin=slave, stderr=slave, stdout=slave if stdout is None else stdout,
                       start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        self.text = ''

    def read_until(self, text=None):
        end = time.monotonic() + WAIT_S
        while text is None or text not in self.text:
            check(time.monotonic() < end, f'{text!r} does not come', repr(self.text))
            if not select.select([self.master], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(self.master, 4096)
            except OSError:  # EIO: the other side is closed
                data = b''
            if not data:
                check(text is None, f'{text!r} does not come', repr(self.text))
                return
            self.text += data.decode('utf-8', 'replace')

    def type(self, keys):
        os.write(self.master, keys)

    def finish(self):
        self.read_until()
        os.close(self.master)
        return self.p.wait(WAIT_S)


def children():
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/stat', encoding='utf-8', errors='replace') as f:
                parent = int(f.read().rpartition(') ')[2].split()[1])
        except OSError:  # it has ended
            continue
        if parent == os.getpid():
            yield int(pid)


def end_children():
    """Ends processes that a test left running; children of children become ours when their parent ends."""
    while pids := list(children()):
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def main():
    """Runs each test in an empty folder of its own; returns the exit status."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    print(f'1..{len(TESTS)}')
    failed = 0
    home = os.getcwd()
    for i, t in enumerate(TESTS, 1):
        name = t.__name__.replace('_', ' ')
        with tempfile.TemporaryDirectory(prefix='perf-agent-cli-') as folder:
            os.chmod(folder, 0o755)
            os.chdir(folder)
            try:
                skip = t()
                print(f'ok {i} - {name}' + (f' # SKIP {skip}' if skip else ''), flush=True)
            except Exception:
                failed += 1
                print(f'not ok {i} - {name}')
                print('# ' + traceback.format_exc().replace('\n', '\n# '), flush=True)
            finally:
                end_children()
                os.chdir(home)
    return 1 if failed else 0
