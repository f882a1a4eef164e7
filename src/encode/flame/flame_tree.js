// SPDX-License-Identifier: Apache-2.0
// Trees made of a profile: as captured, inverted, grouped, around one function. Nodes are in preorder: the first child of
// a node is the next one, its subtree ends at end[node]. Node 0 is the root, whose frame is -1.
"use strict";

// What the frames of a grouped tree are called: frames past those of the profile are groups.
function frameName(p, tree, frame) {
  if (frame < 0)
    return "all";
  return frame < p.frames.n ? p.strings[p.frames.name[frame]] : tree.groups[frame - p.frames.n];
}

// Sums, ends of subtrees and offsets of a tree whose nodes and own values are set.
function finishTree(tree) {
  const n = tree.n;
  tree.total = Float64Array.from(tree.self);
  tree.count = Float64Array.from(tree.selfCount);
  tree.end = new Uint32Array(n);
  tree.maxDepth = 0;
  for (let i = n - 1; i > 0; i--) {
    const parent = tree.parent[i];
    if (!tree.end[i])
      tree.end[i] = i + 1;
    if (!tree.end[parent])
      tree.end[parent] = tree.end[i];
    tree.total[parent] += tree.total[i];
    tree.count[parent] += tree.count[i];
    if (tree.total[i] > 0)
      tree.maxDepth = Math.max(tree.maxDepth, tree.depth[i]);
  }
  tree.end[0] = n;
  return tree;
}

function addSample(tree, i, node, value, count) {
  tree.sampleNode[i] = node;
  tree.self[node] += value;
  tree.selfCount[node] += count;
}

// The tree as it was captured.
function baseTree(p, type) {
  const {n, parent, frame, depth} = p.nodes, s = p.samples;
  const tree = {n, parent, frame, depth, self: new Float64Array(n), selfCount: new Float64Array(n), groups: [],
    sampleNode: new Int32Array(s.n)};
  for (let i = 0; i < s.n; i++)
    addSample(tree, i, s.node[i], s.values[type][i], s.count[i]);
  return finishTree(tree);
}

// Merges stacks. Sequences of frames that begin as the one before them are not looked up again.
class TreeBuilder {
  constructor() {
    this.size = 1 << 16; // of the hash table; at most half of it is used
    this.slots = new Int32Array(this.size);
    this.n = 1;
    this.parent = new Int32Array(this.size / 2 + 1).fill(-1, 0, 1);
    this.frame = new Int32Array(this.size / 2 + 1).fill(-1, 0, 1);
    this.before = [];
    this.path = [0];
  }

  slotOf(parent, frame) {
    let at = (Math.imul(parent, 0x9e3779b1) ^ Math.imul(frame + 1, 0x85ebca6b)) >>> 0;
    for (at ^= at >>> 15; ; at++) {
      const node = this.slots[at & (this.size - 1)];
      if (!node || (this.parent[node] === parent && this.frame[node] === frame))
        return at & (this.size - 1);
    }
  }

  grow() {
    const parent = this.parent, frame = this.frame;
    this.size *= 2;
    this.slots = new Int32Array(this.size);
    this.parent = new Int32Array(this.size / 2 + 1);
    this.frame = new Int32Array(this.size / 2 + 1);
    this.parent.set(parent);
    this.frame.set(frame);
    for (let node = 1; node < this.n; node++)
      this.slots[this.slotOf(this.parent[node], this.frame[node])] = node;
  }

  child(parent, frame) {
    let slot = this.slotOf(parent, frame);
    if (!this.slots[slot]) {
      if (this.n * 2 > this.size) {
        this.grow();
        slot = this.slotOf(parent, frame);
      }
      this.slots[slot] = this.n;
      this.parent[this.n] = parent;
      this.frame[this.n++] = frame;
    }
    return this.slots[slot];
  }

  // The node of a sequence of n frames, root first.
  add(frames, n) {
    const before = this.before, path = this.path;
    let i = 0;
    while (i < n && i < before.length && before[i] === frames[i])
      i++;
    before.length = i;
    path.length = i + 1;
    for (; i < n; i++) {
      before.push(frames[i]);
      path.push(this.child(path[i], frames[i]));
    }
    return path[n];
  }

  // Renumbers the nodes: siblings ascend by frame, which is by name. rawNode[sample], -1: it is in no stack of this tree.
  finish(p, rawNode, type, groups) {
    const n = this.n, order = new Uint32Array(n - 1);
    const start = new Uint32Array(p.frames.n + groups.length + 1), first = new Int32Array(n), next = new Int32Array(n);
    for (let i = 1; i < n; i++)
      start[this.frame[i] + 1]++;
    for (let i = 1; i < start.length; i++)
      start[i] += start[i - 1];
    for (let i = 1; i < n; i++)
      order[start[this.frame[i]]++] = i;
    for (let i = n - 2; i >= 0; i--) {
      next[order[i]] = first[this.parent[order[i]]];
      first[this.parent[order[i]]] = order[i];
    }
    const tree = {n, parent: new Int32Array(n), frame: new Int32Array(n), depth: new Int32Array(n), groups,
      self: new Float64Array(n), selfCount: new Float64Array(n), sampleNode: new Int32Array(p.samples.n).fill(-1)};
    const number = new Int32Array(n);
    tree.parent[0] = tree.frame[0] = -1;
    for (let raw = 0, at = 1; ;) {
      if (first[raw]) {
        raw = first[raw];
      } else {
        while (raw && !next[raw])
          raw = this.parent[raw];
        if (!raw)
          break;
        raw = next[raw];
      }
      number[raw] = at;
      tree.parent[at] = number[this.parent[raw]];
      tree.frame[at] = this.frame[raw];
      tree.depth[at] = tree.depth[tree.parent[at]] + 1;
      at++;
    }
    for (let i = 0; i < p.samples.n; i++) {
      if (rawNode[i] >= 0)
        addSample(tree, i, number[rawNode[i]], p.samples.values[type][i], p.samples.count[i]);
    }
    return finishTree(tree);
  }
}

// ---- groups ---------------------------------------------------------------------------------------------------------

function labelOf(p, set, key) {
  for (const id of p.sets[set]) {
    if (p.labels[id].key === key)
      return p.labels[id].text;
  }
  return "";
}

// How the samples can be grouped: keys of labels, and what is made of pid, tid and comm.
function groupKeys(p) {
  const keys = [...new Set(p.labels.map((l) => l.key))].sort(), made = [];
  if (keys.includes("pid"))
    made.push("process");
  if (keys.includes("tid"))
    made.push("thread");
  return [...made, ...keys.map((k) => "label:" + k)];
}

// A process has the name of its main thread, or of whichever thread comes first.
function processNames(p) {
  const names = new Map(), leads = new Set();
  p.sets.forEach((unused, set) => {
    const pid = labelOf(p, set, "pid"), tid = labelOf(p, set, "tid"), comm = labelOf(p, set, "comm");
    if (comm && (!names.has(pid) || (tid === pid && !leads.has(pid)))) {
      names.set(pid, comm);
      if (tid === pid)
        leads.add(pid);
    }
  });
  return names;
}

// The groups of a key, ascending by name, and the group of each set of labels.
function groupsOf(p, key) {
  const names = key === "process" ? processNames(p) : null;
  const text = p.sets.map((unused, set) => {
    const pid = labelOf(p, set, "pid");
    if (key === "process")
      return `${names.get(pid) || ""}-${pid}`;
    if (key === "thread")
      return `${labelOf(p, set, "comm")}-${pid}/${labelOf(p, set, "tid")}`;
    const name = key.slice("label:".length), value = labelOf(p, set, name);
    return value ? `${name}: ${value}` : `no ${name}`;
  });
  const groups = [...new Set(text)].sort(), at = new Map(groups.map((g, i) => [g, i]));
  return {groups, of: text.map((t) => at.get(t))};
}

// ---- views ----------------------------------------------------------------------------------------------------------

// Samples in the order in which their stacks share most, for each group.
function sampleOrder(p, group) {
  const order = Uint32Array.from({length: p.samples.n}, (unused, i) => i);
  if (!group)
    return order;
  const set = p.samples.set;
  return order.sort((a, b) => group.of[set[a]] - group.of[set[b]] || a - b);
}

function stackTree(p, type, inverted, key) {
  if (!inverted && !key)
    return baseTree(p, type);
  const group = key ? groupsOf(p, key) : null, b = new TreeBuilder(), raw = new Int32Array(p.samples.n);
  const {parent, frame, depth} = p.nodes, frames = [];
  for (const i of sampleOrder(p, group)) {
    let node = p.samples.node[i], n = depth[node], from = 0;
    if (group) {
      frames[0] = p.frames.n + group.of[p.samples.set[i]];
      from = 1;
    }
    for (let k = 0; k < n; k++, node = parent[node])
      frames[inverted ? from + k : from + n - 1 - k] = frame[node];
    raw[i] = b.add(frames, from + n);
  }
  return b.finish(p, raw, type, group ? group.groups : []);
}

// Frames of one function: inlined here and called there it is one to look for.
function sameFunction(p, frame) {
  const {n, name, module} = p.frames, ret = new Uint8Array(n);
  for (let i = 0; i < n; i++)
    ret[i] = name[i] === name[frame] && module[i] === module[frame] ? 1 : 0;
  return ret;
}

// Callers and callees of a function. A stack counts once, from the outermost call of the function.
function sandwichTrees(p, type, chosen) {
  const is = sameFunction(p, chosen), {n, parent, frame, depth} = p.nodes, outer = new Int32Array(n);
  for (let i = 1; i < n; i++)
    outer[i] = outer[parent[i]] || (is[frame[i]] ? i : 0);
  const callers = new TreeBuilder(), callees = new TreeBuilder(), frames = [];
  const rawUp = new Int32Array(p.samples.n).fill(-1), rawDown = new Int32Array(p.samples.n).fill(-1);
  for (let i = 0; i < p.samples.n; i++) {
    const leaf = p.samples.node[i], top = outer[leaf];
    if (!top)
      continue;
    let count = 0;
    frames[count++] = chosen;
    for (let node = parent[top]; node > 0; node = parent[node])
      frames[count++] = frame[node];
    rawUp[i] = callers.add(frames, count);
    count = depth[leaf] - depth[top] + 1;
    for (let node = leaf, k = count - 1; k > 0; k--, node = parent[node])
      frames[k] = frame[node];
    frames[0] = chosen;
    rawDown[i] = callees.add(frames, count);
  }
  return {callers: callers.finish(p, rawUp, type, []), callees: callees.finish(p, rawDown, type, [])};
}

// Value and samples of each function, one entry for each name and module; recursion counts once.
function functionTable(p, tree) {
  const {n, name, module} = p.frames, of = new Int32Array(n), ids = new Map(), rows = [];
  for (let i = 0; i < n; i++) {
    const key = name[i] * 4294967296 + module[i];
    if (!ids.has(key)) {
      ids.set(key, rows.length);
      rows.push({frame: i, self: 0, total: 0});
    }
    of[i] = ids.get(key);
  }
  const open = new Int32Array(rows.length), stack = [];
  for (let i = 1; i < tree.n; i++) {
    while (stack.length && tree.end[stack[stack.length - 1]] <= i)
      open[of[tree.frame[stack.pop()]]]--;
    const row = of[tree.frame[i]];
    rows[row].self += tree.self[i];
    if (!open[row]++)
      rows[row].total += tree.total[i];
    stack.push(i);
  }
  return rows;
}

// The sum of the stacks that have a frame which is hit.
function hitValue(tree, hit) {
  const below = new Uint8Array(tree.n);
  let value = 0;
  for (let i = 1; i < tree.n; i++) {
    below[i] = below[tree.parent[i]] | hit[tree.frame[i]];
    if (below[i])
      value += tree.self[i];
  }
  return value;
}

// What a regular expression finds: by frame, and the sum of the stacks in which it is.
function searchFrames(p, tree, regex) {
  const hit = new Uint8Array(p.frames.n), memo = new Map();
  let functions = 0;
  for (let i = 0; i < p.frames.n; i++) {
    const id = p.frames.name[i];
    if (!memo.has(id)) {
      memo.set(id, regex.test(p.strings[id]));
      functions += memo.get(id) ? 1 : 0;
    }
    hit[i] = memo.get(id) ? 1 : 0;
  }
  return {hit, value: hitValue(tree, hit), functions};
}
