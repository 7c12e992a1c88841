//! Charts as SVG documents, without any dependency: curves, bars and a page that lists them.
//!
//! Every series differs from the others in colour *and* marker, the legend stands beside the data,
//! and a point that cannot be drawn (not finite, or not positive on a logarithmic scale) leaves a
//! gap instead of a wrong line.
//!
//! ```
//! use farside_bench::plot::{Axis, Chart, Scale, Series, Unit};
//!
//! let chart = Chart {
//!     title: "Latency of put".into(),
//!     subtitle: "shm, 2 ranks".into(),
//!     x: Axis::new("message size", Scale::Log2, Unit::Bytes),
//!     y: Axis::new("median latency", Scale::Log10, Unit::Ns),
//!     series: vec![Series::new("farside", vec![(8.0, 12.0), (1024.0, 40.0), (65536.0, 2100.0)])],
//! };
//! assert!(chart.to_svg().starts_with("<svg"));
//! ```

mod axis;
mod sheet;
mod unit;

pub use axis::{Axis, Scale};
pub use farside_apps::svg::escape;
pub use unit::Unit;

use sheet::{END, LEADING, MIDDLE, START, Sheet, TICK, fill, width};

/// One curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// What the legend says.
    pub name: String,
    /// Points `(x, y)`, joined in this order.
    pub points: Vec<(f64, f64)>,
    /// Whether the line is dashed, for limits, predictions and what is not measured here.
    pub dashed: bool,
}

impl Series {
    /// A solid curve.
    #[must_use]
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, dashed: false }
    }

    /// The same curve, dashed.
    #[must_use]
    pub fn dashed(mut self) -> Self {
        self.dashed = true;
        self
    }
}

/// Curves over a numeric axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// The heading.
    pub title: String,
    /// What a reader must know besides: machine, ranks, what was held fixed.
    pub subtitle: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis. A linear one always contains zero.
    pub y: Axis,
    /// The curves, in the order of the legend.
    pub series: Vec<Series>,
}

impl Chart {
    /// The chart as an SVG document.
    #[must_use]
    pub fn to_svg(&self) -> String {
        // A point counts only if both coordinates can be drawn; else an odd x would widen the range
        // for nothing.
        let drawable = |(x, y): &(f64, f64)| {
            self.x.scale.forward(*x).is_some() && self.y.scale.forward(*y).is_some()
        };
        let points =
            || self.series.iter().flat_map(|series| &series.points).copied().filter(drawable);
        let domains =
            self.x.domain(points().map(|(x, _)| x)).zip(self.y.domain(points().map(|(_, y)| y)));
        let names: Vec<&str> = self.series.iter().map(|series| series.name.as_str()).collect();
        let heading = (self.title.as_str(), self.subtitle.as_str());
        let reach = (0.0, TICK * LEADING);
        let mut sheet = Sheet::new(heading, &names, reach, |sheet, index, (x, y)| {
            sheet.curve(&[(x - 17.0, y), (x + 17.0, y)], index, self.series[index].dashed);
            sheet.marker("sample", (x, y), index, "");
        });
        let Some((x, y)) = domains else {
            sheet.empty();
            return sheet.finish();
        };
        let x = x.padded(0.03, 0.03);
        sheet.x_axis(&x, &self.x.title());
        sheet.y_axis(&y, &self.y.title());
        // Markers lie above all lines, and the first series, usually the one of interest, above the
        // others.
        let places: Vec<Vec<Option<(f64, f64)>>> = self
            .series
            .iter()
            .map(|series| {
                let place = |at: &(f64, f64)| {
                    Some((sheet.x(x.fraction(at.0)?), sheet.y(y.fraction(at.1)?)))
                };
                series.points.iter().map(place).collect()
            })
            .collect();
        for (index, places) in places.iter().enumerate().rev() {
            for run in places.split(Option::is_none).filter(|run| run.len() > 1) {
                let run: Vec<_> = run.iter().copied().flatten().collect();
                sheet.curve(&run, index, self.series[index].dashed);
            }
        }
        for (index, series) in self.series.iter().enumerate().rev() {
            for (point, place) in series.points.iter().zip(&places[index]) {
                let (x, y) = (self.x.unit.format(point.0), self.y.unit.format(point.1));
                let note = format!("{}: {x}, {y}", series.name);
                place.iter().for_each(|&place| sheet.marker("marker", place, index, &note));
            }
        }
        sheet.finish()
    }
}

/// Bars that belong together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// What stands below the bars.
    pub label: String,
    /// Name of the series and value of each bar.
    pub bars: Vec<(String, f64)>,
}

/// Groups of bars; a series has the same colour and the same place in every group.
///
/// A value that cannot be drawn (not finite, or not positive on a logarithmic scale) leaves its
/// place empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BarChart {
    /// The heading.
    pub title: String,
    /// What a reader must know besides: machine, ranks, what was held fixed.
    pub subtitle: String,
    /// The axis of the values. A linear one starts at zero.
    pub y: Axis,
    /// Groups from left to right.
    pub groups: Vec<Group>,
}

/// Degrees by which labels are turned that find no room otherwise.
const SLANT: f64 = 35.0;
/// The size of the numbers at the ends of bars.
const NUMBER: f64 = 11.0;

impl BarChart {
    /// The chart as an SVG document.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in self.groups.iter().flat_map(|group| &group.bars) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        let values = || self.groups.iter().flat_map(|group| &group.bars).map(|(_, value)| *value);
        let sheet = |reach: (f64, f64)| {
            let heading = (self.title.as_str(), self.subtitle.as_str());
            Sheet::new(heading, &names, reach, |sheet, index, (x, y)| {
                sheet.rect("sample", (x - 6.5, y - 6.5), (13.0, 13.0), &fill(index), "");
            })
        };
        // Whether labels fit depends on the width that they leave, so a first layout tells.
        let mut drawn = sheet((0.0, TICK * LEADING));
        let Some(domain) = self.y.domain(values()) else {
            drawn.empty();
            return drawn.finish();
        };
        let count = self.groups.len() as f64;
        let widths = self.groups.iter().map(|group| width(&group.label, TICK));
        let longest = widths.fold(0.0, f64::max);
        let slanted = longest > (drawn.right - drawn.left) / count - 6.0;
        if slanted {
            let (sine, cosine) = SLANT.to_radians().sin_cos();
            drawn = sheet((longest * cosine, longest * sine + TICK));
        }
        drawn.hatches();
        let slot = (drawn.right - drawn.left) / count;
        // A chart of one or two bars looks odd with bars as wide as the sheet.
        let pitch = (slot * 0.8 / names.len() as f64).min(90.0);
        let numbers = values().map(|value| width(&self.y.unit.format(value), NUMBER));
        let number = numbers.fold(0.0, f64::max);
        let is_flat = number <= pitch;
        let room = if is_flat { NUMBER * LEADING } else { number } + 10.0;
        let room = room / (drawn.bottom - drawn.top);
        // Without it, a bar of the least value would have no height on a logarithmic scale.
        let below = if domain.base() == 0.0 && self.y.scale == Scale::Linear { 0.0 } else { room };
        let domain = domain.padded(below, room);
        drawn.y_axis(&domain, &self.y.title());
        let base = drawn.y(domain.base());
        for (index, group) in self.groups.iter().enumerate() {
            let middle = drawn.left + (index as f64 + 0.5) * slot;
            for (name, value) in &group.bars {
                let series = names.iter().position(|known| known == name).unwrap_or(0);
                let Some(y) = domain.fraction(*value).map(|fraction| drawn.y(fraction)) else {
                    continue;
                };
                let x = middle + (series as f64 - names.len() as f64 / 2.0) * pitch;
                let shown = self.y.unit.format(*value);
                let (corner, size) =
                    ((x + pitch * 0.06, y.min(base)), (pitch * 0.88, (y - base).abs()));
                let note = format!("{name}, {}: {shown}", group.label);
                drawn.rect("bar", corner, size, &fill(series), &note);
                let (anchor, y) = if y > base { (END, y + 5.0) } else { (START, y - 5.0) };
                if is_flat {
                    let y = if y > base { y + NUMBER } else { y };
                    drawn.text((x + pitch / 2.0, y), NUMBER, MIDDLE, 0.0, &shown);
                } else if pitch >= NUMBER {
                    let x = x + pitch / 2.0 + NUMBER * 0.35;
                    drawn.text((x, y), NUMBER, anchor, -90.0, &shown);
                }
            }
            let y = drawn.bottom + 6.0 + TICK;
            match slanted {
                true => drawn.text((middle + 4.0, y), TICK, END, -SLANT, &group.label),
                false => drawn.text((middle, y), TICK, MIDDLE, 0.0, &group.label),
            }
        }
        drawn.finish()
    }
}

/// A page without scripts or outside resources that shows plots lying beside it, each given as
/// caption and SVG file name. `about` says what a reader must know of them, by key and value.
#[must_use]
pub fn index_html(
    title: &str,
    about: &[(&str, String)],
    plots: &[(impl AsRef<str>, impl AsRef<str>)],
) -> String {
    let title = escape(title);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n\
         <style>\n{PAGE_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    );
    page.push_str("<dl>\n");
    for (key, value) in about {
        let (key, value) = (escape(key), escape(value));
        page += &format!("<dt>{key}</dt><dd>{value}</dd>\n");
    }
    page.push_str("</dl>\n");
    if plots.is_empty() {
        page.push_str("<p>No plots.</p>\n");
    } else {
        page.push_str("<nav>\n<ol>\n");
        for (number, (caption, _)) in (1..).zip(plots) {
            page +=
                &format!("<li><a href=\"#plot{number}\">{}</a></li>\n", escape(caption.as_ref()));
        }
        page.push_str("</ol>\n</nav>\n<main>\n");
        for (number, (caption, file)) in (1..).zip(plots) {
            let (caption, file) = (escape(caption.as_ref()), url(file.as_ref()));
            page += &format!(
                "<figure id=\"plot{number}\">\n<a href=\"{file}\"><img src=\"{file}\" \
                 alt=\"{caption}\"></a>\n\
                 <figcaption>{caption}</figcaption>\n</figure>\n"
            );
        }
        page.push_str("</main>\n");
    }
    page.push_str("</body>\n</html>\n");
    page
}

const PAGE_STYLE: &str = "\
body { margin: 1rem auto; max-width: 120rem; padding: 0 1rem; background: #f6f7f9; color: #1a1a1a;
       font-family: Inter, 'Helvetica Neue', Helvetica, Arial, 'DejaVu Sans', sans-serif; }
h1 { font-size: 1.6rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.2rem 1rem; font-size: 0.9rem; }
dt { color: #4a4a4a; }
dd { margin: 0; overflow-wrap: anywhere; }
nav { margin-bottom: 2rem; columns: 24rem; font-size: 0.95rem; }
nav ol { margin: 0; }
a { color: #0072b2; }
main { display: grid; gap: 1.5rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 40rem), 1fr)); }
figure { margin: 0; background: #ffffff; border: 1px solid #e3e6ea; border-radius: 6px;
  overflow-x: auto; }
img { display: block; width: 100%; min-width: 32rem; height: auto; }
figcaption { padding: 0.6rem 1rem; border-top: 1px solid #e3e6ea; font-size: 0.9rem;
  color: #4a4a4a; }
";

/// A file name as a relative address: what has a meaning in addresses is encoded.
fn url(file: &str) -> String {
    let mut out = String::with_capacity(file.len());
    for byte in file.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out += &format!("%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests;
