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

  column(Type, n) {
    if (n > this.bytes.length - this.at)
      throw new Error("the data of this page is cut off");
    const ret = new Type(n);
    for (let i = 0; i < n; i++)
      ret[i] = this.number();
    return ret;
  }

  signed() {
    const v = this.number();
    return v % 2 ? -(v + 1) / 2 : v / 2;
  }
}

function readStrings(r) {
  const lengths = r.column(Uint32Array, r.number()), decoder = new TextDecoder();
  return Array.from(lengths, (n) => decoder.decode(r.bytes.subarray(r.at, r.at += n)));
}

function readNodes(r, frameCount) {
  const n = r.number() + 1, up = r.column(Uint32Array, n - 1);
  const nodes = {n, parent: new Int32Array(n), frame: new Int32Array(n), depth: new Int32Array(n)};
  const met = []; // by frame of the parent: frames below it, in the order in which they were met
  nodes.parent[0] = nodes.frame[0] = -1;
  for (let i = 1; i < n; i++) {
    let parent = i - 1;
    for (let k = up[i - 1]; k > 0; k--)
      parent = nodes.parent[parent];
    const above = parent ? nodes.frame[parent] : frameCount, place = r.number();
    let frame;
    if (place) {
      frame = met[above][place - 1];
    } else {
      frame = r.number();
      (met[above] = met[above] || []).push(frame);
    }
    if (!(frame < frameCount))
      throw new Error("the data of this page is damaged");
    nodes.parent[i] = parent;
    nodes.frame[i] = frame;
    nodes.depth[i] = nodes.depth[parent] + 1;
  }
  return nodes;
}

// The time line: null without one. The value of an event is a correction: of its duration, or of the mean of its sample.
function readTimes(r, samples) {
  const n = r.number(), lost = r.number();
  if (!n)
    return null;
  const slice = r.number(), start = r.column(Float64Array, n), sample = r.column(Uint32Array, n);
  const duration = r.column(Float64Array, n), value = new Float64Array(n), of = new Uint32Array(samples.n);
  for (let i = 0, at = 0; i < n; i++) {
    if (i && !start[i])
      sample[i] += sample[i - 1];
    at += start[i];
    start[i] = at * slice / 100;
    if (sample[i] >= samples.n)
      throw new Error("the data of this page is damaged");
    of[sample[i]]++;
  }
  const whole = samples.values[samples.values.length - 1];
  for (let i = 0; i < n; i++)
    value[i] = (duration[i] || Math.floor(whole[sample[i]] / of[sample[i]])) + r.signed();
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
  p.frames = {n, name: r.column(Uint32Array, n), file: r.column(Uint32Array, n), line: r.column(Float64Array, n),
    module: r.column(Uint32Array, n), buildId: r.column(Uint32Array, n), kind: r.column(Uint8Array, n),
    reason: r.column(Uint8Array, n)};
  p.nodes = readNodes(r, n);
  p.labels = Array.from({length: r.number()}, () => {
    const key = text(), id = r.number();
    return {key, text: id ? strings[id] : String(r.signed())};
  });
  p.sets = Array.from({length: r.number()}, () => r.column(Uint32Array, r.number()));
  p.amounts = Array.from({length: r.number()}, () => ({name: text(), unit: text()}));
  const s = p.samples = {n: r.number()};
  s.node = r.column(Uint32Array, s.n);
  for (let i = 1; i < s.n; i++)
    s.node[i] += s.node[i - 1];
  s.set = r.column(Uint32Array, s.n);
  s.values = p.types.map(() => r.column(Float64Array, s.n));
  s.count = s.values[0];
  for (const a of p.amounts)
    a.values = r.column(Float64Array, s.n);
  p.times = readTimes(r, s);
  p.strings = strings;
  return p;
}

function readData(bytes) {
  const magic = "PAFLAME2", r = new Reader(bytes);
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

async function unpackData(text) {
  if (typeof DecompressionStream === "undefined")
    throw new Error("this browser cannot unpack the data; Chrome 80, Firefox 113, Safari 16.4 and later can");
  const binary = atob(text.trim()), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++)
    bytes[i] = binary.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return readData(new Uint8Array(await new Response(stream).arrayBuffer()));
}
