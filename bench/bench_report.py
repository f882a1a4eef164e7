# SPDX-License-Identifier: Apache-2.0
"""Benchmark of reports: the part report of bench/run.

A pprof of 100 MB before its compression: 970,000 stacks of 30 to 60 frames of 20,000 functions. perf-agent report --cum and
go tool pprof -top -cum of the same file, whose first rows must be equal.
"""
import os
import random
import re
import shutil
import subprocess
import tempfile
import time

from benchlib import AGENT, ROUNDS, emit, median

STACKS = 970000
FUNCTIONS = 20000


def write_stacks(path):
    """Folded stacks: half of each is one of 200 common paths."""
    choose = random.Random(1)
    names = [f"ns{i % 50}::Class{i}::m{i}" for i in range(FUNCTIONS)]
    with open(path, "w", encoding="ascii") as f:
        for _ in range(STACKS):
            depth, base = choose.randint(30, 60), choose.randrange(200)
            stack = [names[(base * 97 + k) % FUNCTIONS] for k in range(depth // 2)]
            stack += [names[choose.randrange(FUNCTIONS)] for _ in range(depth - depth // 2)]
            f.write(";".join(stack) + f" {choose.randint(1, 5)}\n")


def run(argv, env=None):
    """Text, CPU time and wall time in s, and the largest memory in MB of a child alone."""
    began = time.monotonic()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          env={**os.environ, **(env or {})}) as p:
        out = p.stdout.read()
        usage = os.wait4(p.pid, 0)[2]
    return out, usage.ru_utime + usage.ru_stime, time.monotonic() - began, usage.ru_maxrss / 1024


def values(text):
    """The first rows: function and cumulative number of samples."""
    rows = re.findall(r"^\s*\d+\s+\S+%?\s+(?:%\s+)?(?:\S+%\s+)?([\d,]+)\s+\S+%?\s+(?:%\s+)?(ns\S+)", text, re.M)
    return {name: int(cum.replace(",", "")) for cum, name in rows[:20]}


def bench_report():
    """CPU time and memory of a report of a large pprof, and of go tool pprof -top."""
    with tempfile.TemporaryDirectory() as d:
        folded, path = f"{d}/stacks.folded", f"{d}/stacks.pb.gz"
        write_stacks(folded)
        subprocess.run([AGENT, "report", "--output", path, folded], check=True)
        os.unlink(folded)
        raw = int(subprocess.run(f"gzip -dc {path} | wc -c", shell=True, capture_output=True, check=True).stdout)
        ours, theirs = [], []
        for _ in range(ROUNDS):
            ours.append(run([AGENT, "report", "--cum", path]))
            if shutil.which("go"):
                theirs.append(run(["go", "tool", "pprof", "-symbolize=none", "-top", "-cum", path],
                                  {"PPROF_TMPDIR": d, "PPROF_BINARY_PATH": d}))
        more = {}
        for name, rounds in (("ours", ours), ("pprof", theirs)):
            for i, what in enumerate(("cpu_s", "wall_s", "memory_mb"), 1):
                if rounds:
                    more[f"{name}_{what}"] = round(median([r[i] for r in rounds]), 2)
        if theirs:
            more["equal_rows"] = values(ours[0][0]) == values(theirs[0][0]) and len(values(ours[0][0]))
        emit("report", stacks=STACKS, raw_bytes=raw, pprof_bytes=os.path.getsize(path), **more)
