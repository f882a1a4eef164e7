#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Past a limit of its own, a capture says so and is a profile all the same."""
import sys

from livelib import Agent, Workload, capture, check, check_conserved, count, equal, main, note, test

RUN_S = 60  # of a workload: longer than any test of this file, which ends it
STRETCHES_MAX = 1024  # of one file, in src/session/ses_profile.c


@test
def file_mapped_in_more_places_than_have_a_mapping():
    w = Workload('manymaps', '--seconds', RUN_S)
    for target in (('--pid', w.pid), ('-a',)):
        p = capture(*target, '--duration', '4s', '--sample-rate', 4999)
        check_conserved(p)
        equal(p.number('dropped_profile_full'), 0, p.text())
        leaves = [s.user[0] for s in p.of(pid=w.pid) if s.user and s.user[0].name.endswith('[manymaps.bin]')]
        mapped = {f.mapping.id for f in leaves if f.mapping}
        bare = {f.id for f in leaves if not f.mapping}
        note(f'{count(p.of(pid=w.pid))} samples, {len(mapped)} mappings, {len(bare)} places without')
        equal(len(mapped), STRETCHES_MAX, p.text())
        check(bare, p.text())
        for f in leaves:
            check(not f.mapping or f.mapping.start <= f.address < f.mapping.limit, f)


@test
def tag_over_the_limit_is_refused():
    equal(Agent('-a', '--duration', '1s', '--profile-output', 'p.pb.gz', '--tag', 'k=' + 4094 * 'v').finish().rc, 0)
    r = Agent('-a', '--duration', '1s', '--profile-output', 'q.pb.gz', '--tag', 'k=' + 4095 * 'v').finish()
    equal(r.rc, 2, r)
    check(any('4097 bytes, the limit is 4096' in line for line in r.lines), r)


@test
def cpu_of_the_agent_is_that_of_the_capture():
    w = Workload('spin', '--seconds', RUN_S)
    p = capture('--pid', w.pid, '--duration', '2s')
    setup, finish, own, share = (float(p.comments[k]) for k in ('agent_setup_cpu_ms', 'agent_finish_cpu_ms',
                                                                'agent_cpu_ms', 'agent_cpu_pct'))
    note(p.text())
    check(setup > 0 and finish > 0 and own > 0, p.text())
    want = 100 * own / (p.duration_nanos / 1e6)
    check(abs(share - want) <= 0.01 + 0.05 / (p.duration_nanos / 1e6) * 100, share, want)


if __name__ == '__main__':
    sys.exit(main())
