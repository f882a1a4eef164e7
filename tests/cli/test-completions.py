#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Completions for bash, zsh and fish, by these shells. TAP on standard output.

    test-completions.py BASH-COMPLETION ZSH-COMPLETION FISH-COMPLETION
"""
import os
import shutil
import sys
import time

sys.dont_write_bytecode = True
from cli_harness import WAIT_S, Terminal, check, equal, finish, main, start, test  # noqa: E402

BASH, ZSH, FISH = map(os.path.abspath, sys.argv[1:4])


@test
def bash():
    if not os.path.exists('/bin/bash'):
        return 'needs bash'
    with open(f'/proc/{os.getpid()}/comm', encoding='utf-8') as f:
        name = f.read().strip()
    script = f"""source "{BASH}"
try() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _perf_agent; echo "${{COMPREPLY[*]}}"; }}
try perf-agent --sample
try perf-agent --event c
try perf-agent --event = cy
try perf-agent --event =
try perf-agent --duration 1
try perf-agent --pmu-format j
try perf-agent --offcpu-states un
try perf-agent --offcpu-output exa
try perf-agent --pid {os.getpid()}
try perf-agent --profile-output exa
try perf-agent --profile -- /bin/ech
try perf-agent --profile -- cat exa
try perf-agent unw
try perf-agent unwind-info exa
try perf-agent unwind-info example-file --p
try perf-agent -o exa
try perf-agent -p {os.getpid()}
try perf-agent report --format ma
try perf-agent report --format = js
try perf-agent report exa --by th
try perf-agent report --output exa
try perf-agent report --focus exa
try perf-agent report exa
try perf-agent report --cum exa
try perf-agent report -o exa
try perf-agent --pid {name[:-1]}
try perf-agent --pid 1,{name[:-1]}
"""
    open('example-file', 'wb').close()
    r = finish(start('/bin/bash', ['-c', script]))
    equal((r.rc, r.err), (0, ''), r)
    lines = r.out.split('\n')
    equal(lines[:5], ['--sample-rate', 'cpu-clock cycles', 'cycles', 'cpu-clock cycles auto', ''], r)
    equal(lines[5:8], ['json', 'uninterruptible', 'example-file'], r)
    check(str(os.getpid()) in lines[8].split(), r)
    equal(lines[9:12], ['example-file', '/bin/echo', 'example-file'], r)
    equal(lines[12:16], ['unwind-info', 'example-file', '--pc', 'example-file'], r)
    check(str(os.getpid()) in lines[16].split(), r)
    equal(lines[17:24], ['markdown', 'json', 'thread', 'example-file', '', 'example-file', 'example-file'], r)
    equal(lines[24], 'example-file', r)
    check(name in lines[25].split() and f'1,{name}' in lines[26].split(), name, r)
    return None


# typed, then the tab key; the line after that
ZSH_CASES = [
    ('perf-agent --sample', 'perf-agent --sample-rate='),
    ('perf-agent --event cy', 'perf-agent --event cycles '),
    ('perf-agent --event=cy', 'perf-agent --event=cycles '),
    ('perf-agent --profile --pmu-format j', 'perf-agent --profile --pmu-format json '),
    ('perf-agent -o exa', 'perf-agent -o example-file '),
    ('perf-agent --debug-dir exa', 'perf-agent --debug-dir example-file '),
    ('perf-agent unw', 'perf-agent unwind-info '),
    ('perf-agent unwind-info exa', 'perf-agent unwind-info example-file '),
    ('perf-agent unwind-info --p', 'perf-agent unwind-info --pc='),
    ('perf-agent report --format ma', 'perf-agent report --format markdown '),
    ('perf-agent report --source-dir exa', 'perf-agent report --source-dir example-file '),
    ('perf-agent --profile -- cat exa', 'perf-agent --profile -- cat example-file '),
    ('perf-agent --profile -- /bin/ech', 'perf-agent --profile -- /bin/echo '),
]


@test
def zsh():
    program = shutil.which('zsh')
    if not program:
        return 'needs zsh'
    r = finish(start(program, ['-n', ZSH]))
    equal((r.rc, r.err), (0, ''), r)
    open('example-file', 'wb').close()
    with open('rc', 'w', encoding='utf-8') as f:
        # Control-X writes the line to a file and empties it.
        f.write(f"""autoload -U compinit && compinit -D -u && source {ZSH}
dump() {{ print -r -- "$BUFFER" >out.new; mv out.new out; BUFFER= }}
zle -N dump && bindkey '^X' dump
unsetopt beep
print ready >out
""")
    t = Terminal(program, ['-f', '-i'], width=200)
    try:
        t.type(b'source ./rc\n')
        wait_line(t)
        for typed, want in ZSH_CASES:
            t.type(typed.encode() + b'\t\x18')
            equal(wait_line(t), want, typed)
        t.type(b'exit\n')
    finally:
        t.p.kill()
        t.finish()
    return None


def wait_line(terminal):
    end = time.monotonic() + WAIT_S
    while not os.path.exists('out'):
        check(time.monotonic() < end and terminal.p.poll() is None, 'no answer of the shell')
        time.sleep(0.02)
    with open('out', encoding='utf-8') as f:
        line = f.read().rstrip('\n')
    os.unlink('out')
    return line


FISH_CASES = [
    ('perf-agent --sample', '--sample-rate'),
    ('perf-agent --event cy', 'cycles'),
    ('perf-agent --event=cy', '--event=cycles'),
    ('perf-agent --profile --pmu-format j', 'json'),
    ('perf-agent -o exa', 'example-file'),
    ('perf-agent unw', 'unwind-info'),
    ('perf-agent unwind-info exa', 'example-file'),
    ('perf-agent unwind-info --p', '--pc'),
    ('perf-agent report --format ma', 'markdown'),
    ('perf-agent report --debug-dir exa', 'example-file'),
    ('perf-agent --profile -- cat exa', 'example-file'),
    ('perf-agent --profile -- /bin/ech', '/bin/echo'),
    (f'perf-agent -p {os.getpid()}', str(os.getpid())),
]


@test
def fish():
    program = shutil.which('fish')
    if not program:
        return 'needs fish'
    r = finish(start(program, ['--no-execute', FISH]))
    equal((r.rc, r.err), (0, ''), r)
    open('example-file', 'wb').close()
    for typed, want in FISH_CASES:
        r = finish(start(program, ['--no-config', '-c', f'source {FISH}; complete -C "{typed}"'],
                         env={'HOME': os.getcwd(), 'XDG_CACHE_HOME': os.getcwd()}))
        words = [line.split('\t')[0] for line in r.out.splitlines()]
        check(r.rc == 0 and want in words, typed, r)
        check(want == str(os.getpid()) or words == [want], typed, r)
    return None


if __name__ == '__main__':
    sys.exit(main())
