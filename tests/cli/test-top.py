#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""perf-agent top in a terminal that the test holds, against the scripted library.

Usage: test-top.py FAKE
"""
import fcntl
import os
import re
import signal
import struct
import sys
import termios
import time

from cli_harness import WAIT_S, Terminal, check, equal, finish, main, start, test

FAKE = os.path.abspath(sys.argv[1])
FUNCTIONS = '\n'.join(['700000000 900000000 /bin/made-up hot_function', '200000000 1000000000 /bin/made-up warm_function',
                       '100000000 100000000 [kernel] cold\x1b[31m_function'])
ENV = {'FAKE_LIVE': FUNCTIONS, 'FAKE_LIVE_OFF': '5000000000 5000000000 /bin/made-up waiting_function',
       'FAKE_LIVE_TASKS': '10 11 600 worker\n20 20 400 other'}
ENTER, LEAVE = '\x1b[?1049h', '\x1b[?1049l'


def screen(text):
    """The last screen of what a program wrote: its lines, without attributes."""
    last = next((part for part in reversed(text.split('\x1b[H')[:-1]) if part), '')
    return re.sub(r'\x1b\[[0-9;?]*[a-zA-Z]', '', last).split('\r\n')


class Top(Terminal):
    def __init__(self, args=('-p', '1'), env=None, **more):
        super().__init__(FAKE, ['top', *args], env={**ENV, **(env or {})}, stdout=None, **more)
        self.before = None

    def see(self, text, rows=None):
        """Waits until the text is on the screen; returns its lines."""
        end = time.monotonic() + WAIT_S
        while not any(text in line for line in screen(self.text)[:rows]):
            check(time.monotonic() < end, f'{text!r} does not come', *screen(self.text))
            size = len(self.text)
            self.read_until_more(size)
        return screen(self.text)

    def read_until_more(self, size):
        end = time.monotonic() + WAIT_S
        os.set_blocking(self.master, False)
        while len(self.text) == size:
            check(time.monotonic() < end, 'nothing more comes', *screen(self.text))
            try:
                self.text += os.read(self.master, 65536).decode('utf-8', 'replace')
            except BlockingIOError:
                time.sleep(0.01)
        os.set_blocking(self.master, True)

    def press(self, keys, text):
        self.type(keys)
        return self.see(text)

    def settings(self):
        return termios.tcgetattr(self.master)

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))


@test
def hot_functions_are_the_first_rows():
    t = Top()
    lines = t.see('hot_function')
    check('hot_function' in lines[4] and '70.0' in lines[4] and '90.0' in lines[4], *lines)
    check('warm_function' in lines[5], *lines)
    check('cold?[31m_function' in lines[6] and '[kernel]' in lines[6], *lines)
    equal(len(lines), 24)
    check(all(len(line) <= 80 for line in lines), *lines)
    t.type(b'q')
    equal(t.finish(), 0)
    check(t.text.count(ENTER) == 1 and t.text.rstrip().endswith(LEAVE), repr(t.text[-80:]))


@test
def keys_change_the_view():
    t = Top()
    t.see('hot_function')
    lines = t.press(b'c', 'cumulative time')
    check('warm_function' in lines[4], *lines)
    t.press(b's', 'by self time')
    lines = t.press(b'\r', 'callers of hot_function')
    check('a_caller' in lines[4], *lines)
    t.press(b'\x1b[C', 'callers of a_caller > hot_function')
    t.see('[no caller]')
    t.press(b'\x7f', 'callers of hot_function')
    t.press(b'\x1b[D', 'functions by self')
    lines = t.press(b'/WARM\r', "with 'WARM'")
    check('warm_function' in lines[4] and not any('hot_function' in line for line in lines), *lines)
    t.press(b'/\r', 'hot_function')
    lines = t.press(b'\x1b[B\x1b[B', '>')
    check(t.see('>  10.0')[6].startswith('>'), *lines)
    t.press(b'2', '10 worker')
    t.press(b'3', '10/11 worker')
    lines = t.press(b'4', 'waiting_function')
    check('futex_wait' in lines[4], *lines)
    t.press(b'1', 'off-CPU')
    t.press(b'm', 'on-CPU')
    t.press(b't', 'since start')
    t.press(b'?', 'Ctrl-C')
    t.press(b'?', 'hot_function')
    t.press(b'p', '[paused]')
    t.type(b'\x03')
    equal(t.finish(), 0)


@test
def intervals_that_have_not_ended_are_shown_on_request():
    t = Top(env={'FAKE_LIVE_OPEN': '9000000000 9000000000 /bin/made-up stuck_function'})
    t.see('hot_function')
    t.press(b'4', 'stuck_function')
    t.press(b'o', 'without intervals that have not ended')
    check('last seconds, ended ones' in t.see('waiting_function')[2], *screen(t.text))
    t.press(b'o', 'with intervals that have not ended')
    t.type(b'q')
    equal(t.finish(), 0)
    t = Top(args=['-a'], env={'FAKE_LIVE_OPEN': '9000000000 9000000000 /bin/made-up stuck_function'})
    t.see('hot_function')
    t.press(b'4', 'waiting_function')  # most threads of a machine are idle
    t.type(b'q')
    equal(t.finish(), 0)


@test
def a_row_of_several_modules_says_so():
    t = Top(env={'FAKE_LIVE_LAST': '700000000 900000000 /bin/other hot_function\n200000000 1000000000 /bin/made-up warm_function'})
    lines = t.see('hot_function')
    check('[several]' in lines[4] and 'made-up' in lines[5], *lines)
    t.type(b'q')
    equal(t.finish(), 0)
    t = Top(env={'FAKE_LIVE_OFF': '5000000000 5000000000 several waiting_function\n4000000000 4000000000 /bin/x other_function'})
    t.see('hot_function')
    lines = t.press(b'4', 'waiting_function')
    check('[several]' in lines[4] and 'futex_wait' in lines[5], *lines)
    t.type(b'q')
    equal(t.finish(), 0)


@test
def a_profile_is_written_under_the_name_that_was_typed():
    t = Top()
    t.see('hot_function')
    t.press(b'w', 'write to: top-on-cpu.pb.gz_')
    t.press(b'\r', 'written: top-on-cpu.pb.gz')
    t.press(b'w\r', 'exists')
    t.press(b'w\x15x.html\r', 'written: x.html')
    t.press(b'w\x15x.doc\r', 'must end in')
    t.press(b'w\x15no/x.svg\r', 'cannot write no/x.svg')
    t.press(b'w\x1b', 'q quit')
    t.type(b'q')
    equal(t.finish(), 0)
    equal(sorted(os.listdir('.')), ['top-on-cpu.pb.gz', 'x.html'])
    check(re.fullmatch(r'fake snapshot 0 [1-5] 1\n', read('x.html')), read('x.html'))


def read(name):
    with open(name, encoding='utf-8') as f:
        return f.read()


@test
def a_file_has_what_is_shown():
    t = Top()
    t.see('last 2 s')
    t.press(b'w\x15last.svg\r', 'written: last.svg (on-CPU, last')
    check(read('last.svg') > 'fake snapshot 0 2', read('last.svg'))
    t.press(b't', 'since start')
    t.press(b'w\x15all.svg\r', 'written: all.svg (on-CPU, since the start)')
    equal(read('all.svg').split(), ['fake', 'snapshot', '0', '1', read('all.svg').split()[-1]])
    t.press(b'/O+L[d\r', 'no row contains')
    t.press(b'w\x15search.folded\r', "written: search.folded (on-CPU, since the start, with 'O+L[d')")
    equal(read('search.folded').split('\n')[1:], ['(?i)O\\+L\\[d', ''])
    t.press(b'/\r', 'hot_function')
    t.press(b'\r', 'callers of hot_function')
    t.press(b'w\x15one.folded\r', 'since the start, with hot_function)')
    t.press(b'\r', 'callers of a_caller > hot_function')
    t.press(b'w\x15callers.folded\r', 'since the start, with hot_function and 1 call')
    equal(read('callers.folded').split('\n')[1:], ['^hot_function$', '^a_caller$', ''])
    t.press(b'2', 'worker')
    t.press(b'/worker\r', 'worker')
    t.press(b'w\x15task.folded\r', 'written: task.folded (on-CPU, since the start)')
    equal(read('task.folded').split('\n')[1:], [''])
    t.press(b'/\r', 'other')
    t.press(b'4', 'waiting_function')
    t.press(b'w\x15off.folded\r', 'written: off.folded (off-CPU, since the start)')
    check(read('off.folded').startswith('fake snapshot 1 1 '), read('off.folded'))
    t.type(b'q')
    equal(t.finish(), 0)


def left(t, rc):
    """The terminal is as it was, on the screen that it had."""
    equal(t.p.wait(WAIT_S), rc)
    equal(t.settings(), t.before)
    t.read_until()
    check(LEAVE in t.text and t.text.count(ENTER) == t.text.count(LEAVE), repr(t.text[-80:]))


def begin(env=None, **more):
    """A view that shows functions, and the settings of its terminal before it began."""
    master = {}

    class Known(Top):
        def __init__(self):
            super().__init__(env=env, **more)
            master['fd'] = self.master

    t = Known()
    t.before = BEFORE
    return t


def settings_of_a_new_terminal():
    master, slave = os.openpty()
    try:
        return termios.tcgetattr(master)
    finally:
        os.close(master)
        os.close(slave)


BEFORE = settings_of_a_new_terminal()


@test
def signals_give_the_terminal_back():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        t = begin()
        t.see('hot_function')
        check(t.settings() != t.before, 'not in raw mode')
        t.p.send_signal(number)
        left(t, 0)


@test
def an_abort_gives_the_terminal_back():
    t = begin(env={'FAKE_LIVE_ABORT': '1'})
    left(t, -signal.SIGABRT)


@test
def an_error_gives_the_terminal_back_and_is_a_line():
    t = begin(env={'FAKE_SNAPSHOT': '12 made-up failure'})
    left(t, 1)
    check('perf-agent: made-up failure' in t.text.rpartition(LEAVE)[2], repr(t.text[-200:]))


@test
def a_stop_gives_the_terminal_back_and_a_continue_takes_it_again():
    t = below_a_shell(f'{FAKE} top -p 1; echo "was stopped"; read x; fg; echo "ended $?"')
    t.read_until('hot_function')
    t.type(b'\x1a')
    t.read_until('was stopped')
    check(LEAVE in t.text and termios.tcgetattr(t.master)[3] & termios.ICANON, repr(t.text[-300:]))
    t.text = ''
    t.type(b'\n')
    t.read_until(ENTER)
    t.read_until('hot_function')
    t.type(b'q')
    t.read_until('ended 0')
    check(LEAVE in t.text, repr(t.text[-300:]))
    t.finish()


def below_a_shell(script):
    """A shell with job control: the kernel stops no process whose group has no parent in its session."""
    return Terminal('/bin/bash', ['-m', '-c', script], env=ENV, stdout=None)


def is_raw(t):
    return not termios.tcgetattr(t.master)[3] & termios.ICANON


@test
def in_the_background_it_stops_before_it_takes_the_terminal():
    t = below_a_shell(f'{FAKE} top -p 1 & while [ -z "$(jobs -s)" ]; do sleep 0.01; done; echo "stopped"; read x; fg; echo "ended $?"')
    t.read_until('stopped')
    check(ENTER not in t.text and not is_raw(t), repr(t.text))
    t.type(b'\n')
    t.read_until('hot_function')
    check(is_raw(t), repr(t.text))
    t.type(b'q')
    t.read_until('ended 0')
    t.finish()


@test
def a_stop_that_cannot_be_caught_leaves_a_view_that_works():
    t = below_a_shell(f'{FAKE} top -p 1; stty sane; echo "was stopped"; read x; bg >/dev/null; sleep 0.1; '
                      'while [ -z "$(jobs -s)" ]; do sleep 0.01; done; echo "still stopped"; read x; fg; echo "ended $?"')
    t.read_until('hot_function')
    with open(f'/proc/{t.p.pid}/task/{t.p.pid}/children', encoding='ascii') as f:
        os.kill(int(f.read().split()[0]), signal.SIGSTOP)
    t.read_until('was stopped')
    t.type(b'\n')
    t.read_until('still stopped')
    check(not is_raw(t), repr(t.text[-300:]))
    t.text = ''
    t.type(b'\n')
    t.read_until('hot_function')
    check(is_raw(t), repr(t.text[-300:]))
    t.type(b'q')  # without Enter
    t.read_until('ended 0')
    t.finish()


@test
def a_line_as_wide_as_the_terminal_is_not_erased():
    t = Top()
    t.resize(10, 30)
    end = time.monotonic() + WAIT_S
    while len(screen(t.text)) != 10:
        check(time.monotonic() < end, *screen(t.text))
        t.read_until_more(len(t.text))
    check(any(len(line) == 30 for line in screen(t.text)), *screen(t.text))
    # The cursor is still on the last column after it was written.
    check(not re.search(r'[^\nH]\x1b\[[KJ]', t.text.partition(ENTER)[2].partition('\x1b[2J')[2]), repr(t.text[-600:]))
    t.type(b'q')
    equal(t.finish(), 0)


@test
def a_terminal_that_cannot_move_its_cursor_is_refused():
    for kind in ('dumb', ''):
        t = Top(env={'TERM': kind})
        equal(t.finish(), 2)
        check(f"a terminal of the kind '{kind}' (TERM) cannot show a live view" in t.text and '\x1b' not in t.text, repr(t.text))


@test
def a_resize_changes_the_lines():
    t = Top()
    t.see('hot_function')
    t.resize(10, 40)
    end = time.monotonic() + WAIT_S
    while len(screen(t.text)) != 10:
        check(time.monotonic() < end, *screen(t.text))
        t.read_until_more(len(t.text))
    lines = screen(t.text)
    check(all(len(line) <= 40 for line in lines) and 'hot_function' in lines[4], *lines)
    t.type(b'q')
    equal(t.finish(), 0)


@test
def the_view_stays_when_the_target_ends():
    t = Top(env={'FAKE_END_MS': '10'})
    t.see('the target has ended')
    t.see('[ended]')
    t.press(b'?', 'Ctrl-C')
    t.type(b'q')
    equal(t.finish(), 0)


@test
def no_colour_has_no_attributes():
    t = Top(env={'NO_COLOR': '1'})
    t.see('hot_function')
    t.type(b'q')
    equal(t.finish(), 0)
    check(not re.search(r'\x1b\[[0-9;]*m', t.text), repr(t.text))


@test
def a_command_does_not_write_into_the_view():
    t = Top(args=('--', 'sh', '-c', 'echo printed by the command; exec sleep 100'))
    t.see('hot_function')
    t.type(b'q')
    equal(t.finish(), 0)
    check('printed by' not in t.text, repr(t.text))


@test
def what_is_not_for_the_view_is_refused():
    for args, want in ((['-p', '1'], 'standard input and output must be a terminal'),
                       ([], 'target'),
                       (['-p', '1', '-d', '3'], 'top: --duration is not for the live view'),
                       (['-p', '1', '-o', 'x.html'], 'top: --output is not for the live view'),
                       (['-p', '1', '--profile', '--profile-output', 'x'], 'top: --profile-output is not for'),
                       (['-p', '1', '--profile', '--pmu'], 'top: --pmu has no live view'),
                       (['-p', '1', '--nonsense'], '--nonsense'),
                       (['x'], "unexpected argument 'x'")):
        r = finish(start(FAKE, ['top', *args]))
        equal(r.rc, 2, args, r)
        check(want in r.err and len(r.lines) == 1, args, r)


@test
def help_has_the_options_and_keys_of_the_view_alone():
    r = finish(start(FAKE, ['top', '--help']))
    equal((r.rc, r.err), (0, ''), r)
    check(r.out.startswith('Usage: perf-agent top [OPTION...] TARGET\n'), r)
    for text in ('perf-agent top -p 1234', 'perf-agent top --offcpu -- ', 'Modes (default: both):', '--profile', '--tid=', '-F, --sample-rate=',
                 '--debug-dir', 'Keys: ', 'q quit'):
        check(text in r.out, text, r)
    for name in ('pmu', 'sched', 'duration', 'per-pid', 'output', 'tag', 'quiet', 'annotate'):
        check(not re.search(rf'^ +(-., )?--{name}\b', r.out, re.M), name, r)
    check(len(r.out.splitlines()) < 80, r)
    with open('/dev/full', 'wb') as full:
        r = finish(start(FAKE, ['top', '--help'], stdout=full))
    equal((r.rc, len(r.lines)), (1, 1), r)
    # The general help leads to it, and has no heading without rows.
    general = finish(start(FAKE, ['--help'])).out
    for usage in ('top [OPTION...] TARGET', 'report [OPTION...] FILE...', 'unwind-info [OPTION...] FILE'):
        check(f'  or:  perf-agent {usage}\n' in general, usage, general)
    check(re.search('^  perf-agent top --help  ', general, re.M), general)
    check(not re.search(r':\n\n [^ ]', general), general)


sys.exit(main())
