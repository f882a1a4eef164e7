#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The end of a command and its exit status, against the scripted library of fake_perfagent.c. TAP on standard output.

    test-ends.py PERF-AGENT-FAKE
"""
import os
import re
import signal
import sys

sys.dont_write_bytecode = True
from cli_harness import WAIT_S, check, equal, finish, main, start, test  # noqa: E402

FAKE = os.path.abspath(sys.argv[1])


def start_fake(args, env=None, **more):
    return start(FAKE, args, env, **more)


def run(*args):
    return finish(start_fake(args))


@test
def status_of_the_command_is_handed_on():
    for script, status, text in [('exit 3', 3, 'command sh ended with exit status 3'), (':', 0, 'ended with exit status 0'),
                                 ('kill -9 $$', 137, 'command sh was ended by signal 9 (SIGKILL)'),
                                 ('kill -TERM $$', 143, 'command sh was ended by signal 15 (SIGTERM)')]:
        r = run('--profile', '--profile-output=p', '--duration=1h', '--', 'sh', '-c', script)
        equal(r.rc, status, r)
        equal(len([l for l in r.lines if text in l]), 1, script, r)
    # A capture that fails has its own.
    equal(run('--profile', '--profile-output=/dev/full', '--', 'sh', '-c', 'exit 3').rc, 1)


@test
def duration_ends_the_command_and_what_it_has_started():
    for script, text in [('exec sleep 100', 'command sh was ended by signal 15 (SIGTERM) at the end of --duration'),
                         ('sleep 100; sleep 100', 'command sh was ended by signal 15 (SIGTERM) at the end of --duration'),
                         ('trap "exit 4" TERM; sleep 100 & wait', 'ended with exit status 4 after SIGTERM at the end of --d')]:
        # Without it the pipes stay open, and communicate() waits for 100 s. A busy machine runs "trap" in the duration too.
        r = run('--profile', '--profile-output=p', '--duration=2s', '--', 'sh', '-c', script)
        equal(r.rc, 0, r)
        check(text in r.err and 'profile written: p' in r.err, r)


@test
def duration_kills_a_command_that_ignores_sigterm():
    r = run('--profile', '--profile-output=p', '--duration=2s', '--', 'sh', '-c', 'trap "" TERM; while :; do sleep 0.2; done')
    equal(r.rc, 0, r)
    check('command sh was ended by signal 9 (SIGKILL) at the end of --duration' in r.err, r)


@test
def command_outlives_the_duration_if_it_is_to_be_kept():
    r = run('--profile', '--profile-output=p', '--duration=100ms', '--keep-command', '--', 'sh', '-c',
            'exec sleep 100 >&- 2>&-')
    equal(r.rc, 0, r)
    m = re.search(r'command sh \(pid (\d+)\) has not ended; it is left running', r.err)
    check(m, r)
    os.kill(int(m[1]), signal.SIGKILL)  # fails if it does not run


@test
def command_that_gets_the_same_signal_is_waited_for():
    for script, status, text in [('trap "sleep 0.2; exit 5" INT; echo ready; while :; do sleep 0.01; done', 5,
                                  'command sh ended with exit status 5'),
                                 ('trap "" INT; echo ready; sleep 100', 0, 'has not ended; it is left running')]:
        p = start_fake(['--profile', '--profile-output=p', '--', 'sh', '-c', script], start_new_session=True)
        equal(p.stdout.readline(), b'ready\n', script)
        os.killpg(p.pid, signal.SIGINT)
        p.wait(WAIT_S)
        err = os.read(p.stderr.fileno(), 65536).decode()
        equal(p.returncode, status, err)
        check(text in err and 'profile written' in err, err)
        p.stdout.close()
        p.stderr.close()


if __name__ == '__main__':
    sys.exit(main())
