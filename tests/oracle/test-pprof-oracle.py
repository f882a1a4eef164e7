#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Our pprof against protoc --decode and go tool pprof -raw and -top.

usage: test-pprof-oracle.py PPROF_DRIVER

The driver writes each of its models as pprof and as text; every value of the text must come back from
readers that are not ours. Output is TAP.
"""

import collections
import datetime
import gzip
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile

PROTO_PACKAGE = "golang-github-google-pprof-dev"
# Models that only protoc can show:
LINE_ENDS = {"control"}  # in names, where pprof has a line for each thing
INEXACT = {"huge", *LINE_ENDS}  # values that floating point does not hold, which -top prints
results = []


def report(ok, what):
    results.append(ok)
    print(f"{'ok' if ok else 'not ok'} {len(results)} - {what}", flush=True)


def skip(what, why):
    results.append(True)
    print(f"ok {len(results)} - {what} # SKIP {why}", flush=True)


def differ(got, want, what, where="", limit=5):
    """Prints the first differences of two lists."""
    bad = [(i, g, w) for i, (g, w) in enumerate(zip(got, want)) if g != w]
    for i, g, w in bad[:limit]:
        print(f"# {where}{what} {i}: got {g!r}, want {w!r}")
    if len(got) != len(want):
        print(f"# {where}{what}: got {len(got)}, want {len(want)}")
    return bool(bad) or len(got) != len(want)


def text(digits):
    """The string that a reader must see: bytes that are not UTF-8 as \\xNN."""
    return bytes.fromhex(digits).decode("utf-8", "backslashreplace")


class Model:
    """The model that the driver says it wrote."""

    def __init__(self, path):
        self.sample_types, self.mappings, self.functions = [], [], []
        self.locations, self.samples, self.tops = [], [], []
        with open(path, encoding="ascii") as f:
            for line in f:
                tag, *v = json.loads(line)
                if tag == "sample_type":
                    self.sample_types.append((text(v[0]), text(v[1])))
                elif tag == "period_type":
                    self.period_type = (text(v[0]), text(v[1]))
                elif tag == "default_type":
                    self.default_type = text(v[0])
                elif tag == "numbers":
                    self.period, self.time, self.duration = v
                elif tag == "comments":
                    self.comments = [text(s) for s in v]
                elif tag == "mapping":
                    flags = [bool(b) for b in v[5:]]
                    self.mappings.append((text(v[0]), text(v[1]), *v[2:5], *flags))
                elif tag == "function":
                    self.functions.append((text(v[0]), text(v[1]), text(v[2]), v[3]))
                elif tag == "location":
                    self.locations.append((v[0], v[1], [tuple(ln) for ln in v[2]]))
                elif tag == "sample":
                    labels = [(text(k), text(s), n) for _, k, s, n in v[2]]
                    self.samples.append((v[0], v[1], labels))
                elif tag == "top":
                    self.tops.append((v[0], v[1], text(v[2]), v[3], v[4]))
                else:
                    raise ValueError(f"unknown line {line}")


# ---- protoc ----------------------------------------------------------------------------------------

ESCAPE = re.compile(rb'\\([0-7]{3}|.)')
SIMPLE = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b'"': b'"', b"'": b"'", b"\\": b"\\"}


def unquote(value):
    def one(match):
        s = match.group(1)
        return bytes([int(s, 8)]) if len(s) == 3 else SIMPLE[s]
    return ESCAPE.sub(one, value[1:-1]).decode("utf-8")


def parse_protoc(data):
    """Text format: {field: [value …]}, messages nested, numbers as int, strings as str."""
    root = {}
    stack = [root]
    for line in data.split(b"\n"):
        line = line.strip()
        if not line:
            continue
        if line == b"}":
            stack.pop()
        elif line.endswith(b" {"):
            msg = {}
            stack[-1].setdefault(line[:-2].decode(), []).append(msg)
            stack.append(msg)
        else:
            key, value = line.split(b": ", 1)
            if value.startswith(b'"'):
                value = unquote(value)
            elif value in (b"true", b"false"):
                value = value == b"true"
            else:
                value = int(value)
            stack[-1].setdefault(key.decode(), []).append(value)
    assert len(stack) == 1
    return root


def scalar(msg, key):
    """A field that is not repeated, 0 if it is absent; taken out, so that what is left is unknown."""
    values = msg.pop(key, [0])
    assert len(values) == 1, (key, values)
    return values[0]


def protoc_model(root):
    """The decoded message as the same lists that Model has, and all unexpected fields."""
    strings = root.pop("string_table")
    left = []

    def string(msg, key):
        return strings[scalar(msg, key)]

    def value_type(msg):
        t = (string(msg, "type"), string(msg, "unit"))
        left.append(msg)
        return t

    got = {"strings": strings, "left": left}
    got["sample_types"] = [value_type(t) for t in root.pop("sample_type", [])]
    got["period_type"] = [value_type(t) for t in root.pop("period_type", [])]
    got["default_type"] = string(root, "default_sample_type")
    got["numbers"] = [scalar(root, k) for k in ("period", "time_nanos", "duration_nanos")]
    got["comments"] = [strings[c] for c in root.pop("comment", [])]
    flags = ("has_functions", "has_filenames", "has_line_numbers", "has_inline_frames")
    ids = got["ids"] = collections.defaultdict(list)
    got["mappings"], got["functions"], got["locations"], got["samples"] = [], [], [], []
    for m in root.pop("mapping", []):
        ids["mapping"].append(scalar(m, "id"))
        numbers = [scalar(m, k) for k in ("memory_start", "memory_limit", "file_offset")]
        got["mappings"].append((string(m, "filename"), string(m, "build_id"), *numbers,
                                *[bool(scalar(m, f)) for f in flags]))
        left.append(m)
    for f in root.pop("function", []):
        ids["function"].append(scalar(f, "id"))
        got["functions"].append((string(f, "name"), string(f, "system_name"),
                                 string(f, "filename"), scalar(f, "start_line")))
        left.append(f)
    for loc in root.pop("location", []):
        ids["location"].append(scalar(loc, "id"))
        lines = loc.pop("line", [])
        got["locations"].append((scalar(loc, "mapping_id"), scalar(loc, "address"),
                                 [(scalar(ln, "function_id"), scalar(ln, "line")) for ln in lines]))
        left += [loc, *lines]
    for s in root.pop("sample", []):
        labels = s.pop("label", [])
        got["samples"].append((s.pop("location_id", []), s.pop("value"),
                               [(string(x, "key"), string(x, "str"), scalar(x, "num"))
                                for x in labels]))
        left += [s, *labels]
    left.append(root)
    return got


def check_protoc(protoc, proto, raw, want):
    done = subprocess.run([protoc, "--decode=perftools.profiles.Profile",
                           f"--proto_path={os.path.dirname(proto)}", proto],
                          input=raw, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0 or b"UTF-8" in done.stderr:
        print(f"# protoc: {done.returncode}: {done.stderr.decode(errors='replace')}")
        return False
    got = protoc_model(parse_protoc(done.stdout))
    bad = False
    for what in ("sample_types", "mappings", "functions", "locations", "samples", "comments"):
        bad |= differ(got[what], getattr(want, what), what)
    bad |= differ(got["period_type"], [want.period_type], "period_type")
    bad |= differ([got["default_type"]], [want.default_type], "default_type")
    bad |= differ(got["numbers"], [want.period, want.time, want.duration], "numbers")
    for what, ids in got["ids"].items():
        bad |= differ(ids, list(range(1, len(ids) + 1)), what + " id")
    bad |= differ(got["strings"][:1], [""], "string_table")
    bad |= differ([x for x in got["left"] if x], [], "unexpected fields")
    if len(set(got["strings"])) != len(got["strings"]) and len(want.samples) > 20:
        print("# string_table: the same string twice")
        bad = True
    return not bad


# ---- go tool pprof ---------------------------------------------------------------------------------


class Pprof:
    def __init__(self, tmp):
        # The second one is where Go's own installer puts it, which is in no PATH by default.
        go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
        self.why_not = None
        self.env = dict(os.environ, TZ="UTC", LC_ALL="C.UTF-8", PPROF_TMPDIR=tmp,
                        PPROF_BINARY_PATH=os.path.join(tmp, "none"), GOPROXY="off",
                        GOTOOLCHAIN="local")
        self.env.setdefault("HOME", tmp)
        self.go = go
        if not go:
            self.why_not = "go is not installed"
            return
        # It prints its usage with some status or other; recent versions of Go build it first.
        done = subprocess.run([go, "tool", "pprof", "-h"], env=self.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if b"usage" not in done.stdout:
            self.why_not = "go tool pprof does not run"

    def run(self, *args):
        done = subprocess.run([self.go, "tool", "pprof", *args], env=self.env,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
        if done.returncode != 0:
            print(f"# pprof {args}: {done.returncode}: {done.stderr.decode(errors='replace')}")
            return None
        return done.stdout.decode("utf-8")


def go_time(ns):
    sec, frac = divmod(ns, 1000000000)
    day = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=sec)
    frac = f".{frac:09}".rstrip("0").rstrip(".")
    return f"{day:%Y-%m-%d %H:%M:%S}{frac} +0000 UTC"


def as_signed(number):
    """Go subtracts addresses in 64 bits."""
    return number % (1 << 64)


def want_raw(m, column):
    """Header lines but the comments, and how often each sample (values, frames, labels) is there.

    pprof leaves out samples without any value and numbers locations anew, moves an address when it
    merges equal mappings, so a frame is (path, build-id, file offset, lines).
    """
    head = ["PeriodType: " + " ".join(m.period_type), f"Period: {m.period}"]
    head.append(f"Time: {go_time(m.time)}")
    samples = collections.Counter()
    frames = []
    for mapping, addr, lines in m.locations:
        path, build_id, offset = "", "", addr
        if mapping:
            path, build_id, start, _, file_offset = m.mappings[mapping - 1][:5]
            offset = as_signed(addr - start + file_offset)
        texts = []
        for fn, line in lines:
            name, system, file, start_line = m.functions[fn - 1]
            texts.append(f"{name} {file}:{line}{column} s={start_line}" +
                         (f"({system})" if system != name else ""))
        frames.append((path, build_id, offset, tuple(texts)))
    for locs, values, labels in m.samples:
        strs, nums = collections.defaultdict(list), collections.defaultdict(list)
        for key, s, n in labels:
            if s:
                strs[key].append(s)
            elif n:
                nums[key].append(str(n))
        lines = tuple(" ".join(sorted(f"{k}:[{' '.join(v)}]" for k, v in kind.items()))
                      for kind in (strs, nums) if kind)
        if any(values):
            samples[(tuple(values), tuple(frames[i - 1] for i in locs), lines)] += 1
    return head, samples


def got_raw(out):
    head, rest = out.split("\nSamples:\n", 1)
    samples_text, rest = rest.split("\nLocations\n", 1)
    locations_text, mappings_text = ("\n" + rest).split("\nMappings\n", 1)
    mappings, frames = {}, {}
    for line in mappings_text.splitlines():
        match = re.fullmatch(r"(\d+): (\S+)/(\S+)/(\S+) (.*) ([0-9a-f]*) (?:\[..\])*", line)
        num, start, _, offset, path, build_id = match.groups()
        mappings[num] = (path, build_id, int(start, 16), int(offset, 16))
    for line in locations_text.split("\n"):
        match = re.match(r" *(\d+): 0x([0-9a-f]+) (?:M=(\d+) )?", line)
        if match:
            num, addr, mapping = match.groups()
            path, build_id, start, offset = mappings[mapping] if mapping else ("", "", 0, 0)
            frame = frames[int(num)] = (path, build_id, as_signed(int(addr, 16) - start + offset), [])
            line = line[match.end():]
        else:
            line = line[13:]
        if line:
            frame[3].append(line)
    frames = {num: (*f[:3], tuple(f[3])) for num, f in frames.items()}
    samples = collections.Counter()
    current = None
    lines = samples_text.split("\n")
    for line in [*lines[1:], " 0: "]:
        match = re.fullmatch(r"((?: +-?\d+)+): ((?:\d+ )*)", line)
        if not match:
            current[2].append(line.strip())
            continue
        if current:
            samples[(current[0], current[1], tuple(current[2]))] += 1
        current = (tuple(int(v) for v in match.group(1).split()),
                   tuple(frames[int(i)] for i in match.group(2).split()), [])
    # "Duration:" is cut to four characters by pprof: protoc has it whole.
    return ([x for x in head.split("\n") if not x.startswith("Duration: ")], lines[0],
            mappings, samples)


def flags_of(mapping):
    return "".join(t for t, on in zip(("[FN]", "[FL]", "[LN]", "[IN]"), mapping[5:]) if on)


def check_raw(pprof, path, m):
    out = pprof.run("-raw", "-symbolize=none", path)
    if out is None:
        return False
    types = " ".join(f"{t}/{u}" + ("[dflt]" if t == m.default_type else "") for t, u in m.sample_types)
    head, got_types, mappings, got = got_raw(out)
    # Since 1.22 lines have a column.
    want_head, want = max((want_raw(m, c) for c in ("", ":0")),
                          key=lambda w: sum((w[1] & got).values()))
    comments = ["Comment: " + c for c in m.comments]
    # Old versions (1.19) put even a single profile through their merging, which drops the repetition of a comment
    # and samples without a frame. protoc shows both.
    if head[:len(comments)] != comments:
        comments = list(dict.fromkeys(comments))
    if not any(not frames for _, frames, _ in got):
        want = collections.Counter({s: n for s, n in want.items() if s[1]})
    bad = differ(head, comments + want_head, "head")
    bad |= differ([got_types], [types], "types")
    for counter, what in ((got - want, "not ours"), (want - got, "missing")):
        for sample, n in list(counter.items())[:3]:
            print(f"# {what}, {n} times: {sample}")
            bad = True
    if m.samples and m.mappings:
        first = mappings["1"]
        bad |= differ([first[0]], [m.mappings[0][0]], "main mapping")
    for x in m.mappings:  # flags of mappings that samples use
        if f" {x[0]} {x[1]} " in out and f" {x[0]} {x[1]} {flags_of(x)}\n" not in out:
            print(f"# mapping {x}: other flags")
            bad = True
    return not bad


def check_top(pprof, path, m):
    bad = False
    for type_idx, unit in enumerate(("", "ns")):
        out = pprof.run("-top", "-symbolize=none", f"-sample_index={type_idx}", "-nodecount=0",
                        "-nodefraction=0", "-edgefraction=0", *(["-unit=ns"] if unit else []), path)
        if out is None:
            return False
        got, want = [], []
        rows = out.split("flat%", 1)[1].split("\n")[1:]
        for row in filter(None, rows):
            match = re.fullmatch(r" *(\S+) +\S+ +\S+ +(\S+) +\S+  ?(.*?)(?: \((?:partial-)?inline\))?", row)
            numbers = [re.fullmatch(r"(-?\d+)(?:ns)?", x) for x in match.group(1, 2)]
            got.append((match.group(3), *[int(x.group(1)) for x in numbers]))
        for top_type, mapping, name, self_value, cum in m.tops:
            if top_type != type_idx or cum == 0:
                continue
            file = m.mappings[mapping - 1][0] if mapping else ""
            unnamed = f"[{posixpath.basename(file)}]" if file else "<unknown>"
            want.append((name or unnamed, self_value, cum))
        # Among equal self values pprof's order is by name.
        bad |= differ([g[1] for g in got], [w[1] for w in want], "top", f"type {type_idx}: ")
        bad |= differ(sorted(got), sorted(want), "sorted top", f"type {type_idx}: ")
    return not bad


# ---- main ------------------------------------------------------------------------------------------


def find_proto():
    if not shutil.which("protoc") or not shutil.which("dpkg"):
        return None
    done = subprocess.run(["dpkg", "-L", PROTO_PACKAGE], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, encoding="utf-8")
    return next((x for x in done.stdout.split("\n") if x.endswith("/proto/profile.proto")), None)


def check_model(driver, name, tmp, proto, pprof):
    folder = os.path.join(tmp, name)
    os.mkdir(folder)
    path, expected = os.path.join(folder, "out.pb.gz"), os.path.join(tmp, name + ".jsonl")
    done = subprocess.run([driver, name, path, expected])
    report(done.returncode == 0 and os.listdir(folder) == ["out.pb.gz"], f"{name}: written")
    if not results[-1]:
        return
    want = Model(expected)
    with gzip.open(path) as f:
        raw = f.read()
    if proto:
        report(check_protoc("protoc", proto, raw, want), f"{name}: protoc --decode")
    else:
        skip(f"{name}: protoc --decode", f"protoc or {PROTO_PACKAGE} is missing")
    for check, what, not_for in ((check_raw, "-raw", LINE_ENDS), (check_top, "-top", INEXACT)):
        if name in not_for:
            continue
        if pprof.why_not:
            skip(f"{name}: pprof {what}", pprof.why_not)
        else:
            report(check(pprof, path, want), f"{name}: pprof {what}")


def main():
    driver = sys.argv[1]
    proto = find_proto()
    names = subprocess.run([driver], stdout=subprocess.PIPE, check=True, encoding="ascii").stdout.split()
    with tempfile.TemporaryDirectory() as tmp:
        pprof = Pprof(tmp)
        if not proto and pprof.why_not:
            print(f"1..0 # SKIP protoc or {PROTO_PACKAGE} is missing, {pprof.why_not}")
            return 0
        for name in names:
            check_model(driver, name, tmp, proto, pprof)
    print(f"1..{len(results)}")
    return 0 if all(results) else 1


sys.exit(main())
