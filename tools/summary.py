#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""summary.py - count the results that tools/check left in a folder.

    tools/summary.py DIR

DIR holds one file a part: PART.json, Meson's testlog.json (one JSON object a line), or PART.results, lines of
"pass|fail|skip NAME [reason]"; seconds.txt: "PART: NAME SECONDS" a line, of what Meson did not run. Prints the slowest
tests; what was skipped with its reason, what was run again, and what failed, with its failed subtests; then one line a
part, and last, alone: "N passed, N failed, N skipped". Exit status 1 when anything failed or nothing was counted.
"""

import json
import pathlib
import re
import sys

# Meson's words. What is not among them is a failure: a word that we do not know must not pass.
MESON = {"OK": "pass", "EXPECTEDFAIL": "pass", "SKIP": "skip"}
SKIP_REASON = re.compile(r"^1\.\.0 *# *SKIP\s*(.*)$", re.IGNORECASE | re.MULTILINE)
# A subtest that failed, and the lines of explanation under it.
FAILED = re.compile(r"^not ok .*(?:\n(?:#|  ).*)*", re.MULTILINE)
RAISED = re.compile(r"^#? *\w*(?:Error|Exception|Expired)\b")  # the end of a traceback, which says what it got
RERUN = re.compile(r"^# run again: (.*)$", re.MULTILINE)
FAILED_LINES = 5  # of each
SLOWEST = 30
FAILED_CHARS = 400  # of each line


def failed_subtests(test):
    """Failures of a TAP stream, or else its last lines."""
    lines = []
    for match in FAILED.finditer(test.get("stdout") or ""):
        title, *rest = match.group(0).splitlines()
        raised = max((i for i, line in enumerate(rest) if RAISED.match(line)), default=0)
        lines += [title, *rest[raised : raised + FAILED_LINES]]
    if not lines:
        lines = ((test.get("stdout") or "") + "\n" + (test.get("stderr") or "")).strip().splitlines()[-FAILED_LINES:]
    return [line[:FAILED_CHARS] for line in lines]


def read_meson(path):
    """Yields (verdict, name, remark) of a testlog.json; "again" is no verdict but a remark on one."""
    for line in path.read_text(errors="replace").splitlines():
        if not line.strip():
            continue
        test = json.loads(line)
        verdict = MESON.get(test["result"], "fail")
        remark = "" if verdict == "pass" else test["result"]
        if verdict == "fail":
            remark = "\n    ".join([remark] + failed_subtests(test))
        if verdict == "skip":
            found = SKIP_REASON.search(test.get("stdout") or "")
            last = (test.get("stdout") or test.get("stderr") or "").strip().splitlines()[-1:]
            remark = found.group(1) if found else "".join(last) or "no reason given"
        yield verdict, test["name"], remark
        for what in RERUN.findall(test.get("stdout") or ""):  # tests/live/livelib.py
            yield "again", test["name"], what


def read_results(path):
    """Yields the same of a results file."""
    for line in path.read_text().splitlines():
        if not line.strip():
            continue
        word, name, *rest = line.split(maxsplit=2)
        yield (word if word in ("pass", "skip") else "fail"), name, "".join(rest)


def durations(folder):
    """(seconds, "PART: NAME") of every test that has a duration."""
    for path in sorted(folder.glob("*.json")):
        for line in path.read_text(errors="replace").splitlines():
            try:
                test = json.loads(line)
                yield float(test["duration"]), f"{path.stem}: {test['name']}"
            except (ValueError, KeyError, TypeError):
                continue  # counted as a failure by main
    seconds = folder / "seconds.txt"
    for line in seconds.read_text().splitlines() if seconds.exists() else ():
        name, _, took = line.rpartition(" ")
        yield float(took), name


def print_slowest(folder):
    found = sorted(durations(folder), reverse=True)
    if found:
        print(f"{sum(took for took, _ in found):.0f} s in {len(found)} tests, the slowest:")
    for took, name in found[:SLOWEST]:
        print(f"{took:8.1f} s  {name}")
    if found:
        print()


def main():
    if len(sys.argv) != 2:
        print("usage: summary.py DIR", file=sys.stderr)
        return 2
    total = {"pass": 0, "fail": 0, "skip": 0}
    remarks = []
    parts = []
    for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
        reader = {".json": read_meson, ".results": read_results}.get(path.suffix)
        if not reader:
            continue
        count = {"pass": 0, "fail": 0, "skip": 0}
        try:
            for verdict, name, remark in reader(path):
                if verdict in count:
                    count[verdict] += 1
                if verdict != "pass":
                    remarks.append(f"{verdict.upper()} {path.stem}: {name}: {remark}")
        except (ValueError, KeyError) as error:
            count["fail"] += 1
            remarks.append(f"FAIL {path.stem}: cannot read {path.name}: {error}")
        parts.append((path.name, count))
        for key, value in count.items():
            total[key] += value
    print_slowest(pathlib.Path(sys.argv[1]))
    # Failures are printed last, next to the numbers.
    for remark in sorted(remarks, key=lambda r: (r.startswith("FAIL"), r)):
        print(remark)
    if remarks:
        print()
    for name, count in parts:
        print(f"{name:<20} {count['pass']:5} passed {count['fail']:5} failed {count['skip']:5} skipped")
    print(f"{total['pass']} passed, {total['fail']} failed, {total['skip']} skipped")
    return 1 if total["fail"] or not sum(total.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
