//! The page of plots, looked at in a browser: every plot and every picture of a program has ink,
//! and nothing reaches out of the page or lies on something else, at three sizes, in both colour
//! schemes, and after a resize.

use std::path::Path;

use farside_apps::shared::{self, Options, Program};
use farside_bench::plot::{Axis, BarChart, Chart, Group, Scale, Series, Unit, index_html};
use farside_testing::browser::{Page, browser, found};

/// Looks at the page and writes what it finds into attributes of the document: how many images
/// there are, how many have no coloured pixels, how many figures overlap, and how far the page is
/// wider than the window; once more after the page was made narrower.
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
const layout = (name) => {
  seen[name + "Wider"] = document.documentElement.scrollWidth - innerWidth;
  const figures = [...document.querySelectorAll("h1, dl, nav, figure")];
  seen[name + "Overlaps"] = overlaps(figures.map((one) => one.getBoundingClientRect()));
};
const isBlank = (image) => {
  if (!image.naturalWidth) return true;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [450, 450 * image.naturalHeight / image.naturalWidth];
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  const data = context.getImageData(0, 0, canvas.width, canvas.height).data;
  let coloured = 0;
  for (let at = 0; at < data.length; at += 4) {
    const [r, g, b] = [data[at], data[at + 1], data[at + 2]];
    if (data[at + 3] > 0 && Math.max(r, g, b) - Math.min(r, g, b) > 60) coloured++;
  }
  return coloured <= 12;
};
addEventListener("load", () => {
  const images = [...document.querySelectorAll("img")];
  seen.images = images.length;
  seen.blank = images.filter(isBlank).map((image) => image.alt).join(", ");
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  seen.scheme = dark ? "dark" : "light";
  layout("first");
  document.body.style.width = "340px";
  layout("resized");
  seen.looked = "yes";
});
</script>
"#;

/// Writes plots of every kind, pictures of programs, and the page of them all. Returns how many
/// there are.
fn draw(directory: &Path) -> usize {
    let points = |factor: f64| (1..8).map(move |at| (f64::from(1 << at), factor * f64::from(at)));
    let chart = |scale| Chart {
        title: "Latency of put".into(),
        subtitle: "shm, 2 ranks".into(),
        x: Axis::new("message size", Scale::Log2, Unit::Bytes),
        y: Axis::new("median latency", scale, Unit::Ns),
        series: vec![
            Series::new("farside", points(10.0).collect()),
            Series::new("limit", points(4.0).collect()).dashed(),
        ],
    };
    let bars = |label: &str| Group {
        label: label.into(),
        bars: vec![("d-mcs".into(), 3.0), ("rma-mcs".into(), 5.0)],
    };
    let bars = BarChart {
        title: "Throughput".into(),
        subtitle: "shm, 2 ranks".into(),
        y: Axis::new("per second", Scale::Linear, Unit::Count),
        groups: vec![bars("ecsb"), bars("sob")],
    };
    let drawn = [
        ("curves.svg", chart(Scale::Linear).to_svg()),
        ("curves on a logarithmic scale.svg", chart(Scale::Log10).to_svg()),
        ("bars.svg", bars.to_svg()),
    ];
    let mut plots = Vec::new();
    for (name, svg) in drawn {
        std::fs::write(directory.join(name), svg).unwrap();
        plots.push((name.to_owned(), name.to_owned()));
    }
    for program in Program::ALL {
        let name = format!("{}.svg", program.name());
        let plot = Some(directory.join(&name).display().to_string());
        let size = match program {
            Program::Fft3d => vec![8, 8, 8],
            Program::Barnes | Program::BarnesZones => vec![100],
            Program::Sor | Program::Jacobi => vec![30, 30],
            Program::Tsp => vec![7],
        };
        let options = Options { size, plot, iterations: 6, turns: 1, ..Options::new(program) };
        farside::local(1, |world| shared::run(world, &options).map(drop)).unwrap();
        plots.push((format!("what {} has computed", program.name()), name));
    }
    let about = [("command", format!("farside bench {}", "words ".repeat(60)))];
    let page = index_html("Plots", &about, &plots);
    std::fs::write(directory.join("index.html"), page + LOOK).unwrap();
    plots.len()
}

#[test]
fn every_plot_and_picture_is_there_at_three_sizes_in_both_schemes_and_after_a_resize() {
    let Some(browser) = browser() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let count = draw(scratch.path());
    for page in Page::new(scratch.path(), "index.html").everywhere() {
        let (tag, size) = (page.look(&browser), page.size);
        let at = |name: &str| found(&tag, name);
        assert_eq!(at("looked"), "yes", "{tag}");
        assert_eq!(at("scheme"), if page.is_dark { "dark" } else { "light" }, "{tag}");
        assert_eq!((at("images"), at("blank")), (count.to_string(), String::new()), "{tag}");
        for which in ["first", "resized"] {
            let number = |name: &str| at(&format!("{which}-{name}")).parse::<i64>().unwrap();
            assert_eq!(number("overlaps"), 0, "{which} at {size:?}: {tag}");
            assert!(number("wider") <= 0, "{which} at {size:?}: {tag}");
        }
    }
}
