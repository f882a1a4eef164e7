# SPDX-License-Identifier: Apache-2.0
"""Sums of our files by other people's viewers: speedscope, flamegraph.pl, inferno."""
import base64
import collections
import html
import os
import re
import subprocess

from livelib import WAIT_S, check

READERS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), 'build-readers')
Sums = collections.namedtuple('Sums', 'name unit weight own total')  # own and total: {function: weight}


def reader(*parts):
    """The path of a program of tools/fetch-readers, or None."""
    path = os.path.join(READERS, *parts)
    return path if os.path.exists(path) else None


def run(*argv, data=''):
    """Standard output, as text; the program must not fail, and say nothing on standard error but that samples were lost."""
    r = subprocess.run(argv, input=data, capture_output=True, text=True, timeout=5 * WAIT_S, check=False,
                       env={**os.environ, 'LC_ALL': 'C.UTF-8'})
    silent = not r.stderr.strip() or 'lost' in r.stderr
    check(r.returncode == 0 and silent, f'{argv}: exit status {r.returncode}', r.stderr)
    return r.stdout


def add_up(stacks):
    """(weight, own, total) of [(names root first, weight)], without functions that have nothing."""
    weight, own, total = 0, collections.Counter(), collections.Counter()
    for names, value in stacks:
        weight += value
        if names:
            own[names[-1]] += value
        for name in set(names):
            total[name] += value
    return weight, {k: v for k, v in own.items() if v}, {k: v for k, v in total.items() if v}


# ---- speedscope -----------------------------------------------------------------------------------------------------

# The page's importer is not public: the object that exports it is caught where it gets its members.
HOOK = '''{const define = Object.defineProperty;
Object.defineProperty = (object, name, ...more) => {
  if (name === 'importProfileGroupFromBase64') window.importers = object;
  return define(object, name, ...more);
};}'''
IMPORT = '''const [name, data, done] = arguments;
importers.importProfileGroupFromBase64(name, data).then(group => done(group.profiles.map(p => {
  const frames = [];
  p.forEachFrame(f => frames.push([f.name, f.getSelfWeight(), f.getTotalWeight()]));
  return [p.getName(), p.getWeightUnit(), p.getTotalWeight(), frames];
}))).catch(e => done(String(e)));'''


class Speedscope:
    """speedscope's page, in a browser that the caller ends."""

    def __init__(self, browser):
        self.driver = browser.driver
        self.driver.execute_cdp_cmd('Page.addScriptToEvaluateOnNewDocument', {'source': HOOK})
        self.driver.get('file://' + reader('speedscope', 'dist', 'release', 'index.html'))
        self.driver.set_script_timeout(WAIT_S)

    def read(self, path, name=None):
        """The profiles of a file, as the page reads it."""
        with open(path, 'rb') as f:
            data = base64.b64encode(f.read()).decode()
        profiles = self.driver.execute_async_script(IMPORT, name or os.path.basename(path), data)
        check(isinstance(profiles, list), path, profiles)
        ret = []
        for name, unit, weight, frames in profiles:
            own, total = collections.Counter(), collections.Counter()
            for function, self_weight, total_weight in frames:
                own[function] += self_weight
                total[function] += total_weight
            ret.append(Sums(name, unit, weight, {k: v for k, v in own.items() if v}, {k: v for k, v in total.items() if v}))
        return ret


# ---- text of perf script --------------------------------------------------------------------------------------------

TextSample = collections.namedtuple('TextSample', 'comm pid tid time event names')  # time: ns; names: root first


def perf_script(path, *options):
    """(text, [TextSample]) of a perf.data file, without inlined calls."""
    text = run('perf', 'script', '-i', path, '-F', '+pid', '--no-inline', *options)
    samples = []
    for block in re.split(r'\n{2,}', text):
        lines = block.splitlines()
        if not lines:
            continue
        m = re.match(r'\s*(\S.*?)\s+(\d+)/(\d+)\s+\[\d+\]\s+(\d+)\.(\d+):\s+(?:\d+\s+)?(\S+?):\s*$', lines[0])
        check(m, block)
        comm, pid, tid, s, fraction, event = m.groups()
        names = []
        for line in lines[1:]:
            name, module = re.fullmatch(r'\s+[0-9a-f]+ (.*?)(?:\+0x[0-9a-f]+)? \((.*)\)', line).groups()
            names.insert(0, name if name != '[unknown]' else f'??? ({module})')
        samples.append(TextSample(comm, int(pid), int(tid), int(s) * 10**9 + int(fraction.ljust(9, '0')), event, names))
    return text, samples


def spans(samples):
    """Stacks of one thread as speedscope weighs them, in seconds: each has half of the time to its neighbours."""
    ends = [s.time for s in samples[:1]] + [(a.time + b.time) / 2 for a, b in zip(samples, samples[1:])] + [s.time for s in samples[-1:]]
    if len(samples) == 1:
        return [(samples[0].names, 1)]
    return [(s.names, (end - begin) / 1e9) for s, begin, end in zip(samples, ends, ends[1:])]


# ---- pictures of folded stacks --------------------------------------------------------------------------------------

def folded(text):
    """{names root first, with their marks: value}"""
    ret = {}
    for line in text.splitlines():
        stack, _, value = line.rpartition(' ')
        names = tuple(stack.split(';'))
        check(names not in ret, line)
        ret[names] = int(value)
    return ret


def shown(name):
    """As pictures show a name: some versions leave out the mark of the kernel, and some show angle brackets as round ones."""
    return re.sub(r'_\[[kwij]\]$', '', name).translate({ord('<'): '(', ord('>'): ')'})


def boxes_of_stacks(stacks):
    """Names and values of the boxes of a flame graph."""
    nodes = collections.Counter()
    for names, value in stacks.items():
        for depth in range(len(names) + 1):
            nodes[names[:depth]] += value
    return collections.Counter((shown(path[-1]) if path else 'all', value) for path, value in nodes.items())


def boxes_of_picture(svg):
    titles = re.findall(r'<title>(.*?) \(([\d,]+) samples(?:, [\d.]+%)?\)</title>', svg)
    return collections.Counter((shown(html.unescape(name)), int(value.replace(',', ''))) for name, value in titles)
