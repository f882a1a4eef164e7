// SPDX-License-Identifier: Apache-2.0
// The page: its state, its controls, its panes. Names of the profile are set as text, never as markup. The state is in the
// fragment of the address, so that a link restores the view.
"use strict";

const MODULE_COLOURS = ["#8ec3e6", "#efe07a", "#6fcfb3", "#dda0c8", "#f0a04b", "#b7c7f0", "#c5e08c", "#e2b28a", "#9fd8e0",
  "#d3bce8"];
const OTHER_COLOUR = "#c4c4c4";
const TABLE_ROWS = 200, LABEL_ROWS = 4;

const $ = (id) => document.getElementById(id);

function make(tag, text, attributes) {
  const e = document.createElement(tag);
  if (text !== undefined && text !== null)
    e.textContent = text;
  for (const [k, v] of Object.entries(attributes || {}))
    e.setAttribute(k, v);
  return e;
}

// ---- numbers --------------------------------------------------------------------------------------------------------

function formatValue(v, unit) {
  if (unit !== "nanoseconds")
    return v.toLocaleString("en-US");
  if (!v)
    return "0";
  for (const [size, name] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
    if (v >= size)
      return `${(v / size).toFixed(v >= 100 * size ? 0 : v >= 10 * size ? 1 : 2)} ${name}`;
  }
  return `${v} ns`;
}

// Below 1,000 samples a tenth of a percent is chance.
function formatShare(part, whole, samples) {
  if (!whole)
    return "0 %";
  const pct = 100 * part / whole;
  if (pct > 0 && pct < (samples < 1000 ? 0.5 : 0.05))
    return samples < 1000 ? "< 1 %" : "< 0.1 %";
  return `${pct.toFixed(samples < 1000 ? 0 : 1)} %`;
}

// ---- the page -------------------------------------------------------------------------------------------------------

class FlamePage {
  constructor(profiles) {
    this.profiles = profiles;
    this.canvas = new FlameCanvas($("canvas"), $("sheet"), $("scroller"));
    this.state = this.blankState();
    this.sort = "self";
    this.hover = null;
    this.bind();
    this.readFragment();
  }

  blankState() {
    return {profile: 0, type: this.profiles[0].defaultType, mode: "flame", icicle: false, group: "", colour: "kind",
      search: "", chosen: -1, zoom: [[], []]};
  }

  get profile() {
    return this.profiles[this.state.profile];
  }

  get unit() {
    return this.profile.types[this.state.type].unit;
  }

  // ---- state and fragment

  fragment() {
    const s = this.state, parts = new URLSearchParams(), path = (z) => z.map((f) => f.toString(36)).join(".");
    if (s.profile)
      parts.set("p", s.profile);
    if (s.type !== this.profile.defaultType)
      parts.set("v", s.type);
    if (s.mode !== "flame")
      parts.set("m", s.mode);
    if (s.mode === "sandwich")
      parts.set("f", s.chosen.toString(36));
    if (s.icicle)
      parts.set("i", 1);
    if (s.group)
      parts.set("g", s.group);
    if (s.colour !== "kind")
      parts.set("c", s.colour);
    if (s.search)
      parts.set("s", s.search);
    if (s.zoom[0].length)
      parts.set("z", path(s.zoom[0]));
    if (s.zoom[1].length)
      parts.set("y", path(s.zoom[1]));
    return parts.toString();
  }

  readFragment() {
    const parts = new URLSearchParams(location.hash.slice(1)), s = this.state = this.blankState();
    const path = (text) => (text ? text.split(".").map((f) => parseInt(f, 36)) : []);
    const below = (text, n, otherwise) => (Number(text) < n && Number(text) >= 0 && text !== null ? Number(text) | 0 : otherwise);
    s.profile = below(parts.get("p"), this.profiles.length, 0);
    s.type = below(parts.get("v"), this.profile.types.length, this.profile.defaultType);
    s.icicle = parts.get("i") === "1";
    s.colour = parts.get("c") === "module" ? "module" : "kind";
    s.search = parts.get("s") || "";
    s.group = groupKeys(this.profile).includes(parts.get("g")) ? parts.get("g") : "";
    s.mode = ["inverted", "sandwich"].includes(parts.get("m")) ? parts.get("m") : "flame";
    s.chosen = parseInt(parts.get("f"), 36);
    if (!(s.chosen >= 0 && s.chosen < this.profile.frames.n))
      s.chosen = -1;
    if (s.mode === "sandwich" && s.chosen < 0)
      s.mode = "flame";
    s.zoom = [path(parts.get("z")), path(parts.get("y"))];
    this.rebuild();
  }

  // Steps that the browser's Back takes back are pushed.
  save(push) {
    const to = this.fragment(), url = location.pathname + location.search + (to ? "#" + to : "");
    if (push && "#" + to !== location.hash)
      history.pushState(null, "", url);
    else
      history.replaceState(null, "", url);
  }

  change(changes, push) {
    Object.assign(this.state, changes);
    this.rebuild();
    this.save(push);
  }

  // ---- trees and layers

  rebuild() {
    const s = this.state, p = this.profile;
    if (this.base === undefined || this.baseOf !== `${s.profile} ${s.type}`) {
      this.base = baseTree(p, s.type);
      this.baseOf = `${s.profile} ${s.type}`;
      this.functions = functionTable(p, this.base);
      this.modules = this.moduleColours();
    }
    const key = [s.profile, s.type, s.mode, s.mode === "sandwich" ? s.chosen : s.group].join(" ");
    if (key !== this.layersOf) {
      this.layers = this.makeLayers();
      this.layersOf = key;
    }
    this.layers.forEach((layer, i) => {
      layer.zoom = this.findPath(layer, s.zoom[i]);
      s.zoom[i] = this.pathOf(layer, layer.zoom);
    });
    const last = this.layers[this.layers.length - 1];
    this.selected = {layer: this.layers.find((l) => l.zoom !== l.top) || last, node: 0};
    this.selected.node = this.selected.layer.zoom;
    this.canvas.setLayers(this.layers, s.mode !== "sandwich" && !s.icicle);
    this.canvas.resize();
    this.canvas.showEnd();
    if (s.mode === "sandwich")
      this.canvas.centre(last, last.top);
    this.search();
    this.showControls();
    this.showFunctions();
    this.showDetails();
    this.draw();
  }

  // top: the node that stands for all of a layer.
  makeLayers() {
    const s = this.state, p = this.profile;
    if (s.mode !== "sandwich") {
      const tree = s.mode === "flame" && !s.group ? this.base : stackTree(p, s.type, s.mode === "inverted", s.group);
      return [{tree, row: 0, dir: 1, skip: 0, top: 0, zoom: 0}];
    }
    const {callers, callees} = sandwichTrees(p, s.type, s.chosen), top = callers.n > 1 ? 1 : 0;
    return [{tree: callers, row: -1, dir: -1, skip: 2, top, zoom: top, callers: true},
      {tree: callees, row: 0, dir: 1, skip: 1, top, zoom: top}];
  }

  childOf(tree, node, frame) {
    for (let child = node + 1; child < tree.end[node]; child = tree.end[child]) {
      if (tree.frame[child] === frame)
        return child;
    }
    return -1;
  }

  // The node of a path of frames below the top; as much of it as there is.
  findPath(layer, path) {
    let node = layer.top;
    for (const frame of path || []) {
      const child = this.childOf(layer.tree, node, frame);
      if (child < 0)
        break;
      node = child;
    }
    return node;
  }

  pathOf(layer, node) {
    const path = [];
    for (; node > layer.top; node = layer.tree.parent[node])
      path.unshift(layer.tree.frame[node]);
    return path;
  }

  zoomTo(layer, node) {
    const zoom = this.state.zoom.slice(), at = this.layers.indexOf(layer);
    if (node < layer.top)
      node = layer.top;
    zoom[at] = this.pathOf(layer, node);
    this.change({zoom}, true);
    this.select(layer, node);
  }

  showSandwich(frame) {
    if (frame >= 0 && frame < this.profile.frames.n) {
      const same = sameFunction(this.profile, frame);
      this.change({mode: "sandwich", chosen: same.indexOf(1), zoom: [[], []]}, true);
    }
  }

  reset() {
    this.change({mode: this.state.mode === "sandwich" ? "flame" : this.state.mode, chosen: -1, zoom: [[], []]}, true);
  }

  // Esc: the zoom first, then the search, then the sandwich.
  stepBack() {
    if (this.state.zoom.some((z) => z.length))
      this.change({zoom: [[], []]}, true);
    else if (this.state.search)
      this.change({search: ""}, false);
    else
      this.reset();
  }

  // ---- search

  search() {
    const s = this.state, input = $("search");
    this.found = null;
    input.setCustomValidity("");
    input.removeAttribute("aria-invalid");
    $("matched").textContent = "";
    if (input.value !== s.search && document.activeElement !== input)
      input.value = s.search;
    if (!s.search)
      return;
    try {
      const plain = s.search === s.search.toLowerCase();
      this.found = searchFrames(this.profile, this.base, new RegExp(s.search, plain ? "i" : ""));
    } catch (e) {
      input.setAttribute("aria-invalid", "true");
      $("matched").textContent = `not a regular expression: ${e.message}`;
      return;
    }
    const whole = this.base.total[0];
    $("matched").textContent = `${formatShare(this.found.value, whole, this.base.count[0])} matched: ` +
      `${formatValue(this.found.value, this.unit)}, ${this.found.functions} function${this.found.functions === 1 ? "" : "s"}`;
  }

  // ---- colours

  // The modules with most own value have colours; the others share one.
  moduleColours() {
    const p = this.profile, self = new Map(), ret = new Map();
    for (const row of this.functions)
      self.set(p.frames.module[row.frame], (self.get(p.frames.module[row.frame]) || 0) + row.self);
    [...self].filter(([id]) => p.strings[id]).sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, MODULE_COLOURS.length)
      .forEach(([id], i) => ret.set(id, MODULE_COLOURS[i]));
    return ret;
  }

  colour(frame) {
    const {frames} = this.profile;
    if (frame < 0 || frame >= frames.n)
      return this.canvas.style.root;
    if (this.state.colour === "module")
      return this.modules.get(frames.module[frame]) || OTHER_COLOUR;
    return this.canvas.style.kinds[frames.kind[frame]];
  }

  showLegend() {
    const legend = $("legend"), p = this.profile, add = (colour, text) => {
      const item = make("span"), box = make("i");
      box.style.background = colour;
      item.append(box, text);
      item.title = text;
      legend.append(item);
    };
    legend.replaceChildren();
    if (this.state.colour === "module") {
      for (const [id, colour] of this.modules)
        add(colour, p.strings[id].split("/").pop());
      add(OTHER_COLOUR, "other modules");
    } else {
      const used = new Set(p.frames.kind);
      KINDS.forEach((name, k) => used.has(k) && add(this.canvas.style.kinds[k], name));
    }
    if (this.found)
      add(this.canvas.style.hit, "matched");
  }

  draw() {
    const p = this.profile;
    this.canvas.draw({colour: (tree, frame) => this.colour(frame), name: (tree, frame) => frameName(p, tree, frame),
      hit: this.found && this.found.hit, selected: this.selected});
    this.showStatus();
  }

  // ---- panes

  describe(layer, node) {
    const {tree} = layer, name = frameName(this.profile, tree, tree.frame[node]);
    return `${name}: ${formatShare(tree.total[node], this.base.total[0], this.base.count[0])}, ` +
      `${formatValue(tree.total[node], this.unit)}, ${tree.count[node].toLocaleString("en-US")} ${this.countName()}`;
  }

  countName() {
    return this.profile.types[0].name === "contentions" ? "intervals" : this.profile.types[0].name;
  }

  showStatus() {
    const at = this.hover || this.selected;
    $("status").textContent = this.base.total[0] ? this.describe(at.layer, at.node) : "no samples";
  }

  showControls() {
    const s = this.state, p = this.profile, m = p.comments.find((c) => c.startsWith("target: "));
    $("title").textContent = `${p.title} flame graph`;
    document.title = `${p.title}${m ? ": " + m.slice(8) : ""}`;
    const stated = (key) => (p.comments.find((c) => c.startsWith(key + ": ")) || "").slice(key.length + 2);
    const complete = stated("complete_stacks_pct"), dropped = stated("dropped");
    $("summary").textContent = [m && m.slice(8), p.durationNs && `${formatValue(p.durationNs, "nanoseconds")} captured`,
      `${this.base.count[0].toLocaleString("en-US")} ${this.countName()}`,
      s.type > 0 && formatValue(this.base.total[0], this.unit) + (this.unit === "nanoseconds" ? "" : " " + p.types[s.type].name),
      complete && `${Math.floor(Number(complete))} % complete stacks`, Number(dropped) > 0 && `${dropped} dropped`]
      .filter(Boolean).join(" · ");
    $("profiles").replaceChildren();
    if (this.profiles.length > 1) {
      this.profiles.forEach((other, i) => {
        const b = make("button", other.title, {type: "button", "aria-pressed": String(i === s.profile), id: `profile-${i}`});
        b.onclick = () => this.switchProfile(i);
        $("profiles").append(b);
      });
    }
    const fill = (select, options, value) => {
      select.replaceChildren(...options.map(([v, text]) => make("option", text, {value: v})));
      select.value = value;
    };
    fill($("group"), [["", "nothing"], ...groupKeys(p).map((k) => [k, k.replace("label:", "")])], s.group);
    $("group").disabled = s.mode === "sandwich";
    fill($("value"), p.types.map((t, i) => [i, i ? (t.unit === "nanoseconds" ? "time" : t.name) : this.countName()]), s.type);
    $("value-label").hidden = p.types.length < 2;
    $("colour").value = s.colour;
    $("mode").options[2].disabled = s.mode !== "sandwich";
    $("mode").value = s.mode;
    $("icicle").setAttribute("aria-pressed", String(s.icicle));
    $("icicle").disabled = s.mode === "sandwich";
    this.showLegend();
    this.showAbout();
  }

  switchProfile(i) {
    const p = this.profiles[i];
    this.change({profile: i, type: p.defaultType, mode: this.state.mode === "sandwich" ? "flame" : this.state.mode, chosen: -1,
      group: groupKeys(p).includes(this.state.group) ? this.state.group : "", zoom: [[], []]}, true);
  }

  // Samples whose stacks go through a node.
  samplesOf(layer, node) {
    const {tree} = layer, ret = [];
    for (let i = 0; i < tree.sampleNode.length; i++) {
      if (tree.sampleNode[i] >= node && tree.sampleNode[i] < tree.end[node])
        ret.push(i);
    }
    return ret;
  }

  showDetails() {
    const pane = $("details"), {layer, node} = this.selected, {tree} = layer, p = this.profile, frame = tree.frame[node];
    const list = make("dl"), samples = this.base.count[0], add = (name, value) => list.append(make("dt", name), make("dd", value));
    const real = frame >= 0 && frame < p.frames.n, {frames} = p, text = (id) => p.strings[id];
    pane.replaceChildren(make("h2", frameName(p, tree, frame)));
    const actions = make("div", null, {class: "actions"}), action = (id, name, run) => {
      const b = make("button", name, {type: "button", id});
      b.onclick = run;
      actions.append(b);
    };
    if (real)
      action("do-sandwich", "Callers and callees", () => this.showSandwich(frame));
    if (real)
      action("do-search", "Search it", () => this.change({search: "^" + text(frames.name[frame]).replace(/[.*+?^${}()|[\]\\]/g, "\\$&") + "$"}, false));
    action("do-copy", "Copy stack", () => this.copyStack());
    pane.append(actions);
    const all = this.base.total[0], zoomed = layer.zoom !== layer.top ? "of the zoom" : all !== tree.total[0] ? "of the function" : "";
    add("share", formatShare(tree.total[node], all, samples) + (zoomed &&
      ` of all, ${formatShare(tree.total[node], tree.total[layer.zoom], samples)} ${zoomed}`));
    add(this.state.type ? (this.unit === "nanoseconds" ? "time" : p.types[this.state.type].name) : "value", formatValue(tree.total[node], this.unit));
    add("itself", `${formatValue(tree.self[node], this.unit)}, ${formatShare(tree.self[node], all, samples)}`);
    if (this.state.type)
      add(this.countName(), tree.count[node].toLocaleString("en-US"));
    if (real) {
      add("kind", KINDS[frames.kind[frame]]);
      if (frames.file[frame])
        add("source", text(frames.file[frame]) + (frames.line[frame] ? ":" + frames.line[frame] : ""));
      if (frames.module[frame])
        add("module", text(frames.module[frame]));
      if (frames.buildId[frame])
        add("build-id", text(frames.buildId[frame]));
      if (frames.reason[frame])
        add("no name", REASONS[frames.reason[frame]] || "unknown");
    }
    this.addLabels(add, layer, node);
    pane.append(list);
  }

  // Amounts do not add up the same way: of the longest interval it is the longest.
  addLabels(add, layer, node) {
    const p = this.profile, of = this.samplesOf(layer, node), value = p.samples.values[this.state.type], by = new Map();
    for (const a of p.amounts) {
      let sum = 0, max = 0;
      for (const i of of) {
        sum += a.values[i];
        max = Math.max(max, a.values[i]);
      }
      if (max)
        add(a.name === "longest" ? "longest interval" : a.name === "runqueue" ? "then in run queue" : a.name,
          formatValue(a.name === "longest" ? max : sum, a.unit));
    }
    for (const i of of) {
      for (const id of p.sets[p.samples.set[i]]) {
        const {key, text} = p.labels[id];
        if (!by.has(key))
          by.set(key, new Map());
        by.get(key).set(text, (by.get(key).get(text) || 0) + value[i]);
      }
    }
    for (const [key, values] of [...by].sort()) {
      const top = [...values].sort((a, b) => b[1] - a[1]), whole = layer.tree.total[node];
      add(key, top.slice(0, LABEL_ROWS).map(([t, v]) => (top.length > 1 ? `${t} (${formatShare(v, whole, layer.tree.count[0])})` : t))
        .join(", ") + (top.length > LABEL_ROWS ? `, and ${top.length - LABEL_ROWS} more` : ""));
    }
  }

  showFunctions() {
    const pane = $("functions"), p = this.profile, whole = this.base.total[0], samples = this.base.count[0];
    const {frames} = p, hit = this.found && this.found.hit;
    const rows = this.functions.filter((r) => r.total > 0 && (!hit || hit[r.frame]))
      .sort((a, b) => b[this.sort] - a[this.sort] || b.total - a.total || a.frame - b.frame);
    const table = make("table"), head = make("tr");
    for (const [key, name] of [["self", "Self"], ["total", "Total"]]) {
      const th = make("th", null, {class: "number", scope: "col", "aria-sort": this.sort === key ? "descending" : "none"});
      const b = make("button", name + (this.sort === key ? " ▼" : ""), {type: "button"});
      b.onclick = () => {
        this.sort = key;
        this.showFunctions();
      };
      th.append(b);
      head.append(th);
    }
    head.append(make("th", "Function: opens its callers and callees", {scope: "col"}));
    table.append(head);
    for (const r of rows.slice(0, TABLE_ROWS)) {
      const tr = make("tr"), td = make("td"), b = make("button", p.strings[frames.name[r.frame]], {type: "button"});
      b.onclick = () => this.showSandwich(r.frame);
      td.append(b);
      tr.append(make("td", formatShare(r.self, whole, samples), {class: "number"}),
        make("td", formatShare(r.total, whole, samples), {class: "number"}), td);
      table.append(tr);
    }
    pane.replaceChildren(make("p", `${rows.length.toLocaleString("en-US")} function${rows.length === 1 ? "" : "s"}` +
      (hit ? " matched by the search" : "") + (rows.length > TABLE_ROWS ? `, the first ${TABLE_ROWS}` : ""), {class: "note"}), table);
  }

  // The comments of the profile: tags first, then quality figures and notes.
  showAbout() {
    const p = this.profile, table = make("table");
    if (p.timeNs)
      p.comments = p.comments.filter((c) => !c.startsWith("started: ")).concat([`started: ${new Date(p.timeNs / 1e6).toISOString()}`]);
    for (const c of p.comments) {
      const m = /^([^:=\s]+)(?:: |=)([^]*)$/.exec(c), tr = make("tr");
      tr.append(make("th", m ? m[1].replace(/_/g, " ") : ""), make("td", m ? m[2] : c));
      table.append(tr);
    }
    $("about").replaceChildren(make("p", "What the profile says about itself: tags, target, quality.", {class: "note"}), table);
  }

  showTab(name) {
    for (const t of ["details", "functions", "about", "help"]) {
      $(t).hidden = t !== name;
      $(`tab-${t}`).setAttribute("aria-selected", String(t === name));
    }
  }

  // ---- actions

  select(layer, node) {
    this.selected = {layer, node};
    this.hover = null;
    this.canvas.reveal(layer, node);
    this.draw();
    this.showDetails();
  }

  // Root first, one frame a line, whatever the view is turned to.
  stackText() {
    const {layer, node} = this.selected, names = [];
    for (let at = node; at > 0; at = layer.tree.parent[at])
      names.push(frameName(this.profile, layer.tree, layer.tree.frame[at]));
    if (this.state.mode !== "inverted" && !layer.callers)
      names.reverse();
    return names.join("\n") + "\n";
  }

  async copyStack() {
    const text = this.stackText(), done = () => { $("status").textContent = "the stack was copied"; };
    try {
      await navigator.clipboard.writeText(text);
      done();
    } catch (unused) {
      const area = make("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      $("status").textContent = document.execCommand("copy") ? "the stack was copied" : "the browser does not allow copying";
      area.remove();
    }
  }

  // Moves the selection: to the caller, the widest callee, a sibling.
  move(key) {
    const {layer, node} = this.selected, {tree} = layer, grows = this.canvas.up ? "ArrowUp" : layer.dir > 0 ? "ArrowDown" : "ArrowUp";
    let to = -1;
    if (key === "ArrowLeft" || key === "ArrowRight") {
      const parent = tree.parent[node];
      for (let child = parent + 1, before = -1; parent >= 0 && child < tree.end[parent]; child = tree.end[child]) {
        if (key === "ArrowLeft" && child === node)
          to = before;
        if (key === "ArrowRight" && before === node)
          to = child;
        if (tree.total[child] > 0)
          before = child;
      }
    } else if (key === grows) {
      for (let child = node + 1; child < tree.end[node]; child = tree.end[child]) {
        if (to < 0 || tree.total[child] > tree.total[to])
          to = child;
      }
    } else if (node > layer.top) {
      to = tree.parent[node];
    }
    if (to < 0 && this.layers.length > 1 && node === layer.top && key !== grows) {
      const other = this.layers.find((l) => l !== layer);
      this.select(other, other.top + 1 < other.tree.n ? other.top + 1 : other.top);
      return;
    }
    if (to >= layer.top && (layer.skip < 2 || to > layer.top))
      this.select(layer, to);
    else if (to === layer.top)
      this.select(this.layers[1], this.layers[1].top);
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || ["INPUT", "SELECT", "TEXTAREA"].includes(e.target.tagName)) {
      if (e.key === "Escape" && e.target.id === "search")
        $("canvas").focus();
      return;
    }
    const frame = this.selected.layer.tree.frame[this.selected.node], onCanvas = e.target.id === "canvas";
    const keys = {"/": () => $("search").focus(), i: () => $("icicle").click(), c: () => this.copyStack(),
      v: () => this.change({mode: this.state.mode === "inverted" ? "flame" : "inverted", zoom: [[], []]}, true),
      s: () => this.showSandwich(frame), Escape: () => this.stepBack(), "?": () => this.showTab("help")};
    if (onCanvas && e.key.startsWith("Arrow"))
      this.move(e.key);
    else if (onCanvas && e.key === "Enter")
      this.zoomTo(this.selected.layer, this.selected.node);
    else if (keys[e.key])
      keys[e.key]();
    else
      return;
    e.preventDefault();
  }

  at(e) {
    const box = $("canvas").getBoundingClientRect();
    return this.canvas.hitTest(e.clientX - box.left, e.clientY - box.top);
  }

  bind() {
    const redraw = () => {
      this.canvas.resize();
      this.draw();
    };
    let pending = 0;
    $("scroller").onscroll = () => {
      cancelAnimationFrame(pending);
      pending = requestAnimationFrame(() => this.draw());
    };
    new ResizeObserver(redraw).observe($("scroller"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.canvas.readStyle();
      this.showLegend();
      redraw();
    });
    $("canvas").onclick = (e) => {
      const box = this.at(e);
      if (box)
        this.zoomTo(box.layer, box.node);
    };
    $("canvas").onpointermove = (e) => {
      const box = e.pointerType === "mouse" ? this.at(e) : null;
      this.hover = box;
      this.showStatus();
    };
    $("canvas").onpointerleave = () => {
      this.hover = null;
      this.showStatus();
    };
    $("mode").onchange = (e) => this.change({mode: e.target.value, zoom: [[], []]}, true);
    $("icicle").onclick = () => this.change({icicle: !this.state.icicle}, false);
    $("group").onchange = (e) => this.change({group: e.target.value, zoom: [[], []]}, true);
    $("colour").onchange = (e) => this.change({colour: e.target.value}, false);
    $("value").onchange = (e) => this.change({type: Number(e.target.value)}, false);
    $("reset").onclick = () => this.reset();
    $("search").oninput = (e) => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => {
        this.state.search = e.target.value;
        this.search();
        this.showLegend();
        this.showFunctions();
        this.draw();
        this.save(false);
      }, 120);
    };
    for (const t of ["details", "functions", "about", "help"])
      $(`tab-${t}`).onclick = () => this.showTab(t);
    document.addEventListener("keydown", (e) => this.key(e));
    addEventListener("popstate", () => this.readFragment());
    addEventListener("hashchange", () => {
      if (location.hash.slice(1) !== this.fragment())
        this.readFragment();
    });
  }

  // What is drawn, for tests and for scripts in the browser's console: one entry a frame.
  frames() {
    const ret = [];
    for (const row of this.canvas.boxes) {
      for (const b of row || []) {
        const {tree} = b.layer;
        ret.push({name: frameName(this.profile, tree, tree.frame[b.node]), depth: tree.depth[b.node], value: tree.total[b.node],
          self: tree.self[b.node], samples: tree.count[b.node], x: b.x, width: b.width, above: b.above,
          callers: Boolean(b.layer.callers), y: this.canvas.top(this.canvas.rowOf(b.layer, b.node))});
      }
    }
    return ret;
  }
}

(async () => {
  try {
    window.flame = new FlamePage(await unpackData($("data").textContent));
  } catch (e) {
    document.querySelector("main").replaceChildren(make("p", `This flame graph cannot be shown: ${e.message}.`, {class: "fault"}));
    throw e;
  }
})();
