# SPDX-License-Identifier: Apache-2.0
"""The cost of a stream of samples compared with counts alone: the part stream of bench/run."""
from benchlib import ROUNDS, WORK, Workload, baseline, emit, hit_cost, median, session

__all__ = ["bench_stream"]

SECONDS = 8
RECORD_BYTES = 112 + 8  # in the ring, with its header
VARIANTS = {"counts": None, "perf_data": "x.data", "page": "x.html", "timed_page": "x.timed.html"}


def bench_stream():
    """A program that calls at most 25 functions deep, pinned to one CPU, with one output (pprof), and with a second one: run time
    of the sampling program for each sample of the target; CPU time of the agent for 1,000 samples (its threads, its programs in
    the kernel, writing the files); bytes through the rings and of the last file for 1,000 samples. Variants take turns; perf_data and timed_page need the stream."""
    for rate in (999, 9999):
        figures = {}
        with Workload(f"{WORK}/chain", "--depth", "25", "--seconds", "600", cpu=0) as w:
            for _ in range(ROUNDS):
                empty = baseline("empty", rate, 3)["ns_per_run"]
                for name, more in VARIANTS.items():
                    s = session(w.pid, rate, SECONDS, more=more)
                    seen = s["samples_seen"]
                    got = {"ns": hit_cost(s["bpf_ns_per_run"], s["bpf_runs"], seen, empty),
                           "cpu_ms_per_1000": 1000 * (s["agent_cpu_ms"] + s["stop_cpu_ms"]) / seen,
                           "ring_bytes_per_1000": 1000 * (s["stack_bytes"] + RECORD_BYTES * s["stream_records"]) / seen,
                           "file_bytes_per_1000": 1000 * s["output_bytes"][-1] / seen}
                    for k, v in got.items():
                        figures.setdefault(f"{name}_{k}", []).append(v)
        emit("stream", rate_hz=rate, seconds=SECONDS, **{k: round(median(v), 1) for k, v in figures.items()})
