# SPDX-License-Identifier: Apache-2.0
"""Runs tests and prints their results as TAP. A test during which the machine had no time is run again."""
import fcntl
import mmap
import os
import signal
import struct
import time
import traceback

STEP_S = 0.02
LATE_S = 0.1   # a sleep that takes so much longer: nothing ran on time
HELD_S = 0.3   # in all, during a test: what it measured says nothing
CALM_S = 1     # without such a sleep
WAIT_S = 60    # for that
RERUNS = 3     # of all tests that count in one file, CHECK_RERUNS: a whole run of tools/check
CRASHES = {-getattr(signal, name) for name in ('SIGSEGV', 'SIGABRT', 'SIGBUS', 'SIGILL', 'SIGFPE', 'SIGSYS')}

crashed = []  # what no run again may hide
SHARED = []


def note(text):
    print('# ' + str(text).replace('\n', '\n# '), flush=True)


def note_crash(rc, err):
    """Notes a program that ended by a signal that means a mistake, or with a sanitizer's report."""
    if rc in CRASHES or 'Sanitizer' in err or 'runtime error:' in err:
        crashed.append((rc, err))


class Lateness:
    """How long this machine held up a process that only sleeps, in all and lastly: one of its own, since an interpreter
    that computes holds up its own threads."""

    def __init__(self):
        self.page = mmap.mmap(-1, mmap.PAGESIZE)
        self.parent = os.getpid()
        self.child = os.fork()
        if self.child == 0:
            self.watch()

    def watch(self):
        held_s = 0.0
        while os.getppid() == self.parent:
            began = time.monotonic()
            time.sleep(STEP_S)
            now = time.monotonic()
            if now - began - STEP_S > LATE_S:
                held_s += now - began - STEP_S
                self.page[:16] = struct.pack('=dd', held_s, now)
        os._exit(0)

    def read(self):
        return struct.unpack('=dd', self.page[:16])

    def wait_calm(self):
        end = time.monotonic() + WAIT_S
        while time.monotonic() < min(end, self.read()[1] + CALM_S):
            time.sleep(STEP_S)

    def end(self):
        os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)


class Reruns:
    """How many tests were run again, counted in the file that CHECK_RERUNS names, else in this process."""

    def __init__(self):
        self.path = os.environ.get('CHECK_RERUNS')
        self.own = 0

    def take(self, name):
        """Whether one more is allowed."""
        if os.environ.get('LIVE_ONCE'):
            return False
        if not self.path:
            self.own += 1
            return self.own <= RERUNS
        with open(self.path, 'a+', encoding='utf-8') as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            f.seek(0)
            if len(f.readlines()) >= RERUNS:
                return False
            f.write(name + '\n')
            return True


def shared(function):
    """A capture that several tests of a file look at: made by the first of them. A test that is run again makes a new
    one."""
    kept = {}

    def get():
        if 'it' not in kept:
            kept['it'] = function()
        return kept['it']
    SHARED.append(kept)
    return get


def chosen(tests):
    """The tests with LIVE_ONLY in their names: for people, and for the suite "path"."""
    only = os.environ.get('LIVE_ONLY')
    return [t for t in tests if not only or only in t.__name__]


def run_tests(tests, run):
    """run(test) returns why it was skipped, if it was. A test that failed while the machine held up a process that only
    sleeps, for HELD_S in all, is run once more, three of them in a whole run of tools/check. One that crashed is not.
    Returns the exit status."""
    tests = chosen(tests)
    if not tests:
        print(f'Bail out! no test has {os.environ["LIVE_ONLY"]} in its name')
        return 1
    print(f'1..{len(tests)}', flush=True)
    failed, late, reruns = 0, Lateness(), Reruns()
    for i, t in enumerate(tests, 1):
        name = t.__name__.replace('_', ' ')
        began, first = time.monotonic(), True
        while True:
            before = late.read()[0]
            crashed.clear()
            try:
                skip = run(t)
                print(f'ok {i} - {name}' + (f' # SKIP {skip}' if skip else ''), flush=True)
                break
            except Exception as e:  # whatever it is, the next test is to run
                held_s = late.read()[0] - before
                if not first or crashed or held_s <= HELD_S or not reruns.take(name):
                    failed += 1
                    print(f'not ok {i} - {name}')
                    note(traceback.format_exc())
                    note(f'a sleeping process was held up for {held_s:.1f} s')
                    break
                first = False
                for kept in SHARED:
                    kept.clear()
                note(traceback.format_exc())
                note(f'run again: {name}: a sleeping process was held up for {held_s:.1f} s: {" ".join(str(e).split())[:200]}')
                late.wait_calm()
        note(f'{time.monotonic() - began:.1f} s')
    late.end()
    return 1 if failed else 0
