# SPDX-License-Identifier: Apache-2.0
"""Runs tests and tells their results as TAP: what a machine had no time for is tried again when it has."""
import subprocess
import threading
import time
import traceback

STEP_S = 0.02
LATE_S = 0.1   # a sleep that takes so much longer: nothing ran on time
HELD_S = 0.3   # in all, during a test: what it measured says nothing
CALM_S = 1     # without such a sleep
WAIT_S = 60    # for that
HELD_RUNS = 2  # more runs of one test for this reason


def note(text):
    print('# ' + str(text).replace('\n', '\n# '), flush=True)


class Lateness:
    """How long this machine held up a thread that only sleeps: other virtual machines, or a job beside this one."""

    def __init__(self):
        self.held_s, self.late_at = 0.0, 0.0
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        while True:
            began = time.monotonic()
            time.sleep(STEP_S)
            now = time.monotonic()
            if now - began - STEP_S > LATE_S:
                self.held_s += now - began - STEP_S
                self.late_at = now

    def wait_calm(self):
        end = time.monotonic() + WAIT_S
        while time.monotonic() < min(end, self.late_at + CALM_S):
            time.sleep(STEP_S)


def run_tests(tests, run, again=0, final=lambda: False):
    """run(test) returns why it was skipped, if it was. again: so many tests that failed may have a second run; those
    during which the machine held processes up have it besides. final: a failure that no second run may hide. Returns
    the exit status."""
    print(f'1..{len(tests)}')
    failed, late = 0, Lateness()
    for i, t in enumerate(tests, 1):
        name = t.__name__.replace('_', ' ')
        began, held_runs = time.monotonic(), HELD_RUNS
        while True:
            late.held_s = 0.0
            try:
                skip = run(t)
                print(f'ok {i} - {name}' + (f' # SKIP {skip}' if skip else ''), flush=True)
                break
            except Exception as e:  # whatever it is, the next test is to run
                held_s = late.held_s
                if not final() and held_s > HELD_S and held_runs:
                    held_runs -= 1
                    why = f'(processes were held up for {held_s:.1f} s) '
                elif not final() and again and isinstance(e, (AssertionError, subprocess.TimeoutExpired)):
                    again -= 1
                    why = ''
                else:
                    failed += 1
                    print(f'not ok {i} - {name}')
                    note(traceback.format_exc())
                    break
                note(traceback.format_exc())
                note(f'second run: {name}: {why}{" ".join(str(e).split())[:200]}')
                late.wait_calm()
        note(f'{time.monotonic() - began:.1f} s')
    return 1 if failed else 0
