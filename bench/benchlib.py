# SPDX-License-Identifier: Apache-2.0
"""Shared by the benchmarks of bench/run."""
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROUNDS = int(os.environ.get("ROUNDS", "3"))
BUILD = sys.argv[1] if len(sys.argv) > 1 else "build"
AGENT = f"{BUILD}/src/cli/perf-agent"
SESSION = f"{BUILD}/bench/bench-session"
BASELINE = f"{BUILD}/bench/bench-baseline"
WORK = f"{BUILD}/tests/workloads"


class Workload:
    """A program of tests/workloads that prints "ready PID" first. It is killed by its pid."""

    def __init__(self, *args, cpu=None, wait=True):
        cmd = list(args)
        if cpu is not None:
            cmd = ["taskset", "-c", str(cpu)] + cmd
        self.p = subprocess.Popen(cmd, stdout=subprocess.PIPE, text=True)
        self.pid = 0
        if wait:
            self.ready()

    def ready(self):
        line = self.p.stdout.readline().split()
        if line[:1] != ["ready"]:
            sys.exit(f"bench: {self.p.args} is not ready: {line}")
        self.pid = int(line[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.p.kill()
        self.p.wait()


def emit(name, **figures):
    print(json.dumps({"bench": name, **figures}), flush=True)


def session(target, rate, seconds, stats=True, more=None):
    """One capture of bench-session. more: name of a second output. "output_bytes": sizes of both outputs."""
    with tempfile.TemporaryDirectory() as d:
        env = dict(os.environ)
        if not stats:
            env["NO_BPF_STATS"] = "1"
        paths = [f"{d}/p.pb.gz"] + ([f"{d}/{more}"] if more else [])
        out = subprocess.run([SESSION, str(target), str(rate), str(seconds), *paths], check=True, env=env, stdout=subprocess.PIPE,
                             text=True).stdout
        return {**json.loads(out), "output_bytes": [os.path.getsize(path) for path in paths]}


def baseline(what, rate, seconds, tgid=0):
    out = subprocess.run([BASELINE, what, str(rate), str(seconds), str(tgid)], check=True, stdout=subprocess.PIPE,
                         text=True).stdout
    return json.loads(out)


def median(values):
    return round(statistics.median(values), 3)


def spinners():
    return [Workload(f"{WORK}/spin", "--seconds", "600", cpu=c) for c in range(os.cpu_count())]


def hit_cost(total_ns, runs, hits, miss_ns):
    """Returns the mean cost of the runs that hit; the others return at the filter like an empty program."""
    return (runs * total_ns - (runs - hits) * miss_ns) / hits
