#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of 32 bits on a 64-bit kernel: names of leaves, stacks by frame pointers, their own vDSO."""
import os
import platform
import shutil
import subprocess
import sys
import tempfile

from livelib import Workload, capture, check, check_conserved, count, equal, main, note, test, within

SOURCES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'workloads', 'shapes')
BUILT = {}


class Missing(Exception):
    """A tool that a test needs is missing."""


def build(name, *flags):
    """A program of shares32.c, or Missing."""
    if platform.machine() != 'x86_64':
        raise Missing('no 32-bit programs for this processor')
    if not shutil.which('cc'):
        raise Missing('no C compiler')
    if name not in BUILT:
        path = os.path.join(HOME, name)
        r = subprocess.run(['cc', '-m32', '-g', *flags, '-o', path, os.path.join(SOURCES, 'shares32.c')], check=False,
                           capture_output=True, text=True)
        BUILT[name] = path
        if r.returncode:
            BUILT[name] = Missing('the compiler has no 32-bit C library')
            note(r.stderr)
        elif b'ready' not in first_line(path):
            BUILT[name] = Missing('the kernel runs no 32-bit programs')
    if isinstance(BUILT[name], Missing):
        raise BUILT[name]
    return BUILT[name]


def first_line(path):
    try:
        with subprocess.Popen([path], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as p:
            line = p.stdout.readline()
            p.kill()
        return line
    except OSError:
        return b''


def seen(name, flags, *args, unwind='auto'):
    w = Workload(name, *args, path=build(name, *flags))
    p = capture('--sample-rate', 997, '--duration', '2s', '--unwind', unwind, '--pid', w.pid)
    check_conserved(p)
    check(count(p.samples) > 100, p.text())
    return p


def check_shares(p):
    """Leaves by name, two to one, each called as the source says."""
    user = [s for s in p.samples if s.user]
    a = [s for s in user if s.user_names[0] == 'shares_a']
    b = [s for s in user if s.user_names[0] == 'shares_b']
    check(count(a) + count(b) > 0.98 * count(user), p.text())
    within(count(a) / (count(a) + count(b)), 0.57, 0.76)
    return a + b


def check_callers(samples):
    chain = [s for s in samples if s.user_names[1:3] == ['shares_run', 'main']]
    # A leaf at its first instruction has no frame yet; all others have one.
    check(count(chain) > 0.98 * count(samples), *[s for s in samples if s not in chain][:5])


def shares(title, *flags, unwind='auto'):
    def run():
        try:
            p = seen('shares' + ''.join(flags), flags, unwind=unwind)
        except Missing as e:
            return str(e)
        check_callers(check_shares(p))
        # There are no tables: the frames are heuristic, and the profile says so.
        equal(float(p.comments['heuristic_stacks_pct']) > 90, unwind == 'auto', p.text())
        return None
    run.__name__ = title.replace(' ', '_')
    test(run)


shares('32-bit code without optimization', '-O0', '-fno-omit-frame-pointer')
shares('32-bit code with optimization', '-O2', '-fno-omit-frame-pointer')
shares('32-bit code by frame pointers', '-O2', '-fno-omit-frame-pointer', unwind='fp')
shares('32-bit code of no fixed place', '-O1', '-fno-omit-frame-pointer', '-fno-pie', '-no-pie')


@test
def leaves_of_32_bit_code_without_frame_pointers_have_their_names():
    try:
        p = seen('shares-nofp', ('-O2', '-fomit-frame-pointer'))
    except Missing as e:
        return str(e)
    samples = check_shares(p)
    # No caller is made up: what is there is none, or one of the program.
    check(all(set(s.user_names) <= {'shares_a', 'shares_b', 'shares_run', 'main'} for s in samples), *samples[:5])
    check('walk_32_bit_task_pct' in p.comments, p.text())
    check(any('% 32-bit task' in line for line in p.result.lines), p.result)
    return None


@test
def the_vdso_of_a_32_bit_program_is_its_own():
    try:
        p = seen('shares-O2', ('-O2', '-fno-omit-frame-pointer'), 'vdso')
    except Missing as e:
        return str(e)
    inside = [s for s in p.samples if s.user and s.user[0].mapping and s.user[0].mapping.path == '[vdso]']
    if not inside:
        return 'the C library does not use the vDSO here'
    # The clock's functions alone are called; those of a 64-bit vDSO at the same places are others.
    clock = [s for s in inside if 'clock_gettime' in s.user_names[0] or not s.user[0].named]
    equal([s for s in inside if s not in clock], [], *inside[:5])
    named = [s for s in inside if s.user[0].named]
    check(named, *inside[:5])
    note(f'{count(named)} of {count(inside)} named: {sorted({s.user_names[0] for s in named})}')
    return None


if __name__ == '__main__':
    with tempfile.TemporaryDirectory(prefix='perf-agent-32bit-') as HOME:
        sys.exit(main())
