#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks rules of the tree that no compiler knows.

  check-tree.py ROOT          check the tree
  check-tree.py --self-test   check that each kind of violation is found

 - file names are unique in src/, include/, tests/, bench/ and tools/;
 - every source file names its licence in its first line (the second after "#!"): BPF code both, the rest Apache-2.0;
 - src/ calls no function of the banned ones;
 - no source file is longer than 600 lines; those of LONGER are still to be cut;
 - no struct of src/ and include/ has more than 30 members, those of nested anonymous structs included;
 - file names of src/, and of headers and libraries of the tests, are in snake_case; a .c or .h of a module begins with
   the module's prefix, or is MODULE.c, MODULE.h or MODULE_priv.h;
 - every module that is a static library has a unit test, and that test is built;
 - every test and fuzz target of tests/ is declared in its folder's meson.build. (Meson itself refuses a declared test
   whose file is missing.)
"""

import os
import re
import sys
import tempfile

TOPS = ("src", "include", "tests", "bench", "tools", "examples", "man", "packaging")
UNIQUE_IN = ("src", "include", "tests", "bench", "tools")
# Inputs of tests are data: any name, no licence line.
DATA_DIRS = {"corpus", "fixtures", "golden", "__pycache__"}
SOURCE_SUFFIXES = (".c", ".h", ".def", ".inc", ".cc", ".cpp", ".s", ".S", ".rs", ".go", ".f90", ".py", ".sh", ".map",
                   ".js", ".css")
SOURCE_NAMES = {"meson.build", "meson_options.txt", "Makefile"}
# One in each folder (meson.build), or two by design: the kernel's and the user side's table (counters.def).
NOT_UNIQUE = {"meson.build", "counters.def", "README.md"}
MAX_LINES = 600
# Tables and texts that are read from beginning to end; and files that are still to be cut, with their length.
LONGER = {
    "include/perfagent/perfagent.h": 820,  # a manual
    "tests/cli/test-cli.py": 722,
    "tests/live/test-live-load.c": 673,
    "tests/live/test-live-offcpu.py": 723,
    "tests/live/test-live-pmu.py": 692,
    "tests/live/test-live-sched.c": 820,
    "tests/live/test-live-tables.py": 603,
    "tests/oracle/cfi-oracle.c": 621,
    "tests/workloads/waits.c": 796,
}
# More than one can keep in mind; what is larger is several things.
MAX_MEMBERS = 30
# Prefixes of files and functions, where they are not the module's name.
PREFIXES = {
    "api": ("api_", "pfa_"), "decode": ("dec_",), "dwarf": ("dw_",), "encode": ("enc_",), "image": ("img_",),
    "listing": ("lst_",), "loader": ("load_",),
    "metrics": ("met_",), "perfevent": ("pev_",), "profile": ("prof_",), "report": ("rep_",), "sampler": ("smp_",), "session": ("ses_",),
    "source": ("src_",), "symbolize": ("sym_",), "track": ("trk_",), "unwind": ("uw_",),
}
# base names functions after their type, bpf files after what they hook.
NO_PREFIX = {"base", "bpf"}

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
        most = LONGER.get(path, MAX_LINES)
        if lines > most:
            yield f"{path}: {lines} lines, over {most}: it has two jobs"


def body_end(code, start):
    """Returns the index after the brace that closes the one at start."""
    depth = 0
    for i in range(start, len(code)):
        depth += (code[i] == "{") - (code[i] == "}")
        if depth == 0:
            return i + 1
    return len(code)


def member_cnt(body):
    """Counts the members in the text between a struct's braces. A nested body counts its members, not itself."""
    count = 0
    while "{" in body:
        start = body.index("{")
        end = body_end(body, start)
        count += member_cnt(body[start + 1:end - 1])
        rest = body.find(";", end)
        begin = body.rfind(";", 0, start) + 1
        body = body[:begin] + (body[rest + 1:] if rest >= 0 else "")
    flat = None
    while flat != body:  # parameters, array sizes and attributes hold commas of their own
        flat, body = body, re.sub(r"\([^()]*\)|\[[^][]*\]", "", body)
    return count + sum(1 + d.count(",") for d in flat.split(";") if d.strip())


def check_members(root):
    for path in files_of(root, ("src", "include")):
        if not path.endswith((".c", ".h")):
            continue
        code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m[0].count("\n"), code_only(read(root, path)),
                      flags=re.M)
        for m in re.finditer(r"\b(?:struct|union)\s+(?:__attribute__\s*\(\(.*?\)\)\s*)?(\w+)\s*\{", code):
            count = member_cnt(code[m.end():body_end(code, m.end() - 1) - 1])
            if count > MAX_MEMBERS:
                line = code.count("\n", 0, m.start()) + 1
                yield f"{path}:{line}: {m[1]} has {count} members, over {MAX_MEMBERS}"


def is_library(root, path):
    """A header, or a file that another program of the tests includes or links."""
    name = os.path.basename(path)
    if name.endswith(".h"):
        return True
    if name.endswith(".py"):
        return not read(root, path).startswith("#!")
    return name.endswith(".c") and not name.startswith(("test-", "fuzz-")) and not re.search(
        r"\bmain\s*\(", code_only(read(root, path)))


def check_names(root):
    snake = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z]+)+")
    for path in files_of(root, ("src",)):
        name = os.path.basename(path)
        module = path.split(os.sep)[1]
        if not snake.fullmatch(name):
            yield f"{path}: the name is not in snake_case"
        elif module not in NO_PREFIX and name.endswith((".c", ".h")):
            prefixes = PREFIXES.get(module, (module + "_",))
            if name not in (f"{module}.c", f"{module}.h", f"{module}_priv.h") and not name.startswith(prefixes):
                yield f"{path}: the name does not begin with {' or '.join(prefixes)}"
    for path in files_of(root, ("tests", "bench")):
        if is_library(root, path) and not snake.fullmatch(os.path.basename(path)):
            yield f"{path}: the name is not in snake_case"


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


def check_declared(root):
    """A folder's meson.build has the file's name in quotation marks, or what follows the folder's prefixes in it."""
    for path in files_of(root, ("tests",)):
        m = re.fullmatch(r"(?:test|fuzz)-((?:live-)?)([\w-]+)\.(?:c|py)", os.path.basename(path))
        if not m:
            continue
        build = os.path.join(root, os.path.dirname(path), "meson.build")
        text = ""
        if os.path.isfile(build):
            with open(build, encoding="utf-8") as f:
                text = f.read()
        if not any(f"'{name}'" in text for name in (os.path.basename(path), m[1] + m[2], m[2])):
            yield f"{path}: {os.path.dirname(path)}/meson.build does not declare it"


CHECKS = (check_unique, check_licence, check_banned, check_length, check_members, check_names, check_unit_tests, check_declared)


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
# New contents of a file (None: removed), and a part of the message that must come of it.
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
    ("src/cli/cli_main.c", C + "\n" * MAX_LINES, "601 lines"),
    ("tests/fuzz/fuzz-it.c", C + "\n" * MAX_LINES, "601 lines"),
    ("tests/unit/test-base.c", None, "there is no tests/unit/test-base.c"),
    ("tests/unit/meson.build", HASH, "does not build test-base"),
    ("src/later/later.c", C, "there is no tests/unit/test-later.c"),
]
# 30 members, of every kind: two in one declaration, an array, a function pointer, a bit field, nested and named bodies.
THIRTY = ("struct x {\n\tint a, b[3][2];\n\tint (*call)(int one, int two);\n\tunsigned bit : 3; /* c; d; */\n"
          "\tunion {\n\t\tint u;\n\t\tstruct { int v, w; } named[2];\n\t};\n#define X { int d; }\n\tint last;\n"
          + "".join(f"\tint m{i};\n" for i in range(22)) + "};\n")
GOOD["src/base/thirty.h"] = C + THIRTY
BAD += [
    ("src/base/thirty.h", C + THIRTY.replace("a, b", "a, a2, b"), "src/base/thirty.h:2: x has 31 members, over 30"),
    ("src/base/thirty.h", C + THIRTY.replace("int u;", "int u; int u2;"), "x has 31 members"),
    ("src/base/thirty.h", C + THIRTY.replace("v, w", "v, w, y"), "x has 31 members"),
    ("include/x.h", C + THIRTY.replace("int last", "int last, later"), "include/x.h:2: x has 31 members"),
    ("src/base/two-words.c", C, "src/base/two-words.c: the name is not in snake_case"),
    ("src/base/Upper.h", C, "not in snake_case"),
    ("src/track/list.c", C, "src/track/list.c: the name does not begin with trk_"),
    ("src/api/face.c", C, "does not begin with api_ or pfa_"),
    ("src/ksyms/cache.c", C, "does not begin with ksyms_"),
    ("src/track/trk-list.c", C, "not in snake_case"),
    ("tests/unit/fake-x.h", C, "tests/unit/fake-x.h: the name is not in snake_case"),
    ("tests/live/some-lib.py", HASH, "tests/live/some-lib.py: the name is not in snake_case"),
    ("tests/live/test-live-other.py", "#!/usr/bin/python3\n" + HASH, "tests/live/meson.build does not declare it"),
    ("tests/fuzz/fuzz-that.c", C, "tests/fuzz/meson.build does not declare it"),
    ("tests/new/test-new.c", C, "tests/new/meson.build does not declare it"),
    ("tests/live/some-lib.c", C + "int main_part(void);\n", "tests/live/some-lib.c: the name is not in snake_case"),
]
GOOD.update({
    "src/track/trk_list.c": C,
    "src/track/track.c": C,
    "src/track/track_priv.h": C,
    "src/ksyms/ksyms_cache.c": C,
    "src/bpf/any_name.bpf.c": BPF,
    "tests/live/some-program.c": C + "int main(void) { return 0; }\n",
    "tests/fuzz/fuzz-it.c": C,
    "tests/fuzz/meson.build": HASH + "fuzz = {\n  'it': [b],\n}\n",
    "tests/live/test-live-some.py": "#!/usr/bin/python3\n" + HASH,
    "tests/live/meson.build": HASH + "foreach name : ['some']\n",
    "tests/live/some-tool.py": "#!/usr/bin/python3\n" + HASH,
    "tests/live/some_lib.py": HASH,
})
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
