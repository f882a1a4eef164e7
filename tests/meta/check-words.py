#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that names, comments, messages and documents use the words of perf, the kernel, LLVM and pprof.

  check-words.py ROOT [PATH…]   check the tree, or these files and folders; prints FILE:LINE: WORD -> SUGGESTION
  check-words.py --counts ROOT  print the number of hits of each module, most first
  check-words.py --self-test    check that each kind of hit is found

 - Each row of WORDS is a pattern and what to write instead. Most rows hold for prose (comments, strings, documents)
   and for identifiers, whose underscores count as blanks; some for one of the two.
 - A comment, the summary of a function, of a parameter or of a Python module may not begin with "What", "Of", "Where",
   "That", "Whose" or "Who".
 - A legitimate use is a line of EXCEPTIONS, with its reason. One that no longer applies is a problem.
 - Words whose meaning depends on the sentence ("wait", "copy", "gap", "reach", "take") are left to the reviewer.
"""

import collections
import io
import os
import re
import sys
import tempfile
import tokenize

TOPS = ("src", "include", "docs", "man", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "tests", "bench", "tools",
        "examples", ".ci", "meson.build", "meson_options.txt", "Makefile")
SKIP_DIRS = {"corpus", "fixtures", "golden", "__pycache__"}
# Lists of words, and this table.
SKIP_FILES = {"check-words.py", "codespell-ignore.txt", "cppcheck-suppress.txt"}
C_SUFFIXES = (".c", ".h", ".def", ".inc", ".cc", ".go", ".rs", ".S", ".s")
TEXT_SUFFIXES = (".md", ".txt", ".in", ".sh", ".map", ".build", ".1", ".toml", ".json")

# A blank of a pattern also matches the end of a line, with the comment's sign on the next one.
PROSE, CODE, BOTH = 1, 2, 3
WORDS = [
    (r"known again", "cached; cache hit", BOTH),
    (r"remember(?:s|ed|ing)?(?! state| max)", "cached; kept", BOTH),
    (r"memo(?:s|ry of stacks|ries)?", "cache", BOTH),
    (r"told|tells? (?:of|us|user space|the (?:tracker|kernel|drain))|without a word", "reported; missed", BOTH),
    (r"(?<!as )nobody(?:'s)?(?! =)|no one(?:'s)?", "name the actor: no event, no process, no thread", BOTH),
    (r"unseen", "missed; no sched_switch event", BOTH),
    (r"(?:a|the|each|this|such a|first|last|next|second|every) look(?!-| up)|look at the end", "scan; final task scan", BOTH),
    (r"first samples?", "deferred sample", BOTH),
    (r"guess(?:es|ed|ing|work)?", "heuristic; estimated", BOTH),
    (r"settled", "watermark", BOTH),
    (r"promise[sd]?", "placeholder stack id; guarantee", BOTH),
    (r"no place|found (?:a|its|their) place", "table full; dropped", BOTH),
    (r"is placed|are placed|be placed|was placed|were placed|placed later", "resolved", PROSE),
    (r"(?:files?|bytes|programs|text) of others", "untrusted files; other programs' files", BOTH),
    (r"(?:code (?:that (?:is|was) )?)?generated (?:code|at run time)", "JIT code", BOTH),
    (r"memory back", "mm released; exiting", BOTH),
    (r"naming|to name", "symbolization; to symbolize", PROSE),
    (r"(?<!left )(?<!leave )(?<!leaves )(?<!nothing )(?<!stays )behind", "after; under; past", BOTH),
    (r"beside", "alongside; next to; compared with", BOTH),
    (r"in front of", "before", BOTH),
    (r"stands?|stood|standing", "is in; means; is at", PROSE),
    (r"reach of|the reach|its reach|reach:", "target; bound", PROSE),
    (r"threads? [CDWB]|[DW](?=: [a-z])|(?:by|to|from|on|until|after|before|when|that|if|of) [DW](?= [a-z]|[.,;]| and\b)|"
     r"Threads?: [CDWB](?:, [CDWB])*", "control, drain, tracker, symbolizer thread", PROSE, re.ASCII),
    (r"(?:EV|PFA|SMP|LOAD|SRC) OFF (?!CPU)\w+|ev off \w+|n?off names|off threads|off waits?", "offcpu_…", CODE),
    (r"went on", "name what was missed", CODE),
]
# Rules that hold in some folders only: elsewhere the word has its ordinary meaning.
WORDS_IN = [
    # A figure is a row of docs/performance.md, which bench/ measures.
    (r"figures?", "statistics; metrics; value", PROSE, ("src/", "include/", "README.md", "man/", "tests/", "tools/", "docs/c",
                                                        "docs/m", "docs/o", "docs/s", "docs/t", "docs/w")),
    # The child of a fork is a child.
    (r"the child(?:'s)?", "symbolizer process", PROSE, ("src/symbolize/", "src/symbolizer/", "src/session/", "src/base/",
                                                        "docs/symbolization.md", "docs/security.md")),
    (r"(?:a|the|no|its|such a) marks?|marks", "dirty range", PROSE, ("src/bpf/", "src/track/", "docs/architecture.md",
                                                                     "docs/unwinding.md")),
]
OPENING = re.compile(r"(?:What|Of|Where|That|Whose|Who|Whom)\b(?! is this)")
# In kernel-doc: " * name - summary", " * @parameter: meaning".
SUMMARY = re.compile(r"^[ \t]*\*[ \t]+(?:\w+[ \t]+-[ \t]+|@[\w.]+:[ \t]+)((?:what|of|where|that|whose|who)\b)", re.M)

# (path, part of the line, reason)
EXCEPTIONS = [
    ("tests/live/privlib.py", "NOBODY", "the user"),
    ("tests/live/test-live-jit.py", "NOBODY", "the user"),
    ("tests/live/test-privileges.py", "NOBODY", "the user"),
    ("tests/live/test-live-pmu.py", "of,nobody", "a name of threads"),
    ("tests/cli/test-modes.py", "--comm=nobody", "a name of threads"),
    ("tests/unit/test-encode-output.c", "NOBODY", "the user"),
    ("tests/live/test-live-totals.py", "getpwnam('nobody')", "the user"),
]


def pattern(words, flags=re.I):
    """Blanks of look-arounds stay as they are: their width must be fixed."""
    gap = r"[ \t]*(?:[ \t]|\n[ \t]*(?:\*|//|#)?[ \t]*)"
    parts = re.split(r"(\(\?<?[!=][^()]*\))", words)
    body = "".join(p if p.startswith("(?") and p[2] != ":" else p.replace(" ", gap) for p in parts)
    return re.compile(rf"(?<![A-Za-z])(?:{body})(?![A-Za-z])", flags)


def rules():
    for words, instead, where, *flags in WORDS:
        yield pattern(words, flags[0] if flags else re.I), instead, where, ("",)
    for words, instead, where, paths in WORDS_IN:
        yield pattern(words), instead, where, paths


RULES = list(rules())
C_TOKENS = re.compile(r"(//(?:[^\n\\]|\\.)*|/\*.*?\*/)|(\"(?:\\.|[^\"\\\n])*\")|'(?:\\.|[^'\\\n])+'", re.S)


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def split_c(text):
    """Returns (prose, code, comments as (offset, text)); prose and code have the text's length."""
    prose, code, comments, at = [], [], [], 0
    for m in C_TOKENS.finditer(text):
        between = text[at:m.start()]
        prose.append(blank(between))
        code.append(between)
        if m[1] or m[2]:
            prose.append(m[0])
            code.append(blank(m[0]))
        else:
            prose.append(blank(m[0]))
            code.append(blank(m[0]))
        if m[1]:
            comments.append((m.start(), m[0]))
        at = m.end()
    prose.append(blank(text[at:]))
    code.append(text[at:])
    return "".join(prose), "".join(code), comments


def split_python(text):
    starts = [0]
    for line in text.splitlines(True):
        starts.append(starts[-1] + len(line))
    code, prose, comments = list(text), list(blank(text)), []
    last = None
    for t in tokenize.generate_tokens(io.StringIO(text).readline):
        if t.type not in (tokenize.COMMENT, tokenize.STRING):
            if t.type not in (tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
                last = t
            continue
        begin = starts[t.start[0] - 1] + t.start[1]
        end = starts[t.end[0] - 1] + t.end[1]
        prose[begin:end] = text[begin:end]
        code[begin:end] = blank(text[begin:end])
        docstring = t.type == tokenize.STRING and (last is None or last.type == tokenize.NEWLINE or last.string == ":")
        if t.type == tokenize.COMMENT or docstring and t.string.lstrip("rfb").startswith('"""'):
            comments.append((begin, text[begin:end]))
        if t.type == tokenize.STRING:
            last = t
    return "".join(prose), "".join(code), comments


def split_text(text, is_document):
    """Documents are prose; of scripts and build files, every word counts in both ways."""
    comments = []
    if not is_document:
        comments = [(m.start(), m[0]) for m in re.finditer(r"(?<![^\s])#[^\n]*", text)]
    return text, "" if is_document else text, comments


def openings(text, comments):
    """Yields (offset, word) of comments that begin with a clause. A comment that goes on the line before is no beginning."""
    end = -1
    for begin, comment in comments:
        if comment.startswith("#!") or "SPDX-License-Identifier" in comment:
            continue
        body = re.match(r"/\*+[\s*]*|//+\s*|#+\s*|[rfb]*\"\"\"\s*", comment)
        goes_on = comment[0] in "#/" and comment[:2] != "/*" and end >= 0 and text[end:begin].count("\n") <= 1 and \
            not text[end:begin].strip()
        end = begin + len(comment)
        m = OPENING.match(comment, body.end() if body else 0)
        if m and not goes_on:
            yield begin + m.start(), m[0]
        if comment.startswith("/*"):
            for m in SUMMARY.finditer(comment):
                yield begin + m.start(1), m[1]


def split(path, text):
    if path.endswith(C_SUFFIXES):
        return split_c(text)
    if path.endswith(".py"):
        return split_python(text)
    return split_text(text, path.endswith((".md", ".in", ".1", ".json")))


def hits(path, text):
    """Returns [(line, word, suggestion)]."""
    prose, code, comments = split(path, text)
    texts = [(PROSE, prose.replace("_", " ")), (CODE, code.replace("_", " "))]
    found = set()
    for regex, instead, where, paths in RULES:
        if not path.startswith(paths):
            continue
        for kind, part in texts:
            if where & kind:
                for m in regex.finditer(part):
                    found.add((m.start(), re.sub(r"[\s*#/]+", " ", m[0]), instead))
    for at, word in openings(text, comments):
        found.add((at, word, "begin with a verb or a noun"))
    return [(text.count("\n", 0, at) + 1, word, instead) for at, word, instead in sorted(found)]


def is_text(root, path):
    if path.endswith(C_SUFFIXES) or path.endswith(".py") or path.endswith(TEXT_SUFFIXES):
        return True
    with open(os.path.join(root, path), "rb") as f:
        head = f.read(2)
    return head == b"#!" or os.path.basename(path) in ("Makefile", "meson.build")


def files_of(root, tops):
    for top in tops:
        full = os.path.join(root, top)
        if os.path.isfile(full):
            yield top
        for folder, dirs, files in os.walk(full):
            dirs[:] = sorted(d for d in dirs if d not in SKIP_DIRS)
            for name in sorted(files):
                path = os.path.relpath(os.path.join(folder, name), root)
                if name not in SKIP_FILES and is_text(root, path):
                    yield path


def excepted(path, line, exceptions, used):
    for i, (name, part, _) in enumerate(exceptions):
        if path == name and part in line:
            used.add(i)
            return True
    return False


def check(root, tops=TOPS, exceptions=None):
    """Returns ([(path, line, word, suggestion)], [problem], number of files)."""
    exceptions = EXCEPTIONS if exceptions is None else exceptions
    found, problems, used, count = [], [], set(), 0
    for path in files_of(root, tops):
        with open(os.path.join(root, path), encoding="utf-8", errors="surrogateescape") as f:
            text = f.read()
        count += 1
        lines = text.splitlines()
        for num, word, instead in hits(path, text):
            if not excepted(path, lines[num - 1], exceptions, used):
                found.append((path, num, word, instead))
    if tops is TOPS:
        problems += [f"check-words.py: the exception '{part}' of {path} does not apply any more"
                     for i, (path, part, _) in enumerate(exceptions) if i not in used]
    if count == 0:
        problems.append("no file was found: is this the root of the tree?")
    return found, problems, count


def print_counts(found):
    by = collections.Counter("/".join(path.split("/")[:2]) if "/" in path else path for path, *_ in found)
    for name, n in by.most_common():
        print(f"{n:5} {name}")
    print(f"{len(found):5} in all")


# ---- self-test ------------------------------------------------------------------------------------------------------

C = "/* SPDX-License-Identifier: Apache-2.0 */\n"
# (path, text, words that must be found in this order)
CASES = [
    ("src/a/a.c", "/* A thread is added. */\nint known(int again); char *s = \"off, CPU\";\n", []),
    ("src/a/a.c", "/* Kernel stacks are known again here. */\n", ["known again"]),
    ("src/a/a.c", "/*\n * Kernel stacks are known\n * again here.\n */\n", ["known again"]),
    ("src/a/a.c", "// was told\nint nobody_tells;\n", ["told", "nobody"]),
    ("src/a/a.c", "f(\"nobody reads it\");\n", ["nobody"]),
    ("src/a/a.c", "/* as_nobody, nothing behind; nobody = 1; nobody is behind */\n", ["nobody", "behind"]),
    ("src/a/a.c", "int guess_caller(void); int guessed, guest;\n", ["guess", "guessed"]),
    ("src/a/a.c", "/* beside the lock, behind it: what stands there */\n", ["beside", "behind", "stands"]),
    ("src/a/a.c", "/* standard output, standalone, a stand-in; foretold */\n", ["stand"]),
    ("src/a/a.c", "int stand_in_line, the_figure;\n", []),
    ("src/a/a.c", "/* What it is. */\n", ["What"]),
    ("src/a/a.c", "/* Tells what it is. That is right, too. */\n", []),
    ("src/a/a.c", "/**\n * f - what it does\n * @x: where it goes\n * Returns: what there is.\n */\n", ["what", "where"]),
    ("src/a/a.c", "/**\n * f - whatever\n * @x: offset\n */\n", []),
    ("src/a/a.c", "int x; // Where it is\n// and more\n// Where it was\n", ["Where"]),
    ("src/a/a.c", "enum { EV_OFF_NONE, ABI_OFF_MASK, EV_OFFCPU_NONE, off_end };\n", ["EV OFF NONE"]),
    ("src/a/a.c", "/* Thread: D adds, W reads; D: push */\n", ["Thread: D", "D"]),
    ("src/a/a.c", "/* state 'D', in C, and C code */\n", []),
    ("src/symbolize/a.c", "/* asks the child */\n", ["the child"]),
    ("src/target/a.c", "/* asks the child */\n", []),
    ("docs/a.md", "Where it is\n\n    a first sample\n", ["first sample"]),
    ("docs/a.md", "Files of\nothers are untrusted. code that was generated at run time\n",
     ["Files of others", "code that was generated at run time"]),
    ("tests/a.py", "#!/usr/bin/python3\n\"\"\"What it does.\"\"\"\nX = 'nobody'  # told\ndef f():\n    \"\"\"Of it.\"\"\"\n",
     ["What", "nobody", "told", "Of"]),
    ("tests/a.py", "# It is\n# What it is\nx = {'What': 1}\ndef first_sample(): pass\n", ["first sample"]),
    ("tools/run", "#!/bin/sh\n# Where it is\necho promised\n", ["Where", "promised"]),
    ("tests/fuzz/corpus/x.c", "/* told */\n", []),
]


def words_in(files, exceptions=()):
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = os.path.join(root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        return check(root, exceptions=list(exceptions))


def self_test():
    failed = 0
    for path, text, want in CASES:
        found, _, _ = words_in({path: text, "src/good.c": C})
        got = [word for _, _, word, _ in found]
        if got != want:
            print(f"{path} with {text!r}: wanted {want}, got {got}")
            failed += 1
    told = {"src/a.c": "\n\n/* told */\n/* told */\n"}
    numbers = [n for _, n, _, _ in words_in(told)[0]]
    kept, unused, _ = words_in(told, [("src/a.c", "told", "why"), ("src/b.c", "told", "why")])
    others = [numbers == [3, 4], kept == [], len(unused) == 1, words_in({})[1] != []]
    if not all(others):
        print(f"lines, exceptions, an empty tree: {others}")
    failed += others.count(False)
    print(f"{len(CASES) + len(others) - failed} of {len(CASES) + len(others)} cases as expected")
    return failed


def main():
    args = sys.argv[1:]
    if args == ["--self-test"]:
        return 1 if self_test() else 0
    counts = args[:1] == ["--counts"]
    args = args[counts:]
    if not args:
        print(__doc__, file=sys.stderr)
        return 2
    found, problems, count = check(args[0], tuple(args[1:]) or TOPS)
    if counts:
        print_counts(found)
        return 0
    for path, num, word, instead in found:
        print(f"{path}:{num}: {word} -> {instead}")
    for p in problems:
        print(p)
    print(f"{count} files, {len(found) + len(problems)} problems")
    return 1 if found or problems else 0


if __name__ == "__main__":
    sys.exit(main())
