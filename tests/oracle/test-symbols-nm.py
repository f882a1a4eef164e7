#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Our symbolizer against nm, c++filt and a naive reading of /proc/kallsyms.

usage: test-symbols-nm.py SYM_DRIVER [ELF_FILE...]

The rule for the choice between symbols (src/symbolize/symbolize.h) is written here once more, over
what nm prints. No mismatch is allowed. Output is TAP.
"""

import bisect
import glob
import os
import shutil
import subprocess
import sys
import tempfile

ADDRESSES_PER_FILE = 20000
INSTALLED = [
    "/lib/*-linux-gnu/libc.so.6",
    "/lib*/ld-linux-*.so.*",
    "/usr/lib/*-linux-gnu/libstdc++.so.6",
    "/usr/lib/*-linux-gnu/libLLVM-*.so.1",
    "/usr/lib/*-linux-gnu/libcrypto.so.3",
    "/usr/lib/*-linux-gnu/libelf.so.1",
    "/usr/bin/python3",
    "/usr/bin/bash",
    "/usr/bin/perf",
    "/usr/bin/gdb",
]
results = []


def report(ok, what):
    results.append(ok)
    print(f"{'ok' if ok else 'not ok'} {len(results)} - {what}", flush=True)


def run(args, data=None):
    done = subprocess.run(args, input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          encoding="utf-8", errors="surrogateescape",
                          env=dict(os.environ, LC_ALL="C"))
    if done.returncode != 0:
        raise RuntimeError(f"{args}: {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def exec_segments(path):
    segs = []
    for line in run(["readelf", "-lW", path]).splitlines():
        f = line.split()
        # Type Offset VirtAddr PhysAddr FileSiz MemSiz Flg Align; flags may be apart ("R E")
        if f[:1] == ["LOAD"] and "E" in f[6:-1]:
            off, vaddr, size = int(f[1], 16), int(f[2], 16), int(f[4], 16)
            segs.append((vaddr, vaddr + size, off))
    return segs


def sections(path):
    """Name to (start, end, executable) of the sections that are loaded."""
    found = {}
    for line in run(["readelf", "-SW", path]).splitlines():
        if "]" not in line:
            continue
        f = line.split("]", 1)[1].split()
        if len(f) < 10 or f[0] == "Name" or "A" not in f[6]:
            continue
        start, size = int(f[2], 16), int(f[4], 16)
        found[f[0]] = (start, start + size, "X" in f[6])
    return found


class Symbol:
    def __init__(self, name, value, size, rank, limit):
        self.name, self.value, self.size, self.limit = name, value, size, limit
        underscores = len(name) - len(name.lstrip("_"))
        self.alias_key = (rank, underscores, name.encode("utf-8", "surrogateescape"))


def ifunc_ranks(path):
    """(value, name) to rank of the IFUNCs: nm shows their class, "i", in the place of their binding."""
    ranks = {}
    for line in run(["readelf", "-sW", path]).splitlines():
        f = line.split()
        if len(f) >= 8 and f[3] == "IFUNC":
            ranks[int(f[1], 16), f[7].split("@")[0]] = {"GLOBAL": 0, "WEAK": 1}.get(f[4], 2)
    return ranks


def symbols(path):
    secs = sections(path)
    ifuncs = ifunc_ranks(path)
    found = []
    for flags in ([], ["-D"]):
        for line in run(["nm", "-f", "sysv", "--defined-only"] + flags + [path]).splitlines():
            f = line.split("|")
            if len(f) != 7:
                continue
            name, value, cls, kind, size, _, sec = [x.strip() for x in f]
            if flags:
                name = name.split("@")[0]  # nm adds the version
            if not name or kind not in ("FUNC", "NOTYPE", "IFUNC", "<OS specific>: 10"):
                continue
            if kind == "NOTYPE" and (sec not in secs or not secs[sec][2]):
                continue
            value, size = int(value, 16), int(size or "0", 16)
            if cls == "i":
                rank = ifuncs[value, name.split("@")[0]]
            else:
                rank = 1 if cls in "WwVv" else 0 if cls.isupper() or cls == "u" else 2
            limit = secs[sec][1] if sec in secs else value
            found.append(Symbol(name, value, size, rank, limit))
    return found


def spread(syms, segs):
    addrs = set()
    for s in syms:
        addrs.update((s.value - 1, s.value, s.value + s.size // 2, s.value + s.size - 1,
                      s.value + s.size, s.value + s.size + 5))
    addrs = sorted(a for a in addrs if any(lo <= a < hi for lo, hi, _ in segs))
    step = max(1, len(addrs) // ADDRESSES_PER_FILE)
    # blocks, so that starts, ends and gaps of the same symbols stay together
    return [a for i, a in enumerate(addrs) if (i // 16) % step == 0]


def expected(syms, addrs):
    """The name for each address: sized innermost, else the last of size 0 with nothing between."""
    sized = sorted((s for s in syms if s.size), key=lambda s: s.value)
    zero = {}
    for s in syms:
        if s.size == 0 and s.limit > s.value:
            if s.value not in zero or s.alias_key < zero[s.value].alias_key:
                zero[s.value] = s
    bounds = sorted({s.value for s in syms} | {s.value + s.size for s in syms})
    active, k, names = [], 0, []
    for a in addrs:
        while k < len(sized) and sized[k].value <= a:
            active.append(sized[k])
            k += 1
        active = [s for s in active if s.value + s.size > a]
        if active:
            best = min(active, key=lambda s: (-s.value, s.size) + s.alias_key)
            names.append((best.name, best.value))
            continue
        i = bisect.bisect_right(bounds, a)
        best = zero.get(bounds[i - 1]) if i else None
        names.append((best.name, best.value) if best and a < best.limit else None)
    return names


def demangled(names):
    """name without version, and through c++filt (-i: as our flags ask for)"""
    bare = [n.split("@")[0] or n for n in names]
    out = run(["c++filt", "-i"], "".join(n + "\n" for n in bare)).split("\n")[:-1]
    assert len(out) == len(bare)
    return [o if n.startswith(("_Z", "_R", "_GLOBAL_")) else n for n, o in zip(bare, out)]


def check_elf(driver, path):
    segs = exec_segments(path)
    syms = symbols(path)
    addrs = spread(syms, segs)
    if not addrs:
        report(True, f"{path} # SKIP has no symbols of code")
        return
    want = expected(syms, addrs)
    got = run([driver, "elf", path], "".join(f"{a:x}\n" for a in addrs)).split("\n")[:-1]
    shown = dict(zip((w[0] for w in want if w), demangled([w[0] for w in want if w])))
    bad = 0
    for a, w, line in zip(addrs, want, got):
        if w:
            seg = next(s for s in segs if s[0] <= a < s[1])
            text = f"{w[0]}\t{shown[w[0]]}\t{w[1] - seg[0] + seg[2]:x}"
        else:
            text = "-\tno symbol covers the address"
        if line != text:
            bad += 1
            if bad <= 10:
                print(f"# {path} {a:x}: '{line}', expected '{text}'")
    named = sum(1 for w in want if w)
    report(bad == 0 and len(got) == len(addrs) and named > 0,
           f"{path}: {len(addrs)} addresses, {named} named, {bad} mismatches")


def check_demangle(driver, paths):
    names = set()
    for path in paths:
        names.update(s.name.split("@")[0] for s in symbols(path)
                     if s.name.startswith(("_Z", "_R")))
    names = sorted(names)
    if not names:
        report(True, "demangling # SKIP no mangled names installed")
        return
    got = run([driver, "demangle"], "".join(n + "\n" for n in names)).split("\n")[:-1]
    bad = [(n, g, w) for n, g, w in zip(names, got, demangled(names)) if g != w]
    for n, g, w in bad[:10]:
        print(f"# {n}: '{g}', c++filt says '{w}'")
    report(not bad and len(got) == len(names), f"{len(names)} names as c++filt shows them")


ENDS = ("_etext", "_einittext", "__inittext_end", "__init_end", "_end")


def kernel_table(text):
    """Address to the best name; None: data, or the end of the kernel's own code."""
    best = {}
    for line in text.splitlines():
        addr, kind, name = line.split(" ", 2)
        addr = int(addr, 16)
        if kind in "Aa" or addr == 0:
            continue
        rank = 3 if name in ENDS else {"T": 0, "W": 1, "w": 1, "t": 2}.get(kind, 3)
        key = (rank, len(name) - len(name.lstrip("_")), name.encode())
        if addr not in best or key < best[addr][0]:
            best[addr] = (key, name if rank < 3 else None)
    return {addr: name for addr, (_, name) in best.items()}


def module_of(name):
    return name.partition("\t")[2] if name else ""


def kernel_end(table, starts, i):
    """Returns the end of the code at starts[i]: docs/kernel-symbols.md."""
    start, module = starts[i], module_of(table[starts[i]])
    after = starts[i + 1] if i + 1 < len(starts) else None
    end = min(start + (1 << 20), after or 1 << 64)
    other = module_of(table[after]) if after else ""
    if (after and not module and not other) or module == "[bpf]" or (module and module == other):
        return end
    return min(end, (start | 0xfff) + 1)


def check_kernel(driver):
    try:
        with open("/proc/kallsyms", encoding="ascii") as f:
            text = f.read()
    except OSError as e:
        report(True, f"kallsyms # SKIP {e}")
        return
    table = kernel_table(text)
    if not any(table.values()):
        report(True, "kallsyms # SKIP addresses are hidden: needs CAP_SYSLOG")
        return
    starts = sorted(table)
    addrs = set()
    for i in range(0, len(starts), max(1, len(starts) // 3333)):
        if not table[starts[i]]:
            continue
        end = starts[i + 1] if i + 1 < len(starts) else starts[i] + 64
        addrs.update((starts[i], (starts[i] + end) // 2, end - 1, starts[i] + (1 << 20)))
    addrs = sorted(addrs)
    want = []
    for a in addrs:
        i = bisect.bisect_right(starts, a) - 1
        s = starts[i]
        name = table[s].replace("\t", " ") if table[s] and a < kernel_end(table, starts, i) else None
        want.append(f"{name.split(' ')[0]}\t{name}\t{s:x}" if name else
                    "-\tno symbol covers the address")
    with tempfile.NamedTemporaryFile("w", encoding="ascii") as snapshot:
        snapshot.write(text)
        snapshot.flush()
        for path in ([snapshot.name], []):
            got = run([driver, "kernel"] + path, "".join(f"{a:x}\n" for a in addrs))
            got = got.split("\n")[:-1]
            # the running kernel's modules and BPF programs may have changed since
            bad = [(g, w) for g, w in zip(got, want)
                   if g != w and (path or "[" not in g + w)]
            for g, w in bad[:10]:
                print(f"# '{g}', expected '{w}'")
            report(not bad and len(got) == len(addrs),
                   f"{len(addrs)} addresses of {'a copy of ' if path else ''}kallsyms")


def main():
    driver, files = sys.argv[1], sys.argv[2:]
    missing = [t for t in ("nm", "readelf", "c++filt") if not shutil.which(t)]
    if missing:
        print(f"1..0 # SKIP {', '.join(missing)} not installed")
        return 0
    installed = [p for pattern in INSTALLED for p in sorted(glob.glob(pattern))[:1]]
    for path in installed + files:
        check_elf(driver, path)
    check_demangle(driver, installed)
    check_kernel(driver)
    print(f"1..{len(results)}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
