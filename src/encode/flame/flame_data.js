// SPDX-License-Identifier: Apache-2.0
// The data of the page: unpacked, and read into columns. docs/formats.md has the layout.
"use strict";

const KINDS = ["native", "C++", "Rust", "Go", "JIT", "kernel", "inlined", "no name", "no code", "heuristic"];
const HEURISTIC = KINDS.indexOf("heuristic");
const REASONS = ["", "no mapping", "file not readable", "file replaced on disk", "not an ELF file", "damaged ELF file",
  "no symbol table", "no symbol covers the address", "JIT code without names", "kernel addresses hidden",
  "no kernel symbols", "out of memory or over a limit", "process not readable", "reading the file was given up",
  "mapping replaced meanwhile", "not named in time"];

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  // An unsigned LEB128 number. Above 2^53 it is rounded: 104 days in nanoseconds.
  number() {
    let value = 0, unit = 1;
    for (;;) {
      if (this.at >= this.bytes.length)
        throw new Error("the data of this page is cut off");
      const byte = this.bytes[this.at++];
      value += (byte & 127) * unit;
      if (byte < 128)
        return value;
      unit *= 128;
    }
  }

  // Numbers of equal width: their low bytes come first, then the next bytes.
  column(Type, n) {
    const width = n ? this.number() : 0, {bytes, at} = this;
    if (n * width > bytes.length - at)
      throw new Error("the data of this page is cut off");
    const ret = new Type(n);
    for (let k = 0, unit = 1; k < width; k++, unit *= 256)
      for (let i = 0; i < n; i++)
        ret[i] += bytes[at + k * n + i] * unit;
    this.at += n * width;
    return ret;
  }

  signedColumn(n) {
    return this.column(Float64Array, n).map(unzigzag);
  }

  // Numbers as differences from the one before.
  steps(n) {
    const ret = new Uint32Array(n);
    this.signedColumn(n).forEach((v, i) => ret[i] = v + (i ? ret[i - 1] : 0));
    return ret;
  }

  // Places among the numbers that were met in the same group, and those numbers. Returns (group) => the next number.
  places(n, read) {
    const places = this.column(Uint32Array, n), fresh = read(places.reduce((sum, v) => sum + !v, 0)), met = [];
    let at = 0, next = 0;
    return (group) => {
      const place = places[at++], of = met[group] = met[group] || [];
      if (!place)
        of.push(fresh[next++]);
      return of[place ? place - 1 : of.length - 1];
    };
  }

  signed() {
    return unzigzag(this.number());
  }
}

function unzigzag(v) {
  return v % 2 ? -(v + 1) / 2 : v / 2;
}

function readStrings(r) {
  const lengths = r.column(Uint32Array, r.number()), decoder = new TextDecoder();
  return Array.from(lengths, (n) => decoder.decode(r.bytes.subarray(r.at, r.at += n)));
}

function readNodes(r, frameCount) {
  const n = r.number() + 1, up = r.column(Uint32Array, n - 1);
  const nodes = {n, parent: new Int32Array(n), frame: new Int32Array(n), depth: new Int32Array(n)};
  const next = r.places(n - 1, (many) => r.column(Uint32Array, many)); // of the frames below a frame
  nodes.parent[0] = nodes.frame[0] = -1;
  for (let i = 1; i < n; i++) {
    let parent = i - 1;
    for (let k = up[i - 1]; k > 0; k--)
      parent = nodes.parent[parent];
    const frame = next(parent ? nodes.frame[parent] : frameCount);
    if (!(frame < frameCount))
      throw new Error("the data of this page is damaged");
    nodes.parent[i] = parent;
    nodes.frame[i] = frame;
    nodes.depth[i] = nodes.depth[parent] + 1;
  }
  return nodes;
}

// A value but the count: of one event it is one of few in its set; of more it is near their number times the period.
function readValues(r, samples, period) {
  const many = samples.count.reduce((sum, v) => sum + (v !== 1), 0), rest = r.signedColumn(many);
  const next = r.places(samples.n - many, (n) => r.signedColumn(n).map((v) => v + period));
  let at = 0;
  return samples.count.map((count, i) => count === 1 ? next(samples.set[i]) : rest[at++] + count * period);
}

// The time line: null without one. Events of an on-CPU sample are worth the same.
function readTimes(r, samples) {
  const n = r.number(), lost = r.number();
  if (!n)
    return null;
  const slice = r.number(), many = r.signedColumn(samples.n).map((v, i) => v + samples.count[i]);
  const start = r.column(Float64Array, n), duration = r.column(Float64Array, n);
  const sample = new Uint32Array(n), value = new Float64Array(n), whole = samples.values[samples.values.length - 1];
  let i = 0;
  for (let k = 0; k < samples.n; k++) {
    const each = whole[k] / (samples.values.length > 1 ? Math.max(many[k], samples.count[k]) : many[k]);
    for (let left = many[k], at = 0; left > 0 && i < n; left--, i++) {
      at += start[i];
      start[i] = at * slice / TIME_ROWS;
      sample[i] = k;
      value[i] = duration[i] || each;
    }
  }
  if (i < n)
    throw new Error("the data of this page is damaged");
  return {n, lost, slice, start, sample, duration, value};
}

function readProfile(r, strings) {
  const text = () => strings[r.number()];
  const p = {title: text()};
  p.heading = `${p.title} flame graph`;
  p.types = Array.from({length: r.number()}, () => ({name: text(), unit: text()}));
  p.defaultType = r.number();
  p.timeNs = r.number();
  p.durationNs = r.number();
  p.period = r.number();
  p.comments = Array.from({length: r.number()}, text);
  const n = r.number();
  const f = p.frames = {n, name: r.steps(n), file: r.steps(n), line: r.column(Float64Array, n), module: r.column(Uint32Array, n)};
  f.buildId = Uint32Array.from(r.signedColumn(n), (v, i) => v + f.module[i]);
  f.kind = r.column(Uint8Array, n);
  f.reason = r.column(Uint8Array, n);
  p.nodes = readNodes(r, n);
  p.labels = Array.from({length: r.number()}, () => {
    const key = text(), id = r.number();
    return {key, text: id ? strings[id] : String(r.signed())};
  });
  p.sets = Array.from({length: r.number()}, () => Uint32Array.from({length: r.number()}, () => r.number()));
  p.amounts = Array.from({length: r.number()}, () => ({name: text(), unit: text()}));
  const s = p.samples = {n: r.number()};
  s.node = r.column(Uint32Array, s.n);
  for (let i = 1; i < s.n; i++)
    s.node[i] += s.node[i - 1];
  s.set = r.column(Uint32Array, s.n);
  s.count = r.column(Float64Array, s.n);
  s.values = p.types.map((_, i) => i ? readValues(r, s, p.period) : s.count);
  for (const a of p.amounts)
    a.values = r.column(Float64Array, s.n);
  p.times = readTimes(r, s);
  p.strings = strings;
  return p;
}

function readData(bytes) {
  const magic = "PAFLAME3", r = new Reader(bytes);
  if (new TextDecoder().decode(bytes.subarray(0, magic.length)) !== magic)
    throw new Error("the data of this page has another version");
  r.at = magic.length;
  const strings = readStrings(r), names = Array.from({length: r.number()}, () => strings[r.number()]);
  const profiles = Array.from({length: r.number()}, () => readProfile(r, strings));
  if (!names.length)
    return profiles;
  const merged = mergeProfiles(...profiles, names);
  profiles.forEach((p, i) => {
    p.heading += i ? ", after" : ", before";
    p.title = i ? "After" : "Before";
  });
  return [merged, ...profiles];
}

// Base 85: digits from "#" on, without "<" and "\\"; five are four bytes, and n + 1 at the end are n.
function unpackDigits(text) {
  const bytes = new Uint8Array(Math.floor(text.length * 4 / 5));
  for (let i = 0, at = 0; i < text.length; i += 5, at += 4) {
    let v = 0;
    for (let k = i; k < i + 5; k++) {
      const c = k < text.length ? text.charCodeAt(k) : 121;
      v = v * 85 + c - 35 - (c > 60) - (c > 92);
    }
    for (let k = 3; k >= 0; k--, v = Math.floor(v / 256))
      bytes[at + k] = v % 256;
  }
  return bytes;
}

async function unpackData(text) {
  if (typeof DecompressionStream === "undefined")
    throw new Error("this browser cannot unpack the data; Chrome 80, Firefox 113, Safari 16.4 and later can");
  const stream = new Blob([unpackDigits(text.trim())]).stream().pipeThrough(new DecompressionStream("deflate"));
  return readData(new Uint8Array(await new Response(stream).arrayBuffer()));
}
