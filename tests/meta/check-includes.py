#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every #include in src/ against the table of layers in docs/architecture.md.

  check-includes.py ROOT          check the tree
  check-includes.py --self-test   check that each kind of violation is found

The table is the one with the columns "level | module | owns | may include". In its last column are, with commas
between them: modules, single headers of other modules (step/step.h), outer headers in angle brackets (then
the module may include no others), "all below", "the public header only", "libc", and outer libraries, also in
parentheses.

Rules:
 - a module includes itself, and others only if the table lets it;
 - what it may include has a lower level: no cycle, and nothing of its own level;
 - of another module only <module>.h, its *.def tables and the headers that the table names; never *_priv.h;
 - headers of outer libraries only where the table names the library;
 - every file of src/ belongs to a module of the table.
"""

import os
import re
import sys
import tempfile

TABLE = "docs/architecture.md"
PUBLIC = "perfagent/perfagent.h"
PUBLIC_PARTS = ("perfagent/perfagent_snapshot.h", "perfagent/perfagent_report.h")  # the same for the table
SUFFIXES = (".c", ".h", ".def", ".inc")
# Outer libraries and how their headers begin. What is not listed is libc's or the kernel's.
LIBRARIES = {
    "libbpf": ("bpf/",),
    "libelf": ("libelf.h", "gelf.h", "nlist.h"),
    "dwarf.h": ("dwarf.h",),  # of libdw, whose constants are used and no code
    "libdw": ("elfutils/",),
    "libdeflate": ("libdeflate.h",),
    "libiberty": ("libiberty/", "demangle.h", "libiberty.h"),
    "libcap": ("sys/capability.h",),
    "libcurl": ("curl/",),
    "libmicrohttpd": ("microhttpd.h",),
    "xxhash": ("xxhash.h", "xxh3.h"),
    "uthash": ("uthash.h", "utlist.h", "utarray.h", "utstring.h"),
    "zlib": ("zlib.h",),
    "libzstd": ("zstd.h",),
    "liblzma": ("lzma.h",),
    "cmocka": ("cmocka.h",),
}


class Module:
    def __init__(self, name, level):
        self.name = name
        self.level = level
        self.modules = set()
        self.headers = set()  # single headers of other modules
        self.angle = set()  # the only outer headers, if any
        self.libraries = set()
        self.public_only = False


def table_rows(text):
    rows = []
    inside = False
    for line in text.splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if not line.strip().startswith("|"):
            inside = False
        elif [c.lower() for c in cells] == ["level", "module", "owns", "may include"]:
            inside = True
        elif inside and len(cells) == 4 and not set(cells[0]) <= set("-: "):
            rows.append(cells)
    return rows


def parse_table(text):
    """Returns ({name: Module}, [problem])."""
    mods, problems = {}, []
    rows = table_rows(text)
    if not rows:
        return mods, [f"{TABLE}: no table 'level | module | owns | may include'"]
    for level, name, _, _ in rows:
        name = name.strip("`")
        try:
            value = float(level)
        except ValueError:
            problems.append(f"{TABLE}: module {name}: level '{level}' is not a number")
            continue
        if name in mods:
            problems.append(f"{TABLE}: module {name} is there twice")
        mods[name] = Module(name, value)
    for level, name, _, may in rows:
        m = mods.get(name.strip("`"))
        if m:
            parse_may(mods, m, may, problems)
    return mods, problems


def parse_may(mods, m, may, problems):
    def grant(word, other):
        if other.level >= m.level:
            problems.append(f"{TABLE}: {m.name} (level {m.level:g}) may include {word}, "
                            f"which is of level {other.level:g}: not below")

    words = [w.strip(" `") for w in re.split(r"[,()]", may)]
    for word in filter(None, words):
        if word in mods:
            grant(word, mods[word])
            m.modules.add(word)
        elif word == "all below":
            m.modules |= {o.name for o in mods.values() if o.level < m.level}
        elif word in ("public header", "the public header", "the public header only"):
            m.headers.add(PUBLIC)
            m.public_only = word.endswith("only")
        elif word in LIBRARIES:
            m.libraries.add(word)
        elif re.fullmatch(r"<[\w./-]+>", word):
            m.angle.add(word[1:-1])
        elif word.endswith(".h") and module_of(mods, word):
            grant(word, module_of(mods, word))
            m.headers.add(word)
        elif word != "libc":
            problems.append(f"{TABLE}: module {m.name}: '{word}' is no module, header or known library")
    if m.public_only and m.modules:
        problems.append(f"{TABLE}: {m.name} may include the public header only, and yet other modules")


def module_of(mods, path):
    """The module of a path relative to src/: the longest folder that the table names."""
    parts = path.split("/")[:-1]
    for n in range(len(parts), 0, -1):
        if "/".join(parts[:n]) in mods:
            return mods["/".join(parts[:n])]
    return None


def strip_comments(text):
    """Comments become blanks of as many lines; strings stay."""
    pattern = r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\""
    return re.sub(pattern, lambda t: t[0] if t[0][0] == '"' else "\n" * t[0].count("\n"), text, flags=re.S)


def includes_of(path):
    """Yields (line number, '"' or '<' or None, name)."""
    with open(path, encoding="utf-8", errors="surrogateescape") as f:
        text = strip_comments(f.read())
    for num, line in enumerate(text.splitlines(), 1):
        m = re.match(r"\s*#\s*include(?:_next)?\b\s*(.*)", line)
        if not m:
            continue
        what = re.match(r"([\"<])([^\">]+)[\">]", m[1])
        yield (num, what[1], what[2]) if what else (num, None, m[1].strip())


def source_files(top):
    for folder, dirs, files in os.walk(top):
        dirs.sort()
        for name in sorted(files):
            if name.endswith(SUFFIXES):
                yield os.path.join(folder, name)


def resolve(root, path, name):
    """The file under a quoted include: (path relative to src/, or the name itself if it is generated)."""
    src = os.path.join(root, "src")
    for base in (os.path.dirname(path), src):
        full = os.path.normpath(os.path.join(base, name))
        if os.path.isfile(full) and full.startswith(src + os.sep):
            return os.path.relpath(full, src)
    if "/" not in name:  # made by the build: belongs to who includes it
        return os.path.join(os.path.relpath(os.path.dirname(path), src), name)
    return os.path.normpath(name)


def check_quoted(mods, m, target):
    """None or what is wrong with module m including src/<target>."""
    if target == PUBLIC or target in PUBLIC_PARTS:
        return None if PUBLIC in m.headers else "the public header is not for this module"
    other = module_of(mods, target)
    if other is None:
        return "belongs to no module of the table"
    if other is m:
        return None
    if m.public_only:
        return "it may include the public header only"
    if target in m.headers:
        return None
    if other.level == m.level:
        return f"{other.name} is of the same level"
    if other.level > m.level:
        return f"{other.name} is above it"
    if other.name not in m.modules:
        return f"{other.name} is not among what it may include"
    if target.endswith("_priv.h"):
        return f"the header is private to {other.name}"
    if target.endswith(".def") or target == f"{other.name}/{other.name.split('/')[-1]}.h":
        return None
    return f"not the header of {other.name} that others may include"


def check_angle(m, name):
    if name == PUBLIC or name in PUBLIC_PARTS:
        return None if PUBLIC in m.headers else "the public header is not for this module"
    if m.angle:
        return None if name in m.angle else "not among the outer headers that it may include"
    for lib, prefixes in LIBRARIES.items():
        if name.startswith(prefixes) and lib not in m.libraries:
            return f"{lib} is not among what it may include"
    return None


def check_tree(root):
    problems = []
    try:
        with open(os.path.join(root, TABLE), encoding="utf-8") as f:
            mods, problems = parse_table(f.read())
    except OSError as e:
        return [f"{TABLE}: {e.strerror}"], 0
    src = os.path.join(root, "src")
    seen = 0
    for path in source_files(src):
        rel = os.path.relpath(path, src)
        m = module_of(mods, rel)
        if m is None:
            problems.append(f"src/{rel}: belongs to no module of {TABLE}")
            continue
        for num, kind, name in includes_of(path):
            seen += 1
            if kind == '"':
                wrong = check_quoted(mods, m, resolve(root, path, name))
            elif kind == "<":
                wrong = check_angle(m, name)
            else:
                wrong = "the name must be written out"
            if wrong:
                problems.append(f"src/{rel}:{num}: {m.name} includes {name}: {wrong}")
    for name in mods:
        if not os.path.isdir(os.path.join(src, name)):
            problems.append(f"{TABLE}: there is no src/{name}")
    for path in source_files(os.path.join(root, "include")):
        for num, kind, name in includes_of(path):
            seen += 1
            if kind != "<":
                problems.append(f"{os.path.relpath(path, root)}:{num}: the public header includes nothing: {name}")
    if seen == 0:
        problems.append("src: no #include was found: is this the root of the tree?")
    return problems, seen


# ---- self-test ------------------------------------------------------------------------------------------------------

GOOD_TABLE = """
| level | module | owns | may include |
|---|---|---|---|
| 0 | `base` | memory | libc, xxhash |
| 1 | `event` | values | base |
| 1 | `bpf/abi` | wire | `<linux/types.h>` |
| 2 | `left` | a thing | base, event, bpf/abi (libelf) |
| 2 | `right` | another | base, event |
| 3 | `bpf` | kernel side | bpf/abi, left/left_step.h (libbpf) |
| 4 | `top` | all | all below |
| 5 | `api` | face | top, the public header |
| 6 | `cli` | words | the public header only |
"""
GOOD_TREE = {
    "include/perfagent/perfagent.h": "#include <stdint.h>\n",
    "src/base/base.h": "#include <errno.h>\n",
    "src/base/vec.c": '#include <xxhash.h>\n#include "base/base.h"\n',
    "src/event/event.h": '#include "base/base.h"\n',
    "src/bpf/abi/abi.h": '#include <linux/types.h>\n#include "counters.def"\n',
    "src/bpf/abi/counters.def": "X(A)\n",
    "src/bpf/one.bpf.c": '#include <bpf/bpf_helpers.h>\n#include "bpf/abi/abi.h"\n'
                         '#include "bpf/lib/regs.h"\n#include "left/left_step.h"\n',
    "src/bpf/lib/regs.h": "",
    "src/bpf/one_skel.h": '#include "one.skel.h"\n',
    "src/left/left.h": '#include "base/base.h"\n#include "bpf/abi/abi.h"\n',
    "src/left/left_priv.h": '#include "left/left.h"\n#include <libelf.h>\n',
    "src/left/left_step.h": '/* #include "top/top.h" */\n// #include "top/top.h"\n',
    "src/right/right.h": '#include "event/event.h"\n',
    "src/top/top.h": '#include "left/left.h"\n# include "right/right.h"\n#include "bpf/abi/counters.def"\n',
    "src/top/top.c": '#include "top.h"\n',
    "src/api/api.c": '#include "top/top.h"\n#include "perfagent/perfagent.h"\n',
    "src/cli/cli_main.c": '#include <perfagent/perfagent.h>\n#include "cli_priv.h"\n',
    "src/cli/cli_priv.h": "#include <stdio.h>\n",
}
# Text that is added to a file (or replaced in the table), and a part of the message that must come of it.
BAD = [
    ("src/event/event.h", '#include "left/left.h"\n', "left is above it"),
    ("src/base/vec.c", '#include "top/top.h"\n', "top is above it"),
    ("src/right/right.h", '#include "left/left.h"\n', "left is of the same level"),
    ("src/right/right.h", '#include "bpf/abi/abi.h"\n', "bpf/abi is not among"),
    ("src/right/right.h", '\t#  include "../left/left.h"\n', "left is of the same level"),
    ("src/bpf/one.bpf.c", '#include "left/left.h"\n', "left is not among"),
    ("src/top/top.c", '#include "left/left_priv.h"\n', "private to left"),
    ("src/top/top.c", '#include "left/left_step.h"\n', "not the header of left"),
    ("src/top/top.c", '#include "perfagent/perfagent.h"\n', "the public header is not for"),
    ("src/top/top.c", "#include <perfagent/perfagent.h>\n", "the public header is not for"),
    ("src/top/top.c", "#include <perfagent/perfagent_snapshot.h>\n", "the public header is not for"),
    ("src/top/top.c", '#include "perfagent/perfagent_snapshot.h"\n', "the public header is not for"),
    ("src/top/top.c", '#include "nowhere/x.h"\n', "belongs to no module"),
    ("src/top/top.c", "#include HEADER\n", "must be written out"),
    ("src/cli/cli_main.c", '#include "base/base.h"\n', "the public header only"),
    ("src/cli/cli_main.c", '#include "top/top.h"\n', "the public header only"),
    ("src/right/right.h", "#include <libelf.h>\n", "libelf is not among"),
    ("src/right/right.h", "#include <bpf/libbpf.h>\n", "libbpf is not among"),
    ("src/right/right.h", "#include <uthash.h>\n", "uthash is not among"),
    ("src/right/right.h", "#include <dwarf.h>\n", "dwarf.h is not among"),
    ("src/bpf/abi/abi.h", "#include <stdint.h>\n", "not among the outer headers"),
    ("src/stray.c", "", "src/stray.c: belongs to no module"),
    ("src/extra/extra.c", "", "belongs to no module"),
    ("include/perfagent/perfagent.h", '#include "base/base.h"\n', "includes nothing"),
    (TABLE, ("base, event |", "base, left |"), "which is of level 2: not below"),
    (TABLE, ("base, event |", "base, nowhere |"), "'nowhere' is no module"),
    (TABLE, ("| 5 |", "| five |"), "level 'five' is not a number"),
    (TABLE, ("`event`", "`base`"), "is there twice"),
    (TABLE, ("| 6 |", "| 6 | `gone` | x | base |\n| 6 |"), "there is no src/gone"),
    (TABLE, ("owns", "has"), "no table"),
    (TABLE, ("the public header only", "the public header only, base"), "and yet other modules"),
]


def problems_of(tree):
    with tempfile.TemporaryDirectory() as root:
        for name, text in tree.items():
            path = os.path.join(root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        return check_tree(root)[0]


def self_test():
    good = dict(GOOD_TREE)
    good[TABLE] = GOOD_TABLE
    failed = 0
    got = problems_of(good)
    if got:
        print("the good tree has problems:", *got, sep="\n  ")
        failed += 1
    for name, change, want in BAD:
        tree = dict(good)
        tree[name] = tree[name].replace(*change) if isinstance(change, tuple) else tree.get(name, "") + change
        got = problems_of(tree)
        if not any(want in p for p in got):
            print(f"{name} with {change!r}: wanted '{want}', got {got}")
            failed += 1
    if not problems_of({}):
        print("an empty tree has no problem")
        failed += 1
    print(f"{len(BAD) + 2 - failed} of {len(BAD) + 2} cases as expected")
    return failed


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    if sys.argv[1] == "--self-test":
        return 1 if self_test() else 0
    problems, seen = check_tree(sys.argv[1])
    for p in problems:
        print(p)
    print(f"{seen} includes, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
