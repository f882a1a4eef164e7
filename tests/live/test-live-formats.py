#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The formats of one capture: pprof, folded stacks and the flame graph's page have the same stacks and totals."""
import collections
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'pages'))
import flamelib
from livelib import Agent, Workload, check, count, equal, load, main, test, weight

RUN = ['--sample-rate', '499', '--duration', '2s']


def capture(*args, modes=('--profile',)):
    r = Agent(*args, modes=modes).finish()
    equal(r.rc, 0, r)
    return r


def page(path):
    with open(path, 'rb') as f:
        return flamelib.read_page(f.read())


def folded(path):
    with open(path, encoding='utf-8') as f:
        lines = [line.rpartition(' ') for line in f.read().splitlines()]
    equal(len({stack for stack, _, _ in lines}), len(lines), 'each stack is one line')
    return {stack: int(value) for stack, _, value in lines}


def stacks_of_pprof(p):
    """Values by the stack, root first, inlined calls included, and the thread."""
    ret = collections.defaultdict(lambda: (0, 0))
    for s in p.samples:
        names = tuple(f.name for frame in s.frames[::-1] for f in frame.functions[::-1])
        key = (names, s.pid, s.tid, s.comm)
        ret[key] = (ret[key][0] + s.count, ret[key][1] + s.ns)
    return dict(ret)


def stacks_of_page(p):
    ret = collections.defaultdict(lambda: (0, 0))
    for s in p['samples']:
        labels = s['labels']
        key = (tuple(flamelib.stack_names(p, s)), labels['pid'], labels['tid'], labels['comm'])
        ret[key] = (ret[key][0] + s['values'][0], ret[key][1] + s['values'][1])
    return dict(ret)


def check_page(shown, p):
    equal(stacks_of_page(shown), stacks_of_pprof(p))
    equal(shown['comments'], p.comment_lines)
    equal(shown['duration_ns'], p.duration_nanos)
    kinds = {f['kind'] for f in shown['frames']}
    check('kernel' in kinds and 'native' in kinds, kinds)


@test
def one_capture_has_the_same_stacks_in_all_formats():
    w = Workload('demo', '--seconds', 60)
    r = capture(*RUN, '--pid', w.pid, '--profile-output', 'p.pb.gz', '--flamegraph-output', 'f.html', '--folded-output', 's',
                '--folded-root', 'thread')
    p = load('p.pb.gz')
    check(count(p.samples) > 100, r)
    shown, = page('f.html')
    equal(shown['title'], 'On-CPU')
    check_page(shown, p)
    lines = folded('s')
    equal(sum(lines.values()), count(p.samples), r)
    check(all(line.split(';')[0].endswith(f'-{w.pid}/{line.split("/")[1].split(";")[0]}') for line in lines), list(lines)[:5])
    check(any(re.search(r';[a-z_]+_\[k\]$', line) for line in lines), list(lines)[:5])
    for name in ('flame graph written: f.html', 'folded stacks written: s', 'profile written: p.pb.gz'):
        check('perf-agent: ' + name in r.lines, r)


@test
def both_profiles_are_in_one_page():
    w = Workload('demo', '--seconds', 60)
    capture(*RUN, '--pid', w.pid, '--profile-output', 'p.pb.gz', '--offcpu-output', 'o.pb.gz', '--flamegraph-output', 'f.html',
            modes=('--profile', '--offcpu'))
    on, off = page('f.html')
    equal((on['title'], off['title']), ('On-CPU', 'Off-CPU'))
    check_page(on, load('p.pb.gz'))
    check_page(off, load('o.pb.gz'))
    equal({key for s in off['samples'] for key in s['amounts']}, {'longest', 'runqueue'})


@test
def the_time_line_has_each_sample_and_adds_up_to_the_profiles():
    w = Workload('demo', '--seconds', 60)
    capture(*RUN, '--pid', w.pid, '--profile-output', 'p.pb.gz', '--offcpu-output', 'o.pb.gz', '--flamegraph-output', 'f.html', '--timeline',
            modes=('--profile', '--offcpu'))
    pages, profiles = page('f.html'), (load('p.pb.gz'), load('o.pb.gz'))
    # Those that did not fit into the ring of a busy machine are counted.
    full = profiles[0].number('stream_ring_full')
    equal(sum(shown['times_lost'] for shown in pages), full)
    for shown, p in zip(pages, profiles):
        check_page(shown, p)
        equal(len(shown['times']) + shown['times_lost'], count(p.samples))
        offcpu = shown['title'] == 'Off-CPU'
        events, sums = collections.Counter(), collections.Counter()
        for start, duration, sample in shown['times']:
            events[sample] += 1
            sums[sample] += duration
            check(0 <= start <= shown['duration_ns'] + 10**9, start, shown['duration_ns'])
            check(offcpu or duration == 0, duration)
        for i, s in enumerate(shown['samples']):
            got, want = (events[i], sums[i]), (s['values'][0], s['values'][-1] if offcpu else 0)
            check(got == want or (shown['times_lost'] and all(g <= w for g, w in zip(got, want))), got, want, s)


@test
def off_cpu_has_folded_microseconds_and_a_picture():
    w = Workload('demo', '--seconds', 60)
    capture('--duration', '2s', '--pid', w.pid, '--offcpu-output', 'o.pb.gz', '--flamegraph-output', 'f.svg', '--folded-output', 's',
            modes=('--offcpu',))
    p, lines = load('o.pb.gz'), folded('s')
    check(weight(p.samples) > 1e9, p.text())
    # Each line is rounded by itself.
    check(abs(sum(lines.values()) - weight(p.samples) / 1000) <= len(lines), sum(lines.values()), weight(p.samples))
    with open('f.svg', encoding='utf-8') as f:
        svg = f.read()
    check(f'>Off-CPU: {weight(p.samples) / 1e9:.2f} s, {count(p.samples)} intervals, pid {w.pid} (demo)</text>' in svg, svg[:900])
    check(svg.count('<g><title>') > 10, svg[:900])


@test
def folded_stacks_on_standard_output():
    w = Workload('demo', '--seconds', 60)
    r = capture(*RUN, '--pid', w.pid, '--profile-output', 'p.pb.gz', '--folded-output', '-')
    total = sum(int(line.rpartition(' ')[2]) for line in r.out.decode().splitlines())
    equal(total, count(load('p.pb.gz').samples), r)


@test
def a_directory_that_is_missing_is_refused_before_the_capture():
    w = Workload('demo', '--seconds', 60)
    r = Agent('--pid', w.pid, '--profile-output', 'p.pb.gz', '--flamegraph-output', 'missing/f.html').finish()
    equal((r.rc, os.listdir('.'), len(r.lines)), (1, [], 1), r)
    check('missing' in r.lines[0], r)


if __name__ == '__main__':
    sys.exit(main())
