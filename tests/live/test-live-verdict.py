#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The verdict at the end of a run, and its defects, of programs that have them."""
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys

from livelib import Agent, Workload, capture, check, equal, load, main, test, workload

RUN_S = 40  # of a workload: longer than any test of this file, which ends it
RATE = ('--sample-rate', 999)


def verdict(r):
    """The word, the samples, the defects; a report of the file says the same."""
    at = [i for i, line in enumerate(r.lines) if line.startswith('quality: ')]
    equal(len(at), 1, r)
    m = re.fullmatch(r'quality: (good|fair|poor), ([\d,]+) samples?, (?:[\d.<>]+ % idle, )?([\d,]+) lost'
                     r'(?:; overhead <?[\d.]+ % CPU)?', r.lines[at[0]])
    check(m and len(r.lines[at[0]]) <= 100, r)
    defects = []
    for line in r.lines[at[0] + 1:]:
        if not line.startswith('  '):
            break
        defects.append(line.strip())
    samples = int(m[2].replace(',', ''))
    file = next(line.partition(' written: ')[2] for line in r.lines if ' written: ' in line)
    said = json.loads(Agent('--format', 'json', file, modes=('report',)).finish().out)
    source, = said['sources']
    equal((source['quality'], source['samples']), (m[1], samples), source, r)
    equal([d['text'] + (': ' if d['remedy'] else '') + d['remedy'] for d in source['defects']], defects, source, r)
    return m[1], samples, defects


def but_few(defects):
    """A loaded machine may leave few samples."""
    return [d for d in defects if ': shares are about ± ' not in d]


@test
def a_plain_program_is_good():
    w = Workload('demo', '--seconds', RUN_S)
    p = capture('--pid', w.pid, '--duration', '2s', *RATE)
    word, samples, defects = verdict(p.result)
    equal(samples, p.number('samples_in_profile'), p.result)
    equal(but_few(defects), [], p.result)
    check(word == 'good' or samples < 100, p.result)
    equal(p.result.lines[-1], 'to read: perf-agent report p.pb.gz, or go tool pprof -http=: p.pb.gz')


@test
def few_samples_have_wide_shares():
    w = Workload('spin', '--seconds', RUN_S)
    # About 50 in a second of an idle CPU: some on a busy one, and never 100.
    p = capture('--pid', w.pid, '--duration', '1500ms', '--sample-rate', 35)
    word, samples, defects = verdict(p.result)
    equal(samples, p.number('samples_in_profile'), p.result)
    check(0 < samples < 100, p.result)
    # The 95 % interval of a share of one half: 98 / sqrt(n), at most 50.
    room = min(50, math.floor(98 / math.sqrt(samples) + 0.5))
    found = [re.fullmatch(rf'{samples} samples?: shares are about ± (\d+) %: capture for longer, or raise --sample-rate', d) for d in defects]
    found = [int(m[1]) for m in found if m]
    check(word in ('fair', 'poor') and len(found) == 1 and abs(found[0] - room) <= 1, room, p.result)


@test
def jit_code_without_names_is_said():
    w = Workload('jit', '--seconds', RUN_S)
    p = capture('--pid', w.pid, '--duration', '1s', *RATE)
    word, _, defects = verdict(p.result)
    equal(word, 'poor', p.result)
    check(any(re.fullmatch(r'[>\d.]+ % of the time is JIT code without names: have the run time write a perf map \(docs/jit.md\)', d)
              for d in defects), p.result)


@test
def node_has_a_switch_for_names():
    if not shutil.which('node'):
        return 'no node'
    script = 'const e = Date.now() + 2000; let s = 0; while (Date.now() < e) for (let i = 0; i < 1e5; i++) s += i % 7;'
    r = Agent('--profile-output', 'p.pb.gz', *RATE, '--', 'node', '-e', script).finish()
    said = ' % of the time is JIT code without names: start node with --perf-basic-prof (docs/jit.md)'
    check(any(d.endswith(said) for d in verdict(r)[2]), r)
    r = Agent('--profile-output', 'q.pb.gz', *RATE, '--', 'node', '--perf-basic-prof', '-e', script).finish()
    check('without names: start node' not in repr(r), r, load('q.pb.gz').text())
    return None


@test
def a_stripped_program_is_said():
    if not shutil.which('strip'):
        return 'no strip (binutils)'
    subprocess.run(['strip', '-o', 'bare', workload['spin']], check=True)
    r = Agent('--profile-output', 'p.pb.gz', *RATE, '--', './bare', '--seconds', 1).finish()
    word, _, defects = verdict(r)
    equal(word, 'poor', r)
    check(any(re.fullmatch(r'[>\d.]+ % of the time is code of files without symbols \(bare [>\d.]+ %.*\): install their debug '
                           r'symbols .*, or give --debug-dir', d) for d in defects), r)
    return None


@test
def busy_children_are_counted():
    script = f'{workload["spin"]} --seconds {RUN_S} & {workload["spin"]} --seconds {RUN_S} & sleep {RUN_S} & echo; wait'
    parent = subprocess.Popen(['sh', '-c', script], stdout=subprocess.PIPE, start_new_session=True)
    try:
        ready = sum(parent.stdout.readline().startswith(b'ready') for _ in range(3))
        equal(ready, 2)
        r = Agent('--profile-output', 'p.pb.gz', '--pid', parent.pid, '--duration', '2s').finish()
        check('  2 busy children are not profiled: add --follow-children' in r.lines, r)
        r = Agent('--profile-output', 'p.pb.gz', '--pid', parent.pid, '--duration', '1s', '--follow-children').finish()
        check('busy' not in repr(r), r)
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.wait()
        parent.stdout.close()


@test
def children_that_end_meanwhile_are_counted():
    w = Workload('forks', '--seconds', RUN_S, '--children', 0, '--child-ms', 20)
    r = Agent('--profile-output', 'p.pb.gz', '--pid', w.pid, '--duration', '2s').finish()
    check(any(re.fullmatch(r'  (children that have ended used \d+ % of a CPU and are not profiled|1 busy child is not profiled, '
                           r'nor those that have ended \(\d+ % of a CPU\)): add --follow-children', line) for line in r.lines), r)
    r = Agent('--profile-output', 'p.pb.gz', '--pid', w.pid, '--duration', '1s', '--follow-children').finish()
    check('have ended' not in repr(r), r)


@test
def lost_stacks_are_said():
    # 512 frames of 8 bytes and a header are more than a ring of 4 KiB, so no such stack ever comes through.
    w = Workload('chain', '--seconds', RUN_S, '--depth', 2000)
    p = capture('--pid', w.pid, '--duration', '1s', *RATE, '--unwind', 'fp', '--test-ring-bytes', 4096)
    word, _, defects = verdict(p.result)
    equal(word, 'poor', p.result)
    check(any(re.fullmatch(r'[>\d.]+ % of the time lost its stack \(\[stack lost\]\): lower --sample-rate', d) for d in defects),
          p.result)


if __name__ == '__main__':
    sys.exit(main())
