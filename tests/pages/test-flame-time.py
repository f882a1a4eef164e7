#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The time line of the flame graph's page in headless Chromium: its cells, and ranges as filters.

usage: test-flame-time.py FLAME_DRIVER [SCREENSHOT_DIRECTORY]

Ranges are chosen with the mouse, a finger, keys and the fragment of the address; frames and sums are those of the events
that are described here. Output is TAP; without Chromium and its driver all is skipped.
"""

import sys

import flamelib
from pagelib import HOSTILE, describe_functions, equal, report, run, screenshots, shown_name

MS = 1000000
# pid, tid, comm, stack root first, events: (start, duration in ms).
ON_CPU = [
    (7, 7, "serve", [1, 2, 3], [(1000 + 5 * i, 0) for i in range(100)]),
    (7, 8, "worker", [1, 2, 4], [(2000 + 20 * i, 0) for i in range(50)]),
    (7, 8, "worker", [1, 2, 2, 5], [(2500 + 10 * i, 0) for i in range(25)]),
    (9, 9, HOSTILE, [1, 6], [(5000 + i, 0) for i in range(15)]),
]
OFF_CPU = [
    (7, 7, "serve", [1, 5], [(500, 2000), (4000, 500), (6000, 500)]),
    (7, 8, "worker", [1, 2, 5], [(2000, 1000)]),
]
SECOND_2 = ["0 all 750", "1 main 750", "2 handle_request(int) 750", "3 handle_request(int) 250", "3 memcpy 500", "4 vfs_read 250"]
LOST = 3  # events of the last sample on the CPU that are not in the time line
HALF = ["0 all 250", "1 main 250", "2 handle_request(int) 250", "3 memcpy 250"]


def describe():
    lines = []
    for kind, samples in (("cpu", ON_CPU), ("offcpu", OFF_CPU)):
        lines += [f"profile\t{kind}", f"lost\t{LOST}"] + describe_functions()
        for index, (pid, tid, comm, stack, events) in enumerate(samples):
            values = [duration or 10 for _, duration in events] + [10] * (LOST if samples is ON_CPU and index == 3 else 0)
            lines.append(flamelib.sample(len(values), sum(values) * MS, pid, tid, comm, stack[::-1], "blocked" if kind == "offcpu" else "",
                                         max(values) * MS if kind == "offcpu" else ""))
            lines += [flamelib.event(start * MS, duration * MS, index) for start, duration in events]
    return "\n".join(lines) + "\n"


def test_cells(b):
    equal(b.js("const d = flame.time.data; return [d.columns, d.cell / 1e6, d.cells.length]"), [10, 20, 500],
          "10 s have a column for each second, and 50 rows")
    equal(b.js("return flame.time.data.cells.reduce((a, v) => a + v, 0) / 1e6"), 1900, "the cells add up to the total without the lost events")
    equal(b.js("return [...flame.time.data.cells.slice(49, 52)].map(v => v / 1e6)"), [0, 40, 40], "samples are in the cells of their times")
    status = b.text("#time-status")
    report("darkest: 7.5 CPUs busy" in status and "3 events are missing here" in status, "the status has scale and losses", status)


def test_mouse(b):
    from selenium.webdriver.common.action_chains import ActionChains
    canvas = b.driver.find_element("id", "time-canvas")
    width, height, column, row = b.js("const t = flame.time, c = t.canvas; return [c.clientWidth, c.clientHeight, t.columnWidth, t.rowHeight]")

    def at(cell):
        x, y = (cell // 50 + 0.5) * column, (49 - cell % 50 + 0.5) * row
        return x - width / 2, y - height / 2

    ActionChains(b.driver).move_to_element_with_offset(canvas, *at(125)).click().perform()
    equal(b.js("return flame.state.range"), [2000 * MS, 3000 * MS], "a click chooses a column")
    equal(b.shown(), SECOND_2, "the flame graph is that of the range")
    ActionChains(b.driver).move_to_element_with_offset(canvas, *at(124)).click_and_hold() \
        .move_to_element_with_offset(canvas, *at(100)).release().perform()
    equal(b.js("return flame.state.range"), [2000 * MS, 2500 * MS], "dragging chooses from cell to cell")
    equal(b.shown(), HALF, "and the frames are those of the cells")
    report("from 2 s to 2.5 s" in b.text("#summary") and "25 samples" in b.text("#summary"), "the summary has range and samples",
           b.text("#summary"))
    b.driver.back()
    b.wait("return flame.state.range && flame.state.range[1] === 3e9")
    equal(b.shown(), SECOND_2, "the browser's Back returns to the range before")


def test_other_views(b):
    b.search("memcpy")
    equal(b.text("#matched"), "67 % matched: 500 ms, 1 function", "the share of a search is of the range")
    b.search("")
    functions = b.text("#functions")
    report("memcpy" in functions and "parse_" not in functions, "the functions are those of the range", functions)
    b.choose("group", "thread")
    equal([s for s in b.shown() if s.startswith("1 ")], ["1 worker-7/8 750"], "so are the groups")
    b.choose("group", "")
    b.choose("mode", "inverted")
    equal([s for s in b.shown() if s.startswith("1 ")], ["1 memcpy 500", "1 vfs_read 250"], "and the inverted view")
    b.choose("mode", "flame")
    b.choose("value", "0")
    equal([f["value"] for f in b.frames() if f["depth"] == 0], [75], "the width can be the number of samples")
    b.choose("value", "1")


def test_fragment(b, url):
    fragment = b.js("return location.hash")
    report("t=2000-3000" in fragment, "the fragment has the range", fragment)
    b.open(url + fragment)
    equal(b.shown(), SECOND_2, "and restores it")
    b.js("document.getElementById('time-all').click()")
    equal([f["value"] / MS for f in b.frames() if f["depth"] == 0], [1930], "the button returns to all of the time")
    report("</script>" in shown_name(HOSTILE) and f"2 {shown_name(HOSTILE)} 180" in b.shown(), "hostile names are shown", b.shown())
    for wrong in ("#t=", "#t=5", "#t=9-1", "#t=x-y", "#t=-5--1"):
        b.open(url + wrong)
        equal(b.js("return flame.state.range"), None, f"{wrong} is ignored")


def test_keys(b):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys
    b.js("document.getElementById('time-canvas').focus()")
    b.keys(Keys.HOME + Keys.ARROW_RIGHT * 2)
    report("at 2.00 s: 0.5 CPUs busy" in b.text("#time-status"), "the cell under the cursor is said", b.text("#time-status"))
    ActionChains(b.driver).key_down(Keys.SHIFT).send_keys(Keys.ARROW_UP * 24).key_up(Keys.SHIFT).perform()
    equal(b.js("return flame.state.range"), [2000 * MS, 2500 * MS], "Shift with arrows extends a range")
    equal(b.shown(), HALF, "which is the filter")
    b.keys(Keys.ENTER)
    equal(b.js("return flame.state.range"), [2000 * MS, 3000 * MS], "Enter chooses the column")
    b.keys(Keys.ESCAPE)
    equal(b.js("return flame.state.range"), None, "Esc chooses all")


def test_touch(b):
    x, y, column = b.js("const t = flame.time, r = t.canvas.getBoundingClientRect(); return [r.left, r.top + 30, t.columnWidth]")
    for kind, at in (("touchStart", 1.5), ("touchMove", 1.8), ("touchMove", 2.2), ("touchEnd", None)):
        points = [] if at is None else [{"x": x + at * column, "y": y}]
        b.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    b.wait("return flame.state.range")
    equal(b.js("return flame.state.range"), [1000 * MS, 3000 * MS], "a finger chooses columns")
    equal([f["value"] / MS for f in b.frames() if f["depth"] == 0], [1750], "and filters")


def test_intervals(b):
    b.open(b.js("return location.href.split('#')[0]") + "#t=2000-3000")
    b.js("document.getElementById('profile-1').click()")
    equal(b.shown(), ["0 all 1500", "1 main 1500", "2 handle_request(int) 1000", "2 vfs_read 500", "3 vfs_read 1000"],
          "intervals count as far as they are in the range")
    report("2 intervals" in b.text("#summary"), "each is one", b.text("#summary"))
    report("longest interval2.00 s" in b.text("#details"), "the longest is as long as it was", b.text("#details"))
    equal(b.js("return Math.round(flame.time.data.cells.reduce((a, v) => a + v, 0) / 1e6)"), 4000, "the cells add up to the total")
    equal(b.js("return [...flame.time.data.cells.slice(22, 27)].map(v => Math.round(v / 1e6))"), [0, 0, 0, 20, 20],
          "an interval is in all cells of its duration")
    report("1.5 threads blocked" in b.text("#time-status"), "the status has the mean", b.text("#time-status"))


def test_all(b, url):
    test_cells(b)
    test_mouse(b)
    test_other_views(b)
    test_fragment(b, url)
    test_keys(b)
    test_touch(b)
    test_intervals(b)
    screenshots(b, url + "#t=2000-2500", sys.argv[2] if len(sys.argv) == 3 else None, "time")


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    return run(sys.argv[1], describe(), test_all)


if __name__ == "__main__":
    sys.exit(main())
