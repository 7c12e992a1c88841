//! The page, opened in a browser that shows it to nobody.

use std::path::Path;

use farside::Topology;
use farside::fabric::tracing::Slice;
use farside_inspect::trace::Recorded;
use farside_testing::browser::{Page, browser, found};

use crate::recording::{RANKS, record, serve, simulate, topology};

const FILE: &str = "trace.html";

/// What a person would do with mouse and keys. Every step writes down what it finds, as attributes
/// of the document; pictures are drawn at once rather than with the next frame, which a browser
/// that shows nothing to anybody may leave out.
const A_PERSON: &str = r##"
<script>
{
const seen = document.documentElement.dataset;
const span = () => view.to - view.from;
const key = (key) => dispatchEvent(new KeyboardEvent("keydown", { key }));
const all = span();
const before = timeOf(700);
const place = chart.getBoundingClientRect();
const clientX = place.left + 700, clientY = place.top + 200;
chart.dispatchEvent(new WheelEvent("wheel", { deltaY: -400, clientX, clientY, cancelable: true }));
draw();
seen.wheelZooms = span() < all && Math.abs(timeOf(700) - before) < span() / 100;
seen.fewer = seen.rendered;
const from = view.from;
key("ArrowRight");
seen.arrowMoves = view.from > from;
const near = span();
key("+");
seen.plusZooms = span() < near;
key("0");
draw();
seen.zeroShowsAll = span() === all;
seen.again = seen.rendered;
key("n");
draw();
seen.tip = document.getElementById("tip").textContent;
document.querySelector("#legend button").click();
draw();
seen.withoutOneKind = seen.rendered;
seen.person = "done";
}
</script>
"##;

/// A person who makes the window higher and lower. After each frame, when it has been shown,
/// somebody looks at the chart's pixels. Until all is done the page is loading, so that the browser
/// does not leave: an image of it comes from an address that never answers.
const A_RESIZE: &str = r##"
<img id="held" src="http://HELD/">
<script>
{
const seen = document.documentElement.dataset;
const pixels = () => chart.getContext("2d").getImageData(0, 0, chart.width, chart.height).data;
const isInked = () => pixels().some((value) => value);
const heights = [700, 500, 640, 400, 620, 450];
[seen.resized, seen.measured, seen.needless, seen.looks, seen.blank] = [heights.length, 0, 0, 0, 0];
const measureOnly = measure, viewed = document.getElementById("view");
const extent = () => viewed.clientWidth + "x" + viewed.clientHeight;
let last = extent();
measure = () => {
  seen.measured++;
  if (extent() === last) seen.needless++;
  last = extent();
  measureOnly();
};
const look = () => { seen.looks++; if (!isInked()) seen.blank++; };
let frames = 0;
const frame = () => {
  if (++frames % 4 === 0) {
    if (!heights.length) { document.getElementById("held").src = "data:,"; return; }
    document.body.style.height = heights.shift() + "px";
  }
  setTimeout(look);
  requestAnimationFrame(frame);
};
requestAnimationFrame(frame);
}
</script>
"##;

/// Somebody who looks at the pixels of both canvases, and at where the parts of the page are: how
/// many rows in sight have no coloured pixels, how many pixels of the overview have a colour,
/// whether the ground is dark, which parts overlap or reach out of the window.
const A_LOOK: &str = r##"
<script>
{
const seen = document.documentElement.dataset;
const isColoured = (data, at) => {
  const [red, green, blue] = [data[at], data[at + 1], data[at + 2]];
  return data[at + 3] > 0 && Math.max(red, green, blue) - Math.min(red, green, blue) > 60;
};
const coloured = (canvas, x, y, width, height) => {
  const ratio = canvas.width / canvas.clientWidth;
  const place = [x, y, width, height].map((one) => Math.floor(one * ratio));
  const data = canvas.getContext("2d").getImageData(...place).data;
  let count = 0;
  for (let at = 0; at < data.length; at += 4) if (isColoured(data, at)) count++;
  return count;
};
const overlap = (one, two) =>
    Math.min(one.right, two.right) - Math.max(one.left, two.left) > 1 &&
    Math.min(one.bottom, two.bottom) - Math.max(one.top, two.top) > 1;
const inSight = rows.map((_, row) => row)
    .filter((row) => yOf(row) >= AXIS && yOf(row) + size.row <= size.height);
seen.rows = inSight.length;
// A rank that waits beside an operation has a second row, all of it grey.
seen.blank = inSight.filter((row) => !rows[row].lane &&
    !coloured(chart, size.labels, yOf(row), size.width - size.labels, size.row)).length;
seen.overview = coloured(overview, 0, 0, overview.clientWidth, CROWD);
const [red, green, blue] = chart.getContext("2d").getImageData(3, 3, 1, 1).data;
seen.ground = Math.max(red, green, blue) < 96 ? "dark" : "light";
const parts = ["header", "#overview", "#view", "footer"].map((part) =>
    document.querySelector(part).getBoundingClientRect());
seen.overlaps = parts.filter((part, at) => at && overlap(part, parts[at - 1])).length;
const texts = [...document.querySelectorAll("header button, h1, footer span")]
    .map((text) => text.getBoundingClientRect());
seen.texts =
    texts.filter((one, at) => texts.slice(at + 1).some((two) => overlap(one, two))).length;
const width = document.body.clientWidth;
seen.outside = [...parts, ...texts].filter((part) => part.right > width + 1).length;
seen.wider = document.documentElement.scrollWidth - innerWidth;
seen.higher = document.documentElement.scrollHeight - innerHeight;
seen.looked = "yes";
}
</script>
"##;

/// A person who looks at what the last rows are called, at the footer, and points at what was
/// executed for others.
const A_READER: &str = r##"
<script>
{
const seen = document.documentElement.dataset;
seen.rows = rows.map(nameOf).join("; ");
seen.status = document.getElementById("status").textContent;
const served = rows.find((row) => row.track >= RANKS).list;
point(served[0], 100, 100);
draw();
seen.tip = document.getElementById("tip").textContent;
seen.anyArrow = arrows.some(isServed);
}
</script>
"##;

/// The document of a page after it has been drawn, `behind` it a person's doings, and at a `place`
/// in it.
fn open(
    name: &str,
    slices: &[Slice],
    topology: &Topology,
    behind: &str,
    place: &str,
) -> Option<String> {
    open_all(name, &Recorded::new(slices, topology), behind, place)
}

/// Likewise, with what was executed for others.
fn open_all(name: &str, recorded: &Recorded<'_>, behind: &str, place: &str) -> Option<String> {
    let browser = browser()?;
    let directory = tempfile::Builder::new().prefix(name).tempdir().unwrap();
    write(directory.path(), recorded, behind);
    // A page that holds itself up needs frames, which do not pass by themselves.
    let has_frames = behind.contains("http:");
    Some(Page { place, has_frames, ..Page::new(directory.path(), FILE) }.look(&browser))
}

fn write(directory: &Path, recorded: &Recorded<'_>, behind: &str) {
    let mut page = Vec::new();
    farside_inspect::trace::page(recorded, "A test", &mut page).unwrap();
    page.extend_from_slice(behind.as_bytes());
    std::fs::write(directory.join(FILE), page).unwrap();
}

/// The value that the page has set for `name`.
fn attribute<'a>(document: &'a str, name: &str) -> Option<&'a str> {
    let (_, value) = document.split_once(&format!(" data-{name}=\""))?;
    value.split_once('"').map(|(value, _)| value)
}

#[test]
fn a_browser_shows_every_operation_and_no_error() {
    let slices = record();
    let Some(document) = open("all", &slices, &topology(), "", "") else { return };
    assert_eq!(attribute(&document, "error"), None);
    assert_eq!(
        attribute(&document, "rendered"),
        Some(slices.len().to_string().as_str()),
        "{document}"
    );
}

#[test]
fn the_address_chooses_the_view() {
    let slices = record();
    let start_ns = slices.iter().map(|slice| slice.begin_ns).min().unwrap();
    let end_ns = slices.iter().map(|slice| slice.end_ns).max().unwrap();
    let (from, to) = ((end_ns - start_ns) / 2, (end_ns - start_ns) / 2 + 10_000);
    let in_view =
        |slice: &&Slice| slice.end_ns - start_ns >= from && slice.begin_ns - start_ns <= to;
    let expected = slices.iter().filter(in_view).count();
    let place = format!("#from={from}&to={to}");
    let Some(document) = open("address", &slices, &topology(), "", &place) else { return };
    assert_eq!(attribute(&document, "error"), None);
    assert_eq!(attribute(&document, "rendered"), Some(expected.to_string().as_str()), "{document}");
}

#[test]
fn mouse_keys_and_legend_change_the_view() {
    let slices = record();
    let Some(document) = open("person", &slices, &topology(), A_PERSON, "") else { return };
    assert_eq!(attribute(&document, "error"), None);
    assert_eq!(attribute(&document, "person"), Some("done"), "{document}");
    for held in ["wheel-zooms", "arrow-moves", "plus-zooms", "zero-shows-all"] {
        assert_eq!(attribute(&document, held), Some("true"), "{held} in {document}");
    }
    let count = |name| attribute(&document, name).unwrap().parse::<usize>().unwrap();
    assert!(count("fewer") < slices.len());
    assert_eq!(count("again"), slices.len());
    let puts = slices.iter().filter(|slice| slice.operation.kind.name() == "put").count();
    assert_eq!(count("without-one-kind"), slices.len() - puts);
    assert!(attribute(&document, "tip").unwrap().contains(" by rank 0peer"), "{document}");
}

#[test]
fn those_who_serve_are_shown_behind_the_ranks_of_their_node() {
    let (slices, topology) = (record(), topology());
    let services = serve(&slices);
    let recorded =
        Recorded { services: &services, clock_error_ns: 21, ..Recorded::new(&slices, &topology) };
    let Some(document) = open_all("served", &recorded, A_READER, "") else { return };
    assert_eq!(attribute(&document, "error"), None);
    let all = slices.len() + services.len();
    assert_eq!(attribute(&document, "rendered"), Some(all.to_string().as_str()), "{document}");
    let of_node = |node: u32| {
        let ranks = (node * RANKS / 2..(node + 1) * RANKS / 2).map(|rank| format!("rank {rank}"));
        let servers = ["agent", "handlers"].map(|what| format!("{what} of node {node}"));
        ranks.chain(servers).collect::<Vec<String>>().join("; ")
    };
    let rows = [of_node(0), of_node(1)].join("; ");
    assert_eq!(attribute(&document, "rows"), Some(rows.as_str()));
    let status = attribute(&document, "status").unwrap();
    assert!(status.contains("on 16 ranks and 4 that serve them"), "{status}");
    assert!(status.contains("clocks of different nodes agree within 21 ns"), "{status}");
    let tip = attribute(&document, "tip").unwrap();
    assert!(tip.contains(" by agent of node 0forrank "), "{tip}");
    assert!(tip.contains("memory ofrank "), "{tip}");
    assert_eq!(attribute(&document, "any-arrow"), Some("false"));
}

#[test]
fn all_is_there_at_every_size_in_both_schemes() {
    let Some(browser) = browser() else { return };
    let (slices, topology) = (simulate(), topology());
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), &Recorded::new(&slices, &topology), A_LOOK);
    for page in Page::new(directory.path(), FILE).everywhere() {
        let (tag, size) = (page.look(&browser), page.size);
        assert_eq!(attribute(&tag, "error"), None);
        assert_eq!(found(&tag, "looked"), "yes", "{tag}");
        let number = |name: &str| found(&tag, name).parse::<i64>().unwrap();
        assert_eq!(found(&tag, "ground"), if page.is_dark { "dark" } else { "light" }, "{tag}");
        assert!(number("rows") >= 8 && number("overview") > 100, "{size:?}: {tag}");
        for none in ["blank", "overlaps", "texts", "outside"] {
            assert_eq!(number(none), 0, "{none} at {size:?}: {tag}");
        }
        assert!(number("wider") <= 0 && number("higher") <= 0, "{size:?}: {tag}");
    }
}

#[test]
fn the_chart_is_never_blank_while_its_size_changes() {
    let slices = record();
    // Nobody accepts, so nobody answers.
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let behind = A_RESIZE.replace("HELD", &held.local_addr().unwrap().to_string());
    let Some(document) = open("resize", &slices, &topology(), &behind, "") else { return };
    assert_eq!(attribute(&document, "error"), None);
    let count = |name| attribute(&document, name).unwrap().parse::<usize>().unwrap();
    assert!(count("looks") >= 4 * count("resized"), "{document}");
    assert_eq!(count("blank"), 0, "{document}");
    assert!(count("measured") >= count("resized"), "{document}");
    assert_eq!(count("needless"), 0, "what has not changed is not measured: {document}");
}

#[test]
fn an_empty_recording_and_many_ranks_make_pages_too() {
    let Some(document) = open("empty", &[], &Topology::flat(3), "", "") else { return };
    assert_eq!(
        (attribute(&document, "error"), attribute(&document, "rendered")),
        (None, Some("0"))
    );
    let slices = record();
    let Some(document) = open("many", &slices, &Topology::flat(50 * RANKS), "", "") else { return };
    assert_eq!(attribute(&document, "error"), None);
    // Those of the ranks in sight, which are not all.
    assert_ne!(attribute(&document, "rendered"), Some("0"));
}
