#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""each.py PROGRAM [ARGUMENT...] - runs each test of a program whose main is live_main.h in a process of its own, as TAP.

A test during which the machine had no time is run again, as tests in Python are: taplib.py.
"""
import os
import re
import subprocess
import sys

from taplib import note, note_crash, run_tests

SKIP = re.compile(r'^(?:1\.\.0|ok \d+ .*) *# *SKIP *(.*)$', re.IGNORECASE | re.MULTILINE)
RESULT = re.compile(r'^(not )?ok \d+ ', re.MULTILINE)


def call(**env):
    return subprocess.run(sys.argv[1:], env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, encoding='utf-8', errors='replace', check=False)


def test_of(name):
    """A function that runs the test of this name, under this name."""
    def test():
        done = call(TEST_ONLY=name)
        if 'exception: ' in done.stdout:  # cmocka's word for a signal
            note_crash(-11, done.stdout)
        note_crash(done.returncode, done.stdout)
        results = RESULT.findall(done.stdout)
        note(done.stdout.rstrip())
        assert done.returncode == 0 and results == [''], last_words(done)
        skip = SKIP.search(done.stdout)
        return skip and skip[1]
    test.__name__ = name
    return test


def last_words(done):
    lines = [line for line in done.stdout.splitlines() if 'rror' in line or 'wanted' in line]
    return ' '.join(lines or done.stdout.splitlines()[-3:]) or f'exit status {done.returncode}'


def main():
    listed = call(TEST_LIST='1')
    names = listed.stdout.split('\n')[:-1]
    if SKIP.search(listed.stdout):
        print(listed.stdout, end='')
        return listed.returncode
    assert listed.returncode == 0 and names and all(name.startswith('test_') for name in names), listed.stdout
    return run_tests([test_of(name) for name in names], lambda test: test())


if __name__ == '__main__':
    sys.exit(main())
