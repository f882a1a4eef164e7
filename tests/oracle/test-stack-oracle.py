#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Stacks of real programs, against elfutils' libdwfl.

usage: test-stack-oracle.py STACK-ORACLE [PROGRAM ...]

Each program is started and left to work for a while; stack-oracle then samples it with a copy of registers and stack
alongside each walk, and compares. Two tests a program: the walk in the kernel, and the walk in user space over the same
copies. A difference without an explanation fails. What is not installed is a SKIP with its name.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

WARM_S = 0.15  # of CPU, before samples are taken
START_LIMIT_S = 60
MS = os.environ.get('STACK_ORACLE_MS', '1200')
COPIES = os.environ.get('STACK_ORACLE_COPIES', '250')
LONG = '600'  # longer than the test; ended by it

PY = '''
import re, json, random
def deep(n, f):
    return f() if n == 0 else deep(n - 1, f)
def work():
    text = json.dumps([{"k%d" % i: [random.random()] * 3} for i in range(40)])
    re.findall(r"(k[0-9]+).*?([0-9.]+)", text)
    return sorted(json.loads(text), key=str)
while True:
    deep(random.randrange(40), work)
'''
JS = '''
const zlib = require("zlib"), crypto = require("crypto");
function deep(n, f) { return n ? deep(n - 1, f) : f(); }
function work() {
  const a = Array.from({length: 300}, (_, i) => ({k: i, v: Math.sin(i)}));
  const s = JSON.stringify(a.sort((x, y) => y.v - x.v));
  zlib.deflateSync(s); crypto.createHash("sha256").update(s).digest("hex"); s.replace(/[0-9]+/g, "x");
}
for (;;) deep(Math.random() * 30 | 0, work);
'''
PERL = '''
sub deep { my ($n) = @_; return $n ? deep($n - 1) : work(); }
sub work { my %h = map { $_ => rand } 1 .. 200; my @k = sort { $h{$a} <=> $h{$b} } keys %h;
  my $s = join ",", @k; $s =~ s/([0-9]+)/<$1>/g; return length $s; }
deep(int rand 30) while 1;
'''
SQL = '''
create table t(a integer primary key, b text, c real);
with recursive n(x) as (select 1 union all select x + 1 from n where x < 20000)
  insert into t select x, hex(randomblob(8)), random() from n;
with recursive n(x) as (select 1 union all select x + 1 from n where x < 1000000000)
  select count(*), max(s) from (select (select group_concat(b) from t where a between x % 19000 and x % 19000 + 90
  order by c) s from n where x % 7 like '%3');
'''
FORTRAN = '''
program loop
  implicit none
  real(8) :: a(200, 200), b(200, 200), s
  character(len=64) :: line
  integer :: i
  call random_number(a)
  s = 0
  do i = 1, 100000000
    b = matmul(a, a)
    write (line, '(es24.16)') b(1, 1)
    read (line, *) s
    a = a / (1 + abs(s))
    call inner(a, mod(i, 20))
  end do
  print *, s
contains
  recursive subroutine inner(x, n)
    real(8), intent(in out) :: x(:, :)
    integer, intent(in) :: n
    if (n > 0) then
      call inner(x, n - 1)
    else
      x = transpose(x) + sin(x)
    end if
  end subroutine
end program
'''
CXX = '''
#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>
struct Guard { std::string s; explicit Guard(int n) : s(100, char('a' + n % 26)) {} ~Guard() { s.clear(); } };
__attribute__((noinline)) static int thrower(int n, std::map<int, std::string> &m)
{
	Guard g(n);
	if (n == 0)
		throw std::runtime_error(g.s);
	m[n] = g.s;
	try {
		return thrower(n - 1, m) + 1;
	} catch (const std::logic_error &) {
		return 0;
	}
}
int main()
{
	std::map<int, std::string> m;
	std::vector<int> v(2000);
	unsigned seed = 1, caught = 0;
	for (;;) {
		for (auto &x : v)
			x = (int)(seed = seed * 1664525 + 1013904223);
		std::sort(v.begin(), v.end(), [](int a, int b) { return a % 1000 < b % 1000; });
		try {
			thrower((int)(seed >> 8) & 255, m);
		} catch (const std::exception &e) {
			caught += e.what()[0];
		}
		if (caught == 1)
			return 1;
	}
}
'''
PROGRAMS = {}
# Share of stacks whose differences may be explained. V8's builtins have no call-frame information.
EXPLAINED = {'node': 0.3}
EXPLAINED_ELSE = 0.02


def program(fn):
    PROGRAMS[fn.__name__.replace('_', '-')] = fn
    return fn


class NotInstalled(Exception):
    pass


def need(name):
    path = shutil.which(name)
    if not path:
        raise NotInstalled(f'{name} is not installed')
    return path


def write(name, text):
    with open(name, 'wb' if isinstance(text, bytes) else 'w') as f:
        f.write(text)
    return os.path.abspath(name)


def built(compiler, source, text, *options):
    """Compiles; a program of its own."""
    r = subprocess.run([need(compiler), '-O2', *options, '-o', 'built', write(source, text)], capture_output=True,
                       text=True, check=False)
    if r.returncode:
        raise NotInstalled(f'{compiler} does not compile: {r.stderr.strip().splitlines()[-1:]}')
    return [os.path.abspath('built')]


@program
def python3():
    return [need('/usr/bin/python3'), '-c', PY]


@program
def node():
    return [need('node'), '-e', JS]


@program
def openssl():
    return [need('openssl'), 'speed', '-seconds', LONG, '-evp', 'aes-256-gcm']


@program
def cc1():
    compiler = subprocess.run([need('gcc'), '-print-prog-name=cc1'], stdout=subprocess.PIPE, text=True,
                              check=True).stdout.strip()
    body = '''
struct s%d { long a[8]; struct s%d *next; };
long f%d(struct s%d *p, long n) { long r = n; for (long i = 0; i < n; i++) { struct s%d *q = p;
  while (q) { r = r * 31 + q->a[i & 7] / (i + %d); if (r & 64) q->a[(i + 1) & 7] ^= r << (i & 15); q = q->next; }
  switch (r & 7) { case 0: r += n; break; case 1: r -= i; break; case 5: r *= 3; break; default: r ^= %d; } }
  return r; }
'''
    return [need(compiler), '-quiet', '-O3', '-g', '-o', '/dev/null',
            write('big.c', ''.join(body % ((i,) * 7) for i in range(1, 6000)))]


@program
def sqlite3():
    return [need('sqlite3'), ':memory:', SQL]


@program
def gfortran():
    return built('gfortran', 'loop.f90', FORTRAN)


@program
def cxx_exceptions():
    return built('g++', 'throws.cc', CXX)


@program
def perl():
    return [need('perl'), '-e', PERL]


@program
def xz():
    return [need('xz'), '-9', '-c', '/dev/urandom']


@program
def gzip():
    return [need('gzip'), '-9', '-c', '-f', '/dev/urandom']


@program
def ls():
    return [need('ls'), '-lR', '/usr', '/var', '/usr', '/etc', '/usr', '/usr', '/usr', '/usr', '/usr', '/usr', '/usr']


@program
def git():
    lines = [os.urandom(40 << 16).hex('\n', 2).encode() for _ in range(2)]
    return [need('git'), 'diff', '--no-index', '--minimal', '--stat', write('a', lines[0]), write('b', lines[1])]


@program
def sort():
    return [need('sort'), '--parallel=1', '-n', '-k', '1.2', write('lines', os.urandom(40 << 20).hex('\n', 8).encode())]


def cpu_s(pid):
    with open(f'/proc/{pid}/stat', encoding='utf-8', errors='replace') as f:
        fields = f.read().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def run(oracle, name):
    """{walk: statistics}, or the reason why there are none."""
    argv = PROGRAMS[name]()
    env = {**os.environ, 'LC_ALL': 'C', 'GIT_CONFIG_NOSYSTEM': '1', 'HOME': os.getcwd()}
    env.pop('DEBUGINFOD_URLS', None)
    target = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=env)
    try:
        limit = time.monotonic() + START_LIMIT_S
        while target.poll() is None and cpu_s(target.pid) < WARM_S:
            if time.monotonic() > limit:
                raise RuntimeError(f'{name} does not work')
            time.sleep(0.01)
        if target.poll() is not None:
            raise RuntimeError(f'{name} ended with {target.returncode} before it was looked at')
        r = subprocess.run([oracle, str(target.pid), MS, COPIES], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           env=env, check=False)
    finally:
        if target.poll() is None:
            target.send_signal(signal.SIGKILL)
        target.wait()
    sides = {}
    notes = []
    for line in r.stdout.splitlines():
        if line.startswith('{'):
            statistics = json.loads(line)
            sides[statistics.pop('walk')] = statistics
        else:
            notes.append(line)
    if r.returncode not in (0, 1) or not sides:
        raise RuntimeError(f'{name}: exit status {r.returncode}: {r.stderr.strip()} {" ".join(notes)[:500]}')
    return sides, notes


def missing_capabilities():
    with open('/proc/self/status', encoding='ascii', errors='replace') as f:
        held = int(re.search(r'^CapEff:\s*([0-9a-f]+)', f.read(), re.M)[1], 16)
    return [n for n, bit in {'CAP_PERFMON': 38, 'CAP_BPF': 39, 'CAP_SYS_PTRACE': 19}.items() if not held >> bit & 1]


def main():
    oracle = os.path.abspath(sys.argv[1])
    names = sys.argv[2:] or list(PROGRAMS)
    missing = missing_capabilities()
    if missing:
        print(f'1..0 # SKIP needs {", ".join(missing)}')
        return 0
    print(f'1..{3 * len(names)}')
    number = failed = 0
    home = os.getcwd()
    for name in names:
        sides, notes, why = {}, [], None
        with tempfile.TemporaryDirectory(prefix='perf-agent-oracle-') as folder:
            os.chdir(folder)
            began = time.monotonic()
            try:
                sides, notes = run(oracle, name)
            except NotInstalled as e:
                why = str(e)
            except (RuntimeError, OSError, subprocess.SubprocessError) as e:
                notes = [f'# {line}' for line in str(e).splitlines()]
            finally:
                os.chdir(home)
        for side in ('bpf', 'host', 'both'):
            number += 1
            f = sides.get(side)
            # A program whose stacks were explained away proves nothing.
            most = EXPLAINED.get(name, EXPLAINED_ELSE)
            good = why or (f and f['unexplained'] == 0 and f['stacks'] > 0 and
                           f['stacks'] - f['same'] - f['prefix'] <= most * f['stacks'])
            failed += not good
            print(f'{"ok" if good else "not ok"} {number} - {name}: {side}' + (f' # SKIP {why}' if why else ''))
            if f:
                print('# ' + ' '.join(f'{k}={v}' for k, v in f.items()))
        if notes:
            print('\n'.join(notes))
        print(f'# {time.monotonic() - began:.1f} s', flush=True)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
