//! Bar charts: groups of bars side by side, one bar for each series.

use super::axis::{Axis, Domain};
use super::frame::{self, Frame, Texts};
use super::svg::{Anchor, Style, fill};

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
/// A turned label longer than this is cut.
const SLANTED_WIDTH: f64 = 170.0;
/// Share of a group's width that its bars take.
const FILLED: f64 = 0.8;

impl BarChart {
    /// The chart as an SVG document.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let names = self.names();
        let values = || self.groups.iter().flat_map(|group| &group.bars).map(|(_, value)| *value);
        let Some(domain) = self.y.rounded(values()) else {
            let mut frame = self.frame(&names, None, false);
            frame.empty();
            draw_legend(&mut frame);
            return frame.drawing.finish();
        };

        // Whether group labels fit depends on the width that they leave for the groups, so a first
        // layout tells.
        let flat = self.frame(&names, Some(&domain), false);
        let slot = (flat.right - flat.left) / self.groups.len().max(1) as f64;
        let fits = |group: &Group| Style::TICK.width(&group.label) <= slot - 6.0;
        let slanted = !self.groups.iter().all(fits);
        let (numbers, headroom) = self.numbers(pitch(slot, names.len()));
        let domain = domain.with_headroom(headroom / (flat.bottom - flat.top));

        let mut frame = self.frame(&names, Some(&domain), slanted);
        frame.drawing.hatches(names.len());
        frame.area();
        frame.y_axis(&domain, &self.y.ticks(&domain));
        self.draw_groups(&mut frame, &domain, &names, numbers);
        frame.zero_line(domain.base());
        frame.edges();
        self.draw_labels(&mut frame, slanted);
        draw_legend(&mut frame);
        frame.drawing.finish()
    }

    /// Series in the order of first appearance.
    fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for (name, _) in self.groups.iter().flat_map(|group| &group.bars) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }

    fn frame(&self, names: &[&str], domain: Option<&Domain>, slanted: bool) -> Frame {
        let widths = self.groups.iter().map(|group| Style::TICK.width(&group.label));
        let reach = widths.fold(0.0, f64::max).min(SLANTED_WIDTH);
        let (sine, cosine) = SLANT.to_radians().sin_cos();
        let texts = Texts {
            title: &self.title,
            subtitle: &self.subtitle,
            x_label: "",
            y_label: &frame::label(&self.y),
            names: names.to_vec(),
            x_tick_height: if slanted {
                reach * sine + frame::tick_height()
            } else {
                frame::tick_height()
            },
            left_least: if slanted { reach * cosine } else { 0.0 },
        };
        let ticks = domain.map(|domain| self.y.ticks(domain)).unwrap_or_default();
        Frame::new(&texts, &ticks)
    }

    /// How to write the values of bars that have this much room each, and the height it takes.
    fn numbers(&self, pitch: f64) -> (Numbers, f64) {
        let bars = self.groups.iter().flat_map(|group| &group.bars);
        let widths = bars.map(|(_, value)| Style::VALUE.width(&self.y.unit.format(*value)));
        let longest = widths.fold(0.0, f64::max);
        if longest <= pitch {
            (Numbers::Flat, Style::VALUE.leading() + 6.0)
        } else if Style::VALUE.size <= pitch {
            (Numbers::Upright, longest + 10.0)
        } else {
            (Numbers::Hidden, 6.0)
        }
    }

    fn draw_groups(&self, frame: &mut Frame, domain: &Domain, names: &[&str], numbers: Numbers) {
        let slot = (frame.right - frame.left) / self.groups.len() as f64;
        let pitch = pitch(slot, names.len());
        let base = frame.y(domain.base());
        for (index, group) in self.groups.iter().enumerate() {
            let middle = frame.left + (index as f64 + 0.5) * slot;
            let start = middle - pitch * names.len() as f64 / 2.0;
            for (name, value) in &group.bars {
                let (Some(series), Some(fraction)) =
                    (names.iter().position(|known| known == name), domain.fraction(*value))
                else {
                    continue;
                };
                let x = start + series as f64 * pitch;
                let y = frame.y(fraction);
                let shown = self.y.unit.format(*value);
                let note = format!("{name}, {}: {shown}", group.label);
                let corner = (x + pitch * 0.06, y.min(base));
                let size = (pitch * 0.88, (y - base).abs());
                frame.drawing.rect("bar", corner, size, &fill(series), &note);
                numbers.write(frame, (x + pitch / 2.0, y), *value < 0.0, &shown);
            }
        }
    }

    fn draw_labels(&self, frame: &mut Frame, slanted: bool) {
        let slot = (frame.right - frame.left) / self.groups.len() as f64;
        for (index, group) in self.groups.iter().enumerate() {
            let x = frame.left + (index as f64 + 0.5) * slot;
            let y = frame.bottom + 6.0 + Style::TICK.size;
            if slanted {
                // Slanted lines closer than their height would touch: then only every n-th is
                // written.
                let every = (Style::TICK.leading() / SLANT.to_radians().sin() / slot)
                    .ceil()
                    .max(1.0) as usize;
                if index % every == 0 {
                    let style = Style::TICK.anchored(Anchor::End).turned(-SLANT);
                    frame.drawing.text(
                        (x + 4.0, y),
                        style,
                        &style.cut(&group.label, SLANTED_WIDTH),
                    );
                }
            } else {
                frame.drawing.text((x, y), Style::TICK.anchored(Anchor::Middle), &group.label);
            }
        }
    }
}

/// Room for each of `series` bars in a group.
fn pitch(slot: f64, series: usize) -> f64 {
    // A chart of one or two bars looks odd with bars as wide as the sheet.
    (slot * FILLED / series.max(1) as f64).min(90.0)
}

/// How values stand at the ends of their bars.
#[derive(Clone, Copy)]
enum Numbers {
    Flat,
    /// Turned, since the bars are narrow.
    Upright,
    /// Not at all, since the bars are narrower than a letter is high.
    Hidden,
}

impl Numbers {
    fn write(self, frame: &mut Frame, (x, y): (f64, f64), below: bool, shown: &str) {
        let style = Style::VALUE;
        match self {
            Self::Flat => {
                let y = if below { y + 4.0 + style.size } else { y - 5.0 };
                frame.drawing.text((x, y), style.anchored(Anchor::Middle), shown);
            }
            Self::Upright => {
                let (anchor, y) =
                    if below { (Anchor::End, y + 5.0) } else { (Anchor::Start, y - 5.0) };
                frame.drawing.text(
                    (x + style.size * 0.35, y),
                    style.anchored(anchor).turned(-90.0),
                    shown,
                );
            }
            Self::Hidden => {}
        }
    }
}

fn draw_legend(frame: &mut Frame) {
    frame.legend(|drawing, series, (from, to), y| {
        let size = 13.0;
        let corner = ((from + to - size) / 2.0, y - size / 2.0);
        drawing.rect("sample", corner, (size, size), &fill(series), "");
    });
}
