#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Totals of real programs that sleep and wake often: the time of a profile is the time between switches.

--pmu in the same capture measures that time at every switch, without samples. Each comparison prints one line: total,
time between switches, difference, room (livelib.check_total). TOTALS=full runs every program in each target mode at both
rates (make check-totals); without it each program, mode and rate is run at least once.
"""
import atexit
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import livelib
from livelib import (CLOCKS_NS, NS, TESTS, WAIT_S, Agent, check, check_covered, check_total, count, end, equal, load,
                     main, start, stolen_ns, weight, within)
from waitlib import Stats

RATES = (99, 997)
MODES = {'pid': '--pid', 'command': 'command', 'all': '-a'}
SECONDS = {99: 4, 997: 3}  # at 99 Hz chance alone has three times the room
BUSY = 0.05                # share of the capture from which a process or thread is compared
READY_NS = 30_000_000      # CPU time after which a program is under load

# The default run: every program, mode and rate, the processes that wait for each other most often first.
CHOSEN = (('redis', 'pid', 997), ('redis', 'all', 99), ('nginx', 'all', 997), ('postgres', 'pid', 997),
          ('tar', 'command', 997), ('pipe', 'command', 99), ('pipe threads', 'pid', 997), ('udp', 'pid', 99),
          ('udp processes', 'command', 997))

CPUS = len(os.sched_getaffinity(0))


# ---- processes ------------------------------------------------------------------------------------------------------

def poll(condition, what):
    """Waits until condition() is true; returns it."""
    limit = time.monotonic() + WAIT_S
    while True:
        value = condition()
        if value:
            return value
        check(time.monotonic() < limit, f'{what}: not after {WAIT_S} s')
        time.sleep(0.01)


def children_of(pid):
    """The processes that a process has started, with theirs."""
    ret = []
    try:
        for tid in os.listdir(f'/proc/{pid}/task'):
            with open(f'/proc/{pid}/task/{tid}/children', encoding='ascii') as f:
                ret += map(int, f.read().split())
    except (FileNotFoundError, ProcessLookupError):
        pass  # it has ended
    return [p for child in ret for p in (child, *children_of(child))]


def cpu_ns(pids):
    ret = 0
    for pid in pids:
        try:
            for tid in os.listdir(f'/proc/{pid}/task'):
                with open(f'/proc/{pid}/task/{tid}/schedstat', encoding='ascii') as f:
                    ret += int(f.read().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has ended
    return ret


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def listens(port):
    with socket.socket() as s:
        return s.connect_ex(('127.0.0.1', port)) == 0


# ---- programs -------------------------------------------------------------------------------------------------------

class Program:
    """A program and what keeps it busy. Both are ended by stop()."""
    needs = ()       # commands
    follow = False   # it starts processes while it is profiled: --follow-children
    threads = False  # each of its threads is compared as well

    def __init__(self):
        self.p = self.client = None

    def missing(self):
        """Why it cannot be run here, or None."""
        absent = [name for name in self.needs if not shutil.which(name)]
        return f'not installed: {", ".join(absent)}' if absent else None

    def prepare(self):
        """Makes what the program needs, before the capture."""

    def argv(self):
        raise NotImplementedError

    def load(self):
        """Waits until the program serves, and starts its client."""

    def run(self):
        self.p = start(self.argv(), cwd='/')
        self.load()
        poll(self.busy, f'{self.argv()[0]} under load')

    def busy(self):
        check(self.p.poll() is None, f'{self.argv()} ended with {self.p.returncode}')
        return cpu_ns(self.pids()) > READY_NS

    def pids(self):
        return [self.p.pid, *children_of(self.p.pid)]

    def everything(self):
        """With its client."""
        return self.pids() + ([self.client.pid] if self.client else [])

    def stop(self):
        if self.client:
            end(self.client)
        if self.p:
            self.end_program()

    def end_program(self):
        """The program first, so that it starts no more processes."""
        pids = children_of(self.p.pid)
        end(self.p)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


class Redis(Program):
    needs = ('redis-server', 'redis-benchmark')

    def __init__(self):
        super().__init__()
        self.port = free_port()

    def argv(self):
        return ['redis-server', '--port', str(self.port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']

    def load(self):
        poll(lambda: listens(self.port), 'redis-server')
        self.client = start(['redis-benchmark', '-p', str(self.port), '-t', 'set', '-c', '20', '-n', '1000000', '-l', '-q'])


class Nginx(Program):
    needs = ('nginx', 'wrk')
    CONFIG = '''
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location / {{ return 200 "{text}"; }}
    }}
}}
'''

    def __init__(self):
        super().__init__()
        self.port, self.folder = free_port(), os.getcwd()

    def prepare(self):
        with open('nginx.conf', 'w', encoding='ascii') as f:
            f.write(self.CONFIG.format(folder=self.folder, port=self.port, text='x' * 1000))

    def argv(self):
        return ['nginx', '-p', self.folder, '-c', f'{self.folder}/nginx.conf', '-e', f'{self.folder}/error.log']

    def load(self):
        poll(lambda: listens(self.port), 'nginx')
        self.client = start(['wrk', '-t', '1', '-c', '20', '-d', '1h', f'http://127.0.0.1:{self.port}/'])

    def end_program(self):
        # Its worker would outlive a master that is killed.
        self.p.terminate()
        self.p.wait(WAIT_S)


class Postgres(Program):
    """One cluster for all tests of this file."""
    needs = ('pgbench', 'pg_isready', 'setpriv')
    follow = True
    data = None  # its folder

    @staticmethod
    def tool(name):
        """Debian keeps the server's programs out of PATH."""
        found = [shutil.which(name), *sorted(glob.glob(f'/usr/lib/postgresql/*/bin/{name}'))]
        return next((path for path in found if path), None)

    def missing(self):
        if not self.tool('initdb') or not self.tool('postgres'):
            return 'not installed: postgresql'
        return super().missing()

    @staticmethod
    def user():
        """Words that run a program as another user than root, which postgres refuses, and that user."""
        if os.geteuid() != 0:
            return [], pwd.getpwuid(os.geteuid())
        try:
            who = pwd.getpwnam('postgres')
        except KeyError:
            who = pwd.getpwnam('nobody')
        return ['setpriv', f'--reuid={who.pw_uid}', f'--regid={who.pw_gid}', '--clear-groups'], who

    def prepare(self):
        if Postgres.data:
            return
        prefix, who = self.user()
        folder = tempfile.mkdtemp(prefix='perf-agent-totals-')
        atexit.register(shutil.rmtree, folder, True)
        os.chown(folder, who.pw_uid, who.pw_gid)
        subprocess.run([*prefix, self.tool('initdb'), '-D', f'{folder}/data', '-A', 'trust', '-U', 'postgres', '--no-sync'],
                       check=True, cwd='/', stdout=subprocess.DEVNULL, timeout=WAIT_S)
        Postgres.data = folder

    def argv(self):
        return [*self.user()[0], self.tool('postgres'), '-D', f'{self.data}/data', '-k', self.data, '-h', '', '-c', 'fsync=off']

    def load(self):
        reach = ['-h', self.data, '-U', 'postgres']
        poll(lambda: subprocess.run(['pg_isready', '-q', *reach], check=False).returncode == 0, 'postgres')
        if not os.path.exists(f'{self.data}/filled'):
            subprocess.run(['pgbench', '-i', '-q', *reach, 'postgres'], check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, timeout=WAIT_S)
            with open(f'{self.data}/filled', 'w', encoding='ascii'):
                pass
        self.client = start(['pgbench', '-c', '4', '-T', '3600', *reach, 'postgres'])

    def end_program(self):
        # A server that is killed leaves its shared memory after.
        self.p.send_signal(signal.SIGINT)
        self.p.wait(WAIT_S)


class Tar(Program):
    """tar with a reader, again and again, of files that are in memory."""
    needs = ('tar',)
    follow = True
    COMMAND = 'tar -cf - /usr/include 2>/dev/null'

    def prepare(self):
        subprocess.run(['sh', '-c', f'{self.COMMAND} | cat >/dev/null'], check=True, timeout=WAIT_S)

    def argv(self):
        return ['sh', '-c', f'while :; do {self.COMMAND}; done | cat >/dev/null']


class Pipe(Program):
    needs = ('perf',)

    def missing(self):
        ret = super().missing()
        if not ret:
            p = subprocess.run(['perf', 'bench', 'sched', 'pipe', '-l', '1'], check=False, capture_output=True, timeout=WAIT_S)
            if p.returncode != 0:
                ret = 'perf bench cannot be run: ' + ' '.join(p.stderr.decode('utf-8', 'replace').split())[:200]
        return ret

    def argv(self):
        return ['perf', 'bench', 'sched', 'pipe', '-l', '1000000000']


class PipeThreads(Pipe):
    threads = True

    def argv(self):
        return [*super().argv(), '-T']


class Udp(Program):
    threads = True

    def argv(self):
        return [livelib.workload['udp'], '--seconds', str(WAIT_S)]


class UdpProcesses(Udp):
    threads = False

    def argv(self):
        return [*super().argv(), '--processes']


PROGRAMS = {'redis': Redis, 'nginx': Nginx, 'postgres': Postgres, 'tar': Tar, 'pipe': Pipe, 'pipe threads': PipeThreads,
            'udp': Udp, 'udp processes': UdpProcesses}


# ---- captures -------------------------------------------------------------------------------------------------------

def capture(program, mode, rate):
    """Profile and statistics of one capture, and the processes of it that are to be compared (None: all)."""
    args = ['--profile-output', 'p.pb.gz', '--pmu-output', 's.json', '--pmu-format', 'json', '--sample-rate', rate]
    seconds = SECONDS[rate]
    if mode == 'command':
        # timeout ends the command with all that it has started, and the capture with it. A server and its client have a
        # second to start.
        agent = Agent(*args, '--', 'timeout', '-s', 'INT', '-k', '5', str(seconds + 1), *program.argv(),
                      modes=('--profile', '--pmu')).wait_started()
        program.load()
        pids = None
    else:
        program.run()
        if mode == 'all':
            target = ['-a', '--per-pid']
        elif program.follow:
            target = ['--pid', program.p.pid, '--follow-children']
        else:
            target = ['--pid', ','.join(map(str, program.pids()))]
        agent = Agent(*args, '--duration', f'{seconds}s', *target, modes=('--profile', '--pmu')).wait_started()
        pids = set(program.everything()) if mode == 'all' else None
    r = agent.finish()
    check(r.rc == 0 or (mode == 'command' and r.rc == 124), r)  # of timeout
    if mode == 'all':
        pids |= set(program.everything())
    with open('s.json', encoding='utf-8') as f:
        s = Stats(f.read())
    p = load('p.pb.gz')
    p.result = r
    return p, s, pids


def check_totals(program, mode, rate):
    stolen = stolen_ns()
    p, s, pids = capture(program, mode, rate)
    stolen = stolen_ns() - stolen
    equal(p.number('samples_seen'), p.number('samples_in_profile') + p.number('dropped'), p.text())
    equal(count(p.samples), p.number('samples_in_profile'), p.text())
    what = f'{MODES[mode]}, {rate} Hz'
    # The profile begins before the statistics and ends after them.
    start_ns, end_ns = s.said['time_realtime_ns'], s.said['time_realtime_ns'] + s.duration_ns
    edges = abs(start_ns - p.time_nanos) + abs(p.time_nanos + p.duration_nanos - end_ns)
    within(edges, 0, NS // 20, 'profile and statistics are not of the same time', p.time_nanos, start_ns, p.duration_nanos)
    compared = all_busy = 0
    for pid, entry in s.processes.items():
        spent = entry['on_cpu']['sum_ns']
        # As many ticks can hit a process as it has busy threads; those of its threads that ended may have been.
        busy = [t for t in entry['threads'] if t['on_cpu_ns'] > BUSY * s.duration_ns]
        all_busy += len(busy) + entry['ended_threads']
        if spent < BUSY * s.duration_ns or (pids is not None and pid not in pids):
            continue
        parallel = min(CPUS, max(1, len(busy) + entry['ended_threads']))
        compare(p, p.of(pid=pid), spent, entry['switches'], s.duration_ns, parallel, edges, f'{entry["comm"]} {pid}, {what}')
        compared += 1
        for t in busy if program.threads else ():
            compare(p, p.of(pid=pid, tid=t['tid']), t['on_cpu_ns'], sum(t['reasons'].values()), s.duration_ns, 1, edges, f'thread {t["comm"]} {t["tid"]}, {what}')
    check(compared, 'no process was busy', [(e['comm'], e['on_cpu']['sum_ns']) for e in s.processes.values()])
    spent, parallel = s.all['on_cpu']['sum_ns'], min(CPUS, max(1, all_busy))
    compare(p, p.samples, spent, s.all['switches'], s.duration_ns, parallel, edges, f'all of it, {what}')
    check_covered(p, spent, s.duration_ns * parallel, what, switches=s.all['switches'],
                  stolen_ns=stolen, extra_ns=edges * parallel)


def compare(p, samples, spent_ns, switches, duration_ns, parallel, edges_ns, what):
    """A total against the time between switches of at most so many threads at a time."""
    check_total(weight(samples), spent_ns, duration_ns * parallel, p.period, what, p.text(), extra_ns=edges_ns * parallel)
    # Scaled totals are no matter of chance, but for threads with less than 50 samples, which share a ratio.
    counts = {}
    for s in samples:
        counts[s.tid] = counts.get(s.tid, 0) + s.count
    few = weight([s for s in samples if counts[s.tid] < 100])
    if few < 0.01 * spent_ns and not p.number('dropped'):
        apart = 0.01 * spent_ns + switches * CLOCKS_NS
        within(weight(samples), spent_ns - apart, spent_ns + apart + edges_ns * parallel, 'scaled', what, p.text())


def add_test(name, mode, rate):
    def run():
        program = PROGRAMS[name]()
        reason = program.missing()
        if reason:
            return reason
        try:
            program.prepare()
            check_totals(program, mode, rate)
        finally:
            program.stop()
        return None
    by = {'pid': 'by number', 'command': 'as a command', 'all': 'with the whole machine'}[mode]
    run.__name__ = f'total of {name} {by} at {rate} Hz is its time between switches'
    TESTS.append(run)


if __name__ == '__main__':
    os.environ['PATH'] += ':/usr/local/sbin:/usr/sbin:/sbin'  # Debian keeps nginx out of a user's
    full = os.environ.get('TOTALS') == 'full'
    for case in [(n, m, r) for n in PROGRAMS for m in MODES for r in RATES] if full else CHOSEN:
        add_test(*case)
    sys.exit(main())
