#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The page of the flame graph in headless Chromium: what it draws, and what its controls do.

usage: test-flame-page.py FLAME_DRIVER [SCREENSHOT_DIRECTORY]

Names, sums and places are those of a profile that is described here. With a directory, screenshots at three widths are
left there, light and dark. Output is TAP; without Chromium and its driver all is skipped.
"""

import sys

import flamelib
from pagelib import HOSTILE, describe_functions, equal, report, run, screenshots, shown_name

# Count, ns, pid, tid, comm, stack root first.
ON_CPU = [
    (100, 1000000000, 7, 7, "serve", [1, 2, 3]),
    (50, 500000000, 7, 8, "worker", [1, 2, 4]),
    (25, 250000000, 7, 8, "worker", [1, 2, 2, 5]),
    (15, 150000000, 9, 9, HOSTILE, [1, 6]),
    (6, 60000000, 9, 9, HOSTILE, [1, 8]),
    (3, 30000000, 7, 8, "worker", [1, 2, 7]),
    (1, 10000000, 7, 8, "worker", [9]),
]
OFF_CPU = [
    (3, 3000000000, 7, 7, "serve", [1, 5], "interruptible", 2000000000),
    (1, 1000000000, 7, 8, "worker", [1, 2, 5], "iowait", 1000000000),
]
COMMENTS = ["env=prod", "target: command ./serve --port 80 (pid 7)", "complete_stacks_pct: 99.20", f"note: {HOSTILE}"]


def describe():
    lines = []
    for kind, samples in (("cpu", ON_CPU), ("offcpu", OFF_CPU)):
        lines.append(f"profile\t{kind}")
        lines += ["comment\t" + flamelib.escaped(c) for c in COMMENTS]
        lines += describe_functions() + ["uncovered\t4"]
        for count, ns, pid, tid, comm, stack, *more in samples:
            lines.append(flamelib.sample(count, ns, pid, tid, comm, stack[::-1], *more))
    return "\n".join(lines) + "\n"


def test_first_view(b):
    name = shown_name(HOSTILE)
    report(b.js("return document.getElementById('time').hidden"), "without times there is no time line")
    equal(b.shown(), sorted([
        "0 all 2000", "1 main 1990", "1 main.work 10", "2 handle_request(int) 1780", f"2 {name} 150", "2 serve+0x1008 60",
        "3 parse_all(char const*) 1000", "3 memcpy 500", "3 handle_request(int) 250", "3 py::handler:app.py 30",
        "4 parse_header(char const*) 1000", "4 vfs_read 250"]), "all frames are drawn, with their sums")
    widths = {f["name"]: f["width"] for f in b.frames() if f["depth"] == 2}
    report(abs(widths["handle_request(int)"] / widths["serve+0x1008"] - 1780 / 60) < 0.01, "widths are proportional", widths)
    equal(b.js("return document.title"), "On-CPU: command ./serve --port 80 (pid 7)", "the title is the target's, not a name's")
    equal(b.js("return document.querySelectorAll('img, script').length"), 2, "names make no elements")
    report("99 % complete stacks" in b.text("#summary"), "and the quality", b.text("#summary"))
    report("200 samples" in b.text("#summary") and "2.00 s" in b.text("#summary"), "samples and time are on the page",
           b.text("#summary"))
    for c in ("99.20", "prod", "./serve --port 80"):
        report(c in b.text("#about"), f"the pane about the capture has {c}", b.text("#about"))
    equal(b.js("return [...document.querySelectorAll('#legend span')].map(e => e.textContent)"),
          ["native", "C++", "Go", "JIT", "kernel", "inlined", "no name", "heuristic: underlined"],
          "the legend has the kinds that are there")
    b.click_frame("memcpy")
    report("heuristic: no unwind rule covers it" in b.text("#details"), "a frame without a rule is heuristic", b.text("#details"))
    equal([f["name"] for f in b.frames() if f["colour"] == b.js("return flame.canvas.style.kinds[9]")], ["memcpy"], "in its own colour")
    b.js("document.getElementById('reset').click()")


def test_zoom(b, url):
    b.click_frame("parse_all(char const*)")
    equal(b.shown(), ["3 parse_all(char const*) 1000", "4 parse_header(char const*) 1000"], "a click zooms")
    equal(sorted(f["name"] for f in b.frames() if f["above"]), ["all", "handle_request(int)", "main"], "callers stay in view")
    details = b.text("#details")
    for want in ("parse_all(char const*)", "50 % of all", "1.00 s", "100", "parse.cc:90", "/usr/bin/serve", "abcdef0123", "C++"):
        report(want in details, f"details of the frame have {want}", details)
    fragment = b.js("return location.hash")
    b.open(url + fragment)
    equal(b.shown(), ["3 parse_all(char const*) 1000", "4 parse_header(char const*) 1000"], "the fragment restores the zoom")
    b.js("document.getElementById('reset').click()")
    equal(len(b.shown()), 12, "reset shows all again")
    b.driver.back()
    b.wait("return flame.frames().filter(f => !f.above).length === 2")
    report(True, "the browser's Back returns to the zoom")
    b.js("document.getElementById('reset').click()")


def test_search(b):
    b.search("memcpy|^parse_")
    equal(b.text("#matched"), "75 % matched: 1.50 s, 3 functions", "the share of a regular expression is shown")
    b.search("HANDLE")
    equal(b.text("#matched"), "0 % matched: 0, 0 functions", "capitals are searched as they are")
    b.search("handle_")
    equal(b.text("#matched"), "89 % matched: 1.78 s, 1 function", "recursion counts once")
    b.search("(")
    report(b.text("#matched").startswith("not a regular expression"), "a wrong expression is said to be one", b.text("#matched"))
    b.search("")
    equal(b.text("#matched"), "", "without a search nothing is matched")


def test_inverted(b):
    name = shown_name(HOSTILE)
    b.choose("mode", "inverted")
    equal([s for s in b.shown() if s.startswith("1 ")],
          sorted(["1 memcpy 500", "1 vfs_read 250", "1 parse_header(char const*) 1000", f"1 {name} 150", "1 main.work 10",
                  "1 serve+0x1008 60", "1 py::handler:app.py 30"]), "inverted, the leaves are first")
    equal([s for s in b.shown() if s.startswith("2 ")],
          sorted(["2 handle_request(int) 250", "2 handle_request(int) 30", "2 handle_request(int) 500", "2 main 150", "2 main 60",
                  "2 parse_all(char const*) 1000"]), "and what calls them is next")
    b.choose("mode", "flame")
    top = b.js("return flame.frames().find(f => f.depth === 0).y")
    b.js("document.getElementById('icicle').click()")
    report(b.js("return flame.frames().find(f => f.depth === 0).y") == 0 < top, "icicle has the root at the top", top)
    b.js("document.getElementById('icicle').click()")


def test_sandwich(b, url):
    b.click_frame("memcpy")
    b.js("document.getElementById('do-sandwich').click()")
    equal(b.shown(), sorted(["1 memcpy 500", "<2 handle_request(int) 500", "<3 main 500"]), "a sandwich has callers and callees")
    fragment = b.js("return location.hash")
    b.js("document.getElementById('reset').click()")
    b.js("flame.showSandwich(flame.profile.frames.name.findIndex(n => flame.profile.strings[n] === 'handle_request(int)'))")
    equal(b.shown(), sorted(["1 handle_request(int) 1780", "2 handle_request(int) 250", "2 memcpy 500", "3 vfs_read 250",
                             "2 parse_all(char const*) 1000", "3 parse_header(char const*) 1000", "2 py::handler:app.py 30",
                             "<2 main 1780"]), "a recursive function counts once, and its inner calls are callees")
    b.open(url + fragment)
    equal(b.shown(), sorted(["1 memcpy 500", "<2 handle_request(int) 500", "<3 main 500"]), "the fragment restores a sandwich")
    b.click_frame("main", callers=True)
    equal([s for s in b.shown() if s.startswith("<")], ["<3 main 500"], "callers are zoomed by themselves")
    b.js("flame.stepBack(); flame.stepBack()")
    equal(b.js("return flame.state.mode"), "flame", "Esc leaves the sandwich")


def test_groups(b):
    name = shown_name(HOSTILE)
    b.choose("group", "process")
    equal([s for s in b.shown() if s.startswith("1 ")], sorted(["1 serve-7 1790", f"1 {name}-9 210"]),
          "grouped by process: named as its main thread")
    b.choose("group", "thread")
    equal([s for s in b.shown() if s.startswith("1 ")], sorted(["1 serve-7/7 1000", "1 worker-7/8 790", f"1 {name}-9/9 210"]),
          "grouped by thread")
    b.choose("mode", "inverted")
    equal([s for s in b.shown() if s.startswith("2 ") and "memcpy" in s], ["2 memcpy 500"], "groups are there inverted, too")
    b.choose("mode", "flame")
    b.choose("group", "label:comm")
    equal([s for s in b.shown() if s.startswith("1 ")], sorted(["1 comm: serve 1000", "1 comm: worker 790", f"1 comm: {name} 210"]),
          "grouped by a label")
    b.choose("group", "")


def test_keys(b):
    b.js("document.getElementById('canvas').focus(); flame.select(flame.layers[0], 0)")
    from selenium.webdriver.common.keys import Keys
    b.keys(Keys.ARROW_UP + Keys.ARROW_UP + Keys.ARROW_UP)
    report(b.text("#status").startswith("parse_all(char const*): 50 %, 1.00 s, 100 samples"), "arrows go to the widest callee",
           b.text("#status"))
    b.keys(Keys.ARROW_LEFT)
    report(b.text("#status").startswith("memcpy: 25 %"), "and to siblings", b.text("#status"))
    b.keys(Keys.ARROW_DOWN + Keys.ENTER)
    equal(b.js("return flame.state.zoom[0].length"), 2, "Enter zooms")
    b.keys(Keys.ESCAPE)
    equal(b.js("return flame.state.zoom[0].length"), 0, "Esc zooms out")
    b.keys("v")
    equal(b.js("return flame.state.mode"), "inverted", "V inverts")
    b.keys("v/")
    equal(b.js("return document.activeElement.id"), "search", "/ goes to the search")
    b.keys("memcpy")
    b.wait("return flame.state.search === 'memcpy'")
    equal(b.text("#matched"), "25 % matched: 500 ms, 1 function", "what is typed is searched")
    b.search("")
    b.keys(Keys.ESCAPE)
    b.click_frame("memcpy")
    equal(b.js("return flame.stackText()"), "main\nhandle_request(int)\nmemcpy\n", "the stack that is copied is root first")
    b.js("document.getElementById('do-copy').click()")
    b.wait("return document.getElementById('status').textContent.includes('copied')")
    report(True, "copying says that it was done")
    b.js("document.getElementById('reset').click()")


def test_second_profile(b):
    b.js("document.getElementById('profile-1').click()")
    equal(b.shown(), sorted(["0 all 4000", "1 main 4000", "2 vfs_read 3000", "2 handle_request(int) 1000", "3 vfs_read 1000"]),
          "the switch shows the other profile")
    b.choose("group", "label:state")
    equal([s for s in b.shown() if s.startswith("1 ")], ["1 state: interruptible 3000", "1 state: iowait 1000"],
          "it is grouped by its own labels")
    report("longest interval2.00 s" in b.text("#details"), "the longest interval is not a sum", b.text("#details"))
    b.choose("value", "0")
    equal([f["value"] for f in b.frames() if f["depth"] == 0], [4], "the width can be the count")
    b.js("document.getElementById('profile-0').click()")
    equal(len(b.shown()), 12, "and back")
    b.choose("colour", "module")
    report("libc.so.6" in b.text("#legend"), "colours by module have their legend", b.text("#legend"))
    b.choose("colour", "kind")


def test_all(b, url):
    test_first_view(b)
    test_zoom(b, url)
    test_search(b)
    test_inverted(b)
    test_sandwich(b, url)
    test_groups(b)
    test_keys(b)
    test_second_profile(b)
    equal(b.console(), [], "the console has no error")
    screenshots(b, url, sys.argv[2] if len(sys.argv) == 3 else None)


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    return run(sys.argv[1], describe(), test_all)


if __name__ == "__main__":
    sys.exit(main())
