#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/counters.md from the two tables of counters.

  gen-counters-doc.py ROOT           write it
  gen-counters-doc.py --check ROOT   exit 1 if it is not what would be written
  gen-counters-doc.py --self-test    check that damaged tables are refused

A table is a list of X(ID, "name", "unit", KIND, "help") and comments.
"""

import difflib
import os
import re
import sys

DOC = "docs/counters.md"
# Table and its title.
TABLES = (("src/bpf/abi/counters.def", "Kernel side"), ("src/tally/counters.def", "User side"))
KINDS = ("TICK", "DROP", "LOSS", "INFO")

STRING = r'"(?:\\.|[^"\\\n])*"'
ENTRY = re.compile(rf"\s*X\(\s*(\w+)\s*,\s*((?:{STRING}\s*)+),\s*((?:{STRING}\s*)+),\s*(\w+)\s*,\s*((?:{STRING}\s*)+)\)")

INTRO = """\
# Counters

<!-- Written by tools/gen-counters-doc.py from the tables of counters: change those, then run it. -->

What the agent counts while it samples, so that nothing is lost in silence. The library hands them out one by one
(`pfa_counter`).

A counter is one of four kinds. *tick*: every run of the program in the kernel is exactly one of these. *drop*: a
reason for which a sample that hit the target is not in the profile. *loss*: something else was lost or degraded; in no
sum, but a line of each profile in which it is not 0. *info*: a statistic alongside them, in no sum.

"""


class BadTable(Exception):
    pass


def text_of(strings):
    """The text of C string literals that follow each other."""
    parts = re.findall(STRING, strings)
    return re.sub(r"\\(.)", r"\1", "".join(p[1:-1] for p in parts))


def parse(path, text):
    """[(id, name, unit, kind, help)]"""
    text = re.sub(rf"{STRING}|//[^\n]*|/\*.*?\*/", lambda m: m[0] if m[0][0] == '"' else " ", text, flags=re.S)
    rows, at = [], 0
    while text[at:].strip():
        m = ENTRY.match(text, at)
        if not m:
            raise BadTable(f"{path}: no counter: {text[at:].strip()[:60]!r}")
        row = (m[1], text_of(m[2]), text_of(m[3]), m[4], text_of(m[5]))
        if row[3] not in KINDS:
            raise BadTable(f"{path}: {row[0]}: kind {row[3]} is none of {', '.join(KINDS)}")
        if not re.fullmatch(r"[a-z][a-z0-9_]*", row[1]):
            raise BadTable(f"{path}: {row[0]}: name '{row[1]}' is not of the form a-z0-9_")
        if not row[2] or not row[4]:
            raise BadTable(f"{path}: {row[0]}: no unit or no help")
        rows.append(row)
        at = m.end()
    if not rows:
        raise BadTable(f"{path}: no counters")
    return rows


def check_unique(tables):
    names = set()
    for path, _, rows in tables:
        ids = set()
        for row in rows:
            if row[0] in ids:
                raise BadTable(f"{path}: {row[0]} is there twice")
            if row[1] in names:
                raise BadTable(f"{path}: the name {row[1]} is taken")
            ids.add(row[0])
            names.add(row[1])


def names_of(rows, kind):
    return [f"`{r[1]}`" for r in rows if r[3] == kind]


def sums(tables):
    """The law that the kinds mean, in the names of this version."""
    kernel, *user = [rows for _, _, rows in tables]
    drops = " + ".join(names_of(kernel, "DROP"))
    out = "These hold exactly at the end of a run:\n\n"
    out += f"- ticks = {' + '.join(names_of(kernel, 'TICK'))}\n"
    out += f"- `samples_seen` = `samples_kept` + {drops}\n"
    for rows in user:
        out += f"- `samples_kept` = samples in the profile + {' + '.join(names_of(rows, 'DROP'))}\n"
    return out + "\n"


def document(tables):
    out = INTRO + sums(tables)
    for path, title, rows in tables:
        out += f"## {title}\n\nFrom `{path}`.\n\n| counter | unit | kind | what |\n|---|---|---|---|\n"
        for _, name, unit, kind, text in rows:
            out += f"| `{name}` | {unit} | {kind.lower()} | {text.replace('|', chr(92) + '|')} |\n"
        out += "\n"
    return out.rstrip("\n") + "\n"


def load(root):
    tables = []
    for path, title in TABLES:
        with open(os.path.join(root, path), encoding="utf-8") as f:
            tables.append((path, title, parse(path, f.read())))
    check_unique(tables)
    return tables


# ---- self-test ------------------------------------------------------------------------------------------------------

GOOD = '/* X(NO, "no") */\nX(A, "a", "samples", TICK, "one, (two)" " \\"three\\" | /* no comment */")\n' \
       '  X(B,\n "b_2" , "x", DROP, "h") // end\n'
BAD = (
    "", "/* nothing */", "X(A)", "junk " + GOOD, GOOD + "junk", 'X(A, "a", "u", LOST, "h")', 'X(A, "A b", "u", INFO, "h")',
    'X(A, "a", "", INFO, "h")', 'X(A, "a", "u", INFO, "")', 'X(A, "a", "u", INFO)', 'X(A, "a", "u", INFO, "h"',
    'X(A, "a", "u", INFO, "h", "more")', 'X(A, "a", "u", INFO, "h")X(A, "b", "u", INFO, "h")',
    'X(A, "a", "u", INFO, "h")X(B, "a", "u", INFO, "h")',
)


def self_test():
    failed = 0
    rows = parse("good", GOOD)
    want = [("A", "a", "samples", "TICK", 'one, (two) "three" | /* no comment */'), ("B", "b_2", "x", "DROP", "h")]
    doc = document([("k.def", "K", rows), ("u.def", "U", [("C", "c", "x", "DROP", "h")])])
    if rows != want:
        print(f"wanted {want}, got {rows}")
        failed += 1
    for line in ("- ticks = `a`", "- `samples_seen` = `samples_kept` + `b_2`", "in the profile + `c`",
                 '| `a` | samples | tick | one, (two) "three" \\| /* no comment */ |', "| `c` | x | drop | h |"):
        if line not in doc:
            print(f"not in the document: {line}")
            failed += 1
    for text in BAD:
        try:
            check_unique([("bad", "", parse("bad", text))])
            print(f"taken for a table: {text!r}")
            failed += 1
        except BadTable:
            pass
    print(f"{failed} of {len(BAD) + 6} cases failed")
    return failed


def main():
    args = sys.argv[1:]
    if args == ["--self-test"]:
        return 1 if self_test() else 0
    check = args[:1] == ["--check"]
    if len(args) != 1 + check:
        print(__doc__, file=sys.stderr)
        return 2
    doc_path = os.path.join(args[-1], DOC)
    try:
        new = document(load(args[-1]))
        if not check:
            with open(doc_path, "w", encoding="utf-8") as f:
                f.write(new)
            return 0
        with open(doc_path, encoding="utf-8") as f:
            old = f.read()
    except (OSError, BadTable) as e:
        print(e, file=sys.stderr)
        return 1
    if old == new:
        return 0
    sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), DOC, "from the tables"))
    print(f"{DOC} is not up to date: run tools/gen-counters-doc.py .")
    return 1


if __name__ == "__main__":
    sys.exit(main())
