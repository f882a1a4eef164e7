# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of stacks through code without frame pointers: the parts walk, tables, startup, complete, short, remap
and peers of bench/run.

SECONDS (default 5): duration of each capture. Programs that are not installed are skipped and named in "absent".
"""
import glob
import gzip
import importlib.util
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from benchlib import AGENT, BUILD, ROUNDS, WORK, Workload, baseline, emit, hit_cost, median

SECONDS = int(os.environ.get("SECONDS", "5"))
TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))
MODES = ("plain", "no-walk-cache", "no-cache", "no-window", "no-inline", "fp")
# The cost of a sample without its frames.
FIXED_NS = 2000


def load_programs():
    """Returns the programs of the stack oracle: {name: function that returns its command for the current folder}."""
    path = os.path.join(TOP, "tests/oracle/test-stack-oracle.py")
    spec = importlib.util.spec_from_file_location("stack_oracle", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Program:
    """A real program at work: started in a folder of its own, after it has used some CPU time."""

    def __init__(self, name):
        oracle = load_programs()
        self.folder = tempfile.TemporaryDirectory(prefix="perf-agent-bench-")
        home = os.getcwd()
        os.chdir(self.folder.name)
        try:
            argv = clang_cc1() if name == "clang-cc1" else oracle.PROGRAMS[name]()
        except oracle.NotInstalled as e:
            raise FileNotFoundError(str(e)) from None
        finally:
            os.chdir(home)
        quiet = subprocess.DEVNULL
        self.p = subprocess.Popen(argv, cwd=self.folder.name, stdin=quiet, stdout=quiet, stderr=quiet)
        self.pid = self.p.pid
        while self.p.poll() is None and oracle.cpu_s(self.pid) < oracle.WARM_S:
            time.sleep(0.01)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.p.kill()
        self.p.wait()
        self.folder.cleanup()


def clang_cc1():
    """Returns the command of clang compiling C++ that includes much of the standard library, many times over."""
    clang = shutil.which("clang-19") or shutil.which("clang-14") or shutil.which("clang")
    if not clang:
        raise FileNotFoundError("clang is not installed")
    heads = "".join(f"#include <{h}>\n" for h in ("map", "regex", "iostream", "algorithm", "functional", "unordered_map",
                                                  "random", "thread"))
    body = "".join(f"struct T{i} {{ std::map<int, std::string> m; std::regex r; T{i}() : r(\"a{i}+\") {{}}\n"
                   f"  bool f(const std::string &s) {{ m[{i}] = s; return std::regex_match(s, r); }} }};\n"
                   f"bool g{i}(const std::string &s) {{ T{i} t; return t.f(s) || t.m.count({i}); }}\n" for i in range(12000))
    with open("big.cc", "w", encoding="utf-8") as f:
        f.write(heads + body)
    shown = subprocess.run([clang, "-###", "-O2", "-std=c++17", "-c", "big.cc", "-o", "/dev/null"], capture_output=True,
                           text=True, check=True).stderr
    line = next(part for part in shown.splitlines() if '"-cc1"' in part)
    return re.findall(r'"((?:[^"\\]|\\.)*)"', line)


def walk_cost(pid, rate, mode):
    """Returns (ns a sample, frames a sample, all values)."""
    out = subprocess.run([f"{BUILD}/bench/bench-walk", str(pid), str(rate), str(SECONDS), mode], check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    f = json.loads(out)
    return f["ns"] / f["samples"], f["frames"] / f["samples"], f


def kernel_cost(pid, rate, share):
    """Returns the ns of bpf_get_stack(USER) in a sample of a process that gets this share of all ticks."""
    empty = baseline("empty", rate, SECONDS)["ns_per_run"]
    k = baseline("get_stack", rate, SECONDS, pid)
    return hit_cost(k["ns_per_run"], 1, share, empty)


def walk_rates(name, pid, rates, share):
    """Prints one line a rate: for each mode ns a sample, and ns a frame beyond FIXED_NS, by its own depth: a program's
    work changes while it is measured."""
    for rate in rates:
        ns, depth = {m: [] for m in MODES}, {m: [] for m in MODES}
        kernel, last = [], {}
        for _ in range(ROUNDS):
            for mode in MODES:
                cost, frames, last[mode] = walk_cost(pid, rate, mode)
                ns[mode].append(cost)
                depth[mode].append(frames)
            kernel.append(kernel_cost(pid, rate, share))
        plain = last["plain"]
        found = plain["walk_cache_hits"] + plain["cache_hits"] + plain["cache_misses"]
        emit("walk", target=name, rate_hz=rate, samples=plain["samples"], depth=round(median(depth["plain"]), 1),
             ns_per_sample={m: round(median(ns[m])) for m in MODES},
             ns_per_frame={m: round((median(ns[m]) - FIXED_NS) / median(depth[m]), 1) for m in MODES if m != "fp"},
             get_stack_ns=round(median(kernel)), new_stacks_pct=round(100 * plain["stacks"] / plain["samples"], 1),
             walk_cache_pct=round(100 * plain["walk_cache_hits"] / max(found, 1), 1),
             cache_pct=round(100 * plain["cache_hits"] / max(found, 1), 1),
             heuristic_pct=round(100 * plain["heuristic"] / plain["frames"], 3))


def bench_walk():
    """The cost of a sample of 32 frames without frame pointers, and of real programs. get_stack: the kernel's own walk by
    frame pointers of the same target. In code without frame pointers it is cheap because it ends at once."""
    for name in ("chain-nofp", "chain"):
        with Workload(f"{WORK}/{name}", "--distinct", "--depth", "32", "--seconds", "6000", cpu=0) as w, \
                Workload(f"{WORK}/spin", "--seconds", "6000", cpu=1):
            walk_rates(name, w.pid, (9999, 999, 99), 0.5)
    for name in ("clang-cc1", "python3", "node"):
        for rate in (999, 99):
            try:
                with Program(name) as p:
                    walk_rates(name, p.pid, (rate,), 1 / os.cpu_count())
            except FileNotFoundError as e:
                emit("walk", target=name, absent=str(e))


def bench_tables():
    """The cost of building and installing one table. LLVM_LIBS: other files."""
    files = os.environ.get("LLVM_LIBS", "").split() or sorted(
        {os.path.realpath(f) for f in glob.glob("/usr/lib/llvm-*/lib/libLLVM*.so*") +
         glob.glob("/usr/lib/llvm-*/lib/libclang-cpp.so*") + glob.glob("/usr/lib/*-linux-gnu/libc.so.6")})
    for file in files:
        out = subprocess.run([f"{BUILD}/bench/bench-tables", file, str(ROUNDS)], check=True, stdout=subprocess.PIPE,
                             text=True).stdout
        emit("tables", **json.loads(out))


def strings(data):
    """Yields the string table of profile.proto: field 6 of its top level."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            varint()
            continue
        size = varint()
        if key >> 3 == 6:
            yield data[at:at + size].decode("utf-8", "replace")
        at += size


def comments(path):
    """Returns {key: value} of a profile's comments."""
    sys.path.insert(0, os.path.join(TOP, "tests/live"))
    from commentlib import unpacked
    with gzip.open(path) as f:
        packed = [s for s in strings(f.read()) if s.startswith("# perf-agent: ")]
    return dict(s.split(": ", 1) for s in unpacked(packed))


def distinct_files(folder, n):
    """Makes n copies of a program, each with its own build-id; returns their paths."""
    source = f"{WORK}/chain-nofp"
    with open(source, "rb") as f:
        data = f.read()
    ident = bytes.fromhex(re.search(r"Build ID: ([0-9a-f]+)", subprocess.run(
        ["readelf", "-n", source], check=True, stdout=subprocess.PIPE, text=True).stdout)[1])
    at = data.index(ident)
    paths = []
    for i in range(n):
        path = os.path.join(folder, f"program-{i:03}")
        with open(path, "wb") as f:
            f.write(data[:at] + i.to_bytes(len(ident), "little") + data[at + len(ident):])
        os.chmod(path, 0o755)
        paths.append(path)
    return paths


def startup(target, rate, seconds):
    out = subprocess.run([f"{BUILD}/bench/bench-startup", str(target), str(rate), str(seconds), "/dev/null"], check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out)


def bench_startup():
    """--pid: time from exec to sampling, with the share of complete stacks in the first 300 ms. -a: PROCESSES (500) of
    FILES (300) programs that are all busy: time to sampling, to the last walk without a table, and from the stop to the
    file on disk."""
    processes, files = int(os.environ.get("PROCESSES", "500")), int(os.environ.get("FILES", "300"))
    with Program("python3") as p, tempfile.TemporaryDirectory() as d:
        ms, complete = [], []
        for _ in range(ROUNDS):
            f = startup(p.pid, 999, 0.3)
            ms.append(f["sampling_ms"])
            subprocess.run([AGENT, "--profile", "--pid", str(p.pid), "--duration", "300ms", "--sample-rate", "999",
                            "--profile-output", f"{d}/p"], check=True, stderr=subprocess.DEVNULL)
            complete.append(float(comments(f"{d}/p")["complete_stacks_pct"]))
        emit("startup", target="pid", program="python3", sampling_ms=median(ms), complete_pct=median(complete),
             limit_ms=50)
    with tempfile.TemporaryDirectory() as d:
        paths = distinct_files(d, files)
        running = []
        try:
            for i in range(processes):
                # Idle priority: they share the CPU time that is left, and the agent need not compete with 500 busy programs.
                running.append(Workload("chrt", "--idle", "0", paths[i % files], "--depth", "20", "--seconds", "600",
                                        wait=False))
            for w in running:
                w.ready()
            f = startup("all", 999, 2 * SECONDS)
        finally:
            for w in running:
                w.__exit__()
        emit("startup", target="all", processes=processes, files=files,
             **{k: f[k] for k in ("start_ms", "sampling_ms", "all_tables_ms", "stop_ms", "samples_seen", "samples_deferred",
                                  "walks_without_table", "frames_walked", "frames_heuristic", "deferred_ring_full",
                                  "deferred_over_quota")})


def bench_complete():
    """The share of complete stacks, by weight, of each program at 199 Hz."""
    for name in ["clang-cc1"] + list(load_programs().PROGRAMS):
        try:
            with Program(name) as p, tempfile.TemporaryDirectory() as d:
                subprocess.run([AGENT, "--profile", "--pid", str(p.pid), "--duration", f"{SECONDS}s", "--sample-rate", "199",
                                "--profile-output", f"{d}/p"], check=True, stderr=subprocess.DEVNULL)
                c = comments(f"{d}/p")
        except FileNotFoundError as e:
            emit("complete", program=name, absent=str(e))
            continue
        emit("complete", program=name, samples=int(c["samples_seen"]), complete_pct=float(c["complete_stacks_pct"]),
             heuristic_pct=float(c.get("heuristic_stacks_pct", 0)), jit_pct=float(c.get("jit_stacks_pct", 0)),
             limit_pct=99.9)


def children_cpu():
    r = resource.getrusage(resource.RUSAGE_CHILDREN)
    return r.ru_utime + r.ru_stime


def perf_stacks(data):
    """Returns (samples, samples whose stack ends in _start) of a perf.data file."""
    samples = whole = 0
    p = subprocess.Popen(["perf", "script", "-F", "comm,ip,sym", "-i", data], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, text=True, errors="replace")
    last = None
    for line in p.stdout:
        if line.strip():
            last = line
        elif last is not None:
            samples += 1
            whole += "_start" in last
            last = None
    p.wait()
    return samples, whole


def bench_short():
    """CHILDREN (2,000) processes of 30 ms each, one after another, at 99 Hz: complete stacks and bytes, compared with
    perf record --call-graph dwarf."""
    children = int(os.environ.get("CHILDREN", "2000"))
    command = [f"{WORK}/forks", "--children", str(children), "--child-ms", "30", "--exec", "--seconds", "600"]
    quiet = subprocess.DEVNULL
    with tempfile.TemporaryDirectory() as d:
        subprocess.run([AGENT, "--profile", "--profile-output", f"{d}/p", "--"] + command, check=True, stdout=quiet,
                       stderr=quiet)
        ours = comments(f"{d}/p")
        seen = int(ours["samples_seen"])
        figures = {"children": children, "samples": seen,
                   "complete": round(seen * float(ours["complete_stacks_pct"]) / 100),
                   "bytes": os.path.getsize(f"{d}/p")}
        if shutil.which("perf"):
            subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-F", "99", "--call-graph", "dwarf", "-o", f"{d}/perf",
                            "--"] + command, check=True, stdout=quiet, stderr=quiet)
            samples, whole = perf_stacks(f"{d}/perf")
            size = os.path.getsize(f"{d}/perf")
            figures.update(perf_samples=samples, perf_complete=whole, perf_bytes=size,
                           complete_ratio=round(figures["complete"] / max(whole, 1), 3),
                           bytes_ratio=round(figures["bytes"] / size, 4))
        else:
            figures["absent"] = "perf is not installed"
    emit("short", **figures)


def load_live():
    """Returns the module of the live tests that reads profiles and knows programs that publish their stacks."""
    sys.path.insert(0, os.path.join(TOP, "tests/live"))
    spec = importlib.util.spec_from_file_location("live_tables", os.path.join(TOP, "tests/live/test-live-tables.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bench_remap():
    """Another file is mapped over running code, REMAPS (30) times, each time by a new thread: CPU time of that thread in
    which its samples show the old file or an incomplete stack."""
    remaps, first = int(os.environ.get("REMAPS", "30")), 2  # the first ones build tables
    live = load_live()
    shapes = f"{WORK}/shapes"
    files = [live.entry(f"{shapes}/libshape.so"), live.entry(f"{shapes}/libtwin.so", "twin_outer")]
    with Workload(f"{shapes}/shape-tables", "--shape", "remaps", "--seconds", "600", "--file", ":".join(files)) as w, \
            tempfile.TemporaryDirectory() as d:
        subprocess.run([AGENT, "--profile", "--pid", str(w.pid), "--duration", f"{(remaps + first + 2) * 0.14:.2f}s",
                        "--sample-rate", "2999", "--profile-output", f"{d}/p"], check=True, stderr=subprocess.DEVNULL)
        samples = live.load(f"{d}/p").samples
    before = {"swap_a": "libtwin.so", "swap_b": "libshape.so"}
    wrong_ms = {}
    for s in samples:
        if s.tid == w.pid:
            continue
        mapped = {os.path.basename(f.mapping.path) for f in s.user if f.mapping}
        stale = any(caller in s.names and file in mapped for caller, file in before.items())
        wrong = stale or "remaps_first" not in s.names
        wrong_ms[s.tid] = wrong_ms.get(s.tid, 0) + wrong * s.ns / 1e6
    ms = [wrong_ms[tid] for tid in sorted(wrong_ms)][first:-1]
    emit("remap", replacements=len(ms), median_ms=median(ms), max_ms=round(max(ms), 3), limit_ms=100)


WORK_LOOP = '''
import re, sys, time
def f(n): return f(n - 1) if n else len(re.findall("[0-9]+", "a1b22c333" * 60))
sys.stdin.readline()
t = time.process_time()
for i in range(int(sys.argv[1])): f(30)
print(time.process_time() - t)
'''


def timed_work(tool):
    """Returns the CPU seconds of a fixed piece of work under a tool, and those of the tool."""
    p = subprocess.Popen(["taskset", "-c", "0", "/usr/bin/python3", "-c", WORK_LOOP, str(SECONDS * 12000)],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    before = children_cpu()
    t = None
    if tool:
        t = subprocess.Popen([a.replace("PID", str(p.pid)) for a in tool], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
        time.sleep(2)  # tools start at their own pace; the work begins after that
    p.stdin.write("\n")
    p.stdin.flush()
    seconds = float(p.stdout.readline())
    if t:
        t.send_signal(signal.SIGINT)
        t.wait()
    cost = children_cpu() - before
    p.stdin.close()
    p.wait()
    return seconds, cost


def bench_peers():
    """The same work alone and under each tool at 999 Hz: its slow-down, CPU time of the tool, bytes of its output."""
    with tempfile.TemporaryDirectory() as d:
        perf = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "999", "-p", "PID", "-o", f"{d}/out"]
        tools = {
            "perf-agent": [AGENT, "--profile", "--pid", "PID", "--sample-rate", "999", "--profile-output", f"{d}/out"],
            "perf record -g": perf + ["-g"],
            "perf record --call-graph dwarf": perf + ["--call-graph", "dwarf"],
            "bpftrace ustack": ["bpftrace", "-o", f"{d}/out", "-e",
                                "profile:hz:999 /pid == PID/ { @[ustack()] = count(); }"],
        }
        present = {k: v for k, v in tools.items() if shutil.which(v[0]) or os.path.exists(v[0])}
        seconds = {k: [] for k in ["alone", *present]}
        cost, size = {}, {}
        for _ in range(ROUNDS):
            for name in seconds:
                if os.path.exists(f"{d}/out"):
                    os.unlink(f"{d}/out")
                s, c = timed_work(present.get(name))
                seconds[name].append(s)
                cost[name] = c
                size[name] = os.path.getsize(f"{d}/out") if os.path.exists(f"{d}/out") else 0
        alone = median(seconds["alone"])
        for name in present:
            emit("peers", tool=name, rate_hz=999, work_s=median(seconds[name]),
                 slower_pct=round(100 * (median(seconds[name]) / alone - 1), 2), tool_cpu_s=round(cost[name], 3),
                 bytes=size[name])
        for name in set(tools) - set(present):
            emit("peers", tool=name, absent="not installed")
    sys.stdout.flush()
