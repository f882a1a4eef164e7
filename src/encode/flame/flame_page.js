// SPDX-License-Identifier: Apache-2.0
// The page: its state and what changes it. The state is in the fragment of the address, so that a link restores the view.
"use strict";

class FlamePage extends FlamePanes {
  constructor(profiles) {
    super();
    this.profiles = profiles;
    this.canvas = new FlameCanvas($("canvas"), $("sheet"), $("scroller"));
    this.time = new TimeLine($("time-canvas"), $("time-status"), (range) => this.change({range}, true));
    this.state = this.blankState();
    this.sort = "self";
    this.hover = null;
    this.bind();
    this.readFragment();
  }

  blankState() {
    return {profile: 0, type: this.profiles[0].defaultType, mode: "flame", icicle: false, group: "", colour: this.defaultColour(0),
      search: "", chosen: -1, zoom: [[], []], range: null,
      side: 1, share: isDiff(this.profiles[0]) && !hasDurations(this.profiles[0]) ? 1 : 0};
  }

  defaultColour(profile) {
    return isDiff(this.profiles[profile]) ? "change" : "kind";
  }

  // What decides which profile is shown.
  get viewKey() {
    const {profile, range, side, share} = this.state;
    return [profile, range, side, share].join(" ");
  }

  // The profile that is shown: what happened in the chosen range; of two, with the widths of one.
  get profile() {
    if (this.viewOf !== this.viewKey) {
      const {profile, range, side, share} = this.state, p = this.profiles[profile];
      this.view = isDiff(p) ? viewDiff(p, side, share === 1) : range && p.times ? filterProfile(p, ...range) : p;
      this.viewOf = this.viewKey;
    }
    return this.view;
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
    if (s.colour !== this.defaultColour(s.profile))
      parts.set("c", s.colour);
    if (!s.side)
      parts.set("w", "before");
    if (s.share !== this.blankState().share)
      parts.set("n", s.share);
    if (s.search)
      parts.set("s", s.search);
    if (s.range)
      parts.set("t", s.range.map((ns) => ns / MS).join("-"));
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
    s.colour = ["module", "kind"].includes(parts.get("c")) ? parts.get("c") : this.defaultColour(s.profile);
    s.side = parts.get("w") === "before" ? 0 : 1;
    s.share = below(parts.get("n"), s.share ? 0 : 2, s.share);
    s.search = parts.get("s") || "";
    s.group = groupKeys(this.profile).includes(parts.get("g")) ? parts.get("g") : "";
    s.mode = ["inverted", "sandwich"].includes(parts.get("m")) ? parts.get("m") : "flame";
    s.chosen = parseInt(parts.get("f"), 36);
    if (!(s.chosen >= 0 && s.chosen < this.profile.frames.n))
      s.chosen = -1;
    if (s.mode === "sandwich" && s.chosen < 0)
      s.mode = "flame";
    s.zoom = [path(parts.get("z")), path(parts.get("y"))];
    const range = (parts.get("t") || "").split("-").map((ms) => parseFloat(ms) * MS);
    s.range = range.length === 2 && range[0] >= 0 && range[1] > range[0] && this.profile.times ? range : null;
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
    const what = `${this.viewKey} ${s.type}`;
    if (this.baseOf !== what) {
      this.base = baseTree(p, s.type);
      this.baseOf = what;
      this.base.diff = isDiff(p) ? diffSums(p, this.base, s.type) : null;
      this.functions = isDiff(p) ? diffTable(p, this.base) : functionTable(p, this.base);
      // The colours of modules are those of the whole capture.
      if (this.modulesOf !== `${s.profile} ${s.type}`) {
        const whole = this.profiles[s.profile];
        this.modules = this.moduleColours(s.range || isDiff(p) ? functionTable(whole, baseTree(whole, s.type)) : this.functions);
        this.modulesOf = `${s.profile} ${s.type}`;
      }
    }
    const key = [what, s.mode, s.mode === "sandwich" ? s.chosen : s.group].join(" ");
    if (key !== this.layersOf) {
      this.layers = this.makeLayers();
      for (const {tree} of isDiff(p) ? this.layers : [])
        tree.diff = tree.diff || diffSums(p, tree, s.type);
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
    this.showTime();
    this.showFunctions();
    this.showDetails();
    this.draw();
  }

  // top: the root node of a layer.
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

  switchProfile(i) {
    const p = this.profiles[i];
    this.change({profile: i, colour: this.state.colour === "module" ? "module" : this.defaultColour(i), range: p.times ? this.state.range : null, type: p.defaultType, mode: this.state.mode === "sandwich" ? "flame" : this.state.mode, chosen: -1,
      group: groupKeys(p).includes(this.state.group) ? this.state.group : "", zoom: [[], []]}, true);
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
      this.found.sides = this.base.diff && this.base.diff.self.map((self) => hitValue({...this.base, self}, this.found.hit));
    } catch (e) {
      input.setAttribute("aria-invalid", "true");
      $("matched").textContent = `not a regular expression: ${e.message}`;
      return;
    }
    const whole = this.base.total[0], {value, functions, sides} = this.found;
    $("matched").textContent = `${formatShare(value, whole, this.base.count[0])} matched: ${this.amount(value)}, ` +
      `${functions} function${functions === 1 ? "" : "s"}` +
      (sides ? `; before ${this.amount(sides[0])}, after ${this.amount(sides[1])}` : "");
  }

  // ---- drawing

  draw() {
    const p = this.profile;
    this.canvas.draw({colour: (...at) => this.colour(...at), name: (...at) => this.signOf(...at) + frameName(p, ...at),
      mark: (frame) => frame >= 0 && p.frames.kind[frame] === HEURISTIC, hit: this.found && this.found.hit, selected: this.selected});
    this.showStatus();
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
        if (tree.total[child] > 0 && (to < 0 || tree.total[child] > tree.total[to]))
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
    if (e.target.id === "time-canvas" && this.time.key(e)) {
      e.preventDefault();
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
      this.showTime();
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
    $("side").onchange = (e) => this.change({side: Number(e.target.value)}, false);
    $("share").onchange = (e) => this.change({share: Number(e.target.value)}, false);
    $("reset").onclick = () => this.reset();
    $("time-all").onclick = () => this.change({range: null}, true);
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
          callers: Boolean(b.layer.callers), before: tree.diff ? tree.diff.total[0][b.node] : null,
          after: tree.diff ? tree.diff.total[1][b.node] : null, colour: this.colour(tree, tree.frame[b.node], b.node), y: this.canvas.top(this.canvas.rowOf(b.layer, b.node))});
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
