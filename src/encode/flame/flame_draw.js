// SPDX-License-Identifier: Apache-2.0
// Draws layers of frames on a canvas that is as high as the window part that shows it. A layer is a tree, the node that it
// is zoomed to, the row of its root and the direction in which it grows. Only what is visible is visited: a frame of less
// than half a pixel ends the descent.
"use strict";

const MIN_PIXELS = 0.5, SMALL_PIXELS = 3;

class FlameCanvas {
  constructor(canvas, sheet, scroller) {
    this.canvas = canvas;
    this.sheet = sheet;
    this.scroller = scroller;
    this.context = canvas.getContext("2d");
    this.layers = [];
    this.rows = 1;
    this.boxes = []; // by row: drawn frames, from left to right
    this.readStyle();
  }

  readStyle() {
    const style = getComputedStyle(document.documentElement), get = (name) => style.getPropertyValue(name).trim();
    this.style = {text: get("--frame-text"), root: get("--root"), rest: get("--rest"), hit: get("--hit"),
      hitText: get("--hit-text"), mark: get("--mark"), back: get("--back"), faint: get("--soft"),
      kinds: Array.from({length: KINDS.length}, (unused, k) => get("--k" + k)),
      steps: Array.from({length: 7}, (unused, k) => get("--d" + k))};
    this.rowHeight = matchMedia("(pointer: coarse)").matches ? 28 : 19;
    this.font = '12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';
  }

  // Rows above and below a function in a sandwich, or of one tree.
  setLayers(layers, up) {
    this.layers = layers;
    this.up = up; // row 0 is at the bottom
    this.measure();
  }

  // Rows that are drawn: those that the zoomed parts have.
  measure() {
    let low = 0, high = 0;
    for (const layer of this.layers) {
      const {tree, zoom} = layer;
      let deepest = tree.depth[zoom];
      for (let i = zoom; i < tree.end[zoom]; i++) {
        if (tree.depth[i] > deepest && tree.total[i] > 0)
          deepest = tree.depth[i];
      }
      const last = layer.row + layer.dir * (deepest - layer.skip);
      low = Math.min(low, last, layer.row);
      high = Math.max(high, last, layer.row);
    }
    this.firstRow = low;
    this.rows = high - low + 1;
    this.sheet.style.height = `${this.rows * this.rowHeight}px`;
    document.documentElement.style.setProperty("--rows-height", `${this.rows * this.rowHeight}px`);
  }

  // The top of a row on the canvas.
  top(row) {
    const at = row - this.firstRow, shown = this.up ? this.rows - 1 - at : at;
    return shown * this.rowHeight - this.scroller.scrollTop + this.lead();
  }

  // A graph that grows upwards stands on the bottom of the window part.
  lead() {
    return this.up ? Math.max(0, this.height - this.rows * this.rowHeight) : 0;
  }

  // Rows at the bottom stay where they are.
  resize() {
    const ratio = devicePixelRatio || 1, below = this.rows * this.rowHeight - this.scroller.scrollTop - (this.height || 0);
    this.width = this.sheet.clientWidth;
    this.height = this.scroller.clientHeight;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.height = `${this.height}px`;
    this.sheet.style.minHeight = `${this.height}px`;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (this.up)
      this.scroller.scrollTop = this.rows * this.rowHeight - this.height - below;
  }

  showEnd() {
    this.scroller.scrollTop = this.up ? this.scroller.scrollHeight : 0;
  }

  // view: {colour and name (tree, frame, node), mark(frame): whether it is underlined, hit (by frame, or null), selected: {layer, node}}
  draw(view) {
    const c = this.context;
    this.view = view;
    this.boxes = [];
    c.clearRect(0, 0, this.width, this.height);
    c.font = this.font;
    c.textBaseline = "middle";
    this.charWidth = c.measureText("0").width;
    for (const layer of this.layers)
      this.drawLayer(layer);
    this.markSelected();
  }

  drawLayer(layer) {
    const {tree, zoom} = layer, whole = tree.total[zoom];
    for (let node = tree.parent[zoom]; node >= 0 && tree.depth[node] >= layer.skip; node = tree.parent[node])
      this.drawBox(layer, node, 0, this.width, true);
    if (whole > 0)
      this.drawNode(layer, zoom, 0, this.width / whole);
  }

  drawNode(layer, node, x, scale) {
    const {tree} = layer, stack = [node, x];
    while (stack.length) {
      const left = stack.pop(), at = stack.pop(), width = tree.total[at] * scale;
      if (tree.depth[at] >= layer.skip)
        this.drawBox(layer, at, left, width, false);
      let childLeft = left, small = 0;
      for (let child = at + 1; child < tree.end[at]; child = tree.end[child]) {
        const w = tree.total[child] * scale;
        if (w >= MIN_PIXELS) {
          this.drawRest(layer, at, childLeft - small, small);
          small = 0;
          stack.push(child, childLeft);
        } else {
          small += w;
        }
        childLeft += w;
      }
      this.drawRest(layer, at, childLeft - small, small);
    }
  }

  rowOf(layer, node) {
    return layer.row + layer.dir * (layer.tree.depth[node] - layer.skip);
  }

  // Frames that are too narrow to be drawn one by one.
  drawRest(layer, parent, x, width) {
    if (width < 1)
      return;
    const y = this.top(this.rowOf(layer, parent) + layer.dir);
    if (y > -this.rowHeight && y < this.height) {
      this.context.fillStyle = this.style.rest;
      this.context.fillRect(x, y + this.rowHeight / 3, width, this.rowHeight / 3);
    }
  }

  drawBox(layer, node, x, width, above) {
    const {tree} = layer, c = this.context, row = this.rowOf(layer, node), y = this.top(row), frame = tree.frame[node];
    const hit = this.view.hit && frame >= 0 && this.view.hit[frame];
    (this.boxes[row - this.firstRow] = this.boxes[row - this.firstRow] || []).push({layer, node, x, width, above});
    if (y <= -this.rowHeight || y >= this.height)
      return;
    c.globalAlpha = above || (this.view.hit && !hit) ? 0.5 : 1;
    c.fillStyle = hit ? this.style.hit : this.view.colour(tree, frame, node);
    c.fillRect(x, y, width > SMALL_PIXELS ? width - 1 : Math.max(width, MIN_PIXELS), this.rowHeight - 1);
    if (this.view.mark(frame)) {
      c.fillStyle = this.style.text;
      c.fillRect(x, y + this.rowHeight - 3, Math.max(width - 1, MIN_PIXELS), 2);
    }
    c.globalAlpha = 1;
    const room = Math.floor((width - 6) / this.charWidth);
    if (room < 3)
      return;
    const name = this.view.name(tree, frame, node);
    c.fillStyle = hit ? this.style.hitText : this.style.text;
    c.fillText(name.length <= room ? name : name.slice(0, room - 1) + "…", x + 3, y + this.rowHeight / 2);
  }

  markSelected() {
    const {layer, node} = this.view.selected, c = this.context;
    const box = layer && (this.boxes[this.rowOf(layer, node) - this.firstRow] || [])
      .find((b) => b.layer === layer && b.node === node);
    if (!box)
      return;
    c.strokeStyle = this.style.mark;
    c.lineWidth = 2;
    c.strokeRect(box.x + 1, this.top(this.rowOf(layer, node)) + 1, Math.max(box.width - 3, 1), this.rowHeight - 3);
  }

  // What is drawn at a point of the canvas.
  hitTest(x, y) {
    const shown = Math.floor((y + this.scroller.scrollTop - this.lead()) / this.rowHeight);
    const row = this.up ? this.rows - 1 - shown : shown;
    return (this.boxes[row] || []).find((b) => x >= b.x && x < b.x + Math.max(b.width, 1)) || null;
  }

  centre(layer, node) {
    this.scroller.scrollTop += this.top(this.rowOf(layer, node)) - this.height / 2;
  }

  // Scrolls so far that a node can be seen.
  reveal(layer, node) {
    const y = this.top(this.rowOf(layer, node));
    if (y < 0)
      this.scroller.scrollTop += y;
    else if (y + this.rowHeight > this.height)
      this.scroller.scrollTop += y + this.rowHeight - this.height;
  }
}
