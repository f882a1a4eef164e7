#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the table of docs/kernels.md with what the BPF object and the sources really use.

  check-kernels.py ROOT OBJECT ...  check
  check-kernels.py --self-test ROOT OBJECT ...
                                    check that each kind of error in the table is found, and each in the object

The table has the columns "feature | kind | since | on older kernels". Rules:
 - every helper that a program calls, every map type, program type and attach type of the object, every BPF command
   and raw system call of the user side is in it, and nothing of these kinds that is not used;
 - a feature newer than the floor is not "required" but has a twin. The twin of a helper: with all helpers that are
   newer than the floor absent, no call of one can be reached (the guards, CO-RE relocations that ask whether a value
   of enum bpf_func_id exists, are set to 0 and the code followed). The twin of something else names the source that
   has it, and every other word in backticks is in that source;
 - what is not newer than the floor is "required", and the kernel of a helper agrees with its number.
"""

import os
import re
import struct
import sys

DOC = "docs/kernels.md"
FLOOR = (5, 10)
HEADER = "/usr/include/linux/bpf.h"
COLUMNS = ["feature", "kind", "since", "on older kernels"]
KINDS = ("helper", "map type", "program type", "attach type", "command", "system call", "other")
# Number of the first helper that each kernel brought.
FIRST = [((5, 5), 111), ((5, 6), 116), ((5, 7), 119), ((5, 8), 125), ((5, 9), 136), ((5, 10), 142), ((5, 11), 156),
         ((5, 12), 163), ((5, 13), 164), ((5, 14), 166), ((5, 15), 169), ((5, 16), 176), ((5, 17), 180)]
# Section of a program -> program type, attach type.
SECTIONS = {"perf_event": ("PERF_EVENT", "BPF_PERF_EVENT"), "tp_btf": ("TRACING", "BPF_TRACE_RAW_TP"),
            "fexit": ("TRACING", "BPF_TRACE_FEXIT"),
            "raw_tp": ("RAW_TRACEPOINT", None),
            "iter": ("TRACING", "BPF_TRACE_ITER")}
ENUMVAL_EXISTS = 10  # enum bpf_core_relo_kind


class Row:
    def __init__(self, kind, since, twin):
        self.kind, self.since, self.twin = kind, since, twin


def parse_table(text):
    """({feature: Row}, [problem])"""
    rows, problems, inside = {}, [], False
    for line in text.splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            inside = False
        elif cells == COLUMNS:
            inside = True
        elif inside and not set(cells[0]) <= set("-: "):
            if len(cells) != len(COLUMNS) or cells[1] not in KINDS or not re.fullmatch(r"\d+\.\d+", cells[2]):
                problems.append(f"{DOC}: not a row of {COLUMNS}: {line}")
                continue
            name = cells[0].strip("`")
            if name in rows:
                problems.append(f"{DOC}: {name} is there twice")
            rows[name] = Row(cells[1], tuple(map(int, cells[2].split("."))), cells[3])
    if not rows:
        problems.append(f"{DOC}: no table {COLUMNS}")
    return rows, problems


# ---- the object -----------------------------------------------------------------------------------------------------


class Elf:
    """Sections of a 64-bit little-endian object: {name: bytes}, and the functions in them."""

    def __init__(self, data):
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError("not a 64-bit little-endian ELF file")
        (shoff,) = struct.unpack_from("<Q", data, 0x28)
        size, count, names = struct.unpack_from("<HHH", data, 0x3A)
        heads = [struct.unpack_from("<IIQQQQIIQQ", data, shoff + i * size) for i in range(count)]
        table = data[heads[names][4]:heads[names][4] + heads[names][5]]
        self.sections, self.functions = {}, []
        titles = [text_at(table, h[0]) for h in heads]
        for h, title in zip(heads, titles):
            if h[1] != 8:  # SHT_NOBITS
                self.sections[title] = data[h[4]:h[4] + h[5]]
        strings = self.sections[".strtab"]
        for name, info, _, index, value, length in struct.iter_unpack("<IBBHQQ", self.sections[".symtab"]):
            if info & 15 == 2:  # STT_FUNC
                self.functions.append((text_at(strings, name), titles[index], value, length))


def text_at(table, offset):
    return table[offset:table.index(b"\0", offset)].decode()


class Btf:
    """types[id] = (name, kind, size or type, [(name, ...) of members or values])"""

    EXTRA = {1: 4, 3: 12, 14: 4, 17: 4}
    EACH = {4: 12, 5: 12, 6: 8, 13: 8, 15: 12, 19: 12}

    def __init__(self, data):
        length, type_off, type_len, str_off, str_len = struct.unpack_from("<IIIII", data, 4)
        self.strings = data[length + str_off:length + str_off + str_len]
        self.types = [("", 0, 0, [])]
        pos, end = length + type_off, length + type_off + type_len
        while pos < end:
            name, info, size = struct.unpack_from("<III", data, pos)
            pos += 12
            kind, count = info >> 24 & 31, info & 0xFFFF
            if kind in self.EACH:
                step = self.EACH[kind]
                parts = [struct.unpack_from(f"<{step // 4}I", data, pos + i * step) for i in range(count)]
                pos += step * count
            else:
                step = self.EXTRA.get(kind, 0)
                parts = list(struct.unpack_from(f"<{step // 4}I", data, pos))
                pos += step
            self.types.append((text_at(self.strings, name), kind, size, parts))

    def map_types(self):
        """{map: number of its type}"""
        out = {}
        for name, kind, _, parts in self.types:
            if kind != 15 or name != ".maps":
                continue
            for var, _, _ in parts:
                title, _, struct_id, _ = self.types[var]
                for member, member_type, _ in self.types[struct_id][3]:
                    if text_at(self.strings, member) == "type":
                        array = self.types[self.types[member_type][2]]
                        out[title] = array[3][2]
        return out

    def guards(self, ext):
        """{(section, offset of an instruction): name of the helper that it asks for}"""
        length, = struct.unpack_from("<I", ext, 4)
        offset, size = struct.unpack_from("<II", ext, 24)
        pos, end, out = length + offset + 4, length + offset + size, {}
        while size and pos < end:
            section, count = struct.unpack_from("<II", ext, pos)
            pos += 8
            for _ in range(count):
                at, type_id, access, kind = struct.unpack_from("<IIII", ext, pos)
                pos += 16
                name, _, _, values = self.types[type_id]
                if kind == ENUMVAL_EXISTS and name == "bpf_func_id":
                    value = values[int(text_at(self.strings, access))][0]
                    out[text_at(self.strings, section), at] = text_at(self.strings, value).replace("BPF_FUNC_", "bpf_")
        return out


def calls(code, start, end, guards, absent):
    """Numbers of the helpers that can be called from code[start:end] where the helpers in absent do not exist."""
    found, seen, todo = set(), set(), [(start, ())]
    while todo:
        pc, known = todo.pop()
        if (pc, known) in seen or not start <= pc < end:
            continue
        seen.add((pc, known))
        op, regs, jump, imm = struct.unpack_from("<BBhi", code, pc)
        dst, src, values = regs & 15, regs >> 4, dict(known)
        following = pc + (16 if op == 0x18 else 8)
        ways = [following]
        if pc in guards:
            values[dst] = 0 if guards[pc] in absent else 1
        elif op in (0xBF, 0xBC):  # mov of a register
            values.pop(dst, None)
            if src in dict(known):
                values[dst] = dict(known)[src]
        elif op & 7 in (5, 6):
            kind, target = op & 0xF0, following + jump * 8
            if kind == 0x80:
                if src == 0:
                    found.add(imm)
                for r in range(6):
                    values.pop(r, None)
            elif kind == 0x90:
                ways = []
            elif kind == 0x00:
                ways = [target]
            elif kind in (0x10, 0x50) and not op & 8 and dst in values:
                ways = [target if (values[dst] == imm) == (kind == 0x10) else following]
            else:
                ways = [following, target]
        elif op & 7 in (0, 1, 4, 7):  # loads and arithmetic change dst
            values.pop(dst, None)
        state = tuple(sorted(values.items()))
        todo += [(way, state) for way in ways]
    return found


class Header:
    """Names of numbers, from the order in which the kernel's header has them."""

    def __init__(self):
        with open(HEADER, encoding="utf-8") as f:
            text = f.read()
        names = re.findall(r"^\s*FN\((\w+)", text, re.M)
        self.helpers = {i: "bpf_" + n for i, n in enumerate(names)}
        self.map_types = dict(enumerate(self.enum(text, "bpf_map_type")))
        self.commands = set(self.enum(text, "bpf_cmd"))

    @staticmethod
    def enum(text, name):
        body = re.sub(r"/\*.*?\*/", "", re.search(rf"enum {name} \{{(.*?)\}};", text, re.S)[1], flags=re.S)
        return re.findall(r"^\s*(\w+)", body, re.M)


class Used:
    """All features by kind, and the helpers that can be called without the ones in a set."""

    def __init__(self, root, objects):
        self.header = Header()
        self.objects = []
        map_types = set()
        for data in objects:
            elf = Elf(data)
            btf = Btf(elf.sections[".BTF"])
            self.objects.append((elf, btf.guards(elf.sections[".BTF.ext"])))
            map_types |= set(btf.map_types().values())
        self.features = {"helper": self.helpers(None), "program type": set(), "attach type": set()}
        self.features["map type"] = {self.header.map_types[n] for n in map_types}
        for _, section, _, _ in (f for elf, _ in self.objects for f in elf.functions):
            if section != ".text":
                kind, attach = SECTIONS[section.removeprefix("pa.").split("/")[0]]
                self.features["program type"].add("BPF_PROG_TYPE_" + kind)
                if attach:
                    self.features["attach type"].add(attach)
        self.sources = {}
        for folder, _, files in os.walk(os.path.join(root, "src")):
            for name in files:
                if name.endswith((".c", ".h")):
                    path = os.path.join(folder, name)
                    with open(path, encoding="utf-8") as f:
                        self.sources[os.path.relpath(path, root)] = f.read()
        user = "\n".join(t for p, t in self.sources.items() if not p.startswith("src/bpf/"))
        self.features["command"] = self.header.commands & {n.removesuffix("_opts").upper()
                                                           for n in re.findall(r"\b(bpf_[a-z_]+)\(", user)}
        self.features["system call"] = set(re.findall(r"\bSYS_(\w+)", user))

    def helpers(self, absent):
        """Names of the helpers that can be called; absent: those that do not exist, None: guards are not looked at."""
        out = set()
        for elf, asked in self.objects:
            for _, section, start, size in elf.functions:
                guards = {at: name for (s, at), name in asked.items() if s == section and absent is not None}
                out |= calls(elf.sections[section], start, start + size, guards, absent or set())
        return {self.header.helpers[n] for n in out}


# ---- rules ----------------------------------------------------------------------------------------------------------


def dotted(version):
    return ".".join(map(str, version))


def check(text, used):
    rows, problems = parse_table(text)
    numbers = {name: n for n, name in used.header.helpers.items()}
    for kind, features in used.features.items():
        listed = {name for name, row in rows.items() if row.kind == kind}
        problems += [f"{DOC}: {kind} {name} is used and not listed" for name in sorted(features - listed)]
        problems += [f"{DOC}: {kind} {name} is listed and not used" for name in sorted(listed - features)]
    for name, row in rows.items():
        required = row.twin == "required"
        if row.since <= FLOOR and not required:
            problems.append(f"{DOC}: {name} is there since {dotted(row.since)}: required, no twin is needed")
        if row.since > FLOOR and required:
            problems.append(f"{DOC}: {name} is newer than {dotted(FLOOR)}: it needs a twin")
        if row.kind == "helper" and name in numbers:
            earliest = max((v for v, first in FIRST if numbers[name] >= first), default=(0, 0))
            if earliest != (0, 0) and row.since != earliest or earliest == (0, 0) and row.since > (5, 4):
                problems.append(f"{DOC}: {name} is helper {numbers[name]}, of Linux {dotted(earliest)}, "
                                f"not {dotted(row.since)}")
        if row.kind != "helper" and row.since > FLOOR and not required:
            problems += check_twin(name, row.twin, used.sources)
    newer = {name for name, row in rows.items() if row.kind == "helper" and row.since > FLOOR}
    for name in sorted(newer & used.helpers(newer)):
        problems.append(f"{name} is called without a guard: on {dotted(FLOOR)} the object would not load")
    return problems


def check_twin(name, twin, sources):
    words = re.findall(r"`([^`]+)`", twin)
    paths = [w for w in words if w.startswith("src/")]
    if len(paths) != 1 or len(words) < 2:
        return [f"{DOC}: the twin of {name} names one source, and something in it, in backticks"]
    if paths[0] not in sources:
        return [f"{DOC}: the twin of {name}: there is no {paths[0]}"]
    return [f"{DOC}: the twin of {name}: {w} is not in {paths[0]}" for w in words
            if w != paths[0] and w not in sources[paths[0]]]


# ---- self-test ------------------------------------------------------------------------------------------------------

# A pattern of the table, what is put in its place, and a part of what must be said then.
BAD = [
    (r"\| `bpf_ringbuf_query`.*\n", "", "helper bpf_ringbuf_query is used and not listed"),
    (r"\| `bpf_get_current_task`.*\n", "", "helper bpf_get_current_task is used and not listed"),
    (r"\| `BPF_MAP_TYPE_RINGBUF`.*\n", "", "map type BPF_MAP_TYPE_RINGBUF is used and not listed"),
    (r"\| `BPF_PROG_TYPE_TRACING`.*\n", "", "program type BPF_PROG_TYPE_TRACING is used and not listed"),
    (r"\| `BPF_TRACE_ITER`.*\n", "", "attach type BPF_TRACE_ITER is used and not listed"),
    (r"\| `BPF_LINK_CREATE`.*\n", "", "command BPF_LINK_CREATE is used and not listed"),
    (r"\| `pidfd_open`.*\n", "", "system call pidfd_open is used and not listed"),
    (r"`bpf_ringbuf_query`", "`bpf_ringbuf_discard`", "helper bpf_ringbuf_discard is listed and not used"),
    (r"(\| `bpf_task_pt_regs` \| helper \| 5.15 \|).*\|\n", r"\1 required |\n", "bpf_task_pt_regs is newer than 5.10"),
    (r"(\| `bpf_task_pt_regs` \| helper \|) 5.15", r"\1 5.11", "of Linux 5.15, not 5.11"),
    (r"(\| `bpf_ringbuf_query` \| helper \|) 5.8 \| required", r"\1 5.11 | a twin that is not there",
     "bpf_ringbuf_query is called without a guard"),
    (r"(\| `bpf_ringbuf_query` \| helper \| 5.8 \|) required", r"\1 something", "required, no twin is needed"),
    (r"`PERF_EVENT_IOC_SET_BPF`", "`PERF_EVENT_IOC_NOTHING`", "PERF_EVENT_IOC_NOTHING is not in src/loader/load_oncpu.c"),
    (r"`src/loader/load_oncpu.c`", "`src/loader/gone.c`", "there is no src/loader/gone.c"),
    (r"(\| `BPF_PERF_EVENT` \| attach type \| 5.15 \|).*\|\n", r"\1 another way |\n", "names one source"),
    (r"(\| `bpf_ringbuf_query`.*\n)", r"\1\1", "is there twice"),
    (r"\| helper \| 5.8 \|", "| helpers | 5.8 |", "not a row of"),
    (r"\| feature \| kind", "| thing | kind", "no table"),
]


def self_test(root, objects):
    with open(os.path.join(root, DOC), encoding="utf-8") as f:
        good = f.read()
    used, failed = Used(root, objects), 0
    for pattern, text, want in BAD:
        bad, count = re.subn(pattern, text, good)
        got = check(bad, used)
        if not count or not any(want in p for p in got):
            print(f"{pattern}: replaced {count} times, wanted '{want}', got {got}")
            failed += 1
    # Without its guards the object calls what 5.10 lacks.
    used.objects = [(elf, {}) for elf, _ in used.objects]
    got = check(good, used)
    for name in ("bpf_get_current_task_btf", "bpf_task_pt_regs"):
        if not any(f"{name} is called without a guard" in p for p in got):
            print(f"an object without guards: nothing about {name}: {got}")
            failed += 1
    print(f"{len(BAD) + 2 - failed} of {len(BAD) + 2} cases as expected")
    return failed


def main():
    args = [a for a in sys.argv[1:] if a != "--self-test"]
    if len(args) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    root, paths = args[0], args[1:]
    if not os.path.exists(HEADER):
        print(f"{HEADER} is not there: SKIP")
        return 77
    objects = []
    for path in paths:
        with open(path, "rb") as f:
            objects.append(f.read())
    if "--self-test" in sys.argv:
        return 1 if self_test(root, objects) else 0
    try:
        with open(os.path.join(root, DOC), encoding="utf-8") as f:
            problems = check(f.read(), Used(root, objects))
    except OSError as e:
        problems = [f"{e.filename}: {e.strerror}"]
    print(*problems, sep="\n")
    if not problems:
        print("the table agrees with the object and the sources")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
