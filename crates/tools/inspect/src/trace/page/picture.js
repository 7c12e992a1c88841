// Draws what is in view, on two canvases.

let planned = false;
function plan() {
  writeAddress();
  if (planned) return;
  planned = true;
  requestAnimationFrame(() => { planned = false; draw(); });
}

function draw() {
  settle();
  pen.clearRect(0, 0, size.width, size.height);
  const first = Math.max(0, Math.floor(size.top / size.row));
  const last = Math.min(rows.length, Math.ceil((size.top + size.height - AXIS) / size.row));
  drawBands(first, last);
  const step = drawGrid();
  pen.save();
  pen.beginPath();
  pen.rect(size.labels, AXIS, size.width - size.labels, size.height - AXIS);
  pen.clip();
  let shown = 0;
  for (let row = first; row < last; row++) shown += drawRow(row);
  const drawn = drawArrows();
  drawPointed();
  pen.restore();
  drawLabels(first, last);
  drawAxis(step);
  drawOverview();
  drawStatus(shown, drawn);
}

function drawBands(first, last) {
  pen.fillStyle = colours.band;
  for (let row = first; row < last; row++) {
    if (row % 2) pen.fillRect(0, yOf(row), size.width, size.row);
  }
}

// The times of the grid's lines: as many as there is room for labels.
function drawGrid() {
  pen.font = FONT;
  let step = 1;
  for (let decade = 1; ; decade *= 10) {
    const found = [1, 2, 5].map((digit) => digit * decade).find((candidate) => {
      const label = Math.max(pen.measureText(tickName(view.to, candidate)).width, 40);
      return candidate * size.scale >= label + 34;
    });
    if (found) { step = found; break; }
  }
  pen.fillStyle = colours.line;
  for (let time = Math.ceil(view.from / step) * step; time <= view.to; time += step) {
    const x = Math.round(xOf(time));
    if (x >= size.labels) pen.fillRect(x, AXIS - 5, 1, size.height);
  }
  return step;
}
function drawAxis(step) {
  pen.fillStyle = colours.panel;
  pen.fillRect(0, 0, size.width, AXIS);
  pen.fillStyle = colours.strong;
  pen.fillRect(0, AXIS - 1, size.width, 1);
  pen.textBaseline = "middle";
  pen.textAlign = "center";
  const half = (name) => pen.measureText(name).width / 2;
  const cursor = view.cursor !== null && view.cursor >= size.labels
      ? timeName(timeOf(view.cursor)) : null;
  const width = cursor ? 2 * half(cursor) + 14 : 0;
  const left = cursor ?
      Math.max(size.labels, Math.min(view.cursor - width / 2, size.width - width)) : Infinity;
  for (let time = Math.ceil(view.from / step) * step; time <= view.to; time += step) {
    const name = tickName(time, step), x = xOf(time), reach = half(name);
    pen.fillStyle = colours.strong;
    if (x >= size.labels) pen.fillRect(Math.round(x), AXIS - 6, 1, 5);
    pen.fillStyle = colours.quiet;
    const covered = x + reach > left - 4 && x - reach < left + width + 4;
    const fits = x - reach > size.labels && x + reach < size.width - 4;
    if (!covered && fits) pen.fillText(name, x, AXIS / 2 - 1);
  }
  if (!cursor) return;
  pen.fillStyle = colours.text;
  pen.fillRect(Math.round(view.cursor), AXIS - 6, 1, 6);
  pen.fillRect(left, 2, width, AXIS - 8);
  pen.fillStyle = colours.page;
  pen.fillText(cursor, left + width / 2, AXIS / 2 - 1);
}

const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "\u00b5s"], [1, "ns"]];
const grouped = (value, digits) => value.toLocaleString("en",
    { minimumFractionDigits: digits, maximumFractionDigits: digits });
function tickName(time, step) {
  if (Math.abs(time) < step / 2) return "0";
  const [unit, name] = UNITS.find(([unit]) => step >= unit / 10) || UNITS[3];
  return grouped(time / unit, step < unit ? 1 : 0) + " " + name;
}
function timeName(ns) {
  const [unit, name] = UNITS.find(([unit]) => Math.abs(ns) >= unit) || UNITS[3];
  return grouped(ns / unit, unit === 1 ? 0 : 3) + " " + name;
}
function bytesName(bytes) {
  if (bytes < 1024) return bytes + " B";
  const power = Math.min(Math.floor(Math.log2(bytes) / 10), 4);
  const short = bytes / 1024 ** power;
  return grouped(short, Number.isInteger(short) ? 0 : 1) + " " +
      ["", "KiB", "MiB", "GiB", "TiB"][power] + " (" + grouped(bytes, 0) + " B)";
}

// The first of a row's operations that ends at or after a time.
function search(list, time) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (end[list[middle]] < time) low = middle + 1; else high = middle;
  }
  return low;
}

// Bars of a row. Those narrower than a pixel share it, one above the other: a few fill it, so that
// they are seen; of many each kind is as high as its part of the pixel's time is long. There can be
// so many that they are painted as pixels, into a strip as wide as the chart, drawn as one.
const FEW = 3;
const strip = { canvas: document.createElement("canvas"), pixels: null, words: null, inks: [] };
const parts = new Float64Array(KINDS);

function prepareStrip() {
  const ink = strip.canvas.getContext("2d");
  [strip.canvas.width, strip.canvas.height] = [Math.max(size.width, 1), Math.max(barHeight(), 1)];
  strip.pixels = ink.createImageData(strip.canvas.width, strip.canvas.height);
  strip.words = new Uint32Array(strip.pixels.data.buffer);
  strip.inks = trace.kinds.map((kind) => {
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colours[kind].slice(at, at + 2), 16));
    return new Uint32Array(new Uint8Array([red, green, blue, 255]).buffer)[0];
  });
}
function paintColumn(pixel, count) {
  const [width, height] = [strip.canvas.width, strip.canvas.height];
  if (pixel >= width) return;
  let sum = 0, filled = 0;
  for (let kind = 0; kind < KINDS; kind++) sum += parts[kind];
  const full = count > FEW ? Math.max(sum, 1) : sum;
  for (let kind = 0; kind < KINDS; kind++) {
    filled += (parts[kind] / full) * height;
    parts[kind] = Math.round(filled);
  }
  for (let kind = 0, y = 0; kind < KINDS; kind++) {
    for (; y < parts[kind]; y++) strip.words[(height - 1 - y) * width + pixel] = strip.inks[kind];
  }
  parts.fill(0);
}
function drawStrip(top) {
  strip.canvas.getContext("2d").putImageData(strip.pixels, 0, 0);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(strip.canvas, 0, top);
  strip.words.fill(0);
}
function drawRow(row) {
  const list = rows[row].list, top = barTop(row), height = barHeight(), factor = size.scale;
  let shown = 0, pixel = -1, sharing = 0, painted = false;
  const flush = () => {
    if (pixel >= 0) paintColumn(pixel, sharing);
    painted ||= pixel >= 0;
    [pixel, sharing] = [-1, 0];
  };
  for (let at = search(list, view.from); at < list.length && begin[list[at]] <= view.to; at++) {
    const i = list[at], kind = trace.kind[i];
    if (view.hidden[kind]) continue;
    shown++;
    const x = xOf(begin[i]), width = (end[i] - begin[i]) * factor;
    if (width < 1.5) {
      if (Math.floor(x) !== pixel) flush();
      pixel = Math.max(0, Math.floor(x));
      parts[kind] += Math.max(width, 1e-3);
      sharing++;
      continue;
    }
    flush();
    const left = Math.max(x, size.labels - 2), right = Math.min(x + width, size.width + 2);
    pen.fillStyle = colours[trace.kinds[kind]];
    // A hair of space keeps neighbours of one kind apart.
    pen.fillRect(left, top, Math.max(right - left - (width > 4 ? 0.8 : 0), 0.7), height);
    drawName(i, left, right, top + height / 2);
  }
  flush();
  if (painted) drawStrip(top);
  return shown;
}
function drawName(i, left, right, middle) {
  const kind = trace.kinds[trace.kind[i]];
  // Waiting is known by its colour; its name on every bar would drown the others.
  if (right - left < (kind === "wait" ? 100 : 34) || barHeight() < 10) return;
  const to = trace.peer[i] >= 0 && trace.peer[i] !== trace.track[i]
      ? (isServed(i) ? " \u2190 " : " \u2192 ") + trace.peer[i] : "";
  pen.font = "11px system-ui, sans-serif";
  const name = [kind + to, kind].find((name) => pen.measureText(name).width + 10 < right - left);
  if (!name) return;
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  pen.fillStyle = kind === "wait" ? colours.quiet : colours.page;
  pen.fillText(name, left + 5, middle + 0.5);
}

// Whether an arrow crosses what is in view.
function inView(i) {
  if (view.hidden[trace.kind[i]] || lands[i] < view.from || begin[i] > view.to) return false;
  const [a, b] = [yOf(rowOf(i)), yOf(firstRow[trace.peer[i]])];
  return Math.max(a, b) + size.row > AXIS && Math.min(a, b) < size.height;
}
// Draws the arrows in view, if they are few enough to tell apart; the result is how many.
function drawArrows() {
  const seen = [];
  for (const i of arrows) {
    if (begin[i] > view.to) break;
    if (inView(i) && seen.push(i) > ARROWS_MAX) return "hidden";
  }
  const strength = Math.max(0.4, Math.min(0.95, 6 / Math.sqrt(seen.length + 1)));
  for (const i of seen) drawArrow(i, strength, 1.1);
  return seen.length;
}
function drawArrow(i, strength, thickness) {
  const from = rowOf(i), to = firstRow[trace.peer[i]], down = to > from ? 1 : -1;
  const [x, y] = [xOf(begin[i]), barTop(from) + (down > 0 ? barHeight() : 0)];
  const [tipX, tipY] = [xOf(lands[i]), barTop(to) + (down > 0 ? 0 : barHeight())];
  const length = Math.hypot(tipX - x, tipY - y) || 1,
      [ux, uy] = [(tipX - x) / length, (tipY - y) / length];
  const head = Math.min(8, length / 2), known = trace.landed[i] >= 0;
  pen.save();
  pen.globalAlpha = strength;
  pen.strokeStyle = pen.fillStyle = colours[trace.kinds[trace.kind[i]]];
  pen.lineWidth = thickness;
  pen.setLineDash(known ? [] : [3, 3]);
  pen.beginPath();
  pen.moveTo(x, y);
  pen.lineTo(tipX - ux * head * 0.8, tipY - uy * head * 0.8);
  pen.stroke();
  pen.setLineDash([]);
  pen.beginPath();
  pen.moveTo(tipX, tipY);
  pen.lineTo(tipX - ux * head - uy * head * 0.42, tipY - uy * head + ux * head * 0.42);
  pen.lineTo(tipX - ux * head + uy * head * 0.42, tipY - uy * head - ux * head * 0.42);
  pen.closePath();
  if (known) pen.fill(); else pen.stroke();
  pen.restore();
}
function drawPointed() {
  if (view.cursor !== null && view.cursor >= size.labels) {
    pen.fillStyle = colours.strong;
    pen.fillRect(Math.round(view.cursor), AXIS, 1, size.height);
  }
  const i = view.pointed;
  if (i < 0) return;
  const width = Math.max((end[i] - begin[i]) * size.scale, 2);
  pen.strokeStyle = colours.text;
  pen.lineWidth = 1.5;
  pen.strokeRect(xOf(begin[i]) - 1, barTop(rowOf(i)) - 1, width + 2, barHeight() + 2);
  if (hasArrow(i)) drawArrow(i, 1, 2.2);
}

function drawLabels(first, last) {
  pen.fillStyle = colours.panel;
  pen.fillRect(0, AXIS, size.labels, size.height);
  pen.font = FONT;
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  for (let row = first; row < last; row++) {
    pen.fillStyle = view.pointed >= 0 && rows[row].track === trace.track[view.pointed]
        ? colours.text : colours.quiet;
    pen.fillText(nameOf(rows[row]), size.labels - 10, yOf(row) + size.row / 2);
  }
  if (nodeCount() > 1) drawNodes(first, last);
  pen.fillStyle = colours.strong;
  pen.fillRect(Math.floor(size.labels) - 1, AXIS, 1, size.height);
}
// A line between nodes, and each node's name, turned, in the middle of what is in sight of it.
function drawNodes(first, last) {
  for (let row = first; row < last; ) {
    const node = trace.nodes[rows[row].track];
    let next = row;
    while (next < last && trace.nodes[rows[next].track] === node) next++;
    const [top, bottom] = [Math.max(yOf(row), AXIS), Math.min(yOf(next), size.height)];
    pen.fillStyle = colours.strong;
    if (row > first) pen.fillRect(0, Math.round(yOf(row)) - 1, size.width, 1);
    pen.save();
    pen.translate(12, (top + bottom) / 2);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "center";
    pen.fillStyle = colours.quiet;
    const fits = (name) => pen.measureText(name).width + 4 < bottom - top;
    const name = ["node " + node, String(node)].find(fits);
    if (name) pen.fillText(name, 0, 0);
    pen.restore();
    row = next;
  }
}

// How many ranks are in which kind of operation over time: a picture that changes only with its
// size, the colours and the choice of kinds.
const crowd = { width: 0, sums: null, picture: document.createElement("canvas"), stale: true };
const CROWD = 45;

function countCrowd(width) {
  crowd.width = width;
  crowd.sums = new Float64Array(width * KINDS);
  const all = whole(), factor = width / (all.to - all.from);
  for (let i = 0; i < COUNT; i++) {
    if (isServed(i)) continue;
    const [from, to] = [(begin[i] - all.from) * factor, (end[i] - all.from) * factor];
    for (let pixel = Math.floor(from); pixel <= Math.min(to, width - 1); pixel++) {
      const part = Math.max(Math.min(to, pixel + 1) - Math.max(from, pixel), 0);
      crowd.sums[pixel * KINDS + trace.kind[i]] += part;
    }
  }
}
// The kinds in their order, upwards; waiting is the last, so that what is below it is the work.
function paintCrowd() {
  sharpen(crowd.picture, crowd.width, CROWD);
  const ink = crowd.picture.getContext("2d");
  const high = rows.filter((row) => row.track < RANKS).length;
  for (let pixel = 0; pixel < crowd.width; pixel++) {
    let bottom = CROWD;
    for (let kind = 0; kind < KINDS; kind++) {
      const tall = view.hidden[kind] ? 0 :
          (crowd.sums[pixel * KINDS + kind] / high) * (CROWD - 4);
      if (tall <= 0) continue;
      ink.fillStyle = colours[trace.kinds[kind]];
      ink.fillRect(pixel, bottom - tall, 1, tall);
      bottom -= tall;
    }
  }
  crowd.stale = false;
}
function drawOverview() {
  const width = overview.parentElement.clientWidth, ink = overview.getContext("2d"), all = whole();
  if (width !== crowd.width) {
    countCrowd(width);
    sharpen(overview, width, CROWD + 1);
    crowd.stale = true;
  }
  if (crowd.stale) paintCrowd();
  ink.clearRect(0, 0, width, CROWD + 1);
  ink.drawImage(crowd.picture, 0, 0, width, CROWD);
  const place = (time) => ((time - all.from) / (all.to - all.from)) * width;
  const [from, to] = [view.from, view.to].map(place);
  if (to - from > width - 2) return;
  ink.fillStyle = colours.page;
  ink.globalAlpha = 0.65;
  ink.fillRect(0, 0, from, CROWD + 1);
  ink.fillRect(to, 0, width - to, CROWD + 1);
  ink.globalAlpha = 1;
  ink.strokeStyle = colours.focus;
  ink.lineWidth = 1.5;
  ink.strokeRect(from, 1, Math.max(to - from, 2), CROWD - 1);
}

function drawStatus(shown, drawn) {
  document.documentElement.dataset.rendered = shown;
  document.documentElement.dataset.arrows = drawn;
  const times = timeName(Math.max(0, view.from)) + " to " + timeName(Math.min(total, view.to));
  const some = shown === COUNT ? "all " + grouped(COUNT, 0) : grouped(shown, 0) + " of " +
      grouped(COUNT, 0);
  const hint = drawn === "hidden" ?
      " \u00b7 too many arrows to show: zoom in, or point at an operation" : "";
  const servers = TRACKS > RANKS ? " and " + (TRACKS - RANKS) + " that serve them" : "";
  const clocks = trace.clockErrorNs ?
      " \u00b7 clocks of different nodes agree within " + timeName(trace.clockErrorNs) : "";
  const text = COUNT ? times + " \u00b7 " + some + " operations on " + RANKS + " ranks" + servers +
      clocks + hint : "Nothing was recorded.";
  if ($("status").textContent !== text) $("status").textContent = text;
  chart.setAttribute("aria-label", "Timeline of " + RANKS + " ranks, " + text);
}
