# SPDX-License-Identifier: Apache-2.0
"""The part offcpu_peers of bench/run: --offcpu and --pmu compared with other tools that follow context switches.

Two workloads: `perf bench sched pipe`, two threads on CPU 0, so that the tool has the other CPUs for itself; hackbench,
80 threads on all CPUs, where the tool competes with them. Both run for ever and are stopped (SIGSTOP) except in windows:
one without a tool, one with it, one without, one with the next … Work is counted in bytes that they write, by
/proc/PID/io. One line for each workload and tool:

slower_pct            how much longer the work takes with the tool than in the windows right before and after: median,
                      quartiles and range of PAIRS times. Tool "none" is a window without a tool: the noise
dearer_pct            the same by CPU time of the workload: includes the tool's work in the workload's threads, and no
                      other work of the tool or the machine
extra_ns_per_switch   that as time a switch, for pipe, which does little else
ns_per_switch         run time of the tool's BPF programs, by switches of the workload, and runs_per_switch. Their
                      statistics are on in one window of LONG_S for this, not in the pairs
pss_kib, map_bytes, ring_bytes  at the end of a window: its processes, its BPF maps as the kernel counts them, its rings
                      of perf events; rss_peak_kib: sum of its processes' peaks, until its end
cpu_pct, cpu_total_ms  CPU time of the tool's processes: in the long window, in percent of one CPU; from start to end of
                      a window of a pair
output_bytes          bytes that it wrote or printed for capture_s, which is the long window and its lead
held_s                sum of the workload's off-CPU intervals in this output; blocked_s and off_cpu_s are the scheduler's
                      own values for its threads. off_cpu_s includes run-queue time, also of preempted threads: a tool
                      that sees switches only cannot distinguish it from blocked time

Tools that are not installed are named in "absent". Tools that end before they begin are named in "cannot_run" with their
last output. Only bcc's tool needs kprobes. perf and bpftrace need tracefs: they get it in a mount namespace of their own
(peerlib.py), so that nothing stays mounted.

Environment: PAIRS (10), WINDOW_S (0.5), WORKLOADS (pipe hackbench), TOOLS (all; names with commas).
Needs root. The defaults take some 7 minutes.
"""
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from benchlib import AGENT, emit, median
from peerlib import IN_TRACEFS, Account, CannotRun, Gated, Tool, bpf_stats, in_time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../tests/live"))
import livelib  # noqa: E402  pylint: disable=wrong-import-position

__all__ = ["bench_offcpu_peers"]

PAIRS = int(os.environ.get("PAIRS", "10"))
WINDOW_S = float(os.environ.get("WINDOW_S", "0.5"))
SETTLE_S = 0.25  # of each window, before it is measured: tools are still busy with their start
LONG_S = 1.0
EVER = "100000000"  # loops; times 20 descriptors it still fits a receiver's counter

BPFTRACE = """tracepoint:sched:sched_switch {
    if (pid == %s && args->prev_state) {
        @t[args->prev_pid] = nsecs; @s[args->prev_pid] = kstack; @u[args->prev_pid] = ustack;
    }
    $t = @t[args->next_pid];
    if ($t) {
        @ns[@s[args->next_pid], @u[args->next_pid]] = sum(nsecs - $t);
        delete(@t[args->next_pid]);
    }
}"""


# ---- blocked time of a process in an output ------------------------------------------------------------------------

def held_by_profile(path, work, _got):
    p = livelib.load(path)
    mine = p.of(pid=work.pid)
    queued_ns = sum(s.labels.get("runqueue", 0) for s in mine)
    return {"held_s": livelib.weight(mine) / 1e9, "held_runqueue_s": queued_ns / 1e9, "waits": livelib.count(mine),
            "lost": p.number("dropped")}


def held_by_metrics(path, work, got):
    """The sums are of all states, so they include the time outside the window, when all threads are stopped."""
    with open(path, encoding="utf-8") as f:
        said = json.load(f)
    for p in said["processes"]:
        if p["pid"] == work.pid:
            stopped_s = work.threads * (said["duration_ns"] / 1e9 - got["capture_s"]) - got["late_s"]
            return {"held_s": p["off_cpu"]["sum_ns"] / 1e9 - stopped_s,
                    "held_runqueue_s": p["run_queue"]["sum_ns"] / 1e9, "waits": p["off_cpu"]["count"]}
    return {}  # -a: of all processes together


def held_by_offcputime(path, _work, _got):
    with open(path, encoding="utf-8", errors="replace") as f:
        return {"held_s": sum(int(us) for us in re.findall(r"^\s+(\d+)$", f.read(), re.M)) / 1e6}


def held_by_bpftrace(path, _work, _got):
    with open(path, encoding="utf-8", errors="replace") as f:
        return {"held_s": sum(int(ns) for ns in re.findall(r"^@ns\[[^\]]*\]: (\d+)$", f.read(), re.M)) / 1e9}


def held_by_perf(path, work, _got):
    """Reads the text of perf script, as users do: from a switch-out in another state than running to the switch-in."""
    with subprocess.Popen(["perf", "script", "-i", path, "--ns", "--show-lost-events", "-F", "tid,time,event,trace"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace") as p:
        left, held_ns, waits, lost, tids = {}, 0, 0, 0, {str(t) for t in work.tids()}
        for line in p.stdout:
            m = re.search(r"(\d+)\.(\d{9}): .*prev_pid=(\d+) .*prev_state=(\S+) ==> .*next_pid=(\d+)", line) or \
                re.search(r"(\d+)\.(\d{9}): .*:(\d+) \[-?\d+\] (\S+) ==> .*:(\d+) \[-?\d+\]", line)
            if not m:
                lost += sum(map(int, re.findall(r"RECORD_LOST\w* lost (\d+)", line)))
                continue
            now = int(m[1]) * 10**9 + int(m[2])
            if m[3] in tids and m[4][0] != "R":
                left[m[3]] = now
            if m[5] in left:
                held_ns += now - left.pop(m[5])
                waits += 1
    return {"held_s": held_ns / 1e9, "waits": waits, "lost": lost}


def tools(pid):
    """Returns {name: (command with {out}, its message when it has begun, function that reads the output)}."""
    pid = str(pid)
    ours = [AGENT, "--duration", "600s"]
    said = "perf-agent: profiling "
    offcpu, pmu = ["--offcpu", "--offcpu-output", "{out}"], ["--pmu", "--pmu-format", "json", "--pmu-output", "{out}"]
    perf = [*IN_TRACEFS, "perf", "record", "-q", "-a", "-e", "sched:sched_switch", "-o", "{out}"]
    return {
        "none": (None, None, None),
        "perf-agent --offcpu --pid": ([*ours, *offcpu, "--pid", pid], said, held_by_profile),
        "perf-agent --offcpu -a": ([*ours, *offcpu, "-a"], said, held_by_profile),
        "perf-agent --pmu --pid": ([*ours, *pmu, "--pid", pid], said, held_by_metrics),
        "perf-agent --pmu -a": ([*ours, *pmu, "-a"], said, held_by_metrics),
        "offcputime (libbpf-tools) -p": (["offcputime", "-p", pid], None, held_by_offcputime),
        "offcputime (bcc) -p": ([*IN_TRACEFS, "offcputime-bpfcc", "-p", pid], None, held_by_offcputime),
        "bpftrace": ([*IN_TRACEFS, "bpftrace", "-q", "-o", "{out}", "-e", BPFTRACE % pid], None, held_by_bpftrace),
        "perf record -a": (perf, None, held_by_perf),
        "perf record -a -g": ([*perf, "-g"], None, held_by_perf),
    }


def workloads():
    """Returns {name: (CPUs that it has, command)}."""
    ret = {}
    if shutil.which("perf"):
        ret["pipe"] = 1, ["taskset", "-c", "0", "perf", "bench", "sched", "pipe", "-T", "-l", EVER]
    if shutil.which("hackbench"):
        ret["hackbench"] = os.cpu_count(), ["hackbench", "-T", "-g", "2", "-l", EVER]
    elif shutil.which("perf"):  # its own copy
        ret["hackbench"] = os.cpu_count(), ["perf", "bench", "sched", "messaging", "-t", "-g", "2", "-l", EVER]
    return ret


def window(work):
    """Lets the workload run for a window; returns its work, in all and by its CPU time, and its switches."""
    work.go()
    time.sleep(SETTLE_S)
    a, begun = Account(work.pid), work.written()
    time.sleep(WINDOW_S)
    b, done = Account(work.pid), work.written()
    work.stop()
    return {"work_per_s": (done - begun) * 1e9 / (b.at_ns - a.at_ns),
            "work_per_cpu_s": (done - begun) * 1e9 / max(1, b.cpu_ns - a.cpu_ns),
            "cpu_per_switch": (b.cpu_ns - a.cpu_ns) / max(1, b.switches - a.switches),
            "switches_per_s": (b.switches - a.switches) * 1e9 / (b.at_ns - a.at_ns)}


def long_window(work, tool):
    """The same once, for the tool's cost after its start, and for the scheduler's account of all the time that the
    workload ran, which the tool saw too."""
    first = Account(work.pid)
    begun_ns = time.monotonic_ns()
    work.go()
    time.sleep(LONG_S / 2)
    a, cpu, (ns, runs) = Account(work.pid), tool.cpu_ns(), tool.programs()
    time.sleep(LONG_S)
    b, later, cpu = Account(work.pid), tool.programs(), tool.cpu_ns() - cpu
    now_ns = time.monotonic_ns()
    stop_ns, late_ns = work.stop()
    capture_ns = stop_ns - begun_ns
    last = Account(work.pid)
    off_ns = capture_ns * last.threads - (last.cpu_ns - first.cpu_ns)
    switches = max(1, b.switches - a.switches)
    return {"run_ns": (later[0] - ns) / switches, "runs": (later[1] - runs) / switches,
            "cpu_pct": 100 * cpu / (now_ns - a.at_ns), "capture_s": capture_ns / 1e9, "off_cpu_s": off_ns / 1e9,
            "late_s": late_ns / 1e9, "blocked_s": (off_ns + late_ns - (last.queued_ns - first.queued_ns)) / 1e9}


def capture(work, spec, count=False):
    """Makes one capture: a window of a pair, or the long one."""
    command, ready, reader = spec
    if not command:
        return {} if count else window(work)
    with tempfile.TemporaryDirectory(prefix="perf-agent-bench-") as d:
        t = Tool([w.replace("{out}", f"{d}/out") for w in command], d, ready)
        try:
            got = long_window(work, t) if count else window(work)
            got.update(t.memory())
            got.update(t.finish())
        finally:
            t.kill()
        if t.p.returncode > 0:
            raise CannotRun(f"exit status {t.p.returncode}: {t.last_words()}")
        out = f"{d}/out" if os.path.exists(f"{d}/out") else f"{d}/stdout"
        got["output_bytes"] = sum(os.path.getsize(f"{d}/{f}") for f in os.listdir(d) if f != "said")
        if count:
            got.update(reader(out, work, got))
    return got


def installed(command):
    return shutil.which(command[len(IN_TRACEFS) if command[:len(IN_TRACEFS)] == IN_TRACEFS else 0]) is not None


def counted(work, name, specs):
    """Returns the results of the long window, with statistics of programs, of the tools that can run."""
    ret = {}
    for tool, spec in specs.items():
        if spec[0] and not installed(spec[0]):
            emit("offcpu_peers", workload=name, tool=tool, absent="not installed")
            continue
        for last in (False, True):  # once more: on a loaded machine bpftrace sometimes takes very long to end
            try:
                with bpf_stats():
                    ret[tool] = capture(work, spec, count=True)
                break
            except CannotRun as e:
                if last:
                    emit("offcpu_peers", workload=name, tool=tool, cannot_run=str(e))
    return ret


def spread(values):
    q = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return [round(q[0], 2), round(q[2], 2)], [round(min(values), 2), round(max(values), 2)]


def measure(name, cpus, command):
    with Gated(*command) as work:
        specs = tools(work.pid)
        chosen = os.environ.get("TOOLS")
        if chosen:
            specs = {t: s for t, s in specs.items() if t in chosen.split(",")}
        once = counted(work, name, specs)
        order, alone, pairs = list(once), {t: [] for t in once}, {t: [] for t in once}
        before = window(work)
        for i in range(PAIRS):
            for tool in order[i % len(order):] + order[:i % len(order)]:
                try:
                    got = capture(work, specs[tool])
                except CannotRun:
                    continue  # one pair less
                after = window(work)
                pairs[tool].append(got)
                alone[tool].append({k: (before[k] + after[k]) / 2 for k in before})
                before = after
        for tool in order:
            report(name, cpus, work, tool, once[tool], alone[tool], pairs[tool])


def report(name, cpus, work, tool, once, alone, pairs):
    if not pairs:
        emit("offcpu_peers", workload=name, tool=tool, cannot_run="no pair came about")
        return
    slower, dearer = ([100 * (a[k] / p[k] - 1) for a, p in zip(alone, pairs)] for k in ("work_per_s", "work_per_cpu_s"))
    quartiles, extremes = spread(slower)
    more = {}
    if cpus == 1:
        more["extra_ns_per_switch"] = median(d / 100 * a["cpu_per_switch"] for d, a in zip(dearer, alone))
    if tool != "none":
        often = ("cpu_total_ms", "pss_kib", "rss_peak_kib", "map_bytes", "ring_bytes")
        more.update({k: median(p[k] for p in pairs) for k in often})
        long = ("cpu_pct", "output_bytes", "capture_s", "held_s", "held_runqueue_s", "blocked_s", "off_cpu_s", "waits")
        more.update({k: round(once[k], 3) for k in (*long, "lost") if k in once})
        if "held_s" in once:
            more["held_of_blocked_pct"] = round(100 * once["held_s"] / once["blocked_s"], 2)
            more["held_of_off_cpu_pct"] = round(100 * once["held_s"] / once["off_cpu_s"], 2)
        if once.get("runs"):
            more.update(ns_per_switch=round(once["run_ns"], 1), runs_per_switch=round(once["runs"], 2))
    emit("offcpu_peers", workload=name, threads=work.threads, cpus=cpus, tool=tool, pairs=len(pairs),
         switches_per_s=round(median(a["switches_per_s"] for a in alone)), slower_pct=median(slower),
         slower_pct_quartiles=quartiles, slower_pct_range=extremes, dearer_pct=median(dearer),
         dearer_pct_quartiles=spread(dearer)[0], **more)


def bench_offcpu_peers():
    """The cost of a switch with perf-agent and with other tools; see the top of bench_offcpu_peers.py."""
    chosen = os.environ.get("WORKLOADS", "pipe hackbench").split()
    with in_time():
        there = workloads()
        for name in chosen:
            if name in there:
                measure(name, *there[name])
            else:
                emit("offcpu_peers", workload=name, absent="not installed")
