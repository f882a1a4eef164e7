# SPDX-License-Identifier: Apache-2.0
"""Pages in headless Chromium: a browser, what its tests report, and the functions of their profiles."""

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
results = []


def report(ok, what, more=""):
    results.append(bool(ok))
    print(f"{'ok' if ok else 'not ok'} {len(results)} - {what}", flush=True)
    if not ok:
        print("# " + str(more).replace("\n", "\n# "), flush=True)


def equal(got, want, what):
    report(got == want, what, f"got  {got!r}\nwant {want!r}")


def skip_all(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def describe_functions():
    """The locations above, for flame-driver."""
    return [flamelib.location(number, module, functions, build_id="abcdef0123", reason=0 if functions else 7)
            for number, module, functions in LOCATIONS]


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

    def wait(self, script, seconds=120):
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


def screenshots(b, url, directory, name="flame"):
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
                b.driver.save_screenshot(os.path.join(directory, f"{name}-{width}{'-dark' if dark else ''}.png"))


def start_browser():
    """(browser, None), or (None, why there is none)."""
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        return None, "python3-selenium is not installed"
    binary = next((p for p in ("/usr/bin/chromium", "/usr/bin/google-chrome") if os.path.exists(p)), None)
    if not binary or not os.path.exists("/usr/bin/chromedriver"):
        return None, "chromium and chromium-driver are not installed"
    return Browser(webdriver, Service("/usr/bin/chromedriver"), binary), None


def run(driver, description, test, *form):
    """Calls test(browser, url) with the page of a description; then the console must be empty. Returns the exit status."""
    page = subprocess.run([driver, *(form or ("html",))], input=description.encode(), stdout=subprocess.PIPE, check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "flame.html")
        with open(path, "wb") as f:
            f.write(page)
        b, why = start_browser()
        if not b:
            skip_all(why)
        try:
            b.open("file://" + path)
            test(b, "file://" + path)
            equal(b.console(), [], "the console has no error")
        finally:
            b.driver.quit()
    print(f"1..{len(results)}")
    return 0 if all(results) else 1
