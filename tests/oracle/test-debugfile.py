#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Debug files that were made as distributions make them: is the right one found?

usage: test-debugfile.py DEBUGFILE_DRIVER

Programs are compiled, stripped and packed with the tools that packagers use; the driver says which
files were found. Output is TAP.
"""

import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/stat.h>
struct shape_%(tag)s { struct tm when; struct stat of; char name[%(size)d]; };
static __attribute__((noinline)) int hidden_one(struct shape_%(tag)s *s) { return (int)strlen(s->name) + s->when.tm_year; }
static __attribute__((noinline)) int hidden_two(struct stat *s) { return (int)s->st_size; }
__attribute__((visibility("default"))) int shown(struct shape_%(tag)s *s) { return hidden_one(s) + hidden_two(&s->of); }
int main(int argc, char **argv)
{
	struct shape_%(tag)s *s = calloc(1, sizeof(*s));
	strncpy(s->name, argv[0], sizeof(s->name) - 1);
	printf("%%d %%d\n", shown(s), argc);
	free(s);
	return 0;
}
"""
results = []


class Missing(Exception):
    """A tool that is not installed, or cannot do this."""


def report(ok, what):
    results.append(ok)
    print(f"{'ok' if ok else 'not ok'} {len(results)} - {what}", flush=True)


def run(*args, **kw):
    if not shutil.which(args[0]):
        raise Missing(f"{args[0]} is not installed")
    try:
        done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30,
                              encoding="utf-8", env=dict(os.environ, LC_ALL="C"), **kw)
    except subprocess.TimeoutExpired as e:
        raise RuntimeError(f"{args[0]} does not end") from e
    if done.returncode != 0:
        raise RuntimeError(f"{args}: {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def place(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path


class Tree:
    """root/ is the root of a process, debug/ a folder of debug files of ours."""

    def __init__(self, driver):
        self.driver = driver
        self.tmp = tempfile.mkdtemp(prefix="test-debugfile-")
        self.root = os.path.join(self.tmp, "root")
        self.dir = os.path.join(self.tmp, "debug")
        os.mkdir(self.root)
        os.mkdir(self.dir)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.tmp)

    def at(self, path):
        return place(self.root + path)

    def compile(self, path, *flags, tag="a", size=64):
        source = os.path.join(self.tmp, f"{tag}.c")
        with open(source, "w", encoding="utf-8") as f:
            f.write(SOURCE % {"tag": tag, "size": size})
        run("gcc", "-g", "-O1", "-rdynamic", *flags, "-o", self.at(path), source, cwd=self.tmp)

    def build_id(self, path):
        found = re.search(r"Build ID: ([0-9a-f]+)", run("readelf", "-n", self.at(path)))
        return found.group(1)

    def by_id(self, path):
        """Below a folder of debug files."""
        text = self.build_id(path)
        return f"/.build-id/{text[:2]}/{text[2:]}.debug"

    def split(self, path, debug, *flags):
        """As debhelper and rpm do it: the debug file, the stripped one, the link."""
        run("objcopy", "--only-keep-debug", *flags, self.at(path), place(debug))
        run("strip", "--strip-unneeded", "-R", ".comment", self.at(path))
        run("objcopy", f"--add-gnu-debuglink={debug}", self.at(path))

    def find(self, path, *dirs, root=None):
        out = run(self.driver, "debug", path, self.root if root is None else root, *dirs)
        found = {"mini": set(), "refused": {}}
        for line in out.splitlines():
            word, _, rest = line.partition(" ")
            if word == "mini":
                found["mini"].add(rest)
            elif word == "refused":
                reason, n = rest.split()
                found["refused"][reason] = int(n)
            elif word == "debug":
                found["kind"], found["debug"] = rest.split(" ", 1)
            else:
                found[word] = rest
        return found


def expect(found, what, **want):
    wrong = {k: found.get(k) for k in want if found.get(k) != want[k]}
    for key, value in wrong.items():
        print(f"# {key}: {value!r}, expected {want[key]!r}")
    report(not wrong, what)


def debuglinks(t):
    debug = t.root + "/usr/bin/x.debug"
    t.compile("/usr/bin/x")
    t.split("/usr/bin/x", debug)
    expect(t.find("/usr/bin/x"), "a debuglink alongside the image", kind="debuglink", debug=debug,
           refused={})
    expect(t.find(t.root + "/usr/bin/x", root=""), "the same with a path of ours",
           kind="debuglink", debug=debug)
    moved = place(t.root + "/usr/lib/debug/usr/bin/x.debug")
    os.rename(debug, moved)
    expect(t.find("/usr/bin/x"), "a debuglink below /usr/lib/debug", kind="debuglink", debug=moved)
    expect(t.find("/bin/x", root=t.root + "/usr"), "nothing where nothing is", kind="none")
    os.symlink("usr/bin", t.root + "/bin")
    expect(t.find("/bin/x"), "an image by its path before /bin was a link", kind="debuglink",
           debug=moved)
    t.compile("/usr/bin/y", tag="b")
    t.split("/usr/bin/y", moved)  # another build with that name
    expect(t.find("/usr/bin/x"), "the debug file of another build", kind="refused",
           refused={"wrong_build_id": 1})


def checksums(t):
    debug = t.root + "/opt/x.debug"
    t.compile("/opt/x", "-Wl,--build-id=none")
    t.split("/opt/x", debug)
    expect(t.find("/opt/x"), "a checksum that objcopy wrote", kind="debuglink", debug=debug,
           refused={})
    with open(debug, "ab") as f:
        f.write(b"\0")
    expect(t.find("/opt/x"), "a debug file that has changed since", kind="refused",
           refused={"wrong_crc": 1})


def debian(t):
    t.compile("/usr/bin/x", "-Wl,--build-id=sha1")
    name = t.by_id("/usr/bin/x")
    t.split("/usr/bin/x", t.root + "/usr/lib/debug" + name, "--compress-debug-sections")
    expect(t.find("/usr/bin/x"), "the layout of Debian, packed", kind="build-id",
           debug=t.root + "/usr/lib/debug" + name)
    ours = place(t.dir + name)
    os.rename(t.root + "/usr/lib/debug" + name, ours)
    expect(t.find("/usr/bin/x", t.dir), "the same in a folder of ours", kind="build-id", debug=ours)
    expect(t.find("/usr/bin/x"), "and nowhere else", kind="none")


def fedora(t):
    """Links in .build-id lead to the debug file, and back to the image."""
    debug = t.root + "/usr/lib/debug/usr/bin/x-1.0.x86_64.debug"
    t.compile("/usr/bin/x")
    name = t.by_id("/usr/bin/x")
    t.split("/usr/bin/x", debug)
    link = place(t.root + "/usr/lib/debug" + name)
    os.symlink("../../usr/bin/x-1.0.x86_64.debug", link)
    os.symlink("../../../../bin/x", link[:-len(".debug")])
    expect(t.find("/usr/bin/x"), "the layout of Fedora", kind="build-id", debug=debug, refused={})


def kinds_of_packing(t):
    for kind in "zlib", "zlib-gnu", "zstd":
        try:
            t.compile("/opt/x")
            t.split("/opt/x", t.root + "/opt/x.debug", f"--compress-debug-sections={kind}")
        except RuntimeError as e:
            report(True, f"debug sections packed with {kind} # SKIP {e}"[:200].replace("\n", " "))
            continue
        expect(t.find("/opt/x"), f"debug sections packed with {kind}", kind="debuglink",
               debug=t.root + "/opt/x.debug")


def useless(t):
    """A debug file that was stripped itself."""
    t.compile("/opt/x")
    t.split("/opt/x", t.root + "/opt/x.debug")
    shutil.copy(t.root + "/opt/x.debug", t.at("/opt/.debug/x.debug"))
    run("strip", "--strip-all", t.root + "/opt/x.debug")
    expect(t.find("/opt/x"), "a stripped debug file before a whole one", kind="debuglink",
           debug=t.root + "/opt/.debug/x.debug", refused={"bad": 1})


def elfutils(t):
    debug = t.at("/opt/x.debug")
    for flags, what in ((), "with a build-id"), (("-Wl,--build-id=none",), "with a checksum"):
        t.compile("/opt/x", *flags)
        run("eu-strip", "-f", debug, t.at("/opt/x"))
        expect(t.find("/opt/x"), f"a debug file of eu-strip, {what}", kind="debuglink",
               debug=debug, refused={})


def dwz(t, relative):
    """Two programs whose common parts go to a third file."""
    common = t.at("/usr/lib/debug/.dwz/common.debug")
    for tag, size in ("a", 64), ("b", 80):
        t.compile(f"/usr/bin/{tag}", tag=tag, size=size)
        t.split(f"/usr/bin/{tag}", t.at(f"/usr/lib/debug/usr/bin/{tag}.debug"))
    named = [] if relative else ["-M", "/usr/lib/debug/.dwz/common.debug"]
    if relative:
        named = ["-r"]
    run("dwz", "-m", common, *named, *(
        t.root + f"/usr/lib/debug/usr/bin/{tag}.debug" for tag in "ab"))
    how = "relative" if relative else "absolute"
    found = t.find("/usr/bin/a")
    expect(found, f"a common file of dwz by a path that is {how}", kind="debuglink", alt=common,
           debug=t.root + "/usr/lib/debug/usr/bin/a.debug")
    # Debug files by links in .build-id: a relative path starts from where they really are.
    link = place(t.dir + t.by_id("/usr/bin/b"))
    os.symlink(t.root + "/usr/lib/debug/usr/bin/b.debug", link)
    found = t.find("/usr/bin/b", t.dir)
    expect(found, f"the same, from a link, {how}", kind="build-id", alt=common)
    moved = place(t.dir + "/.dwz/common.debug")
    os.rename(common, moved)
    expect(t.find("/usr/bin/a", t.dir), f"the same in a folder of ours, {how}", alt=moved)
    t.compile("/opt/c", tag="c")
    shutil.copy(t.root + "/opt/c", common)
    os.remove(moved)
    expect(t.find("/usr/bin/a", t.dir), f"a common file of another build, {how}", alt="-",
           refused={"wrong_build_id": 1})


def minidebug(t):
    """As rpm's find-debuginfo does it."""
    path, mini, keep = t.at("/usr/bin/x"), t.tmp + "/mini", t.tmp + "/keep"
    t.compile("/usr/bin/x")
    dynamic = {line.split()[0] for line in
               run("nm", "-D", path, "--format=posix", "--defined-only").splitlines()}
    functions = {line.split()[0] for line in
                 run("nm", path, "--format=posix", "--defined-only").splitlines()
                 if line.split()[1] in "TtD"}
    only = functions - dynamic
    with open(keep, "w", encoding="utf-8") as f:
        f.write("".join(name + "\n" for name in sorted(only)))
    run("objcopy", "--only-keep-debug", path, mini + ".debug")
    run("objcopy", "-S", "--remove-section", ".gdb_index", "--remove-section", ".comment",
        f"--keep-symbols={keep}", mini + ".debug", mini)
    run("strip", "--strip-all", "-R", ".comment", path)
    run("xz", "-k", "-f", mini)
    run("objcopy", "--add-section", f".gnu_debugdata={mini}.xz", path)
    names = {line.split()[0] for line in
             run("nm", mini, "--format=posix", "--defined-only").splitlines()
             if line.split()[1] in "Tt"}
    found = t.find("/usr/bin/x")
    expect(found, "symbols inside .gnu_debugdata", kind="none", mini=names)
    report({"hidden_one", "hidden_two"} <= found["mini"] and "shown" not in found["mini"],
           "which are those that the image has lost")
    # In several blocks, as xz writes it with threads.
    with open(mini, "rb") as f:
        data = f.read()
    run("xz", "-k", "-f", "-T", "2", "--block-size=4096", mini)
    run("objcopy", "--update-section", f".gnu_debugdata={mini}.xz", path)
    expect(t.find("/usr/bin/x"), "the same in blocks", mini=names)
    report(lzma.open(mini + ".xz").read() == data, "which xz itself reads as well")


def split_units(t):
    t.compile("/opt/x", "-gdwarf-4", "-gsplit-dwarf")
    unit = re.search(r"DW_AT_(?:GNU_)?dwo_name\s*:.*?([^\s:]+\.dwo)", run(
        "readelf", "--debug-dump=info", "-wN", t.at("/opt/x"))).group(1)
    os.makedirs(t.root + t.tmp)
    real = t.tmp + "/" + unit.lstrip("/") if not unit.startswith("/") else unit
    out = run(t.driver, "dwo", t.tmp, unit, t.root)
    report(out == f"dwo {real}\n", "the file of a split unit, where it was compiled")
    moved = place(t.dir + "/" + os.path.basename(unit))
    os.rename(real, moved)
    out = run(t.driver, "dwo", t.tmp, unit, t.root, t.dir)
    report(out == f"dwo {moved}\n", "the same in a folder of ours")
    os.rename(moved, real)
    try:  # llvm-dwp 14 does not end on what gcc 12 writes
        run("dwp", "-e", t.at("/opt/x"), "-o", t.at("/opt/x.dwp"), cwd=t.tmp)
    except RuntimeError as e:
        raise Missing(str(e)[:150].replace("\n", " ")) from e
    expect(t.find("/opt/x"), "a package of split units", dwp=t.root + "/opt/x.dwp")
    moved = place(t.dir + "/opt/x.dwp")
    os.rename(t.root + "/opt/x.dwp", moved)
    expect(t.find("/opt/x", t.dir), "the same in a folder of ours", dwp=moved)


def main():
    driver = sys.argv[1]
    for tool in "gcc", "objcopy", "strip", "readelf", "nm":
        if not shutil.which(tool):
            print(f"1..0 # SKIP {tool} is not installed")
            return 0
    parts = [debuglinks, checksums, debian, fedora, kinds_of_packing, useless, elfutils,
             lambda t: dwz(t, False), lambda t: dwz(t, True), minidebug, split_units]
    names = ["debuglinks", "checksums", "debian", "fedora", "packing", "useless", "elfutils",
             "dwz", "dwz -r", "minidebug", "split units"]
    for name, part in zip(names, parts):
        with Tree(driver) as t:
            try:
                part(t)
            except Missing as e:
                report(True, f"{name} # SKIP {e}")
            except (RuntimeError, OSError, AttributeError) as e:
                report(False, f"{name}: {e}".replace("\n", " "))
    print(f"1..{len(results)}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
