#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Data of a flame graph's page and picture, compared with the profile and with the other formats.

usage: test-flame-data.py FLAME_DRIVER

Profiles are made here at random. The page's data is unpacked by a reader of its own and compared sample by sample; totals
are compared with folded stacks and with "go tool pprof -raw". The picture is parsed as XML, and drawn by rsvg-convert
where that is installed; flamegraph.pl reads the folded stacks where that is. Output is TAP.
"""

import collections
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import flamelib

results = []
HOSTILE = b'</script>"\'&<b>;\n\x1b[2J \xff\xed\xa0\x80\xef\xbf\xbf'


def report(ok, what, more=""):
    results.append(bool(ok))
    print(f"{'ok' if ok else 'not ok'} {len(results)} - {what}", flush=True)
    if not ok:
        print("# " + str(more)[:2000].replace("\n", "\n# "), flush=True)


def skip(what, why):
    results.append(True)
    print(f"ok {len(results)} - {what} # SKIP {why}", flush=True)


class Profile:
    """A random one: its description, and what readers must find."""

    def __init__(self, kind, seed, n_samples):
        rnd = random.Random(seed)
        self.lines = [f"profile\t{kind}"]
        self.comments = ["env=test", "perf-agent: 1", "target: command a; b" + "x" * seed, "complete_stacks_pct: 98.70"]
        packed = "; ".join(c.replace(";", "\\;") for c in self.comments[1:])
        self.lines += ["comment\t" + flamelib.escaped(c) for c in (self.comments[0], "# " + packed)]
        self.names = {}
        for number in range(1, 60):
            functions = []
            for k in range(rnd.choice((0, 1, 1, 1, 1, 2, 3))):
                name = HOSTILE + b"%d" % number if rnd.random() < 0.1 else b"fn_%d_%d" % (number % 40, k)
                functions.append((name, b"", b"dir/file.c" if rnd.random() < 0.7 else b"", rnd.randrange(2000)))
            module = rnd.choice(("/usr/bin/serve", "/usr/lib/libc.so.6", "[kernel]", "[jit]"))
            # Offsets of a module's mapping, which begins at 0.
            address = rnd.randrange(1, 1 << 40) * 64 + number
            self.lines.append(flamelib.location(number, module, functions, build_id="%040x" % rnd.randrange(1 << 160),
                                                address=address, reason=0 if functions else 7))
            self.names[number] = [shown(f[0]) for f in functions[::-1]] or [self.address(module, address)]
        self.values, self.index, self.stacks = {}, {}, []
        for _ in range(n_samples):
            stack = [rnd.randrange(1, 60) for _ in range(rnd.choice((0, 1, 3, 8, 30)))]
            stack = [1, 2, 3][:rnd.randrange(4)] + stack
            pid, tid, comm = rnd.randrange(1, 4), rnd.randrange(1, 9), rnd.choice((b"serve", b"worker", HOSTILE[:8]))
            state, longest = ("iowait", rnd.randrange(1 << 33)) if kind == "offcpu" else ("", "")
            count = rnd.choice((1, rnd.randrange(1, 50)))
            ns = rnd.choice((1, 10101010, rnd.randrange(1 << 44), count * 10101010))
            self.lines.append(flamelib.sample(count, ns, pid, tid, comm, stack[::-1], state, longest))
            names = tuple(n for i in stack for n in self.names[i])
            # The model adds up equal samples.
            same = self.index.setdefault((tuple(stack), pid, tid, comm, longest), len(self.index))
            if same == len(self.stacks):
                self.stacks.append(names)
            key = (names, pid, tid, shown(comm))
            a, b = self.values.get(key, (0, 0))
            self.values[key] = (a + count, b + ns)

        self.lost = rnd.randrange(3)
        self.add_events(rnd, kind)

    def add_events(self, rnd, kind):
        """A time line: up to 4 events a sample, in no order."""
        events = [(rnd.randrange(10 ** 10), rnd.randrange(1, 1 << 33) if kind == "offcpu" else 0, index)
                  for index in range(len(self.stacks)) for _ in range(rnd.randrange(5))]
        rnd.shuffle(events)
        self.lines += [flamelib.event(*e) for e in events] + [f"lost\t{self.lost}"]
        unit = 2 * 10 ** 7  # columns of a second have 50
        self.events = sorted((e[0] // unit * unit, e[1], self.stacks[e[2]]) for e in events)

    @staticmethod
    def address(module, address):
        return "0x%x" % address if module[0] == "[" else "%s+0x%x" % (os.path.basename(module), address)

    def totals(self):
        return tuple(sum(v[i] for v in self.values.values()) for i in range(2))


def shown(name):
    """As enc_flame_* show a name."""
    text = name.decode("utf-8", "surrogateescape")
    return "".join("\\x%02x" % (ord(c) - 0xdc00) if 0xdc80 <= ord(c) <= 0xdcff else
                   "?" if ord(c) < 0x20 or 0x7f <= ord(c) < 0xa0 else c for c in text)


def run(driver, form, *profiles):
    text = "\n".join(line for p in profiles for line in p.lines) + "\n"
    return subprocess.run([driver, form], input=text.encode(), stdout=subprocess.PIPE, check=True).stdout


def check_page(page, want, title):
    got = collections.defaultdict(lambda: (0, 0))
    for s in page["samples"]:
        labels = s["labels"]
        key = (tuple(flamelib.stack_names(page, s)), labels["pid"], labels["tid"], labels["comm"])
        got[key] = tuple(a + b for a, b in zip(got[key], s["values"]))
    report(dict(got) == want.values, f"{title}: all samples are in the page, with their stacks, labels and values",
           [k for k in set(got) ^ set(want.values)][:3])
    report(page["comments"] == want.comments, f"{title}: and the comments", page["comments"])
    events = [(start, duration, tuple(flamelib.stack_names(page, page["samples"][of]))) for start, duration, of in page["times"]]
    report(sorted(events) == want.events and page["times_lost"] == want.lost, f"{title}: and the events of the time line",
           [e for e in zip(sorted(events), want.events) if e[0] != e[1]][:2])
    names = [f["name"].encode() for f in page["frames"]]
    report(names == sorted(names), f"{title}: frames ascend by name")


def check_folded(driver, profile, title):
    lines = run(driver, "folded", profile).decode().splitlines()
    total = sum(int(line.rpartition(" ")[2]) for line in lines)
    report(total == profile.totals()[0], f"{title}: folded stacks have the same samples", (total, profile.totals()))
    return lines


def check_pprof(driver, profile, title, folder):
    path = os.path.join(folder, "x.pb.gz")
    with open(path, "wb") as f:
        f.write(run(driver, "pprof", profile))
    go = shutil.which("go") or "/usr/local/go/bin/go"
    if not os.path.exists(go):
        skip(f"{title}: go tool pprof finds the same totals", "go is not installed")
        return
    raw = subprocess.run([go, "tool", "pprof", "-symbolize=none", "-raw", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                         env={**os.environ, "PPROF_TMPDIR": folder})
    sums = [0, 0]
    part = raw.stdout.decode(errors="replace").split("\nSamples:\n", 1)[-1].split("\nLocations", 1)[0]
    for line in part.splitlines()[1:]:
        m = re.match(r"\s*(\d+)\s+(\d+):", line)
        if m:
            sums = [a + int(b) for a, b in zip(sums, m.groups())]
    report(tuple(sums) == profile.totals(), f"{title}: go tool pprof finds the same totals",
           (sums, profile.totals(), raw.stderr.decode()))


def check_picture(driver, profile, title, folder):
    svg = run(driver, "svg", profile)
    path = os.path.join(folder, "x.svg")
    with open(path, "wb") as f:
        f.write(svg)
    space = "{http://www.w3.org/2000/svg}"
    root = xml.etree.ElementTree.fromstring(svg)
    tags = {e.tag.removeprefix(space) for e in root.iter()}
    report(tags <= {"svg", "rect", "text", "g", "title"}, f"{title}: the picture is XML of known elements", tags)
    report(all(g.find(space + "title") is not None for g in root.iter(space + "g")), f"{title}: each frame has a title")
    report(all(float(t.get("x")) >= 0 for t in root.iter(space + "text")), f"{title}: texts are in the picture")
    if not shutil.which("rsvg-convert"):
        skip(f"{title}: rsvg-convert draws the picture", "librsvg2-bin is not installed")
        return
    png = subprocess.run(["rsvg-convert", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    report(png.stdout.startswith(b"\x89PNG") and not png.stderr, f"{title}: rsvg-convert draws the picture", png.stderr)


def check_comparison(driver):
    """Two captures of 10 s and of 20 s as a picture: values per second, by name of the function."""
    lines, names = [], (b"main", b"less", HOSTILE, b"same", b"gone", b"chance")
    for seconds, counts in ((10, (0, 200, 0, 100, 50, 40)), (20, (0, 100, 600, 200, 0, 84))):
        lines += ["profile\tcpu", f"seconds\t{seconds}"]
        # Files and lines differ between builds.
        lines += [flamelib.location(i, f"/bin/x{seconds}", [(name, b"", b"x.c", seconds + i)]) for i, name in enumerate(names)]
        lines += [flamelib.sample(n, n * 10 ** 7, 1, 1, "x", [i, 0]) for i, n in enumerate(counts) if n]
    text = "\n".join(lines) + "\n"
    svg = subprocess.run([driver, "diff-svg", "<old>\x1b", "new"], input=text.encode(), stdout=subprocess.PIPE, check=True).stdout
    root = xml.etree.ElementTree.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    got = {g.find(space + "title").text.partition("\n")[0].rpartition(", ")[0]: g.find(space + "rect").get("fill") for g in root.iter(space + "g")}
    less, new, same = "#5fa8dc", "#e68a2e", "#dcdcdc"
    chance = ": small, or may be chance"
    report(got == {"all (before 390.00 ms/s, after 492.00 ms/s, +26 %": "#fbdcb8",
                   "main (before 390.00 ms/s, after 492.00 ms/s, +26 %": "#fbdcb8",
                   "less (before 200.00 ms/s, after 50.00 ms/s, -75 %": less,
                   shown(HOSTILE).replace("\uffff", "?") + " (before 0.00 us/s, after 300.00 ms/s, new": new,
                   "same (before 100.00 ms/s, after 100.00 ms/s, 0 %" + chance: same,
                   "chance (before 40.00 ms/s, after 42.00 ms/s, +5 %" + chance: same}, "a comparison as a picture has rates and changes", got)
    texts = [t.text for t in root.iter(space + "text")]
    report("50.00 ms/s of before has vanished and is not drawn; all other frames are drawn" in texts and
           "On-CPU: new compared with <old>?: before 390.00 ms/s, after 492.00 ms/s, +26 %" in texts and "-75 % less" in texts,
           "it says what has vanished, names the profiles, and has changes as text", texts)
    again = subprocess.run([driver, "diff-svg", "a", "b"], input=text.replace("seconds\t10", "seconds\t0").encode(), stdout=subprocess.PIPE,
                           check=True).stdout
    report(b"same (before 25.64 %, after 20.33 %" in again, "without a duration it has shares", again[:2000])


def check_columns(driver):
    """The time line has seconds as columns, or what makes 120 at most."""
    for seconds, column in ((1, 50), (5, 200), (10, 1000), (120, 1000), (121, 2000), (3600, 60000), (86400, 1200000)):
        text = f"profile\tcpu\nseconds\t{seconds}\n" + flamelib.sample(1, 1, 1, 1, "x", []) + "\n" + flamelib.event(999, 0, 0) + "\n"
        page = subprocess.run([driver, "html"], input=text.encode(), stdout=subprocess.PIPE, check=True).stdout
        got = flamelib.read_page(page)[0]["column_ns"]
        report(got == column * 1000000, f"a time line of {seconds} s has columns of {column} ms", got)


def check_size(driver):
    """The bytes of an event of the time line, and of a sample's value, which is the period of one of 16 CPUs."""
    rnd = random.Random(1)
    base = ["profile\tcpu", "seconds\t60"] + [flamelib.location(i, "/bin/x", [(b"f%d" % i, b"", b"x.c", i)]) for i in range(8)]
    stacks = [[(i >> 3 * k) % 8 for k in range(4)] for i in range(4000)]
    periods = [10101010 + rnd.randrange(250000) for _ in range(16)]

    def size(values, events):
        lines = base + [flamelib.sample(1, v, 1, 1, "x", stack) for v, stack in zip(values, stacks)]
        lines += [flamelib.event(rnd.randrange(60 * 10 ** 9), 0, i) for i in range(4000) for _ in range(events)]
        text = "\n".join(lines) + "\n"
        return len(subprocess.run([driver, "html"], input=text.encode(), stdout=subprocess.PIPE, check=True).stdout)

    plain = size([10101010] * 4000, 0)
    each = (size([10101010] * 4000, 5) - plain) / 20000
    report(each < 1.75, "an event of the time line takes less than 1.75 bytes of the page", each)
    each = (size([rnd.choice(periods) for _ in range(4000)], 0) - plain) / 4000
    report(each < 1, "the value of a sample takes less than a byte", each)


def check_flamegraph_pl(lines):
    what = "flamegraph.pl reads our folded stacks"
    tool = shutil.which("flamegraph.pl")
    if not tool:
        skip(what, "flamegraph.pl is not installed")
        return
    r = subprocess.run([tool, "-"], input="\n".join(lines).encode() + b"\n", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       check=False)
    total = sum(int(line.rpartition(" ")[2]) for line in lines)
    report(r.returncode == 0 and b"Ignored" not in r.stderr and f"all ({total:,} samples".encode() in r.stdout, what, r.stderr)


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    driver = sys.argv[1]
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for seed, n in ((1, 0), (2, 1), (3, 300), (4, 3000)):
            on, off = Profile("cpu", seed, n), Profile("offcpu", seed + 100, n)
            page = run(driver, "html", on, off)
            report(page == run(driver, "html", on, off), f"{n} samples: the page is the same each time")
            both = flamelib.read_page(page)
            report([p["title"] for p in both] == ["On-CPU", "Off-CPU"], f"{n} samples: both profiles are in one page")
            check_page(both[0], on, f"{n} samples on CPU")
            check_page(both[1], off, f"{n} samples off CPU")
            report(not re.search(rb"fn_\d+_\d|\x1b\[2J", page), f"{n} samples: no name is in the page as it is")
            for profile, title in ((on, f"{n} samples on CPU"), (off, f"{n} samples off CPU")):
                lines = check_folded(driver, profile, title)
                check_picture(driver, profile, title, folder)
                if n:
                    check_pprof(driver, profile, title, folder)
        check_columns(driver)
        check_size(driver)
        check_comparison(driver)
        check_flamegraph_pl(lines)
    print(f"1..{len(results)}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
