#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Names of kernel code: programs of BPF that come and go while they are watched, and the cache of /proc/kallsyms."""
import os
import re
import stat
import subprocess
import sys

import livelib
from livelib import Workload, capture, check, count, equal, main, note, start, test, within, workload


def bpf_refused():
    """Why there is nothing to see, or None."""
    p = start([workload['bpfcode']])
    p.wait(60)
    if p.returncode == 77:
        return 'programs of BPF cannot be loaded here'
    equal(p.returncode, 0)
    with open('/proc/sys/net/core/bpf_jit_enable', encoding='ascii') as f:
        return None if f.read().strip() != '0' else 'programs of BPF are not compiled here'


def with_name(samples, name):
    """Samples in kernel code of this name: bpf_prog_TAG_NAME [bpf]."""
    shape = re.compile(r'bpf_prog_[0-9a-f]{16}_' + name + r' \[bpf\]')
    return [s for s in samples if any(shape.fullmatch(f.name) for f in s.kernel)]


def unnamed(samples):
    return [s for s in samples if any(not f.named for f in s.kernel)]


@test
def bpf_programs_that_come_and_go_have_their_names():
    why = bpf_refused()
    if why:
        return why
    p = capture('--sample-rate', 997, '--', workload['bpfcode'])
    ours = [s for s in p.samples if s.kernel]
    early, first, second = (with_name(ours, name) for name in ('pa_early', 'pa_first', 'pa_second'))
    note(f'{count(early)}, {count(first)} and {count(second)} of {count(ours)}')
    # A tenth of a second, and half a second each.
    total = count(early) + count(first) + count(second)
    check(total > 0.8 * count(p.samples), p.text())
    within(count(early) / total, 0.04, 0.16)
    within(count(first) / (count(first) + count(second)), 0.4, 0.6)
    equal(unnamed(ours), [], *unnamed(ours)[:3])
    return None


@test
def bpf_programs_that_are_not_in_the_cache_have_their_names():
    why = bpf_refused()
    if why:
        return why
    os.environ['XDG_CACHE_HOME'] = os.getcwd()
    try:
        w = Workload('bpfcode', '--alone')  # before and after both captures: no record reports it
        for _ in range(2):
            p = capture('--sample-rate', 997, '--duration', '1s', '--pid', w.pid)
            alone = with_name(p.samples, 'pa_alone')
            check(count(alone) > 0.8 * count(p.samples), p.text())
            equal(unnamed(p.samples), [], *unnamed(p.samples)[:3])
        if os.getuid() == 0:
            equal(stat.S_IMODE(os.stat('perf-agent').st_mode), 0o700)
            s = os.lstat('perf-agent/kallsyms.cache')
            equal(s.st_mode, stat.S_IFREG | 0o600)
            with open('perf-agent/kallsyms.cache', 'rb') as f:
                data = f.read()
            check(b'pa_alone' not in data, 'what comes and goes is in the cache')
            check(b'schedule' in data)
    finally:
        del os.environ['XDG_CACHE_HOME']
    return None


@test
def the_cache_gives_the_names_that_kallsyms_gives():
    os.environ['XDG_CACHE_HOME'] = os.getcwd()
    try:
        w = Workload('syscalls', '--seconds', 60)
        names = []
        for _ in range(2):
            p = capture('--sample-rate', 997, '--duration', '1s', '--pid', w.pid)
            names.append({f.name for s in p.samples for f in s.kernel})
            equal(unnamed(p.samples), [], *unnamed(p.samples)[:3])
        check(len(names[0] & names[1]) >= 3, names)
        known = set()
        with open('/proc/kallsyms', encoding='ascii') as f:
            for line in f:
                known.add(line.split(maxsplit=2)[2].strip().replace('\t', ' '))
        equal([n for n in names[0] | names[1] if n not in known], [])
    finally:
        del os.environ['XDG_CACHE_HOME']
    return None


def hidden_kallsyms(text):
    """A program that runs perf-agent with this text for /proc/kallsyms, or None: no mount namespace here."""
    with open('kallsyms', 'w', encoding='ascii') as f:
        f.write(text)
    with open('wrapped', 'w', encoding='ascii') as f:
        f.write(f'#!/bin/sh\nmount --bind {os.getcwd()}/kallsyms /proc/kallsyms && exec {livelib.perf_agent} "$@"\n')
    with open('hidden', 'w', encoding='ascii') as f:
        f.write(f'#!/bin/sh\nexec unshare -m {os.getcwd()}/wrapped "$@"\n')
    os.chmod('wrapped', 0o755)
    os.chmod('hidden', 0o755)
    if subprocess.run(['./hidden', '--version'], check=False, capture_output=True).returncode:
        return None
    return os.path.abspath('hidden')


@test
def hidden_addresses_are_explained_in_one_line():
    path = hidden_kallsyms('0000000000000000 T _stext\n0000000000000000 t do_one\t[ext4]\n')
    if not path:
        return 'no mount namespace can be made'
    real = livelib.perf_agent
    livelib.perf_agent = path
    try:
        w = Workload('syscalls', '--seconds', 60)
        p = capture('--duration', '1s', '--pid', w.pid)
    finally:
        livelib.perf_agent = real
    said = [line for line in p.result.lines if 'kernel addresses are hidden' in line]
    equal(len(said), 1, p.result)
    check('CAP_SYSLOG' in said[0] and 'kernel.kptr_restrict' in said[0], said)
    in_kernel = [s for s in p.samples if s.kernel]
    check(in_kernel, p.text())
    equal({f.named for s in in_kernel for f in s.kernel}, {False}, *in_kernel[:3])
    # The stacks are whole all the same.
    check(all(s.user for s in in_kernel), *in_kernel[:3])
    return None


if __name__ == '__main__':
    sys.exit(main())
