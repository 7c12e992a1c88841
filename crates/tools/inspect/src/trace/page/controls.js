// Pointer, keys, legend, and the start of it all.

// What is under the pointer, forgiving a few pixels.
function find(x, y) {
  const row = Math.floor((y - AXIS + size.top) / size.row);
  if (x < size.labels || y < AXIS || row < 0 || row >= rows.length) return -1;
  const list = rows[row].list, reach = 3 / size.scale, time = timeOf(x);
  let best = -1, nearest = Infinity;
  for (let at = search(list, time - reach); at < list.length && begin[list[at]] <= time + reach;
      at++) {
    const i = list[at], away = Math.max(begin[i] - time, time - end[i], 0);
    if (!view.hidden[trace.kind[i]] && away < nearest) [best, nearest] = [i, away];
  }
  return best;
}
function point(i, x, y) {
  view.pointed = i;
  const tip = $("tip");
  tip.style.display = i < 0 ? "none" : "block";
  plan();
  if (i < 0) return;
  const rankName = (rank) => rank < 0 ? "none" : "rank " + rank;
  const landed = trace.landed[i] < 0
    ? "not recorded"
    : timeName(lands[i]) + " (+" + timeName(lands[i] - begin[i]) + ")";
  const facts = isServed(i) ?
      [["for", rankName(trace.peer[i])], ["memory of", rankName(targets.get(i))]] :
      [["peer", rankName(trace.peer[i])]];
  facts.push(["bytes", bytesName(trace.bytes[i])],
      ["begin", timeName(begin[i])], ["duration", timeName(end[i] - begin[i])]);
  if (hasArrow(i)) facts.push(["landed", landed]);
  const list = document.createElement("dl");
  for (const [name, value] of facts) for (const [tag, text] of [["dt", name], ["dd", value]]) {
    list.appendChild(document.createElement(tag)).textContent = text;
  }
  const title = document.createElement("strong");
  title.textContent = trace.kinds[trace.kind[i]] + " by " + trackName(trace.track[i]) +
      (trace.unfinished.includes(i) ? ", not over" : "");
  tip.replaceChildren(title, list);
  tip.style.left = Math.max(4, Math.min(x + 16, innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = (y + 20 + tip.offsetHeight > innerHeight ? y - tip.offsetHeight - 12 : y + 20) +
      "px";
}
// Goes to the next or previous operation of the same row, for those without a mouse.
function walk(by) {
  const list = rows[view.pointed < 0 ? 0 : rowOf(view.pointed)].list;
  let at = view.pointed < 0 ? search(list, view.from) : list.indexOf(view.pointed) + by;
  while (at >= 0 && at < list.length && view.hidden[trace.kind[list[at]]]) at += by;
  if (at < 0 || at >= list.length) return;
  const i = list[at], span = view.to - view.from;
  if (begin[i] < view.from || begin[i] > view.to) setView(begin[i] - span / 2, begin[i] + span / 2);
  const place = chart.getBoundingClientRect();
  point(i, place.left + xOf(begin[i]), place.top + yOf(rowOf(i)) + size.row);
}

function listenToMouse() {
  let held = null;
  chart.addEventListener("wheel", (event) => {
    // Over the labels the wheel scrolls, as everywhere.
    if (event.offsetX < size.labels) return;
    event.preventDefault();
    const lines = event.deltaMode ? 30 : 1;
    const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (sideways) pan(((event.deltaX || event.deltaY) * lines) / size.width);
    else zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY * lines * 0.0025))),
        timeOf(event.offsetX));
  }, { passive: false });
  chart.addEventListener("pointerdown", (event) => {
    held = { x: event.clientX, y: event.clientY, from: view.from, to: view.to,
        top: $("view").scrollTop };
    chart.setPointerCapture(event.pointerId);
    chart.classList.add("dragged");
    point(-1);
  });
  chart.addEventListener("pointermove", (event) => {
    view.cursor = event.offsetX;
    if (!held) { point(find(event.offsetX, event.offsetY), event.clientX, event.clientY); return; }
    const by = (event.clientX - held.x) / size.scale;
    $("view").scrollTop = held.top - (event.clientY - held.y);
    setView(held.from - by, held.to - by);
  });
  const release = () => { held = null; chart.classList.remove("dragged"); };
  chart.addEventListener("pointerup", release);
  chart.addEventListener("pointercancel", release);
  chart.addEventListener("pointerleave", () => { view.cursor = null; point(-1); });
  chart.addEventListener("dblclick", (event) => {
    const i = find(event.offsetX, event.offsetY);
    if (i < 0) return;
    const reach = Math.max(end[i], lands[i]) - begin[i];
    setView(begin[i] - reach, begin[i] + 2 * reach);
  });
}
function listenToOverview() {
  let start = null;
  const time = (event) => {
    const all = whole();
    return all.from + (event.offsetX / overview.clientWidth) * (all.to - all.from);
  };
  overview.addEventListener("pointerdown",
      (event) => { start = time(event); overview.setPointerCapture(event.pointerId); });
  overview.addEventListener("pointermove", (event) => {
    if (start !== null) setView(Math.min(start, time(event)), Math.max(start, time(event)));
  });
  overview.addEventListener("pointerup", () => { start = null; });
}
function listenToKeys() {
  const keys = {
    "+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1 / 0.7), _: () => zoom(1 / 0.7),
        0: () => setView(whole().from, whole().to),
    ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15),
        ArrowUp: () => $("view").scrollBy(0, -3 * size.row),
        ArrowDown: () => $("view").scrollBy(0, 3 * size.row),
    n: () => walk(1), p: () => walk(-1), Escape: () => point(-1),
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
}
function fillLegend() {
  const counts = new Uint32Array(KINDS);
  for (let i = 0; i < COUNT; i++) counts[trace.kind[i]]++;
  trace.kinds.forEach((kind, index) => {
    if (!counts[index]) return;
    const button = $("legend").appendChild(document.createElement("button"));
    const swatch = button.appendChild(document.createElement("span"));
    swatch.className = "swatch";
    swatch.style.background = "var(--" + kind + ")";
    button.append(kind + " ");
    const count = button.appendChild(document.createElement("span"));
    count.className = "count";
    count.textContent = grouped(counts[index], 0);
    const show = () => button.setAttribute("aria-pressed", String(!view.hidden[index]));
    button.addEventListener("click",
        () => { view.hidden[index] ^= 1; crowd.stale = true; show(); plan(); });
    addEventListener("hashchange", show);
    show();
  });
}

// A canvas that is given a size is empty: it is drawn in the same breath, since a frame may come
// between this and a later one.
const again = () => { measure(); draw(); };
const isResized = () => $("view").clientWidth !== size.width ||
    $("view").clientHeight !== size.height;
decode();
measure();
readAddress();
// Before the legend, which shows what was read.
addEventListener("hashchange", readAddress);
fillLegend();
listenToMouse();
listenToOverview();
listenToKeys();
$("in").addEventListener("click", () => zoom(0.6));
$("out").addEventListener("click", () => zoom(1 / 0.6));
$("fit").addEventListener("click", () => setView(whole().from, whole().to));
$("view").addEventListener("scroll", plan);
// Not at once: the observer takes a change of what it observes for a loop. Its first call is for a
// size that was measured before.
new ResizeObserver(() =>
    requestAnimationFrame(() => { if (isResized()) again(); })).observe($("view"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
draw();
