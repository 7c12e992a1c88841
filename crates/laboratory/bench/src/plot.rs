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
mod bars;
mod frame;
mod svg;

use std::fmt::Write as _;

pub use axis::{Axis, Scale, Unit};
pub use bars::{BarChart, Group};
pub use farside_apps::svg::escape;

use axis::Domain;
use frame::{Frame, Texts};

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
            self.x.padded(points().map(|(x, _)| x)).zip(self.y.rounded(points().map(|(_, y)| y)));

        let y_ticks = domains.map(|(_, y)| self.y.ticks(&y)).unwrap_or_default();
        let texts = Texts {
            title: &self.title,
            subtitle: &self.subtitle,
            x_label: &frame::label(&self.x),
            y_label: &frame::label(&self.y),
            names: self.series.iter().map(|series| series.name.as_str()).collect(),
            x_tick_height: frame::tick_height(),
            left_least: 0.0,
        };
        let mut frame = Frame::new(&texts, &y_ticks);
        if let Some((x, y)) = domains {
            frame.area();
            frame.y_axis(&y, &y_ticks);
            frame.x_axis(&x, &self.x.ticks(&x));
            if y.base() > 0.0 {
                frame.zero_line(y.base());
            }
            frame.edges();
            self.draw_series(&mut frame, &x, &y);
        } else {
            frame.empty();
        }
        frame.legend(|drawing, index, (from, to), y| {
            drawing.curve(&[(from, y), (to, y)], index, self.series[index].dashed);
            drawing.marker("sample", ((from + to) / 2.0, y), index, "");
        });
        frame.drawing.finish()
    }

    fn draw_series(&self, frame: &mut Frame, x: &Domain, y: &Domain) {
        let place = |frame: &Frame, point: &(f64, f64)| -> Option<(f64, f64)> {
            Some((frame.x(x.fraction(point.0)?), frame.y(y.fraction(point.1)?)))
        };
        for (index, series) in self.series.iter().enumerate().rev() {
            let places: Vec<_> = series.points.iter().map(|point| place(frame, point)).collect();
            for run in places.split(Option::is_none).filter(|run| run.len() > 1) {
                let run: Vec<_> = run.iter().copied().flatten().collect();
                frame.drawing.curve(&run, index, series.dashed);
            }
        }
        // Markers lie above all lines, and the first series, usually the one of interest, above the
        // others.
        for (index, series) in self.series.iter().enumerate().rev() {
            for point in &series.points {
                if let Some(at) = place(frame, point) {
                    let (x, y) = (self.x.unit.format(point.0), self.y.unit.format(point.1));
                    frame.drawing.marker(
                        "marker",
                        at,
                        index,
                        &format!("{}: {x}, {y}", series.name),
                    );
                }
            }
        }
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
        writeln!(page, "<dt>{key}</dt><dd>{value}</dd>").expect(INFALLIBLE);
    }
    page.push_str("</dl>\n");
    if plots.is_empty() {
        page.push_str("<p>No plots.</p>\n");
    } else {
        page.push_str("<nav>\n<ol>\n");
        for (number, (caption, _)) in (1..).zip(plots) {
            writeln!(page, "<li><a href=\"#plot{number}\">{}</a></li>", escape(caption.as_ref()))
                .expect(INFALLIBLE);
        }
        page.push_str("</ol>\n</nav>\n<main>\n");
        for (number, (caption, file)) in (1..).zip(plots) {
            let (caption, file) = (escape(caption.as_ref()), url(file.as_ref()));
            write!(
                page,
                "<figure id=\"plot{number}\">\n<a href=\"{file}\"><img src=\"{file}\" \
                 alt=\"{caption}\"></a>\n\
                 <figcaption>{caption}</figcaption>\n</figure>\n"
            )
            .expect(INFALLIBLE);
        }
        page.push_str("</main>\n");
    }
    page.push_str("</body>\n</html>\n");
    page
}

const INFALLIBLE: &str = "writing to a string cannot fail";

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
            write!(out, "%{byte:02X}").expect(INFALLIBLE);
        }
    }
    out
}

#[cfg(test)]
mod tests;
