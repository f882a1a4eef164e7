#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the public header against the shared library and against compilers of its users.

  check-abi.py LIBRARY HEADER… CC   the library exports what the headers declare with PFA_API, and nothing else; each header
                                    compiles alone as C99, C11 and (where there is a compiler) C++
  check-abi.py --self-test          check that differences and faulty headers are found

 - what is exported carries the version of the version script;
 - every structure and enumeration of the header begins with pfa_, and so does every macro (PFA_).
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile


def declared(text):
    """Names of functions that the header marks with PFA_API."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^\s*#.*$", " ", text, flags=re.M)
    return sorted(re.findall(r"\bPFA_API\b[^;(]*?\b(\w+)\s*\(", text))


def exported(nm_output):
    """(names, problems) of nm -D --defined-only --with-symbol-versions."""
    names, problems = [], []
    for line in nm_output.splitlines():
        kind, symbol = line.split()[-2:]
        name, _, version = symbol.partition("@@")
        if kind == "A":  # the version itself
            continue
        if not version.startswith("PERFAGENT_"):
            problems.append(f"{symbol} has no version of ours")
        names.append(name)
    return sorted(names), problems


def compare(header, library):
    for name in sorted(set(header) - set(library)):
        yield f"{name} is declared but not exported"
    for name in sorted(set(library) - set(header)):
        yield f"{name} is exported but not declared"
    for name in header:
        if not name.startswith("pfa_"):
            yield f"{name} does not begin with pfa_"
        if header.count(name) > 1:
            yield f"{name} is declared twice"


def names_of(text):
    """Problems with names that the header gives to every program that includes it."""
    code = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    for tag in re.findall(r"\b(?:struct|enum|union)\s+(\w+)\s*\{", code):
        if not tag.startswith("pfa_"):
            yield f"tag {tag} does not begin with pfa_"
    for macro in re.findall(r"^\s*#\s*define\s+(\w+)", code, flags=re.M):
        if not macro.startswith(("PFA_", "PERFAGENT_H", "PERFAGENT_SNAPSHOT_H", "PERFAGENT_REPORT_H")):
            yield f"macro {macro} does not begin with PFA_"
    for body in re.findall(r"\benum\s+\w+\s*\{(.*?)\}", code, flags=re.S):
        for name in re.findall(r"\b([A-Za-z_]\w*)\s*(?:=|,|$)", body):
            if not name.startswith("PFA_"):
                yield f"constant {name} does not begin with PFA_"


def compilers(cc):
    for std in ("c99", "c11", "gnu17"):
        yield [cc, "-x", "c", "-std=" + std]
    for cxx in ("c++", "g++", "clang++"):
        if shutil.which(cxx):
            for std in ("c++11", "c++17"):
                yield [cxx, "-x", "c++", "-std=" + std]
            break


USE = """
int main(void)
{
	struct pfa_options o = PFA_OPTIONS_INIT;
	return o.size == sizeof(o) && pfa_version() ? 0 : 1;
}
"""


def compiles(text, cc, include="."):
    """The header alone, twice, and used; warnings of a careful user are errors."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "header.h"), "w", encoding="utf-8") as f:
            f.write(text)
        source = os.path.join(folder, "use")
        for command in compilers(cc):
            # C++ before 20 has no designated initializers, which PFA_OPTIONS_INIT is made of: there the header alone.
            with open(source, "w", encoding="utf-8") as f:
                f.write('#include "header.h"\n#include "header.h"\n' + ("" if "c++" in command[-1] else USE))
            p = subprocess.run([*command, "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers",
                                "-I", include, "-fsyntax-only", source], capture_output=True, text=True, check=False)
            if p.returncode:
                yield f"{' '.join(command)}: {p.stderr.strip()}"


def check(library, headers, cc):
    texts = []
    for header in headers:
        with open(header, encoding="utf-8") as f:
            texts.append(f.read())
    p = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", library], capture_output=True, text=True,
                       check=False)
    if p.returncode:
        return [p.stderr.strip()]
    names, problems = exported(p.stdout)
    declarations = [declared(text) for text in texts]
    problems += [f"{header} declares nothing" for header, d in zip(headers, declarations) if not d]
    problems += compare(sorted(sum(declarations, [])), names)
    for header, text in zip(headers, texts):
        problems += [*names_of(text), *compiles(text, cc, os.path.dirname(os.path.dirname(header)))]
    return problems


GOOD = """#ifndef PERFAGENT_H
#define PERFAGENT_H
#include <stddef.h>
#define PFA_API __attribute__((visibility("default")))
/* PFA_API int not_this(void); */
enum pfa_a { PFA_ONE = 1, PFA_TWO };
struct pfa_options { size_t size; };
#define PFA_OPTIONS_INIT { .size = sizeof(struct pfa_options) }
#ifdef __cplusplus
extern "C" {
#endif
PFA_API const char *pfa_version(void);
PFA_API int pfa_long(const struct pfa_options *o,
		     int (*fn)(void *arg));
#ifdef __cplusplus
}
#endif
#endif
"""
NM = "0000 A PERFAGENT_0\n0001 T pfa_version@@PERFAGENT_0\n0002 T pfa_long@@PERFAGENT_0\n"


def self_test(cc):
    cases = [(GOOD, NM, None), (GOOD, NM + "3 T pfa_more@@PERFAGENT_0\n", "pfa_more is exported"),
             (GOOD, NM.replace("pfa_long", "pfa_lang"), "pfa_long is declared but"),
             (GOOD, NM + "3 T stray\n", "stray has no version"),
             (GOOD.replace("pfa_long", "other"), NM.replace("pfa_long", "other"), "other does not begin"),
             (GOOD.replace("struct pfa_options", "struct options"), NM, "tag options"),
             (GOOD.replace("PFA_TWO", "TWO"), NM, "constant TWO"),
             (GOOD.replace("PFA_OPTIONS_INIT", "OPTIONS_INIT"), NM, "macro OPTIONS_INIT"),
             (GOOD.replace("#include <stddef.h>\n", ""), NM, "size_t"),
             (GOOD.replace("const struct pfa_options *o", "bool o"), NM, "bool"),
             (GOOD.replace("#ifndef PERFAGENT_H\n", "#ifndef PERFAGENT_X\n"), NM, "redefinition"),
             (GOOD.replace("PFA_TWO }", "PFA_TWO = 0xffffffffff }"), NM, "-std=c99"),
             (GOOD.replace("int pfa_long(const", "int pfa_long(class x, const"), NM, "-std=c")]
    failed = 0
    for text, nm, want in cases:
        names, problems = exported(nm)
        got = [*problems, *compare(declared(text), names), *names_of(text), *compiles(text, cc)]
        if (want is None and got) or (want is not None and not any(want in p for p in got)):
            print(f"wanted {want!r}, got {got}")
            failed += 1
    print(f"{len(cases) - failed} of {len(cases)} cases as expected")
    return failed


def main():
    if sys.argv[1:] == ["--self-test"]:
        return 1 if self_test("cc") else 0
    if len(sys.argv) < 4:
        print(__doc__, file=sys.stderr)
        return 2
    problems = check(sys.argv[1], sys.argv[2:-1], sys.argv[-1])
    print(*problems, sep="\n")
    print(f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
