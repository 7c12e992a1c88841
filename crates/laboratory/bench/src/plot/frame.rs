//! What every chart has around its data: heading, axes, grid and legend.
//!
//! The frame measures all texts first and gives the data what is left, so that nothing overlaps or
//! is cut off.

use super::axis::{Axis, Domain, Tick};
use super::svg::{Anchor, Drawing, Style};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 560.0;
const MARGIN: f64 = 24.0;
/// Free space between two texts.
const GAP: f64 = 8.0;
/// Width of the sample beside a name in the legend.
const SAMPLE: f64 = 34.0;
/// Names wider than this are broken into lines.
const NAME_WIDTH: f64 = 210.0;
const NAME_GAP: f64 = 7.0;

const GRID: &str = "#e3e6ea";
const GRID_FINE: &str = "#f2f4f6";
const EDGE: &str = "#8a8f96";

pub(super) struct Texts<'a> {
    pub(super) title: &'a str,
    pub(super) subtitle: &'a str,
    pub(super) x_label: &'a str,
    pub(super) y_label: &'a str,
    /// Names in the order of the series.
    pub(super) names: Vec<&'a str>,
    /// Height of what stands between the x axis and its label.
    pub(super) x_tick_height: f64,
    /// Least distance of the data from the left edge, for labels that reach out to the left.
    pub(super) left_least: f64,
}

/// A sheet with the place of the data on it.
pub(super) struct Frame {
    pub(super) drawing: Drawing,
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
    legend: Vec<Vec<String>>,
}

impl Frame {
    /// Lays out and draws all but the axes, the legend samples and the data.
    pub(super) fn new(texts: &Texts<'_>, y_ticks: &[Tick]) -> Self {
        let legend: Vec<_> =
            texts.names.iter().map(|name| Style::LEGEND.wrap(name, NAME_WIDTH)).collect();
        let name_widths = legend.iter().flatten().map(|line| Style::LEGEND.width(line));
        let legend_width = name_widths.fold(0.0, f64::max) + SAMPLE + GAP;
        let right =
            if legend.is_empty() { WIDTH - MARGIN } else { WIDTH - MARGIN * 1.75 - legend_width };

        let title = Style::TITLE.wrap(texts.title, WIDTH - 2.0 * MARGIN);
        let subtitle = Style::SUBTITLE.wrap(texts.subtitle, WIDTH - 2.0 * MARGIN);
        let heading = title.len() as f64 * Style::TITLE.leading()
            + subtitle.len() as f64 * Style::SUBTITLE.leading();
        let top = MARGIN + heading + 14.0;

        let x_label = Style::LABEL.wrap(texts.x_label, right - MARGIN - texts.left_least);
        let below = texts.x_tick_height
            + GAP
            + x_label.len() as f64 * Style::LABEL.leading()
            + MARGIN * 0.75;
        // More names than the sheet holds make it longer instead of the text smaller.
        let height = HEIGHT.max(top + legend_height(&legend) + below);
        let bottom = height - below;

        let y_label = Style::LABEL.wrap(texts.y_label, bottom - top);
        let tick_widths = y_ticks.iter().map(|tick| Style::TICK.width(&tick.label));
        let beside = y_label.len() as f64 * Style::LABEL.leading()
            + GAP
            + tick_widths.fold(0.0, f64::max)
            + GAP;
        let left = (MARGIN * 0.75 + beside).max(texts.left_least);

        let mut frame = Self {
            drawing: Drawing::new(WIDTH, height, texts.title),
            left,
            right,
            top,
            bottom,
            legend,
        };
        frame.heading(&title, &subtitle);
        frame.x_label(&x_label, texts.x_tick_height);
        frame.y_label(&y_label, left - beside);
        frame
    }

    /// From a fraction of the axis to the place on the sheet.
    pub(super) fn x(&self, fraction: f64) -> f64 {
        self.left + fraction * (self.right - self.left)
    }

    /// From a fraction of the axis to the place on the sheet.
    pub(super) fn y(&self, fraction: f64) -> f64 {
        self.bottom - fraction * (self.bottom - self.top)
    }

    /// The plot area without any scale, for a chart without data.
    pub(super) fn empty(&mut self) {
        self.area();
        let middle = ((self.left + self.right) / 2.0, (self.top + self.bottom) / 2.0);
        self.drawing.text(middle, Style::SUBTITLE.anchored(Anchor::Middle), "no data");
        self.edges();
    }

    /// The white ground under grid and data.
    pub(super) fn area(&mut self) {
        let size = (self.right - self.left, self.bottom - self.top);
        self.drawing.rect("plot-area", (self.left, self.top), size, "#ffffff", "");
    }

    pub(super) fn y_axis(&mut self, domain: &Domain, ticks: &[Tick]) {
        for tick in by_weight(ticks) {
            let y = self.y(domain.fraction_at(tick.at));
            let colour = if tick.level == 2 { GRID_FINE } else { GRID };
            self.drawing.line((self.left, y), (self.right, y), colour, 1.0);
        }
        let places = ticks.iter().map(|tick| {
            let y = self.y(domain.fraction_at(tick.at));
            (y, Style::TICK.size)
        });
        for index in readable(ticks, &places.collect::<Vec<_>>()) {
            let y = self.y(domain.fraction_at(ticks[index].at));
            let style = Style::TICK.anchored(Anchor::End);
            self.drawing.text((self.left - GAP, y + style.size * 0.35), style, &ticks[index].label);
        }
    }

    /// Grid lines and labels of a numeric x axis.
    pub(super) fn x_axis(&mut self, domain: &Domain, ticks: &[Tick]) {
        for tick in by_weight(ticks) {
            let x = self.x(domain.fraction_at(tick.at));
            let colour = if tick.level == 2 { GRID_FINE } else { GRID };
            self.drawing.line((x, self.top), (x, self.bottom), colour, 1.0);
        }
        let places = ticks.iter().map(|tick| {
            let x = self.x(domain.fraction_at(tick.at));
            (x, Style::TICK.width(&tick.label) + GAP)
        });
        for index in readable(ticks, &places.collect::<Vec<_>>()) {
            let x = self.x(domain.fraction_at(ticks[index].at));
            self.drawing.line((x, self.bottom), (x, self.bottom + 4.0), EDGE, 1.0);
            let style = Style::TICK.anchored(Anchor::Middle);
            self.drawing.text((x, self.bottom + 6.0 + style.size), style, &ticks[index].label);
        }
    }

    /// The two lines that the data stand on.
    pub(super) fn edges(&mut self) {
        let corner = (self.left, self.bottom);
        self.drawing.line((self.left, self.top), corner, EDGE, 1.2);
        self.drawing.line(corner, (self.right, self.bottom), EDGE, 1.2);
    }

    pub(super) fn zero_line(&mut self, fraction: f64) {
        let y = self.y(fraction);
        self.drawing.line((self.left, y), (self.right, y), EDGE, 1.0);
    }

    /// Names to the right of the data; `sample` draws what stands before the n-th, between two x at
    /// one y.
    pub(super) fn legend(&mut self, mut sample: impl FnMut(&mut Drawing, usize, (f64, f64), f64)) {
        let x = self.right + MARGIN * 0.75;
        let mut y = self.top;
        for (index, lines) in std::mem::take(&mut self.legend).iter().enumerate() {
            let middle = y + Style::LEGEND.leading() / 2.0;
            sample(&mut self.drawing, index, (x, x + SAMPLE), middle);
            for line in lines {
                let base = y + Style::LEGEND.leading() / 2.0 + Style::LEGEND.size * 0.35;
                self.drawing.text((x + SAMPLE + GAP, base), Style::LEGEND, line);
                y += Style::LEGEND.leading();
            }
            y += NAME_GAP;
        }
    }

    fn heading(&mut self, title: &[String], subtitle: &[String]) {
        let mut y = MARGIN;
        for (lines, style) in [(title, Style::TITLE), (subtitle, Style::SUBTITLE)] {
            for line in lines {
                self.drawing.text((MARGIN, y + style.size * 0.85), style, line);
                y += style.leading();
            }
        }
    }

    fn x_label(&mut self, lines: &[String], x_tick_height: f64) {
        let style = Style::LABEL.anchored(Anchor::Middle);
        let middle = (self.left + self.right) / 2.0;
        let mut y = self.bottom + x_tick_height + GAP + style.size * 0.85;
        for line in lines {
            self.drawing.text((middle, y), style, line);
            y += style.leading();
        }
    }

    fn y_label(&mut self, lines: &[String], from: f64) {
        let style = Style::LABEL.anchored(Anchor::Middle).turned(-90.0);
        let middle = (self.top + self.bottom) / 2.0;
        let mut x = from + style.size * 0.85;
        for line in lines {
            self.drawing.text((x, middle), style, line);
            x += style.leading();
        }
    }
}

/// Height of one line of tick labels below the x axis.
pub(super) fn tick_height() -> f64 {
    6.0 + Style::TICK.leading()
}

/// The axis's name with a note if its scale is not linear, since a reader may take it for linear
/// otherwise.
pub(super) fn label(axis: &Axis) -> String {
    use super::axis::Scale;
    match axis.scale {
        _ if axis.label.is_empty() => String::new(),
        Scale::Linear => axis.label.clone(),
        Scale::Log2 | Scale::Log10 => format!("{} (log scale)", axis.label),
    }
}

fn legend_height(legend: &[Vec<String>]) -> f64 {
    let entry = |lines: &Vec<String>| lines.len() as f64 * Style::LEGEND.leading() + NAME_GAP;
    legend.iter().map(entry).sum()
}

/// Ticks with the faint lines first, so that stronger ones lie above.
fn by_weight(ticks: &[Tick]) -> Vec<&Tick> {
    let mut sorted: Vec<_> = ticks.iter().collect();
    sorted.sort_by_key(|tick| std::cmp::Reverse(tick.level));
    sorted
}

/// Which ticks to label so that no two labels touch; `places` gives the middle and the length of
/// each.
fn readable(ticks: &[Tick], places: &[(f64, f64)]) -> Vec<usize> {
    let chosen = |level: u8, stride: i64| -> Vec<usize> {
        let kept = |tick: &Tick| tick.level <= level && tick.index.rem_euclid(stride) == 0;
        (0..ticks.len()).filter(|index| kept(&ticks[*index])).collect()
    };
    let apart = |indices: &[usize]| {
        indices.windows(2).all(|pair| {
            let [(a, a_length), (b, b_length)] = [places[pair[0]], places[pair[1]]];
            (a - b).abs() >= (a_length + b_length) / 2.0
        })
    };
    let with_between = chosen(1, 1);
    if apart(&with_between) {
        return with_between;
    }
    // Main ticks are numbered without gaps, so every stride up to their number keeps one at least.
    let main = chosen(0, 1).len() as i64;
    (1..=main).map(|stride| chosen(0, stride)).find(|indices| apart(indices)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(index: i64, level: u8) -> Tick {
        Tick { at: 0.0, label: String::new(), index, level }
    }

    #[test]
    fn crowded_labels_are_thinned_to_the_rounder_ones() {
        let ticks: Vec<_> = (3..9).map(|index| tick(index, 0)).collect();
        let places: Vec<_> = (0..6).map(|n| (f64::from(n) * 10.0, 15.0)).collect();
        assert_eq!(readable(&ticks, &places), [1, 3, 5]);
    }

    #[test]
    fn labels_between_powers_go_first() {
        let ticks = [tick(0, 0), tick(0, 1), tick(1, 0)];
        assert_eq!(readable(&ticks, &[(0.0, 9.0), (5.0, 9.0), (10.0, 9.0)]), [0, 2]);
        assert_eq!(readable(&ticks, &[(0.0, 4.0), (5.0, 4.0), (10.0, 4.0)]), [0, 1, 2]);
    }
}
