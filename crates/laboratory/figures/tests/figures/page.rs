//! The page, looked at in a browser: every plot has ink, nothing reaches out of the page or lies on
//! something else, at three sizes, in both colour schemes, and after a resize.

use std::path::Path;

use farside_figures::baseline::ProfileBaseline;
use farside_figures::page::page;
use farside_figures::points::Catalogue;
use farside_figures::report::Outcome;
use farside_testing::browser::{Page, browser, found};

/// Looks at the page and writes what it finds into attributes of the document: how many plots there
/// are, how many have no coloured pixels where the data are, how many texts of one plot overlap,
/// how many sections do, and how far the page is wider than the window; once more after the page
/// was made narrower.
const LOOK: &str = r#"
<script>
const seen = document.documentElement.dataset;
const overlaps = (boxes) => {
  let count = 0;
  for (let a = 0; a < boxes.length; a++) for (let b = a + 1; b < boxes.length; b++) {
    const [one, two] = [boxes[a], boxes[b]];
    const wide = Math.min(one.right, two.right) - Math.max(one.left, two.left);
    const high = Math.min(one.bottom, two.bottom) - Math.max(one.top, two.top);
    if (wide > 2 && high > 3) count++;
  }
  return count;
};
const boxes = (of, selector) => [...of.querySelectorAll(selector)]
  .map((one) => one.getBoundingClientRect());
const layout = (name) => {
  seen[name + "Wider"] = document.documentElement.scrollWidth - innerWidth;
  seen[name + "Sections"] = overlaps(boxes(document, "section"));
  seen[name + "Texts"] = [...document.querySelectorAll(".plot svg")]
    .map((svg) => overlaps(boxes(svg, "text:not([transform])"))).filter((count) => count).length;
};
const inked = (svg) => new Promise((done) => {
  const image = new Image();
  const text = new XMLSerializer().serializeToString(svg);
  image.onload = () => {
    const canvas = document.createElement("canvas");
    const size = svg.viewBox.baseVal, scale = 450 / size.width;
    [canvas.width, canvas.height] = [450, size.height * scale];
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    // Where the data are: the legend has its own colours.
    const area = svg.querySelector(".plot-area");
    const place = ["x", "y", "width", "height"].map((key) => area.getAttribute(key) * scale);
    const data = context.getImageData(...place).data;
    let coloured = 0;
    for (let at = 0; at < data.length; at += 4) {
      const [r, g, b] = [data[at], data[at + 1], data[at + 2]];
      if (Math.max(r, g, b) - Math.min(r, g, b) > 60) coloured++;
    }
    // Bars of nothing have no colour, and their numbers say so.
    const bars = [...svg.querySelectorAll(".bar")];
    const isNothing = bars.length && bars.every((bar) => bar.getAttribute("height") < 2);
    done(isNothing || coloured > 12);
  };
  image.onerror = () => done(false);
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
});
(async () => {
  const plots = [...document.querySelectorAll(".plot svg")];
  seen.plots = plots.length;
  seen.sections = document.querySelectorAll("section").length;
  seen.without = document.querySelectorAll("section:not(:has(.plot svg))").length;
  layout("first");
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  seen.scheme = dark ? "dark" : "light";
  seen.ground = getComputedStyle(document.body).backgroundColor;
  const all = await Promise.all(plots.map(inked));
  seen.blank = all.filter((one) => !one).length;
  document.body.style.width = "340px";
  layout("resized");
  seen.looked = "yes";
})();
</script>
"#;

/// Returns the results that are checked in, drawn as a page.
fn drawn() -> String {
    let catalogue = Catalogue::load().unwrap();
    let not_compared = ProfileBaseline::load().unwrap().check_all(&catalogue).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/figures.json");
    let text = std::fs::read_to_string(path).unwrap();
    page(&catalogue, &Outcome::read(&text, &catalogue, &not_compared).unwrap())
}

#[test]
fn every_plot_is_there_at_three_sizes_in_both_schemes_and_after_a_resize() {
    let Some(browser) = browser() else { return };
    let scratch = tempfile::tempdir().unwrap();
    std::fs::write(scratch.path().join("page.html"), drawn() + LOOK).unwrap();
    for page in Page::new(scratch.path(), "page.html").everywhere() {
        let (tag, size) = (page.look(&browser), page.size);
        let at = |name: &str| found(&tag, name);
        let number = |name: &str| at(name).parse::<i64>().unwrap();
        assert_eq!(at("scheme"), if page.is_dark { "dark" } else { "light" }, "{tag}");
        assert_eq!(at("looked"), "yes", "{tag}");
        assert!(number("plots") >= number("sections") && number("sections") > 50, "{tag}");
        for none in ["blank", "without", "first-sections", "resized-sections", "first-texts"] {
            assert_eq!(number(none), 0, "{none} at {size:?}: {tag}");
        }
        assert!(number("first-wider") <= 0 && number("resized-wider") <= 0, "{size:?}: {tag}");
    }
}
