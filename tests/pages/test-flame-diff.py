#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The differential flame graph of the page in headless Chromium: values, signs, colours, vanished and new stacks.

usage: test-flame-diff.py FLAME_DRIVER [SCREENSHOT_DIRECTORY]

Two captures of 10 s and of 20 s are described here; values per second, changes and colours follow from them. Output is
TAP; without Chromium and its driver all is skipped.
"""

import sys

import flamelib
from pagelib import HOSTILE, describe_functions, equal, report, run, screenshots, shown_name

MS = 1000000
# Count (10 ms each), stack root first. The second capture is twice as long. Its period is half of the first one's, so that
# as many samples count half.
PERIODS = {10: 20 * MS, 20: 10 * MS}
BEFORE = (10, [(200, [1, 2, 3]), (100, [1, 2, 4]), (50, [1, 7]), (40, [9])])
AFTER = (20, [(100, [1, 2, 3]), (200, [1, 2, 4]), (90, [1, 6]), (84, [9]), (600, [1, 2, 2, 5])])
NAME = shown_name(HOSTILE)
LESS, MORE, SAME = (0, 1, 2), (4, 5, 6), (3,)
# By name: before and after in ms per second, steps of the colour, sign.
WANT = {
    "parse_all(char const*)": (200, 50, LESS, "−75 % "),
    "memcpy": (100, 100, SAME, ""),
    "py::handler:app.py": (50, 0, LESS, "gone "),
    "main.work": (40, 42, SAME, ""),  # 40 and 84 samples: chance
    "vfs_read": (0, 300, MORE, "new "),
    NAME: (0, 45, MORE, "new "),
}


def describe():
    lines = []
    for seconds, samples in (BEFORE, AFTER):
        lines += ["profile\tcpu", f"seconds\t{seconds}", f"period\t{PERIODS[seconds]}", "comment\t" + flamelib.escaped(f"target: capture of {seconds} s")]
        lines += describe_functions()
        lines += [flamelib.sample(count, count * 10 * MS, 7, 7, "serve", stack[::-1]) for count, stack in samples]
    return "\n".join(lines) + "\n"


def sides(b):
    return {f["name"]: (round(f["before"] / MS), round(f["after"] / MS)) for f in b.frames()}


def test_values(b):
    got = sides(b)
    for name, (before, after, _, _) in WANT.items():
        if after:
            equal(got.get(name), (before, after), f"values per second of {name[:30]}")
    report("py::handler:app.py" not in got, "what has vanished has no width")
    equal(got["all"], (390, 537), "and the totals")
    equal(sorted(round(f["value"] / MS) for f in b.frames() if f["depth"] == 1), [42, 495], "widths are those of the later profile")
    b.choose("side", "0")
    got = sides(b)
    equal(got.get("py::handler:app.py"), (50, 0), "with the widths before vanished stacks are there")
    report("vfs_read" not in got, "and new ones are not")
    equal(sorted(round(f["value"] / MS) for f in b.frames() if f["depth"] == 1), [40, 350], "widths are those of the earlier profile")


def test_colours(b):
    style = b.js("return flame.canvas.style.steps")
    equal(len(set(style)), 7, "each step has a colour")
    for side in ("1", "0"):
        b.choose("side", side)
        for f in b.frames():
            if f["name"] in WANT:
                _, _, steps, sign = WANT[f["name"]]
                report(style.index(f["colour"]) in steps, f"the colour of {f['name'][:30]} says how it changed", style.index(f["colour"]))
                got = b.js("""const l = flame.layers[0], i = arguments[0];
                    for (let n = 1; n < l.tree.n; n++)
                      if (l.tree.frame[n] >= 0 && flame.profile.strings[flame.profile.frames.name[l.tree.frame[n]]] === i)
                        return flame.signOf(l.tree, l.tree.frame[n], n)""", f["name"])
                equal(got, sign, f"and so does the text of {f['name'][:30]}")
    b.choose("side", "1")
    legend = b.text("#legend")
    report("less by 60 %" in legend and "or new" in legend and "chance" in legend, "the legend says it in words", legend)


def test_details(b):
    b.click_frame("parse_all(char const*)")
    details = b.text("#details")
    for want in ("before200 ms/s", "after50.0 ms/s", "change−150 ms/s, −75 %", "parse.cc:90"):
        report(want in details, f"details have {want}", details)
    report(b.text("#status").startswith("parse_all(char const*): 9.3 %, 50.0 ms/s, −75 %"), "the line below, too", b.text("#status"))
    b.js("document.getElementById('do-sandwich').click()")
    equal({k: v for k, v in sides(b).items() if k in ("parse_all(char const*)", "main")},
          {"parse_all(char const*)": (200, 50), "main": (200, 50)}, "a sandwich compares, too")
    b.js("document.getElementById('reset').click()")
    rows = b.js("return [...document.querySelectorAll('#functions tr')].slice(1).map(r => [...r.children].map(c => c.textContent))")
    equal(rows[0], ["+300 ms/s (new)", "+300 ms/s (new)", "vfs_read"], "the function that changed most is first")
    report(["−50.0 ms/s (gone)", "−50.0 ms/s (gone)", "py::handler:app.py"] in rows, "vanished functions are in the table", rows)
    b.search("memcpy|app.py")
    report(b.text("#matched").endswith("; before 150 ms/s, after 100 ms/s"), "a search has both sums", b.text("#matched"))
    b.search("")


def test_shares(b, url):
    b.choose("share", "1")
    got = {f["name"]: (round(f["before"], 2), round(f["after"], 2)) for f in b.frames()}
    equal(got["all"], (100, 100), "as shares both totals are 100 %")
    equal(got["memcpy"], (25.64, 18.62), "and functions their part of them")
    b.choose("side", "0")
    fragment = b.js("return location.hash")
    b.open(url + fragment)
    equal(b.js("return [flame.state.side, flame.state.share]"), [0, 1], "the fragment restores what is compared")
    report("as shares of the total" in b.text("#summary"), "which the page says", b.text("#summary"))
    b.choose("group", "label:comm")
    equal(sorted({round(f["value"]) for f in b.frames() if f["depth"] == 1}), [100], "groups are compared")
    b.choose("group", "")
    b.choose("mode", "inverted")
    equal(sorted(f["name"] for f in b.frames() if f["depth"] == 1), sorted(["main.work", "memcpy", "parse_header(char const*)", "py::handler:app.py"]),
          "the inverted view, too")
    b.choose("mode", "flame")


def test_pages(b):
    b.open(b.js("return location.href.split('#')[0]"))
    summary = b.text("#summary")
    for want in ("before: <b>old</b>.pb.gz, 10.0 s captured, 390 samples", "after: new.pb.gz, 20.0 s captured, 1,074 samples",
                 "per second of each capture"):
        report(want in summary, f"the summary has {want}", summary)
    report("before targetcapture of 10 s" in b.text("#about") and "after targetcapture of 20 s" in b.text("#about"),
           "the pane about the capture has both", b.text("#about"))
    b.js("document.getElementById('profile-1').click()")
    equal([f["value"] / MS for f in b.frames() if f["depth"] == 0], [3900], "the earlier profile can be seen by itself")
    report(b.js("return document.getElementById('side-label').hidden"), "without what is for a comparison")
    b.js("document.getElementById('profile-2').click()")
    equal([f["value"] / MS for f in b.frames() if f["depth"] == 0], [10740], "and the later one")
    equal(b.js("return document.getElementById('colour').value"), "kind", "in the colours of kinds")
    b.js("document.getElementById('profile-0').click()")
    b.choose("value", "0")
    equal([(f["before"], round(f["after"], 1)) for f in b.frames() if f["depth"] == 0], [(78, 53.7)], "numbers of samples are per second, at one rate")
    b.js("flame.profiles[0].sides[0].period = 0; flame.viewOf = null")
    b.choose("side", "0")
    equal([(round(f["before"], 6), round(f["after"], 6)) for f in b.frames() if f["depth"] == 0], [(100, 100)], "but shares if a rate is not known")
    report("as shares of the total" in b.text("#summary"), "which the page says, too", b.text("#summary"))
    b.choose("side", "1")
    b.choose("value", "1")


def test_all(b, url):
    test_values(b)
    test_colours(b)
    test_details(b)
    test_shares(b, url)
    test_pages(b)
    screenshots(b, url, sys.argv[2] if len(sys.argv) == 3 else None, "diff")


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    return run(sys.argv[1], describe(), test_all, "diff", "<b>old</b>.pb.gz", "new.pb.gz")


if __name__ == "__main__":
    sys.exit(main())
