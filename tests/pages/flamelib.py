# SPDX-License-Identifier: Apache-2.0
"""Reads the data of a flame graph's page, as docs/formats.md describes it; and describes profiles for flame-driver."""

import base64
import collections
import re
import zlib

MAGIC = b"PAFLAME2"
KINDS = ["native", "C++", "Rust", "Go", "JIT", "kernel", "inlined", "no name", "no code", "heuristic"]


class Reader:
    def __init__(self, data):
        self.data = data
        self.at = 0

    def number(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def column(self, n):
        return [self.number() for _ in range(n)]


def unpack(page):
    """The bytes of the data in a page."""
    found = re.findall(rb'<script type="text/plain" id="data">([A-Za-z0-9+/=]*)</script>', page)
    assert len(found) == 1, f"{len(found)} pieces of data"
    return zlib.decompress(base64.b64decode(found[0], validate=True))


def read_profile(r, strings):
    p = {"title": strings[r.number()]}
    p["types"] = [(strings[r.number()], strings[r.number()]) for _ in range(r.number())]
    p["default"], p["time_ns"], p["duration_ns"], p["period"] = r.number(), r.number(), r.number(), r.number()
    p["comments"] = [strings[r.number()] for _ in range(r.number())]
    n = r.number()
    columns = [r.column(n) for _ in range(7)]
    p["frames"] = [{"name": strings[name], "file": strings[file], "line": line, "module": strings[module],
                    "build_id": strings[build_id], "kind": KINDS[kind], "reason": reason}
                   for name, file, line, module, build_id, kind, reason in zip(*columns)]
    count = r.number()
    up = r.column(count)
    parents, frames, met = [None], [None], {}
    for i in range(1, count + 1):
        parent = i - 1
        for _ in range(up[i - 1]):
            parent = parents[parent]
        below = met.setdefault(frames[parent] if parent else -1, [])
        place = r.number()
        if place:
            frame = below[place - 1]
        else:
            frame = r.number()
            below.append(frame)
        parents.append(parent)
        frames.append(frame)
    p["parents"], p["node_frames"] = parents, frames
    labels = []
    for _ in range(r.number()):
        key, text = strings[r.number()], r.number()
        if text:
            labels.append((key, strings[text]))
        else:
            labels.append((key, signed(r.number())))
    sets = [[labels[i] for i in r.column(r.number())] for _ in range(r.number())]
    amounts = [(strings[r.number()], strings[r.number()]) for _ in range(r.number())]
    n = r.number()
    nodes, node = [], 0
    for step in r.column(n):
        node += step
        nodes.append(node)
    of = r.column(n)
    values = [r.column(n) for _ in p["types"]]
    extra = [r.column(n) for _ in amounts]
    p["samples"] = []
    for i in range(n):
        stack, at = [], nodes[i]
        while at:
            stack.append(frames[at])
            at = parents[at]
        p["samples"].append({"stack": stack[::-1], "labels": dict(sets[of[i]]), "values": [v[i] for v in values],
                             "amounts": {a[0]: e[i] for a, e in zip(amounts, extra)}})
    p["times"], p["times_lost"] = read_times(r, p)
    return p


def signed(v):
    return -(v + 1) // 2 if v & 1 else v // 2


def read_times(r, p):
    """(start in ns, duration, sample, value) of each event."""
    n, lost = r.number(), r.number()
    if not n:
        return [], lost
    p["column_ns"] = column = r.number()
    at, starts, of = 0, [], []
    steps, numbers = r.column(n), r.column(n)
    for step, number in zip(steps, numbers):
        at += step
        of.append(number + (of[-1] if starts and not step else 0))
        starts.append(at * (column // 100))
    durations, met = r.column(n), collections.Counter(of)
    values = [(durations[i] or p["samples"][of[i]]["values"][-1] // met[of[i]]) + signed(r.number()) for i in range(n)]
    return list(zip(starts, durations, of, values)), lost


def read_page(page):
    """The profiles of a page; stacks are root first."""
    data = unpack(page)
    assert data.startswith(MAGIC), data[:8]
    r = Reader(data)
    r.at = len(MAGIC)
    lengths = r.column(r.number())
    strings = []
    for n in lengths:
        strings.append(data[r.at:r.at + n].decode("utf-8"))
        r.at += n
    names = [strings[r.number()] for _ in range(r.number())]
    profiles = [read_profile(r, strings) for _ in range(r.number())]
    for p, name in zip(profiles, names):
        p["name"] = name
    assert r.at == len(data), f"{len(data) - r.at} bytes are left"
    return profiles


def stack_names(p, sample):
    return [p["frames"][f]["name"] for f in sample["stack"]]


def escaped(text):
    """A word of a description, as flame-driver reads it."""
    data = text if isinstance(text, bytes) else text.encode()
    return "".join(chr(b) if 0x20 <= b < 0x7f and b not in b"\\|" else f"\\x{b:02x}" for b in data)


def location(number, module, functions, build_id="", address=None, reason=0):
    """functions: innermost first, (name, linkage, file, line)."""
    address = 0x1000 + number if address is None else address
    return "\t".join(["location", str(number), module, build_id, str(address), str(reason)] +
                     ["|".join([escaped(n), escaped(l), escaped(f), str(line)]) for n, l, f, line in functions])


def event(start, duration, index, value):
    """index: of the sample, in the order of the description."""
    return f"time\t{start}\t{duration}\t{index}\t{value}"


def sample(count, ns, pid, tid, comm, stack, state="", longest=""):
    """stack: numbers of locations, leaf first."""
    return "\t".join(["sample", str(count), str(ns), str(pid), str(tid), escaped(comm), state, str(longest)] +
                     [str(i) for i in stack])
