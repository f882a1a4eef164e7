#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A file that is written anew in its place: the same device and inode, another program."""
import os
import shutil
import signal
import sys

from livelib import Agent, Workload, check, check_conserved, count, equal, load, main, test, workload

OF_SPIN, OF_CHAIN = {'spin_a', 'spin_b'}, {'chain_step', 'chain_leaf', 'chain_run'}


def write_in_place(name):
    inode = os.stat('prog').st_ino if os.path.exists('prog') else None
    shutil.copyfile(workload[name], 'prog')  # truncates: the inode stays
    os.chmod('prog', 0o755)
    check(inode in (None, os.stat('prog').st_ino), 'another inode')


def run(name, *args):
    write_in_place(name)
    w = Workload(name, *args, path=os.path.abspath('prog'))
    w.finish()
    return w.pid


def profile_of(runs):
    """{name: samples of its processes} of one capture alongside all of them."""
    agent = Agent('--profile-output', 'p.pb.gz', '--duration', '60s', '-a', '--sample-rate', 999).wait_started()
    pids = {'spin': set(), 'chain': set()}
    for name, *args in runs:
        pids[name].add(run(name, *args))
    os.kill(agent.pid, signal.SIGINT)
    r = agent.finish()
    equal(r.rc, 0, r)
    p = load('p.pb.gz')
    check_conserved(p)
    return p, {name: [s for s in p.samples if s.pid in mine] for name, mine in pids.items()}


def check_never_wrong(p, found):
    for name, foreign in (('spin', OF_CHAIN), ('chain', OF_SPIN)):
        wrong = [s for s in found[name] if foreign & set(s.names)]
        check(not wrong, f'{name} has names of the other', *wrong[:5])


@test
def both_programs_have_their_own_names():
    p, found = profile_of([('spin', '--seconds', 1.5), ('chain', '--seconds', 1.5)])
    check_never_wrong(p, found)
    for name, own in (('spin', OF_SPIN), ('chain', OF_CHAIN)):
        named = [s for s in found[name] if own & set(s.names)]
        check(count(found[name]) > 100, found[name])
        check(count(named) > 0.5 * count(found[name]), name, f'{count(named)} of {count(found[name])} named',
              *found[name][:5])


@test
def short_programs_never_have_the_names_of_another():
    p, found = profile_of([(name, '--seconds', 0.05) for _ in range(10) for name in ('spin', 'chain')])
    check_never_wrong(p, found)
    check(count(found['spin']) > 50 and count(found['chain']) > 50, p.text())


if __name__ == '__main__':
    sys.exit(main())
