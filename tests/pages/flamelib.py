# SPDX-License-Identifier: Apache-2.0
"""Reads the data of a flame graph's page, as docs/formats.md describes it; and describes profiles for flame-driver."""

import base64
import itertools
import re
import zlib

MAGIC = b"PAFLAME3"
DIGITS = bytes(c for c in range(ord("#"), ord("z")) if c not in b"<\\")
PYTHON_DIGITS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
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
        width = self.number() if n else 0
        planes = [self.data[self.at + k * n:self.at + (k + 1) * n] for k in range(width)]
        self.at += n * width
        return [sum(plane[i] << 8 * k for k, plane in enumerate(planes)) for i in range(n)]

    def signed(self, n):
        return [signed(v) for v in self.column(n)]

    def steps(self, n):
        return list(itertools.accumulate(self.signed(n)))

    def places(self, groups, read):
        """Numbers as places among those of their group."""
        places, met, ret = self.column(len(groups)), {}, []
        fresh = iter(read(places.count(0)))
        for group, place in zip(groups, places):
            of = met.setdefault(group, [])
            if not place:
                of.append(next(fresh))
            ret.append(of[place - 1])
        return ret


def unpack(page):
    """The bytes of the data in a page."""
    found = re.findall(rb'<script type="text/plain" id="data">([^<\\\s]*)</script>', page)
    assert len(found) == 1, f"{len(found)} pieces of data"
    return zlib.decompress(base64.b85decode(found[0].translate(bytes.maketrans(DIGITS, PYTHON_DIGITS))))


def read_profile(r, strings):
    p = {"title": strings[r.number()]}
    p["types"] = [(strings[r.number()], strings[r.number()]) for _ in range(r.number())]
    p["default"], p["time_ns"], p["duration_ns"], p["period"] = r.number(), r.number(), r.number(), r.number()
    p["comments"] = [strings[r.number()] for _ in range(r.number())]
    n = r.number()
    columns = [r.steps(n), r.steps(n), r.column(n), r.column(n), r.signed(n), r.column(n), r.column(n)]
    columns[4] = [step + module for step, module in zip(columns[4], columns[3])]
    p["frames"] = [{"name": strings[name], "file": strings[file], "line": line, "module": strings[module],
                    "build_id": strings[build_id], "kind": KINDS[kind], "reason": reason}
                   for name, file, line, module, build_id, kind, reason in zip(*columns)]
    count = r.number()
    up = r.column(count)
    places = r.column(count)
    fresh = iter(r.column(places.count(0)))
    parents, frames, met = [None], [None], {}
    for i in range(1, count + 1):
        parent = i - 1
        for _ in range(up[i - 1]):
            parent = parents[parent]
        below = met.setdefault(frames[parent] if parent else -1, [])
        if not places[i - 1]:
            below.append(next(fresh))
        parents.append(parent)
        frames.append(below[places[i - 1] - 1])
    p["parents"], p["node_frames"] = parents, frames
    labels = []
    for _ in range(r.number()):
        key, text = strings[r.number()], r.number()
        if text:
            labels.append((key, strings[text]))
        else:
            labels.append((key, signed(r.number())))
    sets = [[labels[r.number()] for _ in range(r.number())] for _ in range(r.number())]
    amounts = [(strings[r.number()], strings[r.number()]) for _ in range(r.number())]
    n = r.number()
    nodes, node = [], 0
    for step in r.column(n):
        node += step
        nodes.append(node)
    of = r.column(n)
    values = [r.column(n)]
    values += [read_values(r, values[0], of, p["period"]) for _ in p["types"][1:]]
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


def read_values(r, counts, sets, period):
    rest = iter(r.signed(len(counts) - counts.count(1)))
    of_one = iter(r.places([s for s, count in zip(sets, counts) if count == 1], r.signed))
    return [next(of_one if count == 1 else rest) + count * period for count in counts]


def read_times(r, p):
    """(start in ns, duration, sample) of each event."""
    n, lost = r.number(), r.number()
    if not n:
        return [], lost
    p["column_ns"] = column = r.number()
    many = [step + s["values"][0] for step, s in zip(r.signed(len(p["samples"])), p["samples"])]
    steps, durations, events, i = r.column(n), r.column(n), [], 0
    for of, k in enumerate(many):
        at = 0
        for i in range(i, i + k):
            at += steps[i]
            events.append((at * (column // 50), durations[i], of))
        i += k > 0
    assert len(events) == n, f"{n} events, {len(events)} of samples"
    return events, lost


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


def event(start, duration, index):
    """index: of the sample, in the order of the description."""
    return f"time\t{start}\t{duration}\t{index}"


def sample(count, ns, pid, tid, comm, stack, state="", longest=""):
    """stack: numbers of locations, leaf first."""
    return "\t".join(["sample", str(count), str(ns), str(pid), str(tid), escaped(comm), state, str(longest)] +
                     [str(i) for i in stack])
