#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Our perf.data in the tools that read it: perf of Debian 12 and a newer one, AutoFDO, hotspot's parser.

usage: test-perf-data-oracle.py PERF_DATA_DRIVER READERS

The driver writes captures made of tables as perf.data, and as text what is in them; each value of the text must come
back from every reader, and no reader may warn. READERS is the folder of tools/fetch-readers. Output is TAP.
"""

import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

results = []
Sample = collections.namedtuple("Sample", "event comm pid tid cpu time period frames")
KALLSYMS = """ffffffff81000000 T _text
ffffffff81000000 T _stext
ffffffff81001000 T kd_leaf
ffffffff81002000 T kd_entry
ffffffff81003000 T kd_end
ffffffff82000000 T _etext
"""
KERNEL_NAMES = {0xffffffff81001010: "kd_leaf", 0xffffffff81002010: "kd_entry",
                0xffffffffc0001008: "bpf_prog_0011223344556677_probe"}


def report(ok, what):
    results.append(ok)
    print(f"{'ok' if ok else 'not ok'} {len(results)} - {what}", flush=True)


def skip(what, why):
    results.append(True)
    print(f"ok {len(results)} - {what} # SKIP {why}", flush=True)


def note(text):
    for line in str(text).splitlines():
        print(f"# {line!r}", flush=True)


def equal(got, want, what):
    if got != want:
        note(f"got  {got}")
        note(f"want {want}")
    report(got == want, what)


def run(*command, env=None):
    """(exit status, standard output, standard error), as text; bytes that are not UTF-8 are kept."""
    r = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False,
                       env={**os.environ, "LC_ALL": "C.UTF-8", "HOME": os.getcwd(), "PERF_PAGER": "cat", **(env or {})})
    return r.returncode, r.stdout.decode("utf-8", "surrogateescape"), r.stderr.decode("utf-8", "surrogateescape")


def text(digits):
    return bytes.fromhex(digits).decode("utf-8", "surrogateescape")


class Capture:
    """A file of the driver, and what it says is in it."""

    def __init__(self, driver, name, *arguments):
        self.path = f"{name}.data"
        listing = f"{name}.jsonl"
        subprocess.run([driver, name, self.path, listing, *map(str, arguments)], check=True)
        self.rows, self.names = [], dict(KERNEL_NAMES)
        with open(listing, encoding="ascii") as f:
            for line in f:
                tag, *v = json.loads(line)
                if tag == "sample":
                    self.rows.append(v)
                elif tag == "self":
                    self.file, self.build_id = text(v[0]), v[1]
                elif tag == "code":
                    functions = ("driver_outer", "driver_middle", "driver_leaf_a", "driver_leaf_b")
                    self.names.update(zip(v, functions))

    def samples(self):
        for event, comm, pid, tid, cpu, time, period, kernel, user in self.rows:
            frames = tuple(self.names[a] for a in kernel + user)
            yield Sample(text(event), text(comm), pid, tid, cpu, time, period, frames)


# ---- perf -----------------------------------------------------------------------------------------------------------

HEAD = re.compile(r"(.*?)\s+(\d+)/(\d+)\s+\[(\d+)\]\s+(\d+)\.(\d{9}):\s+(\d+)\s+(\S+?):\s*$")
FRAME = re.compile(r"\s+(?:[0-9a-f]+ )?(\S+)\s*$")


class Perf:
    def __init__(self, name, path, env=None):
        self.name, self.path, self.env = name, path, env

    def run(self, command, capture, *options):
        """Standard output of a command of perf, which must neither fail nor say anything on standard error."""
        rc, out, err = run(self.path, command, "-i", capture.path, *options, env=self.env)
        if rc or err.strip():
            note(f"{self.name} {command} {' '.join(options)}: exit status {rc}")
            note(err)
            report(False, f"{self.name}: {command} of {capture.path} without a warning")
        return out

    def script(self, capture):
        """The samples as perf script prints them."""
        samples, head, frames = [], None, []
        out = self.run("script", capture, "--ns", "--kallsyms", "kallsyms", "-F",
                       "comm,pid,tid,cpu,time,event,period,ip,sym")
        for line in out.split("\n") + [""]:
            match = HEAD.match(line)
            if match:
                comm, pid, tid, cpu, s, ns, period, event = match.groups()
                head = (event, comm, int(pid), int(tid), int(cpu), int(s) * 10**9 + int(ns), int(period))
                frames = []
            elif line.strip() and head:
                frames.append(FRAME.match(line).group(1))
            elif head:
                samples.append(Sample(*head, tuple(frames)))
                head = None
        return samples


def check_samples(perf, capture):
    got, want = perf.script(capture), list(capture.samples())
    for g, w in zip(got, want):
        if g != w:
            note(f"got  {g}")
            note(f"want {w}")
            break
    report(len(want) > 0 and got == want, f"{perf.name}: all {len(want)} samples of {capture.path} are as they were made")


def check_header(perf, capture):
    out = perf.run("script", capture, "--header-only")
    wants = ("# hostname : test-host", "# os release : 6.1.0-test", "# perf version : perf-agent test", "# arch : x86_64",
             "# nrcpus online : 3", "# nrcpus avail : 4", "# cpudesc : A Processor, of 3 GHz",
             "# cpuid : GenuineTest,6,85,7", "# total memory : 16384 kB", "# cmdline : perf-agent --perf-data-output x y.data",
             "# event : name = cpu-clock,", "# event : name = offcpu-time,", "# time of first" " sample : 1000.000001",
             "# time of last sample : 1000.000009", "# clockid: monotonic (1)")
    missing = [w for w in wants if w not in out]
    equal(missing, [], f"{perf.name}: header")


def check_build_ids(perf, capture):
    lines = sorted(perf.run("buildid-list", capture).split("\n")[:-1])
    equal(lines, sorted([f"{'ab' * 20} [kernel.kallsyms]", f"{capture.build_id} {capture.file}"]),
          f"{perf.name}: build-ids")


def table(out):
    """{(event, columns but the first two): (period, samples)} of perf report -t '|'"""
    rows, event = {}, None
    for line in out.split("\n"):
        match = re.match(r"# Samples: .* of event '(.*)'", line)
        if match:
            event = match.group(1)
        elif line.strip() and not line.startswith("#"):
            period, samples, *rest = (c.strip() for c in line.split("|"))
            rows[(event, *rest)] = (int(period), int(samples))
    return rows


def check_report(perf, capture):
    out = perf.run("report", capture, "--stdio", "--no-children", "-g", "none", "--kallsyms", "kallsyms", "-t", "|", "-F",
                   "period,sample,pid,cpu,sym", "--percentage", "absolute", "-C", "0-3")
    want = collections.defaultdict(lambda: [0, 0])
    for s in capture.samples():
        kernel = s.frames and s.frames[0] in KERNEL_NAMES.values()
        where = "[k]" if kernel or not s.frames else "[.]"
        key = (s.event, f"{s.tid}", f"{s.cpu}", f"{where} {s.frames[0] if s.frames else '0000000000000000'}")
        want[key][0] += s.period
        want[key][1] += 1
    got = collections.defaultdict(lambda: [0, 0])
    for (event, thread, cpu, sym), sums in table(out).items():
        key = (event, re.match(r"\d+", thread).group(), cpu.lstrip("0") or "0", sym)
        got[key] = [a + b for a, b in zip(got[key], sums)]
    equal(dict(got), dict(want), f"{perf.name}: report has every period and sample, with -C too")


def stats(perf, capture):
    """{event or "": {kind: number}}, from report --stats."""
    found, event = {"": {}}, ""
    _, out, _ = run(perf.path, "report", "-i", capture.path, "--stats", env=perf.env)
    for line in out.split("\n"):
        if line.endswith("stats:") and not line.startswith("Aggregated"):
            event = line.split(" ")[0]
            found[event] = {}
        match = re.match(r"\s+(\S+) events:\s+(\d+)", line)
        if match:
            found[event][match.group(1)] = int(match.group(2))
    return found


def check_packed(perf, many, packed):
    """Compressed records give what classic ones give, to the byte. (Addresses of the driver differ from run to run.)"""
    texts = [perf.run("script", c, "--ns", "--kallsyms", "kallsyms", "-F", "comm,pid,tid,cpu,time,event,period,sym")
             for c in (many, packed)]
    report(len(texts[0]) > 1000000 and texts[0] == texts[1], f"{perf.name}: compressed records are read as classic ones")
    small, large = (os.path.getsize(c.path) for c in (packed, many))
    report(small * 4 < large, f"{perf.name}: {large} bytes are {small} compressed")


def check_stats(perf, basic, lost, many, times):
    want = {"MMAP": 1, "COMM": 6, "EXIT": 1, "FORK": 3, "SAMPLE": 10, "MMAP2": 3, "KSYMBOL": 1, "FINISHED_ROUND": 1}
    got = stats(perf, basic)
    got[""].pop("TOTAL", None)
    equal(got[""], want, f"{perf.name}: numbers of records")
    got = stats(perf, many)
    equal((got["cpu-clock"]["SAMPLE"], got["offcpu-time"]["SAMPLE"]), (8 * times, 2 * times),
          f"{perf.name}: all of {10 * times} samples")
    report(got[""]["FINISHED_ROUND"] > 10, f"{perf.name}: a large file has marks up to which it is in order")
    got = stats(perf, lost)
    equal((got[""].get("LOST_SAMPLES"), got[""].get("LOST")), (1, 1), f"{perf.name}: lost samples and records")
    _, _, err = run(perf.path, "report", "-i", lost.path, "--stdio", env=perf.env)
    report("lost" in err, f"{perf.name}: report warns of losses, as of perf's own")


def check_hostile(perf, capture):
    out = perf.run("script", capture, "-F", "comm,pid,tid,cpu,time,event,period,ip,sym", "--ns", "--kallsyms", "kallsyms")
    controls = {c for c in out if (ord(c) < 0x20 and c not in "\n\t") or 0x7f <= ord(c) < 0xa0}
    equal(controls, set(), f"{perf.name}: hostile names have no control characters")
    out = perf.run("script", capture, "--show-mmap-events", "--kallsyms", "kallsyms")
    report("/tmp/evil\n\x1b[2J<b>'\";.so" in out, f"{perf.name}: hostile paths are those of the files")
    got, want = perf.script(capture), list(capture.samples())
    # perf pads names with blanks, and shows an empty one as ":TID" or as nothing.
    squeeze = [s._replace(comm=s.comm.strip() or f":{s.tid}") for s in got]
    equal([s._replace(comm=s.comm.lstrip(":").strip() or str(s.tid)) for s in squeeze],
          [s._replace(comm=s.comm.strip() or str(s.tid)) for s in want], f"{perf.name}: hostile names are text")


def check_empty(perf, capture):
    rc, out, err = run(perf.path, "script", "-i", capture.path, env=perf.env)
    equal((rc, out, err), (0, "", ""), f"{perf.name}: a file without samples")


def check_folded(perf, capture):
    """Stacks as stackcollapse-perf.pl makes them of the text of perf script: blank lines part samples."""
    want, got = collections.Counter(), collections.Counter()
    for s in capture.samples():
        want[";".join((s.comm, *reversed(s.frames)))] += 1
    head, stack = None, []
    out = perf.run("script", capture, "--kallsyms", "kallsyms")
    for line in out.split("\n"):
        if not line.strip():
            if head is not None:
                got[";".join((head, *stack))] += 1
            head, stack = None, []
        elif line[0].isspace() and head is not None:
            stack.insert(0, re.match(r"\s*[0-9a-f]+ (\S+?)(?:\+0x[0-9a-f]+)? \(.*\)$", line).group(1))
        else:
            head = re.match(r"\s*(\S.*?)\s+\d+ \[\d+\] ", line).group(1)
    equal(got, want, f"{perf.name}: folded from the text of perf script")


def check_perf(perf, captures, times):
    basic, lost, hostile, empty, many, packed = captures
    check_samples(perf, basic)
    check_header(perf, basic)
    check_build_ids(perf, basic)
    check_report(perf, basic)
    check_stats(perf, basic, lost, many, times)
    check_packed(perf, many, packed)
    check_hostile(perf, hostile)
    check_empty(perf, empty)
    check_folded(perf, basic)


# ---- other readers --------------------------------------------------------------------------------------------------

SOURCE = """
volatile unsigned long x;
__attribute__((noinline)) void spin_a(void) { for (int i = 0; i < 100; i++) x += i; }
__attribute__((noinline)) void spin_b(void) { for (int i = 0; i < 50; i++) x ^= i; }
int main(void) { spin_a(); spin_b(); return 0; }
"""


def check_autofdo(driver):
    what = "AutoFDO: samples of each function"
    if not shutil.which("create_llvm_prof"):
        return skip(what, "no create_llvm_prof (Debian package autofdo)")
    with open("fdo.c", "w", encoding="ascii") as f:
        f.write(SOURCE)
    # create_llvm_prof 0.19 does not read DWARF 5.
    subprocess.run(["gcc", "-O2", "-gdwarf-4", "-no-pie", "-Wl,--build-id=sha1", "-o", "fdo", "fdo.c"], check=True)
    _, symbols, _ = run("nm", "fdo")
    at = {name: int(a, 16) for a, _, name in (line.split() for line in symbols.splitlines() if len(line.split()) == 3)}
    _, notes, _ = run("readelf", "-n", "fdo")
    build_id = re.search(r"Build ID: ([0-9a-f]+)", notes).group(1)
    _, segments, _ = run("readelf", "-lW", "fdo")
    off, start, size = re.search(r"LOAD\s+0x(\w+) 0x(\w+) 0x\w+ 0x(\w+) 0x\w+ R E", segments).groups()
    capture = Capture(driver, "file", os.path.realpath("fdo"), build_id, int(start, 16), (int(size, 16) + 4095) // 4096 * 4096,
                      int(off, 16), f"{at['spin_a'] + 4}:300", f"{at['spin_b'] + 4}:100")
    program = ("--use_lbr=false", "--binary=fdo", f"--profile={capture.path}")
    check_functions(what, ("create_llvm_prof", *program, "--out=fdo.txt", "--format=text"), ("cat", "fdo.txt"), r"^(\w+):(\d+):")
    what = "AutoFDO: clang uses its profile, without a warning"
    if shutil.which("clang-14"):
        rc, code, err = run("clang-14", "-O2", "-gline-tables-only", "-fprofile-sample-use=fdo.txt", "-S", "-emit-llvm", "-o", "-", "fdo.c")
        equal((rc, err, re.findall(r'"TotalCount", i64 (\d+)', code)), (0, "", ["400"]), what)
    else:
        skip(what, "no clang-14")
    what = "AutoFDO: samples of each function, for gcc"
    if shutil.which("create_gcov") and shutil.which("dump_gcov"):
        check_functions(what, ("create_gcov", *program, "--gcov=fdo.gcov", "-gcov_version=2"),
                        ("dump_gcov", "fdo.gcov", "-gcov_version=2"), r"^(\w+) total:(\d+) ")
    else:
        skip(what, "no create_gcov (Debian package autofdo)")
    return None


def check_functions(what, create, show, pattern):
    """A profile of AutoFDO has the samples of the two functions. All of a function are at one instruction."""
    rc, _, err = run(*create)
    shown, out, more = run(*show)
    equal((rc, shown, err + more, sorted(re.findall(pattern, out, re.M))), (0, 0, "", [("spin_a", "300"), ("spin_b", "100")]), what)


def check_hotspot(readers, captures):
    what = "hotspot's parser: all samples, in order"
    parsers = [os.path.join(root, "libexec/hotspot-perfparser")
               for root in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib",
                            os.path.join(readers, "usr/lib/x86_64-linux-gnu"))]
    parser = next((p for p in parsers if os.path.exists(p)), None)
    if not parser:
        return skip(what, "no hotspot-perfparser (tools/fetch-readers, or Debian package hotspot)")
    env = {"LD_LIBRARY_PATH": os.path.dirname(os.path.dirname(parser)) if parser.startswith(readers) else ""}
    basic, many, times = captures
    for capture, n in ((basic, 10), (many, 10 * times)):
        rc, out, err = run(parser, "--input", capture.path, "--print-stats", env=env)
        found = dict(re.findall(r"^(.*): (\d+)$", out + err, re.M))
        want = {"samples": str(n), "samples time violations": "0", "mmaps time violations": "0"}
        equal((rc, {k: found.get(k) for k in want}), (0, want), f"{what} ({capture.path})")
    rc, _, err = run(parser, "--input", basic.path, "--output", "hotspot.out", "--kallsyms", "kallsyms", env=env)
    with open("hotspot.out", "rb") as f:
        data = f.read()
    names = [n for n in sorted(set(basic.names.values()) - {"bpf_prog_0011223344556677_probe"}) if n.encode() not in data]
    equal((rc, names), (0, []), "hotspot's parser: names of functions")
    return None


def newer_perf(readers):
    path = os.path.join(readers, "usr/bin/perf")
    if os.path.exists(path):
        return Perf("newer perf", path, {"LD_LIBRARY_PATH": os.path.join(readers, "usr/lib/x86_64-linux-gnu")})
    return None


def main():
    driver, readers = map(os.path.realpath, sys.argv[1:3])
    times = 20000
    with tempfile.TemporaryDirectory(prefix="perf-data-oracle.") as folder:
        os.chdir(folder)
        with open("kallsyms", "w", encoding="ascii") as f:
            f.write(KALLSYMS)
        captures = [Capture(driver, name) for name in ("basic", "lost", "hostile", "empty")]
        captures += [Capture(driver, name, times) for name in ("many", "packed")]
        if shutil.which("perf"):
            check_perf(Perf("perf", "perf"), captures, times)
        else:
            skip("perf", "no perf (Debian package linux-perf)")
        newer = newer_perf(readers)
        if newer:
            check_perf(newer, captures, times)
        else:
            skip("newer perf", "not in build-readers (tools/fetch-readers)")
        check_autofdo(driver)
        check_hotspot(readers, (captures[0], captures[4], times))
        os.chdir("/")
    print(f"1..{len(results)}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
