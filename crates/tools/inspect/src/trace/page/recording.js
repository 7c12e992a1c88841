// The recording, which part of it is in view, and how large things are. The parts of the script
// share one scope, in the order recording, picture, controls.
"use strict";

const $ = (id) => document.getElementById(id);
const trace = JSON.parse($("trace").textContent);
const COUNT = trace.track.length, KINDS = trace.kinds.length;
// Tracks are the ranks, and then those who serve them.
const TRACKS = trace.nodes.length, RANKS = TRACKS - trace.servers.length;
const AXIS = 26, BAR_MIN = 15, BAR_MAX = 46, SPAN_MIN_NS = 20;
// More arrows than this are a hairball: they wait until fewer are in view, or one is pointed at.
const ARROWS_MAX = 160;

// Columns by operation, in the order in which they began.
const begin = new Float64Array(COUNT), end = new Float64Array(COUNT),
    lands = new Float64Array(COUNT);
// Rows, a track's one after the other, and those who serve behind the ranks of their node; the
// operations of one row never overlap, so that they are in order of their ends as well.
const rows = [], firstRow = new Array(TRACKS).fill(0);
const arrows = [];
// For those who serve, the rank on whose memory an operation was executed.
const targets = new Map();
let total = 1;

function decode() {
  const addRows = (track) => {
    firstRow[track] = rows.length;
    for (let lane = 0; lane < trace.lanes[track]; lane++) rows.push({ track, lane, list: [] });
  };
  for (let rank = 0; rank < RANKS; rank++) {
    addRows(rank);
    const node = trace.nodes[rank];
    if (trace.nodes.lastIndexOf(node, RANKS - 1) !== rank) continue;
    for (let track = RANKS; track < TRACKS; track++) {
      if (trace.nodes[track] === node) addRows(track);
    }
  }
  let now = 0, served = 0;
  for (let i = 0; i < COUNT; i++) {
    now += trace.begin[i];
    begin[i] = now;
    end[i] = now + trace.duration[i];
    // Where nobody saw it land, an arrow leads to the target's row at the time of its return, and
    // is dashed.
    lands[i] = trace.landed[i] < 0 ? end[i] : now + trace.landed[i];
    rows[rowOf(i)].list.push(i);
    if (isServed(i)) targets.set(i, trace.targets[served++]);
    if (hasArrow(i)) arrows.push(i);
    total = Math.max(total, end[i], lands[i]);
  }
}
const isServed = (i) => trace.track[i] >= RANKS;
// A flush asks a peer and lands nowhere.
const hasArrow = (i) => !isServed(i) && trace.peer[i] >= 0 && trace.peer[i] !== trace.track[i] &&
    (trace.landed[i] >= 0 || trace.kinds[trace.kind[i]] !== "flush");
const rowOf = (i) => firstRow[trace.track[i]] + trace.lane[i];

// What is shown.
const view = { from: 0, to: 1, hidden: new Uint8Array(KINDS), pointed: -1, cursor: null };
const whole = () => ({ from: -0.01 * total, to: 1.01 * total });

function setView(from, to) {
  const all = whole();
  const span = Math.min(
    Math.max(to - from, SPAN_MIN_NS), Math.max(all.to - all.from, SPAN_MIN_NS));
  const middle = (from + to) / 2;
  view.from = Math.max(all.from, Math.min(middle - span / 2, all.to - span));
  view.to = view.from + span;
  settle();
  plan();
}
function zoom(factor, at = (view.from + view.to) / 2) {
  const span = Math.min(Math.max((view.to - view.from) * factor, SPAN_MIN_NS),
      total * 1.02 + SPAN_MIN_NS);
  const share = (at - view.from) / (view.to - view.from);
  setView(at - share * span, at + (1 - share) * span);
}
const pan = (share) => setView(view.from + share * (view.to - view.from),
    view.to + share * (view.to - view.from));

// The address keeps the view: #from=1000&to=2500&hide=wait,fence&rank=3 (the first rank in sight;
// those who serve are numbered behind the ranks).
function readAddress() {
  const words = new URLSearchParams(location.hash.slice(1));
  const hidden = (words.get("hide") || "").split(",");
  crowd.stale = true;
  trace.kinds.forEach((kind, index) => { view.hidden[index] = hidden.includes(kind) ? 1 : 0; });
  const [from, to] = [parseFloat(words.get("from")), parseFloat(words.get("to"))];
  const all = whole();
  if (from < to) setView(from, to); else setView(all.from, all.to);
  const rank = parseInt(words.get("rank"));
  if (rank >= 0 && rank < TRACKS) $("view").scrollTop = firstRow[rank] * size.row;
}
let addressTimer = 0;
function writeAddress() {
  clearTimeout(addressTimer);
  // Browsers refuse addresses that change more than a hundred times in a few seconds.
  addressTimer = setTimeout(() => {
    const words = [], all = whole();
    const isPart = view.to - view.from < 0.999 * (all.to - all.from);
    if (isPart) words.push("from=" + Math.floor(view.from), "to=" + Math.ceil(view.to));
    const hidden = trace.kinds.filter((kind, index) => view.hidden[index]);
    if (hidden.length) words.push("hide=" + hidden.join(","));
    const top = Math.floor(size.top / size.row);
    if (top > 0) words.push("rank=" + rows[top].track);
    history.replaceState(null, "",
        words.length ? "#" + words.join("&") : location.pathname + location.search);
  }, 300);
}

// How large everything is, in pixels; how far it is scrolled; how many pixels a nanosecond has.
const size = { width: 0, height: 0, labels: 0, row: 1, top: 0, scale: 1 };
const chart = $("chart"), overview = $("overview");
const pen = chart.getContext("2d");
const colours = {};
const FONT = "12px system-ui, sans-serif";

function measure() {
  const style = getComputedStyle(document.documentElement);
  for (const name of [...trace.kinds, "page", "panel", "band", "line", "strong", "text", "quiet",
      "focus"]) {
    colours[name] = style.getPropertyValue("--" + name).trim() || "#888";
  }
  const room = $("view").clientHeight;
  size.row = Math.max(BAR_MIN,
      Math.min(BAR_MAX, Math.floor((room - AXIS) / Math.max(rows.length, 1))));
  size.height = room;
  $("rest").style.height = Math.max(0, rows.length * size.row + AXIS - room) + "px";
  crowd.stale = true;
  size.width = $("view").clientWidth;
  sharpen(chart, size.width, size.height);
  pen.font = FONT;
  size.labels = 22 + Math.max(...rows.map((row) => pen.measureText(nameOf(row)).width), 20) +
      (nodeCount() > 1 ? 18 : 0);
  prepareStrip();
}
function sharpen(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
  canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
}
const nodeCount = () => new Set(trace.nodes).size;
const trackName = (track) => track < RANKS ? "rank " + track : trace.servers[track - RANKS];
const nameOf = (row) => (row.lane ? "\u2033" : trackName(row.track));
// Once for each picture rather than once for each bar: asking the document takes long.
function settle() {
  size.top = $("view").scrollTop;
  size.scale = (size.width - size.labels) / (view.to - view.from);
}
const xOf = (time) => size.labels + (time - view.from) * size.scale;
const timeOf = (x) => view.from + (x - size.labels) / size.scale;
const yOf = (row) => AXIS + row * size.row - size.top;
const barTop = (row) => yOf(row) + Math.round(size.row * 0.16);
const barHeight = () => size.row - 2 * Math.round(size.row * 0.16);
