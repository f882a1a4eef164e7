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
  moduleColours(functions) {
    const p = this.profile, self = new Map(), ret = new Map();
    for (const row of functions)
      self.set(p.frames.module[row.frame], (self.get(p.frames.module[row.frame]) || 0) + row.self);
    [...self].filter(([id]) => p.strings[id]).sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, MODULE_COLOURS.length)
      .forEach(([id], i) => ret.set(id, MODULE_COLOURS[i]));
    return ret;
  }

  colour(tree, frame, node) {
    const {frames} = this.profile;
    if (this.state.colour === "change" && tree.diff)
      return this.canvas.style.steps[this.changeAt(tree, node).step + 3];
    if (frame < 0 || frame >= frames.n)
      return this.canvas.style.root;
    if (this.state.colour === "module")
      return this.modules.get(frames.module[frame]) || OTHER_COLOUR;
    return this.canvas.style.kinds[frames.kind[frame]];
  }

  // ---- comparison

  changeAt({diff}, node) {
    return changeOf(diff.total[0][node], diff.total[1][node], diff.variance[node]);
  }

  // The sign of a change is text, too: no colour is needed to see it.
  signOf(tree, frame, node) {
    if (!tree.diff)
      return "";
    const {chance, step} = this.changeAt(tree, node);
    return chance || !step ? "" : formatChange(tree.diff.total[0][node], tree.diff.total[1][node]) + " ";
  }

  // A value with its unit; of two profiles values are normalised.
  amount(v) {
    const p = this.profile;
    if (!isDiff(p))
      return formatValue(v, this.unit);
    if (this.unit === "percent")
      return `${v.toFixed(v < 1 ? 2 : 1)} %`;
    return `${this.unit === "nanoseconds" ? formatValue(v, this.unit) : v.toFixed(v < 10 ? 2 : 1)}/s`;
  }

  addChange(add, {diff}, node) {
    const [before, after] = diff.total.map((t) => t[node]), {delta, chance} = this.changeAt({diff}, node);
    add("before", `${this.amount(before)}, itself ${this.amount(diff.self[0][node])}`);
    add("after", `${this.amount(after)}, itself ${this.amount(diff.self[1][node])}`);
    add("change", `${delta < 0 ? "−" : "+"}${this.amount(Math.abs(delta))}, ${formatChange(before, after)}` +
      (chance ? ": may be chance" : ""));
  }

  diffSummary() {
    const p = this.profile;
    return p.sides.map((side, i) => `${i ? "after" : "before"}: ${[p.names[i], side.durationNs &&
      formatValue(side.durationNs, "nanoseconds") + " captured", `${this.sampleSum(side)} ${this.countName()}`]
      .filter(Boolean).join(", ")}`).concat(`values ${this.unit === "percent" ? "as shares of the total" : "per second of each capture"}`)
      .join(" · ");
  }

  sampleSum(p) {
    return p.samples.values[0].reduce((a, v) => a + v, 0).toLocaleString("en-US");
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
    if (this.state.colour === "change" && isDiff(p)) {
      const steps = DIFF_STEPS.map((s) => `${100 * s} %`), {steps: colours} = this.canvas.style;
      [`less by ${steps[2]} or more, or gone`, `by ${steps[1]}`, `by ${steps[0]}`, "about the same, or may be chance",
        `more by ${steps[0]}`, `by ${steps[1]}`, `by ${steps[2]} of the value after, or new`].forEach((t, i) => add(colours[i], t));
    } else if (this.state.colour === "module") {
      for (const [id, colour] of this.modules)
        add(colour, p.strings[id].split("/").pop());
      add(OTHER_COLOUR, "other modules");
    } else {
      const used = new Set(p.frames.kind);
      KINDS.forEach((name, k) => used.has(k) && add(this.canvas.style.kinds[k], k === HEURISTIC ? "heuristic: underlined" : name));
    }
    if (this.found)
      add(this.canvas.style.hit, "matched");
  }

  // ---- panes

  describe(layer, node) {
    const {tree} = layer, name = frameName(this.profile, tree, tree.frame[node]);
    const change = tree.diff ? `, ${formatChange(tree.diff.total[0][node], tree.diff.total[1][node])}` : "";
    return `${name}: ${formatShare(tree.total[node], this.base.total[0], this.base.count[0])}, ` +
      `${this.amount(tree.total[node])}${change}, ${tree.count[node].toLocaleString("en-US")} ${this.countName()}`;
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
    $("title").textContent = p.heading;
    document.title = `${p.title}${m ? ": " + m.slice(8) : ""}`;
    const stated = (key) => (p.comments.find((c) => c.startsWith(key + ": ")) || "").slice(key.length + 2);
    const complete = stated("complete_stacks_pct"), dropped = stated("dropped");
    $("summary").textContent = isDiff(p) ? this.diffSummary() : [m && m.slice(8), p.durationNs && `${formatValue(p.durationNs, "nanoseconds")} captured`,
      s.range && `from ${s.range[0] / 1e9} s to ${s.range[1] / 1e9} s alone`,
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
    fill($("colour"), [...(isDiff(p) ? [["change", "Change"]] : []), ["kind", "Kind"], ["module", "Module"]], s.colour);
    $("side-label").hidden = $("share-label").hidden = !isDiff(p);
    $("side").value = s.side;
    $("share").value = s.share;
    $("share").disabled = isDiff(p) && !hasDurations(p);
    $("mode").options[2].disabled = s.mode !== "sandwich";
    $("mode").value = s.mode;
    $("icicle").setAttribute("aria-pressed", String(s.icicle));
    $("icicle").disabled = s.mode === "sandwich";
    this.showLegend();
    this.showAbout();
  }

  showTime() {
    const p = this.profiles[this.state.profile];
    $("time").hidden = $("time-help").hidden = !p.times;
    $("time-all").disabled = !this.state.range;
    this.time.show(p, this.state.range);
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
    add(this.state.type ? (this.unit === "nanoseconds" ? "time" : p.types[this.state.type].name) : "value", this.amount(tree.total[node]));
    add("itself", `${this.amount(tree.self[node])}, ${formatShare(tree.self[node], all, samples)}`);
    if (tree.diff)
      this.addChange(add, tree, node);
    if (this.state.type)
      add(this.countName(), tree.count[node].toLocaleString("en-US"));
    if (real) {
      add("kind", KINDS[frames.kind[frame]] + (frames.kind[frame] === HEURISTIC ? ": no unwind rule covers it, its caller may be wrong" : ""));
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
      for (const id of value[i] > 0 ? p.sets[p.samples.set[i]] : []) {
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
    const {frames} = p, hit = this.found && this.found.hit, diff = isDiff(p), size = diff ? Math.abs : (v) => v;
    const rows = this.functions.filter((r) => (diff ? r.totalBefore + r.totalAfter : r.total) > 0 && (!hit || hit[r.frame]))
      .sort((a, b) => size(b[this.sort]) - size(a[this.sort]) || size(b.total) - size(a.total) || a.frame - b.frame);
    const change = (delta, before, after) => `${delta < 0 ? "−" : "+"}${this.amount(Math.abs(delta))} (${formatChange(before, after)})`;
    const table = make("table"), head = make("tr");
    for (const [key, name] of [["self", "Self"], ["total", "Total"]]) {
      const th = make("th", null, {class: "number", scope: "col", "aria-sort": this.sort === key ? "descending" : "none"});
      const b = make("button", name + (diff ? " change" : "") + (this.sort === key ? " ▼" : ""), {type: "button"});
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
      const self = diff ? change(r.self, r.selfBefore, r.selfAfter) : formatShare(r.self, whole, samples);
      const total = diff ? change(r.total, r.totalBefore, r.totalAfter) : formatShare(r.total, whole, samples);
      tr.append(make("td", self, {class: "number"}), make("td", total, {class: "number"}), td);
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
