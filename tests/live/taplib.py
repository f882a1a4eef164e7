# SPDX-License-Identifier: Apache-2.0
"""Runs tests and tells their results as TAP: what a machine had no time for is tried again when it has."""
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
HELD_RUNS = 5  # second runs for this reason, of all tests of a file
CRASHES = {-getattr(signal, name) for name in ('SIGSEGV', 'SIGABRT', 'SIGBUS', 'SIGILL', 'SIGFPE', 'SIGSYS')}

crashed = []  # what no second run may hide


def note(text):
    print('# ' + str(text).replace('\n', '\n# '), flush=True)


def note_crash(rc, err):
    """Of a program that ended: a signal that stands for a mistake, or a sanitizer's report."""
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


def run_tests(tests, run, again=0):
    """run(test) returns why it was skipped, if it was. again: so many tests that failed may have a second run; besides
    those during which the machine held processes up, unless LIVE_ONCE is set. None has a third one, and none that crashed
    a second one. Returns the exit status."""
    print(f'1..{len(tests)}', flush=True)
    if os.environ.get('LIVE_ONCE'):
        again = held_runs = 0
    else:
        held_runs = HELD_RUNS
    failed, late = 0, Lateness()
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
                if first and not crashed and held_s > HELD_S and held_runs:
                    held_runs -= 1
                    why = f'(processes were held up for {held_s:.1f} s) '
                elif first and not crashed and again and isinstance(e, AssertionError):
                    again -= 1
                    why = ''
                else:
                    failed += 1
                    print(f'not ok {i} - {name}')
                    note(traceback.format_exc())
                    break
                first = False
                note(traceback.format_exc())
                note(f'second run: {name}: {why}{" ".join(str(e).split())[:200]}')
                late.wait_calm()
        note(f'{time.monotonic() - began:.1f} s')
    late.end()
    return 1 if failed else 0
