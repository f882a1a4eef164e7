#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that each relative link of the documents leads to a file, and to a heading of it where it names one.

  check-links.py ROOT          check README.md, CHANGELOG.md, CONTRIBUTING.md and the documents below docs/ and tests/
  check-links.py --self-test   check that each kind of broken link is found
"""

import os
import re
import sys
import tempfile

TOPS = ("docs", "tests")
LINK = re.compile(r"\]\(([^)\s]+)\)")
SAMPLES = re.compile(r"^```.*?^```|^    .*?$", re.S | re.M)


def documents(root):
    yield from sorted(n for n in os.listdir(root) if n.endswith(".md"))
    for top in TOPS:
        for folder, _, names in os.walk(os.path.join(root, top)):
            yield from (os.path.relpath(os.path.join(folder, n), root) for n in sorted(names) if n.endswith(".md"))


def text_of(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as f:
        return SAMPLES.sub("", f.read())


def anchors(text):
    """The anchors that GitHub gives to the headings."""
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", h).lower()).strip().replace(" ", "-")
            for h in re.findall(r"^#+ (.*)$", text, re.M)}


def check_tree(root):
    """Returns ([problem], number of links)."""
    problems, count = [], 0
    for document in documents(root):
        text = text_of(root, document)
        for m in LINK.finditer(text):
            if re.match(r"[a-z]+:", m[1]):
                continue
            count += 1
            path, _, anchor = m[1].partition("#")
            target = os.path.normpath(os.path.join(os.path.dirname(document), path)) if path else document
            if not os.path.exists(os.path.join(root, target)):
                problems.append(f"{document}: {m[1]}: there is no {target}")
            elif anchor and anchor not in anchors(text_of(root, target)):
                problems.append(f"{document}: {m[1]}: {target} has no heading of that name")
    if count == 0:
        problems.append("no link was found: is this the root of the tree?")
    return problems, count


# ---- self-test ------------------------------------------------------------------------------------------------------

GOOD = {
    "README.md": "[a](docs/a.md) [b](docs/a.md#how-a-b-goes) [web](https://example.org/x) ![p](docs/p.svg) [d](docs)\n",
    "docs/a.md": "# How `a`, b goes\n[up](../README.md) [here](#how-a-b-goes)\n\n    [code](none.md)\n```\n[code](none.md)\n```\n",
    "docs/p.svg": "",
}
BAD = [
    ("README.md", "[x](docs/none.md)", "there is no docs/none.md"),
    ("README.md", "[x](docs/a.md#none)", "docs/a.md has no heading"),
    ("docs/a.md", "[x](README.md)", "there is no docs/README.md"),
    ("docs/a.md", "[x](#none)", "docs/a.md has no heading"),
    ("tests/vm/README.md", "[x](a.md)", "there is no tests/vm/a.md"),
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
    failed = 0
    got = problems_of(GOOD)
    if got:
        print("the good tree has problems:", *got, sep="\n  ")
        failed += 1
    for name, text, want in BAD:
        got = problems_of({**GOOD, name: GOOD.get(name, "") + text})
        if len(got) != 1 or want not in got[0]:
            print(f"{name} with {text!r}: wanted '{want}', got {got}")
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
    problems, count = check_tree(sys.argv[1])
    for p in problems:
        print(p)
    print(f"{count} links, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
