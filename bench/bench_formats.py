# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of files with samples one by one: the part formats of bench/run.

perf.data of perf-agent compared with that of perf record -g, of the same program at the same rate: bytes per 1,000 samples,
and CPU time of either program. bench-perf-data writes samples that are made, so its times are those of the writer alone.
"absent" lists what is not installed.
"""
import os
import re
import resource
import shutil
import subprocess
import tempfile

from benchlib import AGENT, BUILD, ROUNDS, WORK, Workload, emit, median

RATE_HZ = 999
SECONDS = 4


def cpu_of(argv):
    """CPU time of a command, in ms."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def samples_in(path):
    out = subprocess.run(["perf", "report", "-i", path, "--stats"], capture_output=True, text=True, check=True).stdout
    return int(re.search(r"SAMPLE events:\s+(\d+)", out).group(1))


def bench_formats():
    """perf.data: bytes per 1,000 samples, CPU time of the writer alone and of whole captures, compared with perf record."""
    more, absent = {}, []
    out = subprocess.run([f"{BUILD}/bench/bench-perf-data"], stdout=subprocess.PIPE, text=True, check=True).stdout
    for name, size, ms in re.findall(r"^(\S+)\s+\d+ bytes\s+(\d+) bytes/1,000 samples\s+([\d.]+) ms CPU$", out, re.M):
        more[f"made_{name}_bytes"], more[f"made_{name}_ms"] = int(size), float(ms)
    if not shutil.which("perf"):
        emit("formats", rate_hz=RATE_HZ, absent=["perf"], **more)
        return
    figures = {}
    with tempfile.TemporaryDirectory() as d, Workload(f"{WORK}/chain", "--depth", "25", "--seconds", "600", cpu=0) as w:
        agent = [AGENT, "--profile", "--pid", str(w.pid), "--duration", f"{SECONDS}s", "--sample-rate", str(RATE_HZ), "--profile-output",
                 f"{d}/p.pb.gz"]
        peers = {
            "pprof": (agent, None),
            "classic": ([*agent, "--perf-data-output", f"{d}/a.data"], f"{d}/a.data"),
            "zstd": ([*agent, "--perf-data-output", f"{d}/z.data", "--perf-data-compress", "zstd"], f"{d}/z.data"),
            "perf_record": (["perf", "record", "-g", "-e", "cpu-clock", "-F", str(RATE_HZ), "-p", str(w.pid), "-o",
                             f"{d}/r.data", "--", "sleep", str(SECONDS)], f"{d}/r.data"),
        }
        for _ in range(ROUNDS):
            for name, (argv, path) in peers.items():
                figures.setdefault(f"{name}_cpu_ms", []).append(cpu_of(argv))
                if path:
                    figures.setdefault(f"{name}_bytes", []).append(os.path.getsize(path) * 1000 / samples_in(path))
    more.update({k: round(median(v), 1) for k, v in figures.items()})
    emit("formats", rate_hz=RATE_HZ, seconds=SECONDS, absent=absent, **more)
