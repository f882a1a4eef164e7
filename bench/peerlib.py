# SPDX-License-Identifier: Apache-2.0
"""Tools of bench_offcpu_peers.py: a workload that is resumed and stopped, a profiler that runs meanwhile, and the
accounting of both."""
import contextlib
import os
import re
import signal
import subprocess
import sys
import time

from benchlib import BUILD

PROGRAMS = f"{BUILD}/bench/bench-programs"
READY_S = 30   # most time for a tool to begin
END_S = 15     # … and to end
QUIET_S = 0.2  # a tool has begun when its descriptors have not changed for so long
POLL_S = 0.01
# perf and bpftrace look for tracefs in its usual places. A private mount namespace: nothing stays mounted.
IN_TRACEFS = ["unshare", "--mount", "--propagation", "private", "sh", "-c",
              "mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null; mount -t debugfs debugfs /sys/kernel/debug "
              "2>/dev/null; mount -t tracefs tracefs /sys/kernel/debug/tracing 2>/dev/null; exec \"$0\" \"$@\""]

# Without this bpftrace reads the symbols of a process again for each printed stack: half a minute for hackbench.
ENV = {**os.environ, "BPFTRACE_CACHE_USER_SYMBOLS": "1"}


class CannotRun(Exception):
    """A tool ended before it had begun; the text is its last output."""


def text_of(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError:
        return ""  # the thread or process has just ended


def keys_of(path, sep=":"):
    return dict(line.split(sep, 1) for line in text_of(path).splitlines() if sep in line)


def links_of(folder):
    """Returns {descriptor: link target}."""
    ret = {}
    with contextlib.suppress(OSError):
        for fd in os.listdir(folder):
            with contextlib.suppress(OSError):
                ret[fd] = os.readlink(f"{folder}/{fd}")
    return ret


@contextlib.contextmanager
def in_time():
    """Runs this script at real-time priority, so that it reads the clock on time although programs use all CPUs. Its
    children do not inherit that."""
    with contextlib.suppress(PermissionError):  # a control group without real-time budget
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@contextlib.contextmanager
def bpf_stats():
    """The kernel measures the run time of BPF programs while bench-programs holds its descriptor."""
    with subprocess.Popen([PROGRAMS, "100000", "-"], stdout=subprocess.DEVNULL) as p:
        while p.poll() is None and "anon_inode:bpf-stats" not in links_of(f"/proc/{p.pid}/fd").values():
            time.sleep(POLL_S)
        if p.returncode is not None:
            sys.exit("bench: cannot enable statistics of BPF programs")
        try:
            yield
        finally:
            p.kill()


class Account:
    """The scheduler's account of all threads of a process together."""

    def __init__(self, pid):
        self.at_ns = time.monotonic_ns()
        self.threads = self.cpu_ns = self.queued_ns = self.switches = 0
        for tid in os.listdir(f"/proc/{pid}/task"):
            words = text_of(f"/proc/{pid}/task/{tid}/schedstat").split()
            if len(words) == 3:
                cpu, queued, n = map(int, words)
                self.threads += 1
                self.cpu_ns += cpu
                self.queued_ns += queued
                self.switches += n


class Gated:
    """A program that passes messages between its threads for ever, and is stopped except in windows."""

    def __init__(self, *argv):
        self.p = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.pid = self.p.pid
        before, since = 0, time.monotonic()
        while time.monotonic() - since < QUIET_S or before < 2:
            time.sleep(POLL_S)
            now = len(os.listdir(f"/proc/{self.pid}/task")) if self.p.poll() is None else 0
            if not now:
                sys.exit(f"bench: {' '.join(argv)} ended at once")
            if now != before:
                before, since = now, time.monotonic()
        self.threads = before
        self.stop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.p.kill()
        self.p.wait()

    def go(self):
        os.kill(self.pid, signal.SIGCONT)

    def stop(self):
        """Stops all threads. Returns the time of SIGSTOP, and the sum over the threads of the time until each had stopped:
        they ran or queued for that long."""
        at_ns = before_ns = time.monotonic_ns()
        late_ns, left = 0, self.tids()
        os.kill(self.pid, signal.SIGSTOP)
        while left and self.p.poll() is None:
            left = {t for t in left if text_of(f"/proc/{self.pid}/task/{t}/stat").rpartition(") ")[2][:1] != "T"}
            now_ns = time.monotonic_ns()
            late_ns += len(left) * (now_ns - before_ns)
            before_ns = now_ns
            time.sleep(0.001 if left else 0)
        return at_ns, late_ns

    def written(self):
        """Returns the bytes that its threads have written: the work done."""
        return int(keys_of(f"/proc/{self.pid}/io")["wchar"])

    def tids(self):
        return {int(t) for t in os.listdir(f"/proc/{self.pid}/task")}


def family(pid):
    """Returns a process and its descendants."""
    ret, todo = [], [pid]
    while todo:
        ret.append(todo.pop())
        with contextlib.suppress(OSError):
            for tid in os.listdir(f"/proc/{ret[-1]}/task"):
                todo += map(int, text_of(f"/proc/{ret[-1]}/task/{tid}/children").split())
    return ret


class Tool:
    """A running profiler; its output and messages are files of a folder. It has begun when its messages contain ready,
    or else when its descriptors of perf events and BPF links have not changed for QUIET_S."""

    def __init__(self, argv, folder, ready=None):
        self.said = f"{folder}/said"
        with open(f"{folder}/stdout", "wb") as out, open(self.said, "wb") as err:
            self.p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=ENV)
        self.pid, self.usage, self.peaks = self.p.pid, None, {}
        try:
            self._wait_begun(ready)
        except BaseException:
            self.kill()
            raise

    def _wait_begun(self, ready):
        limit, before, since = time.monotonic() + READY_S, None, 0
        while time.monotonic() < limit:
            time.sleep(POLL_S)
            if self._reap(os.WNOHANG):
                raise CannotRun(self.last_words())
            if ready:
                if ready in text_of(self.said):
                    return
                continue
            now = sorted(fd + to for fd, to in links_of(f"/proc/{self.pid}/fd").items()
                         if to in ("anon_inode:[perf_event]", "anon_inode:bpf_link"))
            if now != before:
                before, since = now, time.monotonic()
            elif now and time.monotonic() - since > QUIET_S:
                return
        raise CannotRun(f"did not begin within {READY_S} s: {self.last_words()}")

    def last_words(self):
        """Returns the last three lines; of a backtrace its end and the lines before it."""
        said, _, trace = text_of(self.said).partition("Traceback")
        lines = said.splitlines() + trace.splitlines()[-1:]
        return " / ".join(s.strip()[:120] for s in lines[-3:]) if lines else "no output"

    def _reap(self, flags):
        if self.usage is None:
            pid, status, usage = os.wait4(self.pid, flags)
            if pid:
                self.p.returncode, self.usage = os.waitstatus_to_exitcode(status), usage
        return self.usage is not None

    def kill(self):
        if self.usage is None:
            self.p.kill()
            self._reap(0)

    def programs(self):
        """Returns (ns, runs) of its BPF programs so far."""
        ns, runs, seen = 0, 0, set()
        for fd in links_of(f"/proc/{self.pid}/fd"):
            info = keys_of(f"/proc/{self.pid}/fdinfo/{fd}")
            if "run_time_ns" in info and info["prog_id"] not in seen:
                seen.add(info["prog_id"])
                ns, runs = ns + int(info["run_time_ns"]), runs + int(info["run_cnt"])
        return ns, runs

    def cpu_ns(self):
        ns = 0
        for pid in family(self.pid):
            with contextlib.suppress(OSError):
                ns += Account(pid).cpu_ns
        return ns

    def memory(self):
        """Returns pss_kib of its processes, bytes of BPF maps as the kernel counts them, bytes of perf's rings."""
        pss, rings, maps = 0, 0, {}
        self._read_peaks()
        for pid in family(self.pid):
            pss += int(keys_of(f"/proc/{pid}/smaps_rollup").get("Pss", "0 kB").split()[0])
            for first, last in re.findall(r"^(\w+)-(\w+) .*anon_inode:\[perf_event\]$", text_of(f"/proc/{pid}/maps"),
                                          re.M):
                rings += int(last, 16) - int(first, 16)
            for fd, to in links_of(f"/proc/{pid}/fd").items():
                if to == "anon_inode:bpf-map":
                    info = keys_of(f"/proc/{pid}/fdinfo/{fd}")
                    maps[info.get("map_id")] = int(info.get("memlock", 0))
        return {"pss_kib": pss, "map_bytes": sum(maps.values()), "ring_bytes": rings}

    def _read_peaks(self):
        """Updates the peaks of resident memory. ru_maxrss would begin with that of this script."""
        for pid in family(self.pid):
            self.peaks[pid] = max(self.peaks.get(pid, 0),
                                  int(keys_of(f"/proc/{pid}/status").get("VmHWM", "0 kB").split()[0]))

    def finish(self):
        """Ends it as a user does, with Ctrl-C."""
        self.p.send_signal(signal.SIGINT)
        limit = time.monotonic() + END_S
        while not self._reap(os.WNOHANG) and time.monotonic() < limit:
            self._read_peaks()
            time.sleep(POLL_S)
        if self.usage is None:
            self.kill()
            raise CannotRun(f"did not end within {END_S} s")
        return {"cpu_total_ms": round((self.usage.ru_utime + self.usage.ru_stime) * 1000, 1),
                "rss_peak_kib": sum(self.peaks.values())}
