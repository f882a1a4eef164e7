# SPDX-License-Identifier: Apache-2.0
"""The cost of a context switch with --offcpu, compared with other off-CPU profilers if they are installed."""
import json
import shutil
import signal
import subprocess
import tempfile
import time

from bench_unwind import load_live
from benchlib import AGENT, BUILD, ROUNDS, WORK, Workload, emit, median

__all__ = ["bench_cpu_time", "bench_offcpu"]

CHAINS = ("4", "44")  # frames of the workload's own above the blocking call; below them are six more
PROGRAMS = f"{BUILD}/bench/bench-programs"
BPFTRACE = ("tracepoint:sched:sched_switch { if (args->prev_state) { @t[args->prev_pid] = nsecs; "
            "@s[args->prev_pid] = kstack; @u[args->prev_pid] = ustack; } "
            "$t = @t[args->next_pid]; if ($t) { @ns[@s[args->next_pid], @u[args->next_pid]] = sum(nsecs - $t); "
            "delete(@t[args->next_pid]); } }")


def programs(seconds, *names):
    out = subprocess.run([PROGRAMS, str(seconds), *names], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out)


def peers(pid):
    """Yields (name, command, names of its BPF programs)."""
    yield "ours", [AGENT, "--offcpu", "--pid", pid, "--duration", "7s", "--offcpu-output", "{out}"], ("offcpu_switch",)
    yield ("ours_user_only", [AGENT, "--offcpu", "--pid", pid, "--duration", "7s", "--kernel-stacks=false",
                              "--offcpu-output", "{out}"], ("offcpu_switch",))
    if shutil.which("offcputime-bpfcc"):
        yield "offcputime", ["offcputime-bpfcc", "-p", pid, "7"], ("oncpu",)
    if shutil.which("bpftrace"):
        yield "bpftrace", ["bpftrace", "-e", BPFTRACE], ("tracepoint_sche",)


def user_frames(path):
    """Returns the number of user frames that most intervals of the ping-pong have."""
    counts = {}
    for sample in load_live().load(path).samples:
        counts[len(sample.user)] = counts.get(len(sample.user), 0) + sample.values[0]
    return max(counts, key=counts.get)


def switch_cost(command, names, path):
    """Returns (nanoseconds a switch, switches a second) while the command runs, which takes some 7 s."""
    p = subprocess.Popen([c.replace("{out}", path) for c in command], stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
    time.sleep(3)
    got = programs(3, *names)
    if p.poll() is None and command[0] == "bpftrace":
        p.send_signal(signal.SIGINT)
    p.wait()
    runs = sum(r for r, _ in got.values())
    return (sum(ns for _, ns in got.values()) / runs, runs / 3) if runs else None


def bench_offcpu():
    """Two threads on one CPU pass a byte through pipes, without frame pointers: nanoseconds a switch of the program at
    sched_switch, and switches a second. Two depths, whose difference is the cost of a frame."""
    cost, rounds, frames = {}, {}, {}
    with tempfile.TemporaryDirectory() as d:
        for _ in range(ROUNDS):
            for chain in CHAINS:
                with Workload(f"{WORK}/waits", "pingpong", "--cpu", "0", "--peer-cpu", "0", "--frames", chain) as w:
                    for name, command, names in peers(str(w.pid)):
                        got = switch_cost(command, names, f"{d}/o")
                        if got:
                            cost.setdefault((name, chain), []).append(got[0])
                            rounds.setdefault((name, chain), []).append(got[1])
                        if name == "ours":
                            frames[chain] = user_frames(f"{d}/o")
    few, many = (frames[c] for c in CHAINS)
    for name in {n: None for n, _ in cost}:
        ns = [median(cost[name, c]) for c in CHAINS]
        each = (ns[1] - ns[0]) / (many - few)
        emit("offcpu_switch", tool=name, user_frames=[few, many], ns=ns, ns_per_further_frame=round(each, 1),
             ns_at_10_frames=round(ns[0] + (10 - few) * each, 1),
             switches_per_s=[median(rounds[name, c]) for c in CHAINS], limit_ns=400, limit_ns_per_further_frame=60)


def bench_cpu_time():
    """The same two threads: nanoseconds a switch of the program that measures on-CPU time for --profile, with the process
    as target, with another target, and with -a; compared with the scheduler statistics (--pmu)."""
    cost = {}
    with tempfile.TemporaryDirectory() as d, Workload(f"{WORK}/idle", "--seconds", "600") as idle, \
            Workload(f"{WORK}/waits", "pingpong", "--cpu", "0", "--peer-cpu", "0", "--frames", "4") as w:
        for _ in range(ROUNDS):
            for name, args, program in (("target", ["--profile", "--pid", str(w.pid)], "cpu_time_switch"),
                                        ("foreign", ["--profile", "--pid", str(idle.pid)], "cpu_time_switch"),
                                        ("all", ["--profile", "-a"], "cpu_time_switch"),
                                        ("pmu_target", ["--pmu", "--pid", str(w.pid)], "sched_switched")):
                got = switch_cost([AGENT, *args, "--duration", "7s", f"{args[0]}-output", "{out}"], (program,), f"{d}/o")
                if got:
                    cost.setdefault(name, []).append(got[0])
    emit("cpu_time_switch", **{f"{name}_ns": median(ns) for name, ns in cost.items()})
