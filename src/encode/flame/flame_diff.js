// SPDX-License-Identifier: Apache-2.0
// Two profiles as one that compares them: the stacks of both in one tree, with values that a longer capture or a higher
// sampling rate does not change. Functions are the same if their names are, in whatever file.
"use strict";

const DIFF_STEPS = [0.1, 0.3, 0.6]; // of the larger value: each has its colour, less and more
const SIGMAS = 2;

const isDiff = (p) => Boolean(p.sides);

// Frames of both, one a name; details are those of the later profile. of[side][frame]: number in the union.
function mergeFrames(before, after) {
  const ids = new Map(), from = [];
  for (const p of [after, before]) {
    for (let i = 0; i < p.frames.n; i++) {
      const id = p.frames.name[i];
      if (!ids.has(id)) {
        ids.set(id, from.length);
        from.push([p, i]);
      }
    }
  }
  const text = ([p, i]) => p.strings[p.frames.name[i]];
  const order = from.map((unused, i) => i).sort((a, b) => (text(from[a]) < text(from[b]) ? -1 : 1));
  const rank = new Int32Array(from.length), frames = {n: from.length};
  order.forEach((old, i) => { rank[old] = i; });
  for (const key of ["name", "file", "line", "module", "buildId", "kind", "reason"])
    frames[key] = order.map((old) => from[old][0].frames[key][from[old][1]]);
  return {frames, of: [before, after].map((p) => Array.from(p.frames.name, (id) => rank[ids.get(id)]))};
}

// A profile with the samples of both, first those of before.
function mergeProfiles(before, after, names) {
  const {frames, of} = mergeFrames(before, after), sides = [before, after], b = new TreeBuilder(), stack = [];
  const n = before.samples.n + after.samples.n, raw = new Int32Array(n), set = new Uint32Array(n), labels = [], sets = [];
  let at = 0;
  sides.forEach((p, side) => {
    const firstLabel = labels.length, firstSet = sets.length, {parent, frame, depth} = p.nodes;
    labels.push(...p.labels);
    for (const s of p.sets)
      sets.push(s.map((id) => id + firstLabel));
    for (let i = 0; i < p.samples.n; i++, at++) {
      let node = p.samples.node[i];
      const deep = depth[node];
      for (let k = deep - 1; k >= 0; k--, node = parent[node])
        stack[k] = of[side][frame[node]];
      raw[at] = b.add(stack, deep);
      set[at] = p.samples.set[i] + firstSet;
    }
  });
  const merged = {...after, title: "Change", heading: `${after.title} differential flame graph`, frames, labels, sets, amounts: [], times: null, sides, names,
    comments: sides.flatMap((p, i) => p.comments.map((c) => `${i ? "after" : "before"}_${c}`)), timeNs: 0,
    samples: {n, set, values: after.types.map(() => new Float64Array(n)), count: new Float64Array(n), node: null}};
  const tree = b.finish(merged, raw, 0, []);
  merged.nodes = {n: tree.n, parent: tree.parent, frame: tree.frame, depth: tree.depth};
  merged.samples.node = tree.sampleNode;
  return merged;
}

// Whether values can be compared per second of capture; otherwise as shares of their profile. Numbers of on-CPU samples need
// the period of both.
const hasDurations = (p) => p.sides.every((side) => side.durationNs > 0);
const isSamples = (p, type) => type === 0 && p.types[0].name === "samples";
const hasRates = (p, type) => hasDurations(p) && (!isSamples(p, type) || p.sides.every((side) => side.period > 0));

// What a value of a side is multiplied by. A sampling rate does not change time; numbers of on-CPU samples are brought to
// the rate of the later profile.
function diffScale(p, side, type, share) {
  const of = p.sides[side], whole = of.samples.values[type].reduce((a, v) => a + v, 0);
  if (share)
    return whole ? 100 / whole : 0;
  const rate = isSamples(p, type) ? of.period / p.sides[1].period : 1;
  return rate * 1e9 / of.durationNs;
}

// The merged profile with the values of one side as widths, and those of both for the comparison.
function viewDiff(p, widthSide, share) {
  const n = p.samples.n, split = p.sides[0].samples.n, isShare = (type) => share || !hasRates(p, type);
  const types = p.types.map((t, i) => ({...t, unit: isShare(i) ? "percent" : t.unit}));
  const both = [0, 1].map((side) => types.map((unused, type) => {
    const ret = new Float64Array(n), scale = diffScale(p, side, type, isShare(type));
    ret.set(p.sides[side].samples.values[type].map((v) => v * scale), side ? split : 0);
    return ret;
  }));
  const counts = [0, 1].map((side) => {
    const ret = new Float64Array(n);
    ret.set(p.sides[side].samples.values[0], side ? split : 0);
    return ret;
  });
  return {...p, types, widthSide, samples: {...p.samples, values: both[widthSide], count: counts[widthSide], both, counts}};
}

// Values of both sides for each node of a tree, and the variance of their difference: a sample of count c and value v
// adds v * v / c, as if each event were worth the same.
function diffSums(p, tree, type) {
  const zero = () => new Float64Array(tree.n), self = [zero(), zero()], variance = zero(), {both, counts} = p.samples;
  const split = p.sides[0].samples.n;
  for (let i = 0; i < p.samples.n; i++) {
    const node = tree.sampleNode[i], side = i < split ? 0 : 1, value = both[side][type][i];
    if (node < 0)
      continue;
    self[side][node] += value;
    if (isSamples(p, 0)) // else no value is by chance
      variance[node] += value * value / Math.max(counts[side][i], 1);
  }
  const total = self.map((s) => s.slice());
  for (let i = tree.n - 1; i > 0; i--) {
    for (const side of [0, 1])
      total[side][tree.parent[i]] += total[side][i];
    variance[tree.parent[i]] += variance[i];
  }
  return {self, total, variance};
}

// Less, more or neither: -3 to 3, and why.
function changeOf(before, after, variance) {
  const delta = after - before, chance = variance > 0 && Math.abs(delta) < SIGMAS * Math.sqrt(variance);
  const share = delta / Math.max(before, after, Number.MIN_VALUE), size = DIFF_STEPS.filter((s) => Math.abs(share) >= s).length;
  return {delta, chance, step: chance ? 0 : Math.sign(delta) * size};
}

// "+32 %", "−8 %", "new", "gone": of the value before.
function formatChange(before, after) {
  if (!before || !after)
    return before ? "gone" : after ? "new" : "0 %";
  const pct = 100 * (after - before) / before;
  if (pct >= 1000)
    return `× ${(after / before).toFixed(0)}`;
  return `${pct >= 0.5 ? "+" : pct <= -0.5 ? "−" : "±"}${Math.abs(pct).toFixed(0)} %`;
}

// Both sides and the change of each function, in the order of functionTable.
function diffTable(p, tree) {
  const [before, after] = tree.diff.self.map((self, i) => functionTable(p, {...tree, self, total: tree.diff.total[i]}));
  return after.map((row, i) => ({frame: row.frame, selfBefore: before[i].self, totalBefore: before[i].total, selfAfter: row.self,
    totalAfter: row.total, self: row.self - before[i].self, total: row.total - before[i].total}));
}
