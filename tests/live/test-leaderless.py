#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A process whose first thread has ended while others work on.

usage: test-leaderless.py PERF-AGENT LEADERLESS
"""
import os
import sys

from privlib import Profile, Workload, check, equal, main, run, test

OUT = 'out.pb.gz'


def check_profile(target):
    with Workload([PROGRAM, '--seconds', '100']) as w:
        with open(f'/proc/{w.pid}/maps', encoding='ascii') as f:
            equal(f.read(), '', 'the leader has not ended')
        r = run([AGENT, '--profile', *(target or ['--pid', str(w.pid)]), '--duration', '600ms', '--profile-output', OUT])
        equal(r.rc, 0, r)
        tids = {int(t) for t in os.listdir(f'/proc/{w.pid}/task')} - {w.pid}
        mine = Profile(OUT).of(pid=w.pid)
        check(mine, r)
        equal({s.labels['tid'] for s in mine}, tids, r)
        own = {f for s in mine for f, m in zip(s.frames, s.files) if m.endswith('/leaderless')}
        check({'leaderless_spin', 'leaderless_thread'} <= own and not any(f.startswith('0x') for f in own), own, r)


@test
def with_pid():
    check_profile(None)


@test
def with_all():
    check_profile(['-a'])


if __name__ == '__main__':
    AGENT, PROGRAM = (os.path.abspath(a) for a in sys.argv[1:3])
    sys.exit(main())
