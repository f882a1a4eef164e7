// SPDX-License-Identifier: Apache-2.0
// What surrounds the graph: colours and their legend, the controls, and the panes. Names of the profile are set as text,
// never as markup.
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

// ---- panes ----------------------------------------------------------------------------------------------------------

// The part of the page that only shows its state: FlamePage has the state and changes it.
class FlamePanes {
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
}
