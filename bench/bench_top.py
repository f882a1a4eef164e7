# SPDX-License-Identifier: Apache-2.0
"""CPU time of the live view compared with captures: the part top of bench/run."""
import fcntl
import os
import pty
import signal
import struct
import subprocess
import tempfile
import termios
import threading
import time

from benchlib import AGENT, ROUNDS, WORK, Workload, emit, median

__all__ = ["bench_top"]

RATE_HZ = 99
WARM_S, MEASURED_S = 5, 10


class Terminal:
    """A program in a pseudo-terminal of 24 lines, whose output is counted and discarded."""

    def __init__(self, argv):
        self.master, slave = pty.openpty()
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.p = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
        os.close(slave)
        self.bytes = 0
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        try:
            while data := os.read(self.master, 65536):
                self.bytes += len(data)
        except OSError:  # EIO: the program has ended
            pass

    def end(self):
        self.p.send_signal(signal.SIGINT)
        self.p.wait()
        self.reader.join()
        os.close(self.master)


def cpu_ns(pid):
    """CPU time of the threads of a process and of its children."""
    total = 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{tid}/schedstat", encoding="ascii") as f:
                total += int(f.read().split()[0])
            with open(f"/proc/{pid}/task/{tid}/children", encoding="ascii") as f:
                children = f.read().split()
        except FileNotFoundError:  # it has ended
            continue
        total += sum(cpu_ns(int(child)) for child in children)
    return total


def measure(argv):
    """(milliseconds of CPU time a second, bytes to the terminal a second), once it is steady."""
    t = Terminal(argv)
    time.sleep(WARM_S)
    cpu, sent, began = cpu_ns(t.p.pid), t.bytes, time.monotonic()
    time.sleep(MEASURED_S)
    seconds = time.monotonic() - began
    ret = (cpu_ns(t.p.pid) - cpu) / 1e6 / seconds, (t.bytes - sent) / seconds
    t.end()
    return ret


def bench_top():
    """perf-agent top of a busy process and of all processes at 99 Hz: CPU time of its threads and of its symbolizer process, and what
    it writes to the terminal, a second. Compared with a capture of the same modes; the kernel's part is in neither."""
    with Workload(f"{WORK}/spin", "--seconds", "3600", cpu=0) as w, tempfile.TemporaryDirectory() as d:
        for name, target in (("pid", ["--pid", str(w.pid)]), ("all", ["-a"])):
            common = [*target, "--sample-rate", str(RATE_HZ)]
            outputs = ["--profile-output", f"{d}/p.pb.gz"]
            variants = {
                "top_profile": [AGENT, "top", *common, "--profile"],
                "capture_profile": [AGENT, *common, "--profile", *outputs],
                "top_both": [AGENT, "top", *common],
                "capture_both": [AGENT, *common, "--profile", "--offcpu", *outputs, "--offcpu-output", f"{d}/o.pb.gz"],
            }
            figures = {}
            for _ in range(ROUNDS):
                for variant, argv in variants.items():
                    cpu_ms, sent = measure(argv)
                    figures.setdefault(f"{variant}_ms_per_s", []).append(cpu_ms)
                    figures.setdefault(f"{variant}_bytes_per_s", []).append(sent)
            emit("top", target=name, rate_hz=RATE_HZ, **{k: round(median(v), 2) for k, v in figures.items()})
