# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of names, lines and inlined calls: the parts lines and binaries of bench/run.

Compared with libdw (bench-libdw), llvm-symbolizer, addr2line and blazecli (a Rust crate; BLAZECLI: its path), whichever
are installed, on the same addresses in the same run. "absent" lists those that are not.
"""
import glob
import json
import os
import random
import re
import shutil
import subprocess
import tempfile

from benchlib import BUILD, ROUNDS, emit, median

LINES = f"{BUILD}/bench/bench-lines"
LIBDW = f"{BUILD}/bench/bench-libdw"
SYMBOLS = f"{BUILD}/bench/bench-symbolize"
UNITS = 8
COPIES = 10  # of each unit, in the large program

SOURCE = """
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>
namespace unit{i} {{
struct item {{
	int a; std::string b; double c;
	bool operator<(const item &o) const {{ return a < o.a; }}
}};
int run(int n)
{{
	std::vector<item> v;
	std::map<std::string, item> m;
	std::unordered_map<int, std::vector<item>> u;
	std::set<item> s;
	for (int i = 0; i < n; i++) {{
		item it{{i * {i} + 7, std::to_string(i), 1.0 / (i + 1)}};
		v.push_back(it); m[it.b] = it; u[i % 7].push_back(it); s.insert(it);
	}}
	std::stable_sort(v.begin(), v.end(), [](auto &x, auto &y) {{ return x.b < y.b; }});
	std::regex re("([a-z]+)[0-9]*({i}|x+)");
	std::smatch sm;
	std::string t = "abc{i}";
	int k = std::regex_search(t, sm, re);
	std::ostringstream os;
	for (auto &p : m)
		os << p.first << p.second.a;
	std::function<int(int)> f = [&](int x) {{ return x + k; }};
	auto sp = std::make_shared<item>(v[0]);
	return f((int)os.str().size()) + sp->a + (int)u.size() + (int)s.size();
}}
}}
"""


def cxx_program(folder):
    """Builds a C++ program of several units that share most of their templates; returns its path."""
    objects = []
    for i in range(UNITS):
        path = f"{folder}/unit{i}.cc"
        with open(path, "w", encoding="ascii") as f:
            f.write(SOURCE.format(i=i))
        objects.append(path[:-2] + "o")
        subprocess.run(["g++", "-O2", "-g", "-c", path, "-o", objects[-1]], check=True)
    with open(f"{folder}/main.cc", "w", encoding="ascii") as f:
        f.write("".join(f"namespace unit{i} {{ int run(int); }}\n" for i in range(UNITS)))
        f.write("int main() { int t = 0; " + "".join(f"t += unit{i}::run(9); " for i in range(UNITS)) + "return t & 1; }\n")
    subprocess.run(["g++", "-O2", "-g", f"{folder}/main.cc", *objects, "-o", f"{folder}/program"], check=True)
    return f"{folder}/program"


def large_program(folder):
    """The program of cxx_program with each unit COPIES times: functions of templates once, debug information each time."""
    objects = []
    for i in range(UNITS):
        run = f"_ZN5unit{i}3runEi"
        objects.append(f"{folder}/unit{i}.o")
        for k in range(1, COPIES):
            objects.append(f"{folder}/unit{i}_{k}.o")
            subprocess.run(["objcopy", "--redefine-sym", f"{run}={run}_{k}", objects[-k - 1], objects[-1]], check=True)
    subprocess.run(["g++", "-O2", "-g", f"{folder}/main.cc", *objects, "-o", f"{folder}/large"], check=True)
    return f"{folder}/large"


def text_addresses(path, n):
    """Returns n random addresses of .text."""
    out = subprocess.run(["readelf", "-SW", path], check=True, stdout=subprocess.PIPE, text=True).stdout
    m = re.search(r"\s\.text\s+PROGBITS\s+([0-9a-f]+)\s+[0-9a-f]+\s+([0-9a-f]+)", out)
    start, size = int(m[1], 16), int(m[2], 16)
    return sorted(random.Random(1).sample(range(start, start + size), min(n, size)))


def cost(argv, addresses):
    """Returns the CPU seconds and peak memory of a program that reads addresses."""
    text = "".join(f"{a:#x}\n" for a in addresses)
    with tempfile.NamedTemporaryFile("w") as f:
        f.write(text)
        f.flush()
        with open(f.name, encoding="ascii") as stdin:
            p = subprocess.Popen(argv, stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(p.pid, 0)
            p.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def decode(program, mode, path, addresses):
    """One run of bench-lines or bench-libdw."""
    text = "".join(f"{a:#x}\n" for a in addresses)
    out = subprocess.run([program, mode, path], input=text, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out)


def ours(mode, path, addresses):
    return decode(LINES, mode, path, addresses)


def compare_libdw(path, addresses):
    """DWARF alone, read by our code and by libdw, in turn: CPU time, memory, and the ratio of each round."""
    got = {"dwarf": [], "libdw": [], "libdw_confined": []}
    for _ in range(ROUNDS):
        got["dwarf"].append(ours("dwarf", path, addresses))
        got["libdw"].append(decode(LIBDW, "here", path, addresses))
        got["libdw_confined"].append(decode(LIBDW, "confined", path, addresses))
    figures = {}
    for name, runs in got.items():
        figures[name + "_cpu_s"] = median(r["cpu_s"] for r in runs)
        figures[name + "_mb"] = round(median(r["peak_kb"] for r in runs) / 1024, 1)
    figures["libdw_anon_mb"] = round(median(r["anon_kb"] for r in got["libdw"]) / 1024, 1)
    figures["libdw_cpu_ratio"] = median(b["cpu_s"] / a["cpu_s"] for a, b in zip(got["dwarf"], got["libdw"]))
    return figures


def bench_lines():
    """20,000 addresses of a C++ program with lines and inlined calls, each program in turn; and libdw on the same program
    with ten times as many units. libdw_scopes: 200 of the addresses, by dwarf_getscopes for each, as eu-addr2line does."""
    blazecli = os.environ.get("BLAZECLI") or shutil.which("blazecli") or os.path.expanduser("~/.cargo/bin/blazecli")
    with tempfile.TemporaryDirectory() as folder:
        path = cxx_program(folder)
        addresses = text_addresses(path, 20000)
        hexed = [f"{a:#x}" for a in addresses]
        peers = {
            "llvm-symbolizer": ["llvm-symbolizer", "--inlining", "--functions=linkage", f"--obj={path}"],
            "addr2line": ["addr2line", "-i", "-f", "-e", path],
            "blazecli": [blazecli, "symbolize", "elf", "--path", path, *hexed],
        }
        absent = [name for name, argv in peers.items() if not shutil.which(argv[0])]
        got = {}
        for _ in range(ROUNDS):
            for mode in ("here", "process", "symbols"):
                o = ours(mode, path, addresses)
                got.setdefault(mode, []).append((o["cpu_s"], max(o["peak_kb"], o["process_peak_kb"])))
            for name, argv in peers.items():
                if name not in absent:
                    got.setdefault(name, []).append(cost(argv, addresses))
        figures = {}
        for name, runs in got.items():
            key = name.replace("-", "_")
            figures[key + "_cpu_s"] = median([r[0] for r in runs])
            figures[key + "_mb"] = round(median([r[1] for r in runs]) / 1024, 1)
        libdw = os.path.exists(LIBDW)
        if libdw:
            figures.update(compare_libdw(path, addresses))
            some = addresses[::100]
            scopes = [decode(LIBDW, "scopes", path, some)["cpu_s"] for _ in range(ROUNDS)]
            figures["libdw_scopes_ms_per_address"] = round(1000 * median(scopes) / len(some), 2)
        else:
            absent.append("libdw")
        emit("lines", addresses=len(addresses), file_mb=round(os.path.getsize(path) / 1e6, 1), absent=absent, **figures)
        if libdw:
            path = large_program(folder)
            addresses = text_addresses(path, 20000)
            emit("lines_large", addresses=len(addresses), file_mb=round(os.path.getsize(path) / 1e6, 1),
                 process_mb=round(ours("process", path, addresses)["process_peak_kb"] / 1024, 1),
                 **compare_libdw(path, addresses))


def bench_binaries():
    """Names of 100,000 addresses over 50 installed files, and of 20,000 addresses of libLLVM."""
    files, seen = [], set()
    for pattern in ("/usr/bin/*", "/usr/lib/*-linux-gnu/*.so.*"):
        for path in sorted(glob.glob(pattern)):
            real = os.path.realpath(path)
            if not os.path.isfile(real):
                continue
            with open(real, "rb") as f:
                elf = f.read(4) == b"\x7fELF"
            if elf and real not in seen and os.path.getsize(real) > 200000:
                seen.add(real)
                files.append(real)
    files = files[:50]
    cpu, peak, n = [], 0, 0
    for _ in range(ROUNDS):
        one = 0
        n = 0
        for path in files:
            addresses = text_addresses(path, 100000 // len(files))
            o = ours("process", path, addresses)
            one += o["cpu_s"]
            n += o["addresses"]
            peak = max(peak, o["peak_kb"], o["process_peak_kb"])
        cpu.append(one)
    emit("binaries", files=len(files), addresses=n, cpu_s=median(cpu), peak_mb=round(peak / 1024, 1), limit_s=1)
    for path in sorted({os.path.realpath(f) for f in glob.glob("/usr/lib/llvm-*/lib/libLLVM*.so*")}):
        out = subprocess.run([SYMBOLS, path, "20000"], check=True, stdout=subprocess.PIPE, text=True).stdout
        emit("libllvm", file=os.path.basename(path), **{k: v for k, v in json.loads(out).items() if k != "bench"},
             limit_cpu_s=0.05, limit_kb=8192)
