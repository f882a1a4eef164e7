#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks rules of the tree that no compiler knows.

  check-tree.py ROOT          check the tree
  check-tree.py --self-test   check that each kind of violation is found

 - file names are unique in src/, include/, tests/, bench/ and tools/;
 - every source file names its licence in its first line (the second after "#!"): BPF code both, the rest Apache-2.0;
 - src/ calls no function of the banned ones;
 - no source file is longer than 1,000 lines;
 - every module that is a static library has a unit test, and that test is built.
"""

import os
import re
import sys
import tempfile

TOPS = ("src", "include", "tests", "bench", "tools", "examples", "man", "packaging")
UNIQUE_IN = ("src", "include", "tests", "bench", "tools")
# Inputs of tests are data: any name, no licence line.
DATA_DIRS = {"corpus", "fixtures", "golden", "__pycache__"}
SOURCE_SUFFIXES = (".c", ".h", ".def", ".inc", ".cc", ".cpp", ".s", ".S", ".rs", ".go", ".f90", ".py", ".sh", ".map")
SOURCE_NAMES = {"meson.build", "meson_options.txt", "Makefile"}
# One in each folder (meson.build), or two by design: the kernel's and the user side's table (counters.def).
NOT_UNIQUE = {"meson.build", "counters.def", "README.md"}
MAX_LINES = 1000

APACHE = "SPDX-License-Identifier: Apache-2.0"
DUAL = "SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0"

# Truncation, overflow and junk go unnoticed with these: base has str_copy, sbuf, parse_u64 and cursor.
BANNED = re.compile(
    r"(?<![\w.>])(?:__builtin_alloca|alloca|strcpy|stpcpy|strcat|strncat|sprintf|vsprintf|strncpy|stpncpy|strtok|"
    r"strtok_r|atoi|atol|atoll|atof|strtol|strtoll|strtoul|strtoull|gets|v?[fs]?scanf|readdir_r|signal)\s*\(")


def is_source(name):
    return name in SOURCE_NAMES or name.endswith(SOURCE_SUFFIXES)


def files_of(root, tops):
    """Paths relative to root, without data of tests."""
    for top in tops:
        for folder, dirs, files in os.walk(os.path.join(root, top)):
            dirs[:] = sorted(d for d in dirs if d not in DATA_DIRS)
            for name in sorted(files):
                yield os.path.relpath(os.path.join(folder, name), root)


def sources_of(root):
    for name in sorted(os.listdir(root)):
        if is_source(name):
            yield name
    for path in files_of(root, TOPS):
        if is_source(os.path.basename(path)):
            yield path


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="surrogateescape") as f:
        return f.read()


def code_only(text):
    """Comments and the contents of strings become blanks, lines stay."""
    pattern = r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'"
    return re.sub(pattern, lambda t: " " + "\n" * t[0].count("\n"), text, flags=re.S)


def check_unique(root):
    seen = {}
    for path in files_of(root, UNIQUE_IN):
        name = os.path.basename(path)
        if name in NOT_UNIQUE:
            continue
        if name in seen:
            yield f"{path}: {seen[name]} has the same name"
        seen.setdefault(name, path)


def check_licence(root):
    for path in sources_of(root):
        lines = read(root, path).splitlines()[:2]
        if lines and lines[0].startswith("#!"):
            lines.pop(0)
        line = lines[0] if lines else ""
        code = path.startswith("src/bpf/") and not path.endswith("meson.build")
        if code and DUAL not in line:
            yield f"{path}:1: the first line must say '{DUAL}'"
        elif not code and APACHE not in line and DUAL not in line:
            yield f"{path}:1: the first line must say '{APACHE}'"


def check_banned(root):
    for path in files_of(root, ("src",)):
        if not is_source(os.path.basename(path)):
            continue
        for num, line in enumerate(code_only(read(root, path)).splitlines(), 1):
            for m in BANNED.finditer(line):
                yield f"{path}:{num}: {m[0].rstrip('( ')} is banned"


def check_length(root):
    for path in sources_of(root):
        lines = read(root, path).count("\n")
        if lines > MAX_LINES:
            yield f"{path}: {lines} lines, over {MAX_LINES}: it has two jobs"


def check_unit_tests(root):
    unit = "tests/unit/meson.build"
    built = read(root, unit) if os.path.isfile(os.path.join(root, unit)) else ""
    for path in files_of(root, ("src",)):
        if os.path.basename(path) != "meson.build":
            continue
        folder = os.path.dirname(path)
        has_code = any(n.endswith(".c") for n in os.listdir(os.path.join(root, folder)))
        m = re.search(r"\bstatic_library\(\s*'([\w-]+)'", read(root, path))
        if not m or not has_code:
            continue
        name = m[1]
        if not os.path.isfile(os.path.join(root, f"tests/unit/test-{name}.c")):
            yield f"{folder}: there is no tests/unit/test-{name}.c"
        elif f"'{name}'" not in built:
            yield f"{folder}: {unit} does not build test-{name}"


CHECKS = (check_unique, check_licence, check_banned, check_length, check_unit_tests)


def check_tree(root):
    problems = [p for check in CHECKS for p in check(root)]
    count = sum(1 for _ in sources_of(root))
    if count == 0:
        problems.append("no source file was found: is this the root of the tree?")
    return problems, count


# ---- self-test ------------------------------------------------------------------------------------------------------

C = f"/* {APACHE} */\n"
BPF = f"/* {DUAL} */\n"
HASH = f"# {APACHE}\n"
GOOD = {
    "meson.build": HASH,
    "src/base/meson.build": HASH + "lib_base = static_library('base',\n  'vec.c')\n",
    "src/base/vec.c": C + "/* never strcpy(a, b) */\nint f(void) { g(\"atoi(\"); pthread_cond_signal(&c); "
                          "my_sprintf(1); x.gets(); return '\\''; }\n",
    "src/cli/meson.build": HASH + "executable('tool', 'main.c')\n",
    "src/cli/cli_main.c": C + "snprintf(b, n, f);\n" + "\n" * (MAX_LINES - 2),
    "src/later/meson.build": HASH + "static_library('later', '../none.c')\n",
    "src/bpf/abi/counters.def": BPF,
    "src/tally/counters.def": C,
    "src/bpf/meson.build": HASH,
    "tests/unit/meson.build": HASH + "unit = {\n  'base': [b],\n}\n",
    "tests/unit/test-base.c": C,
    "tests/fuzz/corpus/a/x": "data",
    "tests/fuzz/corpus/b/x": "data",
    "tests/fuzz/corpus/b/strange.c": "no licence",
    "tools/gen.py": "#!/usr/bin/python3\n" + HASH,
    "docs/x.c": "not looked at",
}
# What a file becomes (None: removed), and a part of the message that must come of it.
BAD = [
    ("tests/unit/vec.c", C, "tests/unit/vec.c: src/base/vec.c has the same name"),
    ("tools/test-base.c", C, "has the same name"),
    ("src/base/new.c", "int x;\n", "src/base/new.c:1: the first line must say"),
    ("src/base/new.c", "\n" + C, "first line must say"),
    ("src/base/new.c", "", "first line must say"),
    ("src/base/new.h", f"/* {APACHE[:-3]} */\n", "first line must say"),
    ("meson.build", "project('x')\n", "meson.build:1: the first line"),
    ("tools/gen.py", "#!/usr/bin/python3\n\n" + HASH, "first line must say"),
    ("src/bpf/lib.h", C, f"must say '{DUAL}'"),
    ("src/bpf/abi/counters.def", C, f"must say '{DUAL}'"),
    ("src/cli/cli_main.c", C + "\n" * MAX_LINES, "1001 lines"),
    ("tests/unit/test-base.c", C + "\n" * MAX_LINES, "1001 lines"),
    ("tests/unit/test-base.c", None, "there is no tests/unit/test-base.c"),
    ("tests/unit/meson.build", HASH, "does not build test-base"),
    ("src/later/later.c", C, "there is no tests/unit/test-later.c"),
]
BANNED_NAMES = ("strcpy strcat sprintf strncpy strtok atoi strtol strtoull gets alloca __builtin_alloca sscanf fscanf "
                "vsscanf scanf readdir_r signal strncat vsprintf strtok_r").split()


def problems_of(tree):
    with tempfile.TemporaryDirectory() as root:
        for name, text in tree.items():
            path = os.path.join(root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        return check_tree(root)[0]


def self_test():
    bad = list(BAD)
    for name in BANNED_NAMES:
        bad.append(("src/base/new.c", C + f"\n\tx = {name} (a);\n", f"src/base/new.c:3: {name} is banned"))
        bad.append(("src/base/new.c", C + f"char *s = \"\\\"\"; {name}(a);\n", f"{name} is banned"))
    failed = 0
    got = problems_of(GOOD)
    if got:
        print("the good tree has problems:", *got, sep="\n  ")
        failed += 1
    for name, text, want in bad:
        tree = dict(GOOD)
        tree[name] = text
        got = problems_of({k: v for k, v in tree.items() if v is not None})
        if not any(want in p for p in got):
            print(f"{name} with {text!r:.60}: wanted '{want}', got {got}")
            failed += 1
    if not problems_of({}):
        print("an empty tree has no problem")
        failed += 1
    print(f"{len(bad) + 2 - failed} of {len(bad) + 2} cases as expected")
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
    print(f"{count} source files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
