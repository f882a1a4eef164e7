# SPDX-License-Identifier: Apache-2.0
"""The cost of a start, by mode: CPU time, time beyond the capture, peak memory. With BEFORE=PATH another perf-agent in
turn within the run, for a comparison of two versions."""
import os
import statistics
import subprocess
import time

from benchlib import AGENT, ROUNDS, WORK, Workload, emit

CAPTURE_MS = 100
MODES = {"pmu": ["--pmu", "--pmu-output", "/dev/null"], "profile": ["--profile", "--profile-output", "/dev/null"],
         "offcpu": ["--offcpu", "--offcpu-output", "/dev/null"]}


def high_water_kb(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            return next((int(line.split()[1]) for line in f if line.startswith("VmHWM:")), 0)
    except OSError:
        return 0  # it has ended meanwhile


def one_start(agent, pid, mode):
    """(ms of CPU, ms beyond the capture, MB at the peak) of one short capture, of its symbolizer process too."""
    began = time.monotonic()
    p = subprocess.Popen([agent, *MODES[mode], "--pid", str(pid), "--duration", f"{CAPTURE_MS}ms"],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak_kb, ended = 0, 0
    while not ended:  # not ru_maxrss: that is at least what this program had when it forked
        peak_kb = max(peak_kb, high_water_kb(p.pid))
        time.sleep(0.005)
        ended, status, usage = os.wait4(p.pid, os.WNOHANG)
    p.returncode = os.waitstatus_to_exitcode(status)
    if p.returncode:
        raise SystemExit(f"bench: {agent} --{mode}: exit status {p.returncode}")
    return ((usage.ru_utime + usage.ru_stime) * 1e3, (time.monotonic() - began) * 1e3 - CAPTURE_MS,
            peak_kb * 1024 / 1e6)


def bench_start_cost():
    """Start and end of a capture of a process that sleeps, each mode alone."""
    agents = {"now": AGENT, **({"before": os.environ["BEFORE"]} if "BEFORE" in os.environ else {})}
    with Workload(f"{WORK}/idle", "--seconds", "600") as w:
        for mode in MODES:
            seen = {name: [] for name in agents}
            for _ in range(3 * ROUNDS):
                for name, agent in agents.items():
                    seen[name].append(one_start(agent, w.pid, mode))
            for name, runs in seen.items():
                cpu, wall, peak = (round(statistics.median(v), 1) for v in zip(*runs))
                emit("start_cost", mode=mode, version=name, cpu_ms=cpu, beyond_capture_ms=wall, peak_mb=peak)
