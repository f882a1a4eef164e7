#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The files of one capture in other people's viewers: their sums per function and per stack are ours."""
import collections
import json
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'pages'))
import pagelib
import viewerlib
from livelib import Agent, Workload, check, count, equal, load, main, note, test, weight
from perfdatalib import PerfData
from viewerlib import add_up, perf_script, reader, run

RUN = ['--sample-rate', '499', '--duration', '2s']
FETCH = 'tools/fetch-readers'
ALIAS = r'^_*(GI_+)?(libc_)?|@.*'  # of names of the C library's functions, which have several


def capture(*args, modes=('--profile',)):
    w = Workload('demo', '--seconds', 60)
    r = Agent(*RUN, '--pid', w.pid, *args, modes=modes).finish()
    w.stop()
    equal(r.rc, 0, r)


def text(path):
    with open(path, encoding='utf-8') as f:
        return f.read()


def stacks_of_pprof(p, inlined):
    """[(names root first, ns)]: with inlined calls, or with the function of each address alone."""
    for s in p.samples:
        frames = [f for f in s.frames if f.functions]
        if inlined:
            yield [fn.name for f in frames[::-1] for fn in f.functions[::-1]], s.ns
        else:
            yield [f.name for f in frames[::-1]], s.ns


def check_sums(got, want, *what):
    """(weight, own, total) of two readers. Those with fractions of a second are compared to the nanosecond."""
    for g, w in zip(got, want):
        if isinstance(g, dict):
            equal(sorted(g), sorted(w), *what)
            check(all(abs(g[name] - w[name]) <= 1e-9 * max(1, abs(w[name])) for name in w), g, w, *what)
        else:
            check(abs(g - w) <= 1e-9 * max(1, abs(w)), g, w, *what)


@test
def speedscope_has_our_sums():
    if not reader('speedscope'):
        return f'no speedscope ({FETCH} speedscope)'
    browser, why = pagelib.start_browser()
    if not browser:
        return why
    try:
        capture('--profile-output', 'p.pb.gz', '--offcpu-output', 'o.pb.gz', '--perf-data-output', 'x.data',
                modes=('--profile', '--offcpu'))
        capture('--profile-output', 'q.pb.gz', '--folded-output', 's.folded')
        page = viewerlib.Speedscope(browser)
        # It shows the function that inlined calls are in, without them.
        for path in ('p.pb.gz', 'o.pb.gz'):
            got, p = page.read(path), load(path)
            equal((len(got), got[0].unit), (1, 'nanoseconds'), path)
            equal(got[0].weight, weight(p.samples))
            check_sums(got[0][2:], add_up(stacks_of_pprof(p, inlined=False)), path)
        lines = viewerlib.folded(text('s.folded'))
        got, = page.read('s.folded')
        equal(got.weight, count(load('q.pb.gz').samples))
        check_sums(got[2:], add_up(lines.items()), 's.folded')
        check_speedscope_of_perf_script(page)
    finally:
        browser.driver.quit()
    return None


def check_speedscope_of_perf_script(page):
    """Each thread is a profile, of the first event of the file alone; weights are times between samples."""
    if not shutil.which('perf'):
        note('no perf (Debian package linux-perf): its text was not tried')
        return
    written, samples = perf_script('x.data')
    with open('x.txt', 'w', encoding='utf-8') as f:
        f.write(written)
    threads = collections.defaultdict(list)
    for s in samples:
        if s.event == samples[0].event:
            threads[f'{s.comm} pid: {s.pid} tid: {s.tid}'].append(s)
    got = {p.name: p for p in page.read('x.txt')}
    equal(sorted(got), sorted(threads))
    check(len(threads) > 2, threads.keys())
    for name, group in threads.items():
        check_sums(got[name][2:], add_up(viewerlib.spans(group)), name)


def check_picture(*argv):
    """A flame graph of our folded stacks has a box for each of their nodes, with its samples."""
    capture('--profile-output', 'p.pb.gz', '--folded-output', 's.folded', '--folded-root', 'thread')
    lines = viewerlib.folded(text('s.folded'))
    boxes = viewerlib.boxes_of_picture(run(*argv, data=text('s.folded')))
    equal(boxes, viewerlib.boxes_of_stacks(lines))
    check(boxes['all', count(load('p.pb.gz').samples)] == 1 and len(boxes) > 20, boxes)


@test
def flamegraph_pl_draws_our_stacks():
    script = reader('flamegraph', 'flamegraph.pl')
    if not script:
        return f'no flamegraph.pl ({FETCH} flamegraph)'
    check_picture('perl', script, '--minwidth', '0')
    return None


@test
def inferno_draws_our_stacks():
    program = reader('cargo', 'bin', 'inferno-flamegraph')
    if not program:
        return f'no inferno ({FETCH} inferno)'
    check_picture(program, '--minwidth', '0')
    return None


@test
def stacks_folded_by_inferno_are_those_that_we_fold():
    program = reader('cargo', 'bin', 'inferno-collapse-perf')
    if not program or not shutil.which('perf'):
        return f'no inferno ({FETCH} inferno) or no perf'
    # Without lines nothing is inlined, as in perf.data, but debug files are not opened.
    capture('--profile-output', 'p.pb.gz', '--folded-output', 's.folded', '--folded-root', 'thread', '--perf-data-output', 'x.data',
            '--lines=false')
    lost, p = PerfData('x.data').lost, load('p.pb.gz')
    # It takes the period for the weight of a sample, which is nanoseconds, and counts where there is none.
    written, _ = perf_script('x.data')
    check(lost or sum(viewerlib.folded(run(program, data=written)).values()) == weight(p.samples), p.text())
    written, _ = perf_script('x.data', '-F', '-period')
    theirs = viewerlib.folded(run(program, '--kernel', '--tid', data=written))
    ours = viewerlib.folded(text('s.folded'))
    equal(sum(theirs.values()) + lost, sum(ours.values()))
    sums = collections.Counter()
    for names, value in theirs.items():
        sums[next((o for o in ours if alike(o, names)), names)] += value
    other = [names for names in sums | ours if sums[names] != ours.get(names)]
    same = sum(ours[names] for names in ours.keys() - other)
    note(f'{same} of {sum(ours.values())} samples are in equal stacks, {lost} are lost; others: {other[:5]}')
    check(lost or same >= 0.98 * sum(ours.values()), ours, theirs)
    kernel = [names for names in sums if names[-1].endswith('_[k]')]
    check(kernel and (lost or len(set(kernel) - set(other)) >= 0.8 * len(kernel)), kernel, ours)
    return None


def alike(ours, theirs):
    """Without debug files some of our addresses have no name, which perf has; of several names of a function it prefers another."""
    def same(o, t):
        return re.match(r'0x[0-9a-f]+ \[', o) or re.sub(ALIAS, '', o) == re.sub(ALIAS, '', t)
    return len(ours) == len(theirs) and all(map(same, ours, theirs))


@test
def pyroscope_decodes_our_profiles():
    program = reader('pyroscope')
    if not program:
        return f'no decoder of Pyroscope ({FETCH} pyroscope)'
    capture('--profile-output', 'p.pb.gz', '--offcpu-output', 'o.pb.gz', modes=('--profile', '--offcpu'))
    for path in ('p.pb.gz', 'o.pb.gz'):
        p, got = load(path), json.loads(run(program, path))
        equal([tuple(t) for t in got['Types']], p.sample_types)
        equal((got['Period'], got['Duration'], got['Comments']), (p.period, p.duration_nanos, len(p.raw_comments)), path)
        equal((got['Samples'], got['Totals']), (len(p.samples), [count(p.samples), weight(p.samples)]), path)
        equal(got['Bytes'], got['BytesAgain'], 'it knows all fields', path)
        total, own, whole = add_up(stacks_of_pprof(p, inlined=True))
        equal((total, own, whole), (got['Totals'][1], got['Self'], got['Total']), path)
        threads = collections.Counter()
        for s in p.samples:
            threads[str(s.tid)] += s.ns
        equal(got['Tids'], dict(threads), path)
    return None


if __name__ == '__main__':
    sys.exit(main())
