#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Lines and inlined calls of a program whose source is here, through each option and each place of debug information.

usage: test-live-names.py PERF-AGENT
"""
import os
import re
import shutil
import signal
import subprocess
import sys

from livelib import capture, check, count, equal, main, test, within

SOURCE = '''
static volatile unsigned long sink;
static inline __attribute__((always_inline)) unsigned long innermost(unsigned long x)
{
	for (int i = 0; i < 1000; i++)
		x = x * 6364136223846793005ul + 1442695040888963407ul; /* LINE INNERMOST */
	return x;
}
static inline __attribute__((always_inline)) unsigned long middle(unsigned long x)
{
	return innermost(x) ^ 1; /* LINE MIDDLE */
}
__attribute__((noinline)) static unsigned long outer(unsigned long x)
{
	return middle(x) + sink; /* LINE OUTER */
}
int main(void)
{
	for (;;)
		sink = outer(sink); /* LINE MAIN */
}
'''
LINES = {word: number for number, text in enumerate(SOURCE.split('\n'), 1) for word in re.findall(r'LINE (\w+)', text)}
WANT = ['innermost', 'middle', 'outer'], [LINES['INNERMOST'], LINES['MIDDLE'], LINES['OUTER']]


def run(*argv):
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def build(name='prog', *options, source=SOURCE):
    with open('prog.c', 'w', encoding='ascii') as f:
        f.write(source)
    run('gcc', '-O2', '-g', '-o', name, 'prog.c', *options)
    return os.path.abspath(name)


def sampled(argv, *args, duration='500ms', ready=None):
    """A capture of a program of its own."""
    target = subprocess.Popen(argv)
    try:
        while ready and os.readlink(f'/proc/{target.pid}/exe') != ready:
            pass
        p = capture('--pid', target.pid, '--duration', duration, '--sample-rate', 999, *args)
    finally:
        target.send_signal(signal.SIGKILL)
        target.wait()
    p.work = [s for s in p.samples if s.user and s.user[0].name in ('outer', 'main')]
    return p


def profile(argv, *args, ready=None):
    """The same for a second; its samples of main's loop, by name."""
    p = sampled(argv, *args, duration='1s', ready=ready)
    check(count(p.work) > 50, p.samples[:5])
    return p


def check_unnamed(p):
    equal(p.work, [])
    check(any(s.user for s in p.samples), 'no samples')


def check_lines(p):
    leaves = [s for s in p.work if s.user[0].name == 'outer']
    good = [s for s in leaves if [f.name for f in s.user[0].functions] == WANT[0] and s.user[0].lines[1:] == WANT[1][1:]]
    within(count(good) / count(leaves), 0.95, 1, *[(s.user[0].functions, s.user[0].lines) for s in leaves[:5]])
    callers = [s.user[1] for s in leaves if len(s.user) > 1]
    equal({(f.name, f.lines[-1]) for f in callers}, {('main', LINES['MAIN'])})
    check(all(f.functions[0].file.endswith('/prog.c') for f in callers), callers[:3])
    m = leaves[0].user[0].mapping
    check(m.has_filenames and m.has_line_numbers and m.has_inline_frames, m)


def check_names_only(p):
    equal({(len(f.functions), tuple(f.lines), f.functions[0].file) for s in p.work for f in s.user
           if f.name in ('outer', 'main')}, {(1, (0,), '')})


def need_tools():
    missing = [tool for tool in ('gcc', 'objcopy', 'strip') if not shutil.which(tool)]
    return f'no {", ".join(missing)}' if missing else None


def split(path, debug):
    """Takes the debug information off @path, as distributions do; symbols too."""
    run('objcopy', '--only-keep-debug', path, debug)
    run('strip', path)


def build_id_file(folder, path):
    notes = subprocess.run(['readelf', '-n', path], check=True, stdout=subprocess.PIPE, text=True).stdout
    ident = re.search(r'Build ID: ([0-9a-f]+)', notes)[1]
    os.makedirs(f'{folder}/.build-id/{ident[:2]}', exist_ok=True)
    return f'{folder}/.build-id/{ident[:2]}/{ident[2:]}.debug'


@test
def program_with_its_own_debug_information():
    if need_tools():
        return need_tools()
    p = profile(build())
    check_lines(p)
    equal(p.number('debug_refused'), 0)
    return None


@test
def lines_that_are_not_wanted():
    if need_tools():
        return need_tools()
    check_names_only(profile(build(), '--lines=false'))
    return None


@test
def debug_file_by_build_id_in_a_directory_that_is_given():
    if need_tools():
        return need_tools()
    path = build()
    debug = build_id_file('dbg', path)
    split(path, debug)
    check_unnamed(sampled([path]))
    check_lines(profile(path, '--debug-dir', os.path.abspath('dbg')))
    return None


@test
def debug_file_by_its_link_and_not_that_of_another_build():
    if need_tools():
        return need_tools()
    path = build('prog', '-Wl,--build-id=none')
    split(path, 'prog.debug')
    run('objcopy', '--add-gnu-debuglink=prog.debug', path)
    check_lines(profile(path))
    with open('prog.debug', 'ab') as f:
        f.write(b'x')  # its checksum is another now
    p = sampled([path])
    check_unnamed(p)
    check(p.number('debug_wrong_build') > 0, p.text())
    check(any('another build' in line for line in p.result.lines), p.result)
    return None


@test
def debug_file_of_a_chroot_is_looked_for_inside_of_it():
    if need_tools():
        return need_tools()
    build('prog', '-static', '-Wl,--build-id=none')
    os.makedirs('root/bin')
    os.makedirs('root/usr/lib/debug/bin')
    shutil.copy('prog', 'root/bin/prog')
    split('root/bin/prog', 'root/usr/lib/debug/bin/prog.debug')
    here = os.getcwd()
    os.chdir('root/usr/lib/debug/bin')
    run('objcopy', '--add-gnu-debuglink=prog.debug', f'{here}/root/bin/prog')
    os.chdir(here)
    p = profile(['chroot', 'root', '/bin/prog'], ready=f'{here}/root/bin/prog')
    check_lines(p)
    return None


@test
def what_lies_in_the_place_of_a_debug_file_is_not_opened():
    if need_tools():
        return need_tools()
    path = build('prog', '-Wl,--build-id=none')
    split(path, 'prog.debug')
    run('objcopy', '--add-gnu-debuglink=prog.debug', path)
    os.unlink('prog.debug')
    for make in (os.mkfifo, os.mkdir, lambda name: os.symlink('/dev/zero', name), lambda name: os.symlink(path, name)):
        make('prog.debug')
        p = sampled([path], duration='300ms')
        check(p.number('debug_unreadable') > 0, p.text())
        (os.rmdir if os.path.isdir('prog.debug') and not os.path.islink('prog.debug') else os.unlink)('prog.debug')
    return None


@test
def debug_information_over_the_budget_is_left_out_as_a_whole():
    if need_tools():
        return need_tools()
    # 40,000 types, whose names hardly shrink when they are packed: some MB.
    types = ''.join(f'struct type_{i * 2654435761 % 4294967296:08x} {{ int member_{i * 40503 % 65536:04x}; }} v{i};\n'
                    for i in range(40000))
    p = profile(build('prog', '-gz=zlib', source=SOURCE + types), '--symbol-budget', '1M')
    check_names_only(p)
    check(p.number('debug_refused') > 0, p.text())
    check_lines(profile(os.path.abspath('prog')))
    return None


@test
def directory_that_is_not_there_is_refused():
    for path in ('nowhere', __file__):
        r = subprocess.run([sys.argv[1] if os.path.isabs(sys.argv[1]) else os.path.join(HOME, sys.argv[1]), '--profile', '-a',
                            '--duration', '1s', '--debug-dir', path], capture_output=True, text=True, check=False)
        equal(r.returncode, 1, r)
        check(f'debug directory {path}' in r.stderr and len(r.stderr.splitlines()) == 1, r.stderr)


if __name__ == '__main__':
    HOME = os.getcwd()
    sys.exit(main())
