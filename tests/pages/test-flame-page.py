#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The page of the flame graph in headless Chromium: what it draws, and what its controls do.

usage: test-flame-page.py FLAME_DRIVER [SCREENSHOT_DIRECTORY]

Names, sums and places are those of a profile that is described here. With a directory, screenshots at three widths are
left there, light and dark. Output is TAP; without Chromium and its driver all is skipped.
"""

import os
import subprocess
import sys
import tempfile
import time

import flamelib

HOSTILE = '</script><script>document.title="broken"</script><img src=x onerror=document.title="broken">"\';a&b\nc\x1b[2J'
LOCATIONS = [
    # number, module, functions (innermost first), build-id, reason
    (1, "/usr/bin/serve", [("main", "main", "serve.cc", 10)]),
    (2, "/usr/bin/serve", [("handle_request(int)", "_Z14handle_requesti", "serve.cc", 40)]),
    (3, "/usr/bin/serve", [("parse_header(char const*)", "_Z12parse_headerPKc", "parse.cc", 7),
                           ("parse_all(char const*)", "_Z9parse_allPKc", "parse.cc", 90)]),
    (4, "/usr/lib/libc.so.6", [("memcpy", "memcpy", "", 0)]),
    (5, "[kernel]", [("vfs_read", "vfs_read", "", 0)]),
    (6, "/usr/bin/serve", [(HOSTILE, "x", "evil\n.c", 3)]),
    (7, "[jit]", [("py::handler:app.py", "", "", 0)]),
    (8, "/usr/bin/serve", []),
    (9, "/usr/bin/go", [("main.work", "main.work", "work.go", 12)]),
]
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
results = []


def report(ok, what, more=""):
    results.append(ok)
    print(f"{'ok' if ok else 'not ok'} {len(results)} - {what}", flush=True)
    if not ok:
        print("# " + str(more).replace("\n", "\n# "), flush=True)


def equal(got, want, what):
    report(got == want, what, f"got  {got!r}\nwant {want!r}")


def skip_all(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def describe():
    lines = []
    for kind, samples in (("cpu", ON_CPU), ("offcpu", OFF_CPU)):
        lines.append(f"profile\t{kind}")
        lines += ["comment\t" + flamelib.escaped(c) for c in COMMENTS]
        for number, module, functions in LOCATIONS:
            lines.append(flamelib.location(number, module, functions, build_id="abcdef0123", reason=0 if functions else 7))
        for count, ns, pid, tid, comm, stack, *more in samples:
            lines.append(flamelib.sample(count, ns, pid, tid, comm, stack[::-1], *more))
    return "\n".join(lines) + "\n"


class Browser:
    def __init__(self, webdriver, service, binary):
        options = webdriver.ChromeOptions()
        options.binary_location = binary
        # The profile folder would be shared, and /dev/shm is small in containers.
        for arg in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,1000"):
            options.add_argument(arg)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=service, options=options)
        self.errors = []

    def open(self, url):
        self.driver.get("about:blank")
        self.driver.get(url)
        self.wait("return Boolean(window.flame)")

    def js(self, script, *args):
        return self.driver.execute_script(script, *args)

    def wait(self, script, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.js(script):
                return True
            time.sleep(0.02)
        raise AssertionError(f"not within {seconds} s: {script}")

    def frames(self):
        return self.js("return flame.frames()")

    # Name, value in ms and depth of what is drawn, callers of a sandwich with a "<".
    def shown(self, least_ms=0):
        return sorted(("<" if f["callers"] else "") + f"{f['depth']} {f['name']} {f['value'] / 1e6:.0f}"
                      for f in self.frames() if not f["above"] and f["value"] >= least_ms * 1e6)

    def text(self, selector):
        return self.js("return document.querySelector(arguments[0]).textContent", selector)

    def choose(self, identity, value):
        self.js("const e = document.getElementById(arguments[0]); e.value = arguments[1];"
                "e.dispatchEvent(new Event('change'))", identity, value)

    def click_frame(self, name, callers=False):
        """A real click in the middle of what is drawn."""
        from selenium.webdriver.common.action_chains import ActionChains
        box = [f for f in self.frames() if f["name"] == name and f["callers"] == callers][0]
        canvas = self.driver.find_element("id", "canvas")
        size = canvas.size
        ActionChains(self.driver).move_to_element_with_offset(
            canvas, box["x"] + box["width"] / 2 - size["width"] / 2, box["y"] + 9 - size["height"] / 2).click().perform()

    def keys(self, text):
        from selenium.webdriver.common.action_chains import ActionChains
        ActionChains(self.driver).send_keys(text).perform()

    def search(self, text):
        self.js("const e = document.getElementById('search'); e.value = arguments[0]; e.dispatchEvent(new Event('input'))", text)
        self.wait(f"return flame.state.search === {text!r}")

    def console(self):
        self.errors += [e["message"] for e in self.driver.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]
        return self.errors


def shown_name(text):
    """As the encoder shows a name: control bytes are '?'."""
    return "".join("?" if ord(c) < 0x20 else c for c in text)


def test_first_view(b):
    name = shown_name(HOSTILE)
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
          ["native", "C++", "Go", "JIT", "kernel", "inlined", "no name"], "the legend has the kinds that are there")


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


def screenshots(b, url, directory):
    for width, height in ((1440, 900), (820, 1100), (390, 844)):
        for dark in (False, True):
            b.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
                "width": width, "height": height, "deviceScaleFactor": 2 if width < 500 else 1, "mobile": width < 500})
            b.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
                "features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})
            b.open(url)
            wide = b.js("return document.documentElement.scrollWidth <= innerWidth && flame.canvas.width > 0.5 * 360")
            report(wide, f"at {width} pixels{' in the dark' if dark else ''} nothing is cut off at the side",
                   b.js("return [document.documentElement.scrollWidth, innerWidth]"))
            if directory:
                b.driver.save_screenshot(os.path.join(directory, f"flame-{width}{'-dark' if dark else ''}.png"))


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        skip_all("python3-selenium is not installed")
    binary = next((p for p in ("/usr/bin/chromium", "/usr/bin/google-chrome") if os.path.exists(p)), None)
    if not binary or not os.path.exists("/usr/bin/chromedriver"):
        skip_all("chromium and chromium-driver are not installed")
    page = subprocess.run([sys.argv[1], "html"], input=describe().encode(), stdout=subprocess.PIPE, check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "flame.html")
        with open(path, "wb") as f:
            f.write(page)
        url = "file://" + path
        b = Browser(webdriver, Service("/usr/bin/chromedriver"), binary)
        try:
            b.open(url)
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
            equal(b.console(), [], "and none at other widths")
        finally:
            b.driver.quit()
    print(f"1..{len(results)}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
