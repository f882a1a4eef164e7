#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The JSON of the metrics against Python's parser, the documented schema, and the text of the same snapshot.

usage: test-metrics-json.py METRICS_DRIVER SCHEMA

The schema is checked by a validator of our own, which knows the words that the schema uses and refuses others; where
python3-jsonschema is installed, by that as well. Output is TAP.
"""

import copy
import json
import os
import re
import subprocess
import sys
import tempfile

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
ANNOTATIONS = {"$schema", "title", "description", "$defs"}
results = []


def report(ok, what):
    results.append(ok)
    print(f"{'ok' if ok else 'not ok'} {len(results)} - {what}", flush=True)


def skip(what, why):
    results.append(True)
    print(f"ok {len(results)} - {what} # SKIP {why}", flush=True)


# ---- a validator ----------------------------------------------------------------------------------------------------

def has_type(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def problems(value, schema, root, where="$"):
    """Yields what is wrong with a value."""
    is_number = has_type(value, "number")
    for word, arg in schema.items():
        if word in ANNOTATIONS:
            continue
        if word == "$ref":
            target = root
            for part in arg.removeprefix("#/").split("/"):
                target = target[part]
            yield from problems(value, target, root, where)
        elif word == "type":
            if not any(has_type(value, t) for t in ([arg] if isinstance(arg, str) else arg)):
                yield f"{where}: {value!r} is no {arg}"
        elif word == "const":
            if value != arg:
                yield f"{where}: {value!r} is not {arg!r}"
        elif word == "enum":
            if value not in arg:
                yield f"{where}: {value!r} is none of {arg}"
        elif word == "minimum":
            if is_number and value < arg:
                yield f"{where}: {value} is below {arg}"
        elif word == "maximum":
            if is_number and value > arg:
                yield f"{where}: {value} is above {arg}"
        elif word == "required":
            for key in arg:
                if isinstance(value, dict) and key not in value:
                    yield f"{where}: no {key}"
        elif word == "properties":
            if isinstance(value, dict):
                for key, sub in arg.items():
                    if key in value:
                        yield from problems(value[key], sub, root, f"{where}.{key}")
        elif word == "additionalProperties":
            assert arg is False
            if isinstance(value, dict):
                for key in value.keys() - schema["properties"].keys():
                    yield f"{where}: {key} is not in the schema"
        elif word == "items":
            if isinstance(value, list):
                for i, item in enumerate(value):
                    yield from problems(item, arg, root, f"{where}[{i}]")
        else:
            raise ValueError(f"the schema uses a word that this test does not know: {word}")


def validator(schema):
    try:
        import jsonschema
    except ImportError:
        return None
    return jsonschema.Draft202012Validator(schema)


# ---- reading --------------------------------------------------------------------------------------------------------

def unique(pairs):
    keys = [k for k, _ in pairs]
    if len(keys) != len(set(keys)):
        raise ValueError(f"a key twice in {keys}")
    return dict(pairs)


def refuse(word):
    raise ValueError(f"{word} is no JSON")


def parse(data):
    return json.loads(data.decode("utf-8"), object_pairs_hook=unique, parse_constant=refuse)


def run(driver, *args, env=None):
    return subprocess.run([driver, *args], check=True, stdout=subprocess.PIPE, env=env).stdout


# ---- checks ---------------------------------------------------------------------------------------------------------

def entries(doc):
    return [doc["all"], *doc["processes"]]


def nodes(value, path=()):
    """All objects of a document with their paths."""
    if isinstance(value, dict):
        yield path, value
        for k, v in value.items():
            yield from nodes(v, (*path, k))
    elif isinstance(value, list):
        for i, v in enumerate(value):
            yield from nodes(v, (*path, i))


def changed(doc):
    """Documents that a validator must refuse, one for each key: without it, of another type, with one more."""
    for path, node in list(nodes(doc)):
        for key in [*node, None]:
            for change in ("drop", "retype") if key else ("add",):
                bad = copy.deepcopy(doc)
                at = bad
                for step in path:
                    at = at[step]
                if change == "drop":
                    del at[key]
                elif change == "retype":
                    at[key] = -1 if not isinstance(at[key], dict) else []
                else:
                    at["surprise"] = 1
                yield f"{change} {'.'.join(map(str, path))}.{key}", bad


def check_consistency(doc):
    """Checks the relations between statistics. The hostile snapshot's are made up, and so exempt."""
    for e in entries(doc):
        assert e["switches"] == sum(e["reasons"].values()), e["pid"]
        for key in ("on_cpu", "run_queue", "off_cpu"):
            t = e[key]
            rest = [v for k, v in t.items() if k not in ("sum_ns", "count", "total_ns")]
            assert (t["count"] == 0) == all(v is None for v in rest), key
            assert None not in rest or rest == [None] * len(rest)
        for c in e["counters"]:
            assert c["error"] is None or c["value"] is None, c
            assert c["hardware"] or c["core_type"] == "", c
            assert not c["hardware"] or c["core_type"] in doc["core_types"], c
    procs = [p["on_cpu"]["sum_ns"] for p in doc["processes"] if p["pid"]]
    assert procs == sorted(procs, reverse=True)
    for p in doc["processes"]:
        threads = [t["on_cpu_ns"] for t in p["threads"]]
        assert threads == sorted(threads, reverse=True)
    return True


ROWS = ("min", "max", "mean", "p50", "p95", "p99", "p999")


def text_times(text):
    """All statistics in ms of the blocks of times, in their order."""
    return re.findall(r"^  (?:Min|Max|Mean|P[\d.]+): +(\d+\.\d{3}) ms$", text, re.M)


def json_times(doc):
    shown = [doc["all"]] if doc["scope"] == "all" else doc["processes"]
    out = []
    for e in shown:
        for key in ("on_cpu", "run_queue", "off_cpu"):
            if e[key]["count"]:
                us = [(e[key][r + "_ns"] + 500) // 1000 for r in ROWS]
                out += [f"{u // 1000}.{u % 1000:03}" for u in us]
    return out


def text_counters(text):
    """Without zeros, as json_counters: the text has no rows of software counters that are 0."""
    found = re.findall(r"^  (?:Total [\w ]+|Page Faults|CPU Migrations|Context Switches): +(\d+)\b", text, re.M)
    return sorted(int(n) for n in found if int(n))


def json_counters(doc):
    shown = [doc["all"]] if doc["scope"] == "all" else doc["processes"]
    out = []
    for e in shown:
        for name in dict.fromkeys(c["name"] for c in e["counters"]):
            values = [c["value"] for c in e["counters"] if c["name"] == name and c["value"] is not None]
            if sum(values):
                out.append(sum(values))
    return sorted(out)


def check_sample(driver, name, schema, other):
    data = run(driver, name, "json")
    text = run(driver, name, "text").decode("utf-8")
    try:
        doc = parse(data)
    except ValueError as e:
        print(f"# {e}")
        report(False, f"{name}: JSON")
        return
    report(data.endswith(b"}\n"), f"{name}: JSON in UTF-8, no key twice, one line end at the end")
    found = list(problems(doc, schema, schema))
    for p in found[:5]:
        print(f"# {p}")
    report(not found, f"{name}: as the schema says")
    if other:
        report(other.is_valid(doc), f"{name}: as python3-jsonschema reads the schema")
    if name == "hostile":
        comms = {p["comm"] for p in doc["processes"]}
        want = {'"}],\\"x', "\x1b]0;pwned\x07", "\\xff\\xfe\\xc0\\xaf", "\x9b31m", "café €", "cut \\xe2\\x82",
                "16 bytes, no NUL", "\t\r\n\x7f", "%s%n%p", ""}
        report(comms == want, "hostile: names come back as they were, wrong bytes as \\xNN")
        return
    report(check_consistency(doc), f"{name}: statistics agree with each other")
    if name != "empty":
        report(text_times(text) == json_times(doc), f"{name}: the text has the same times")
        report(text_counters(text) == json_counters(doc), f"{name}: the text has the same counters")


def check_locale(driver, names):
    """A locale with a decimal comma, made for this test, changes nothing."""
    what = "outputs are the same where the decimal point is a comma"
    with tempfile.TemporaryDirectory() as folder:
        try:
            # Its exit status is 1 for warnings, too.
            subprocess.run(["localedef", "-c", "-i", "de_DE", "-f", "UTF-8", os.path.join(folder, "de_DE.UTF-8")],
                           check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except FileNotFoundError:
            skip(what, "localedef is not installed")
            return
        env = {**os.environ, "LOCPATH": folder, "LC_ALL": "de_DE.UTF-8"}
        if run(driver, "point", env=env) != b",\n":
            skip(what, "no locale de_DE.UTF-8 could be made")
            return
        plain = {**os.environ, "LC_ALL": "C"}
        report(all(run(driver, n, f, env=env) == run(driver, n, f, env=plain) for n in names for f in ("text", "json")),
               what)


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    driver = sys.argv[1]
    with open(sys.argv[2], encoding="utf-8") as f:
        schema = json.load(f, object_pairs_hook=unique)
    other = validator(schema)
    names = run(driver).decode().split()
    report(len(names) >= 8, "there are samples")
    for name in names:
        check_sample(driver, name, schema, other)
    check_locale(driver, names)

    accepted = []
    cases = 0
    for name in ("one", "hybrid"):
        for what, bad in changed(parse(run(driver, name, "json"))):
            cases += 1
            if not any(True for _ in problems(bad, schema, schema)):
                accepted.append(f"{name}: {what}")
    for what in accepted[:5]:
        print(f"# accepted: {what}")
    report(cases > 300 and not accepted, "the schema refuses each key that is missing, of another type, or one too many")
    print(f"1..{len(results)}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
