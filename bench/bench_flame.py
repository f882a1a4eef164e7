# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of flame graphs and encoders: the parts flame and instructions of bench/run.

bench-flame makes a model of 100,000 stacks and writes it in each format. Headless Chromium opens the page (python3-selenium,
chromium-driver) and says how long it takes until it is drawn, and for a search, the inverted view, groups by thread and a
sandwich. Compared with flamegraph.pl and inferno-flamegraph (a Rust crate; INFERNO: its path) on the same folded stacks,
whichever are installed. "absent" lists those that are not.
"""
import os
import re
import resource
import shutil
import subprocess
import tempfile
import time

from benchlib import BUILD, ROUNDS, emit, median

STACKS = 100000
COUNTED = 20000  # where a program runs 50 times slower
CHROMIUM = "/usr/bin/chromium"
CLICKS = {
    "search": "flame.state.search = 'vector.*commit'; flame.search(); flame.draw()",
    "range": "flame.change({search: '', range: [20e9, 25e9]}, false)",
    "inverted": "flame.change({search: '', range: null, mode: 'inverted'}, false)",
    "threads": "flame.change({mode: 'flame', group: 'thread'}, false)",
    "sandwich": "flame.change({group: ''}, false); flame.showSandwich(flame.functions.slice().sort((a, b) => b.self - a.self)[3].frame)",
}


def open_page(path):
    """Milliseconds until the page is drawn, from the start of loading; and of each click: wall time, CPU time of its thread."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for arg in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,1000"):
        options.add_argument(arg)
    driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)

    def cpu():
        metrics = driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return next(m["value"] for m in metrics if m["name"] == "TaskDuration") * 1000

    try:
        driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        before, began = cpu(), time.monotonic()
        driver.get("file://" + path)
        while not driver.execute_script("return Boolean(window.flame)"):
            time.sleep(0.005)
        ret = {"drawn": (time.monotonic() - began) * 1000, "drawn_cpu": cpu() - before}
        for name, script in CLICKS.items():
            if name == "range" and driver.execute_script("return !flame.profile.times"):
                continue
            before = cpu()
            ret[name] = driver.execute_script(f"const t = performance.now(); {script}; return performance.now() - t")
            ret[name + "_cpu"] = cpu() - before
        return ret
    finally:
        driver.quit()


def peer(argv, output):
    """CPU time in ms, bytes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(output, "wb") as f:
        subprocess.run(argv, stdout=f, stderr=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu * 1000, os.path.getsize(output)


def instructions(function, argv):
    """Instructions within calls of a function, by callgrind."""
    out = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", f"--toggle-collect={function}", *argv],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", out.stderr)[1])


def bench_instructions():
    """Instructions of each encoder, which do not depend on the load of the machine: COUNTED stacks of the model of bench-flame
    (each is one sample or more), and as many samples of bench-perf-data."""
    if not shutil.which("valgrind"):
        emit("instructions", absent=["valgrind"])
        return
    more = {f"{name.replace('.', '_')}_per_stack": round(instructions("encode", [f"{BUILD}/bench/bench-flame", str(COUNTED), "-", name]) / COUNTED)
            for name in ("html", "timed.html", "svg", "folded", "pb.gz")}
    for name in ("classic", "zstd"):
        count = instructions("enc_perf_data", [f"{BUILD}/bench/bench-perf-data", str(COUNTED), "30", name])
        more[f"perf_data_{name}_per_sample"] = round(count / COUNTED)
    emit("instructions", stacks=COUNTED, absent=[], **more)


def bench_flame():
    """Bytes and CPU time of each format at 100,000 stacks; the page in a browser; other tools on the same stacks."""
    absent, more = [], {}
    with tempfile.TemporaryDirectory() as d:
        out = subprocess.run([f"{BUILD}/bench/bench-flame", str(STACKS), d], stdout=subprocess.PIPE, text=True, check=True).stdout
        for name, size, ms in re.findall(r"^(\S+)\s+(\d+) bytes\s+\d+ bytes/1,000 stacks\s+([\d.]+) ms CPU$", out, re.M):
            key = name.replace(".", "_")
            more[f"{key}_bytes"], more[f"{key}_ms"] = int(size), float(ms)
        try:
            for name in ("page", "timed_page"):
                rounds = [open_page(f"{d}/flame.{'timed.' if name != 'page' else ''}html") for _ in range(ROUNDS)]
                more.update({f"{name}_{k}_ms": round(median([r[k] for r in rounds]), 1) for k in rounds[0]})
        except ImportError:
            absent.append("python3-selenium")
        for name, tool in (("flamegraph_pl", shutil.which("flamegraph.pl")),
                           ("inferno", os.environ.get("INFERNO") or shutil.which("inferno-flamegraph"))):
            if not tool:
                absent.append(name)
                continue
            rounds = [peer([tool, f"{d}/flame.folded"], f"{d}/{name}.svg") for _ in range(ROUNDS)]
            more[f"{name}_ms"], more[f"{name}_bytes"] = round(median([r[0] for r in rounds]), 1), rounds[0][1]
    emit("flame", stacks=STACKS, absent=absent, **more)
