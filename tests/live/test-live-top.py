#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""perf-agent top against the running kernel, in a terminal that the test holds and resizes.

Usage: test-live-top.py PERF_AGENT WORKLOAD...
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import livelib
from livelib import STARTED, WAIT_S, Workload, check, equal, main, test


class View:
    def __init__(self, args, rows=24, columns=80):
        self.master, slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.master)
        self.text = ''
        self.p = subprocess.Popen([livelib.perf_agent, 'top', *map(str, args)], stdin=slave, stdout=slave, stderr=slave,
                                  start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        STARTED.append(self.p)
        os.close(slave)

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))

    def read(self):
        if select.select([self.master], [], [], 0.1)[0]:
            try:
                self.text += os.read(self.master, 65536).decode('utf-8', 'replace')
            except OSError:  # EIO: the other side is closed
                pass

    def screen(self):
        last = next((part for part in reversed(self.text.split('\x1b[H')[:-1]) if part), '')
        return re.sub(r'\x1b\[[0-9;?]*[a-zA-Z]', '', last).split('\r\n')

    def until(self, condition, what):
        end = time.monotonic() + WAIT_S
        while not condition(self.screen()):
            check(time.monotonic() < end and self.p.poll() is None, f'{what} does not come', *self.screen())
            self.read()
        return self.screen()

    def type(self, keys):
        os.write(self.master, keys)

    def end(self):
        """The program ends, and the terminal is as it was."""
        equal(self.p.wait(WAIT_S), 0)
        equal(termios.tcgetattr(self.master), self.before)
        for _ in range(5):
            self.read()
        equal((self.text.count('\x1b[?1049h'), self.text.count('\x1b[?1049l')), (1, 1))
        os.close(self.master)


def has(*names):
    return lambda lines: all(any(name in line for line in lines[4:]) for name in names)


@test
def hot_functions_are_in_the_first_rows():
    w = Workload('spin', '--seconds', 100)
    v = View(['-p', w.pid])
    v.until(has('wl_mix'), 'a hot function')
    v.type(b'c')
    lines = v.until(has('spin_a', 'spin_b'), 'their callers')
    check(any('spin_a' in line for line in lines[4:16]), *lines)
    v.type(b'/spin_a\r')
    v.until(lambda lines: 'spin_a' in lines[4] and 'spin_b' not in ''.join(lines[5:]), 'the search')
    v.type(b'\r')
    v.until(lambda lines: 'callers of spin_a' in lines[2] and 'spin_' in lines[4], 'the callers')
    v.resize(12, 40)
    lines = v.until(lambda lines: len(lines) == 12, 'the new size')
    check(all(len(line) <= 40 for line in lines), *lines)
    v.type(b'2')
    v.until(lambda lines: str(w.pid) in lines[4], 'the process')
    v.type(b'q')
    v.end()


@test
def a_profile_is_written_and_sigterm_ends_the_view():
    w = Workload('spin', '--seconds', 100)
    v = View(['-p', w.pid, '--profile'])
    v.until(has('wl_mix'), 'a hot function')
    v.type(b'w\x15x.folded\r')
    v.until(lambda lines: 'written: x.folded' in lines[-1], 'the file')
    with open('x.folded', encoding='utf-8') as f:
        check('spin_a;' in f.read())
    v.p.send_signal(signal.SIGTERM)
    v.end()


@test
def a_thread_that_hangs_is_among_the_waits():
    w = Workload('waits', 'stuck', '--seconds', 100)
    v = View(['-p', w.pid])
    v.until(lambda lines: 'perf-agent top' in lines[0], 'the view')
    v.type(b'4')
    v.until(has('wait_stuck'), 'the thread that hangs')
    v.type(b'o')
    v.until(lambda lines: 'ended ones' in lines[2] and not has('wait_stuck')(lines), 'the view without it')
    v.type(b'q')
    v.end()


@test
def the_view_of_a_command_stays_when_it_has_ended():
    v = View(['--', livelib.workload['spin'], '--seconds', 2])
    v.until(lambda lines: '[ended]' in lines[0] and has('wl_mix')(lines), 'the end')
    v.type(b'q')
    v.end()


if __name__ == '__main__':
    sys.exit(main())
