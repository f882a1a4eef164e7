// SPDX-License-Identifier: Apache-2.0
// The time line: a heat map whose columns are slices of the capture and whose rows are fractions of a slice, as
// FlameScope draws it. A range chosen in it is a filter of the profile.
"use strict";

const TIME_ROWS = 50, MS = 1e6;

// The cells of a profile: nanoseconds of events in each, so that on CPU value / cell is how many CPUs were busy and off
// CPU how many threads were blocked. Profiles without time have the number of events.
function timeCells(p) {
  const {n, slice, start, duration, value} = p.times, inTime = p.types[p.types.length - 1].unit === "nanoseconds";
  let end = p.durationNs;
  for (let i = 0; i < n; i++)
    end = Math.max(end, start[i] + Math.max(duration[i], 1));
  const cell = slice / TIME_ROWS, columns = Math.max(1, Math.ceil(end / slice));
  const cells = new Float64Array(columns * TIME_ROWS), whole = new Float64Array(columns * TIME_ROWS + 1);
  for (let i = 0; i < n; i++) {
    const first = Math.floor(start[i] / cell), stop = start[i] + duration[i], last = Math.min(Math.floor(stop / cell), cells.length - 1);
    if (!duration[i]) {
      cells[first] += inTime ? value[i] : 1;
    } else if (first === last) {
      cells[first] += duration[i];
    } else {
      cells[first] += (first + 1) * cell - start[i];
      cells[last] += stop - last * cell;
      whole[first + 1] += cell;
      whole[last] -= cell;
    }
  }
  let max = 0;
  for (let i = 0, more = 0; i < cells.length; i++) {
    more += whole[i];
    cells[i] += more;
    max = Math.max(max, cells[i]);
  }
  return {cells, max, columns, cell, end, inTime};
}

// The part of an interval's value that is in a range; an on-CPU sample is in it or not.
function valueWithin(times, i, from, to) {
  const {start, duration, value} = times;
  if (!duration[i])
    return start[i] >= from && start[i] < to ? value[i] : 0;
  const part = Math.min(start[i] + duration[i], to) - Math.max(start[i], from);
  return part > 0 ? value[i] * (part / duration[i]) : 0;
}

// The profile with what happened in a range alone. Of the amounts only the longest interval has a meaning there.
function filterProfile(p, from, to) {
  const {n, sample, duration, start} = p.times, of = p.samples, count = new Float64Array(of.n), sum = new Float64Array(of.n);
  const longest = new Float64Array(of.n);
  for (let i = 0; i < n; i++) {
    const v = valueWithin(p.times, i, from, to), inside = duration[i] ? start[i] < to && start[i] + duration[i] > from :
      start[i] >= from && start[i] < to;
    if (!inside)
      continue;
    sum[sample[i]] += v;
    count[sample[i]]++;
    longest[sample[i]] = Math.max(longest[sample[i]], duration[i]);
  }
  const values = p.types.length > 1 ? [count, sum] : [sum], amounts = p.amounts.filter((a) => a.name === "longest")
    .map((a) => ({...a, values: longest}));
  return {...p, amounts, samples: {...of, values, count}};
}

function formatSeconds(ns, cell) {
  return `${(ns / 1e9).toFixed(cell >= 1e9 ? 0 : cell >= 1e8 ? 1 : cell >= 1e7 ? 2 : cell >= 1e6 ? 3 : 4)} s`;
}

class TimeLine {
  // onRange(range): [from, to] in ns, or null for all of it.
  constructor(canvas, status, onRange) {
    this.canvas = canvas;
    this.status = status;
    this.onRange = onRange;
    this.context = canvas.getContext("2d");
    this.cursor = 0;
    this.dragged = null;
    this.bind();
  }

  // Null: the profile has no times.
  show(profile, range) {
    if (this.profile !== profile) {
      this.profile = profile;
      this.data = profile.times ? timeCells(profile) : null;
      this.cursor = this.anchor = 0;
    }
    this.range = range;
    if (this.data)
      this.draw();
  }

  get shown() {
    return this.dragged || this.range;
  }

  // ---- drawing

  draw() {
    const c = this.context, {cells, max, columns, cell, end} = this.data, ratio = devicePixelRatio || 1;
    const style = getComputedStyle(document.documentElement), get = (name) => style.getPropertyValue(name).trim();
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight, foot = 16, range = this.shown;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.columnWidth = width / columns;
    this.rowHeight = (height - foot) / TIME_ROWS;
    c.clearRect(0, 0, width, height);
    c.fillStyle = get("--panel");
    c.fillRect(0, 0, width, height - foot);
    for (let i = 0; i < cells.length; i++) {
      const at = i * cell, inside = !range || (at >= range[0] && at < range[1]);
      if (at >= end || (!cells[i] && (inside || !range)))
        continue;
      const [x, y] = this.corner(i);
      c.globalAlpha = (0.15 + 0.85 * cells[i] / max) * (inside ? 1 : 0.3);
      c.fillStyle = get("--heat");
      c.fillRect(x, y, this.columnWidth > 3 ? this.columnWidth - 1 : this.columnWidth, this.rowHeight);
    }
    c.globalAlpha = 1;
    if (range)
      this.drawRange(range, get("--mark"));
    if (document.activeElement === this.canvas)
      this.drawCursor(get("--text"));
    this.drawAxis(get("--soft"), width, height, foot);
    this.showStatus();
  }

  // Time goes up in a column, and on in the next.
  corner(i) {
    return [Math.floor(i / TIME_ROWS) * this.columnWidth, (TIME_ROWS - 1 - i % TIME_ROWS) * this.rowHeight];
  }

  // A line below the columns of the range, and marks at its ends.
  drawRange(range, colour) {
    const c = this.context, first = Math.round(range[0] / this.data.cell), last = Math.round(range[1] / this.data.cell) - 1;
    const [left, top] = this.corner(first), [right, bottom] = this.corner(last), bar = TIME_ROWS * this.rowHeight;
    c.fillStyle = colour;
    c.fillRect(left, bar, right + this.columnWidth - left, 3);
    c.fillRect(left, top + this.rowHeight - 1, this.columnWidth, 2);
    c.fillRect(right, bottom - 1, this.columnWidth, 2);
  }

  drawCursor(colour) {
    const c = this.context, [x, y] = this.corner(this.cursor);
    c.strokeStyle = colour;
    c.lineWidth = 2;
    c.strokeRect(x, y - 1, Math.max(this.columnWidth, 3), Math.max(this.rowHeight, 3) + 1);
  }

  drawAxis(colour, width, height, foot) {
    const c = this.context, {columns, cell} = this.data, slice = cell * TIME_ROWS;
    const every = [1, 2, 5, 10, 20, 50].find((n) => n * this.columnWidth >= 70) || columns;
    c.fillStyle = colour;
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "bottom";
    for (let i = 0; i < columns && i * this.columnWidth < width - 30; i += every)
      c.fillText(formatSeconds(i * slice, slice), i * this.columnWidth + 1, height - foot + 16);
  }

  // ---- words

  amount(value, ns) {
    if (!this.data.inTime)
      return `${value.toLocaleString("en-US")} samples`;
    const many = value / ns, what = this.profile.types[this.profile.types.length - 1].name === "offcpu" ? "threads blocked" : "CPUs busy";
    return `${many.toFixed(many < 10 ? 1 : 0)} ${what}`;
  }

  describe([from, to]) {
    const {cells, cell} = this.data;
    let sum = 0;
    for (let i = Math.round(from / cell); i < Math.round(to / cell) && i < cells.length; i++)
      sum += cells[i];
    return `${formatSeconds(from, cell)} to ${formatSeconds(to, cell)}: ${this.amount(sum, to - from)} on average`;
  }

  showStatus() {
    const {cells, cell, max} = this.data, lost = this.profile.times.lost, parts = [];
    if (this.shown)
      parts.push(this.describe(this.shown));
    else
      parts.push(`darkest: ${this.amount(max, cell)}`, "drag for a range");
    if (this.at !== undefined || document.activeElement === this.canvas) {
      const i = this.at === undefined ? this.cursor : this.at;
      parts.push(`at ${formatSeconds(i * cell, cell)}: ${this.amount(cells[i], cell)}`);
    }
    if (lost)
      parts.push(`${lost.toLocaleString("en-US")} events are missing here`);
    this.status.textContent = parts.join(" · ");
  }

  // ---- input

  cellAt(e) {
    const box = this.canvas.getBoundingClientRect(), {columns} = this.data;
    const column = Math.min(columns - 1, Math.max(0, Math.floor((e.clientX - box.left) / this.columnWidth)));
    const row = Math.min(TIME_ROWS - 1, Math.max(0, Math.floor((e.clientY - box.top) / this.rowHeight)));
    return column * TIME_ROWS + TIME_ROWS - 1 - row;
  }

  // From one cell to another; of whole columns for a finger, and for a click.
  rangeOf(a, b, columns) {
    let first = Math.min(a, b), last = Math.max(a, b);
    if (columns || a === b) {
      first -= first % TIME_ROWS;
      last += TIME_ROWS - 1 - last % TIME_ROWS;
    }
    return [first * this.data.cell, (last + 1) * this.data.cell];
  }

  choose(range) {
    this.dragged = null;
    this.onRange(range);
  }

  bind() {
    const canvas = this.canvas;
    canvas.onpointerdown = (e) => {
      if (e.button)
        return;
      this.anchor = this.cursor = this.cellAt(e);
      this.dragged = this.rangeOf(this.anchor, this.anchor);
      canvas.setPointerCapture(e.pointerId);
      this.draw();
    };
    canvas.onpointermove = (e) => {
      this.at = e.pointerType === "mouse" ? this.cellAt(e) : undefined;
      if (this.dragged) {
        this.cursor = this.cellAt(e);
        this.dragged = this.rangeOf(this.anchor, this.cursor, e.pointerType !== "mouse");
        this.draw();
      } else {
        this.showStatus();
      }
    };
    canvas.onpointerup = () => this.dragged && this.choose(this.dragged);
    canvas.onpointercancel = () => {
      this.dragged = null;
      this.draw();
    };
    canvas.onpointerleave = () => {
      this.at = undefined;
      this.showStatus();
    };
    canvas.onfocus = canvas.onblur = () => this.data && this.draw();
    new ResizeObserver(() => this.data && this.draw()).observe(canvas);
  }

  // Whether a key was used. Arrows move the cursor, with Shift they extend the range to it.
  key(e) {
    const step = {ArrowUp: 1, ArrowDown: -1, ArrowLeft: -TIME_ROWS, ArrowRight: TIME_ROWS}[e.key];
    const {cells} = this.data;
    if (step || e.key === "Home" || e.key === "End") {
      const to = e.key === "Home" ? 0 : e.key === "End" ? cells.length - 1 : this.cursor + step;
      if (to >= 0 && to < cells.length)
        this.cursor = to;
      if (e.shiftKey) {
        this.choose(this.rangeOf(this.anchor, this.cursor));
      } else {
        this.anchor = this.cursor;
        this.draw();
      }
      return true;
    }
    if (e.key === "Enter" || e.key === "Escape") {
      this.choose(e.key === "Enter" ? this.rangeOf(this.cursor, this.cursor) : null);
      return true;
    }
    return false;
  }
}
