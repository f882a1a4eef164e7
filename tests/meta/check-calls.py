#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the .c files of a module do not refer to each other in a circle.

  check-calls.py ROOT LIBRARY…   check the modules' static libraries; every one that src/ builds must be given
  check-calls.py --self-test     check that circles are found

 - A file refers to another of its module if its object needs a symbol that the other's object defines.
 - Data counts as functions do: a table that lists the values of other files is one direction, and a call from those
   files back into the file of the table closes the circle.
 - A call through a function pointer is not seen.
"""

import os
import re
import subprocess
import sys
import tempfile

# Global symbols: code, data, constants, zeroed data, common, weak.
DEFINED = set("TDRBCWV")


def parse_nm(text):
    """Returns {object: (symbols that it defines, symbols that it needs)} of the output of nm LIBRARY."""
    objects = {}
    current = None
    for line in text.splitlines():
        header = re.fullmatch(r"(?:.*/)?([^/\s]+)\.o:", line)
        if header:
            current = objects.setdefault(header[1], (set(), set()))
            continue
        words = line.split()
        if current is None or len(words) < 2 or len(words[-2]) != 1:
            continue
        kind, symbol = words[-2:]
        if kind in DEFINED:
            current[0].add(symbol)
        elif kind == "U":
            current[1].add(symbol)
    return objects


def graph_of(objects):
    """Returns {file: {file that it refers to: [symbol]}}."""
    owner = {s: name for name, (defined, _) in objects.items() for s in defined}
    graph = {name: {} for name in objects}
    for name, (_, needed) in objects.items():
        for s in sorted(needed):
            if owner.get(s, name) != name:
                graph[name].setdefault(owner[s], []).append(s)
    return graph


def shortest_circle(graph, start):
    """Returns the files of the shortest circle through start, start last; None if there is none."""
    before = {}
    queue = [start]
    for name in queue:
        for to in graph[name]:
            if to not in before:
                before[to] = name
                queue.append(to)
    if start not in before:
        return None
    circle = [start]
    while before[circle[0]] != start:
        circle.insert(0, before[circle[0]])
    return circle


def components(graph):
    """Yields the sets of files that reach each other."""
    def reach(start):
        found, queue = {start}, [start]
        for name in queue:
            for to in graph[name]:
                if to not in found:
                    found.add(to)
                    queue.append(to)
        return found

    reached = {name: reach(name) for name in graph}
    left = sorted(graph)
    while left:
        group = sorted(n for n in left if n in reached[left[0]] and left[0] in reached[n])
        left = [n for n in left if n not in group]
        if len(group) > 1:
            yield group


def circles(module, objects):
    """Yields a message for each group of files that reach each other."""
    graph = graph_of(objects)
    for group in components(graph):
        circle = min((shortest_circle(graph, name) for name in group), key=len)
        steps = [f"{a} -> {b} ({', '.join(graph[a][b][:4])})" for a, b in zip(circle[-1:] + circle[:-1], circle)]
        yield f"src/{module}: {len(group)} files in a circle: {' '.join(group)}; the shortest: {'; '.join(steps)}"


def built_modules(root):
    """Names of the modules' static libraries."""
    names = set()
    for folder, _, files in os.walk(os.path.join(root, "src")):
        if "meson.build" in files:
            with open(os.path.join(folder, "meson.build"), encoding="utf-8") as f:
                names |= set(re.findall(r"\bstatic_library\(\s*'([\w-]+)'", f.read()))
    return names


def check(root, libraries):
    """Returns ([problem], number of objects)."""
    problems, count = [], 0
    given = {}
    for path in libraries:
        m = re.fullmatch(r"lib([\w-]+)\.a", os.path.basename(path))
        if not m:
            problems.append(f"{path}: not a static library")
            continue
        text = subprocess.run(["nm", path], check=True, capture_output=True, text=True).stdout
        given[m[1]] = parse_nm(text)
        if not given[m[1]]:
            problems.append(f"{path}: nm lists no object")
    for name in sorted(built_modules(root) - set(given)):
        problems.append(f"src/{name}: its library is not checked: tests/meta/meson.build")
    for name, objects in sorted(given.items()):
        count += len(objects)
        problems += circles(name, objects)
    if count == 0:
        problems.append("no object was given")
    return problems, count


# ---- self-test ------------------------------------------------------------------------------------------------------

def nm_text(files):
    """Output of nm for {file: (defined, needed)}; a name with a colon carries its kind of symbol."""
    out = []
    for name, (defined, needed) in files.items():
        out.append(f"\n{name}.o:")
        for s in defined.split():
            symbol, _, kind = s.partition(":")
            out.append(f"0000000000000010 {kind or 'T'} {symbol}")
        out += [f"                 U {s}" for s in needed.split()]
    return "\n".join(out)


# Files, and a part of the message that must come of them (None: no message).
CASES = [
    ({"a.c": ("a1", "b1 c1 printf"), "b.c": ("b1", "c1"), "c.c": ("c1 c2", "malloc")}, None),
    ({"a.c": ("a1", "b1"), "b.c": ("b1", "a1")}, "2 files in a circle: a.c b.c"),
    ({"a.c": ("a1", "b1"), "b.c": ("b1", "c1"), "c.c": ("c1", "d1"), "d.c": ("d1", "b1")},
     "3 files in a circle: b.c c.c d.c"),
    ({"a.c": ("a1", "b1"), "b.c": ("b1", "c1 a1"), "c.c": ("c1", "a1")}, "the shortest: a.c -> b.c (b1); b.c -> a.c (a1)"),
    # A table and its rows.
    ({"table.c": ("table:D", "row"), "row.c": ("row:R", "printf")}, None),
    ({"table.c": ("table:D pick", "row"), "row.c": ("row:R", "pick")}, "row.c -> table.c (pick)"),
    # Local symbols of one name, and a weak one.
    ({"a.c": ("a1 same:t", "b1"), "b.c": ("b1 same:t", "")}, None),
    ({"a.c": ("a1:W", "b1"), "b.c": ("b1", "a1")}, "2 files in a circle"),
    # A file's own symbol, needed and defined.
    ({"a.c": ("a1", "a1")}, None),
]


def self_test():
    failed = 0
    for files, want in CASES:
        got = list(circles("m", parse_nm(nm_text(files))))
        if (want is None and got) or (want is not None and not any(want in p for p in got)):
            print(f"{files}: wanted {want}, got {got}")
            failed += 1
    with tempfile.TemporaryDirectory() as root:
        failed += self_test_library(root)
    print(f"{len(CASES) + 3 - failed} of {len(CASES) + 3} cases as expected")
    return failed


def self_test_library(root):
    """With the real nm: a circle of two compiled files, a module that is not given, nothing given."""
    os.makedirs(os.path.join(root, "src/x"))
    texts = {"one.c": "int two(void); int one(void) { return two(); }\n",
             "two.c": "int one(void); int two(void) { return one(); }\n",
             "src/x/meson.build": "lib_x = static_library('x', 'one.c')\nlib_y = static_library('y', 'z.c')\n"}
    for name, text in texts.items():
        with open(os.path.join(root, name), "w", encoding="utf-8") as f:
            f.write(text)
    for name in ("one", "two"):
        subprocess.run(["cc", "-c", "-o", f"{root}/{name}.c.o", f"{root}/{name}.c"], check=True)
    subprocess.run(["ar", "rcs", f"{root}/libx.a", f"{root}/one.c.o", f"{root}/two.c.o"], check=True)
    problems, _ = check(root, [f"{root}/libx.a"])
    nothing, _ = check(root, [])
    wanted = [(problems, "src/x: 2 files in a circle: one.c two.c"), (problems, "src/y: its library is not checked"),
              (nothing, "no object was given")]
    failed = 0
    for got, want in wanted:
        if not any(want in p for p in got):
            print(f"wanted {want}, got {got}")
            failed += 1
    return failed


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    if sys.argv[1] == "--self-test":
        return 1 if self_test() else 0
    problems, count = check(sys.argv[1], sys.argv[2:])
    for p in problems:
        print(p)
    print(f"{count} objects, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
