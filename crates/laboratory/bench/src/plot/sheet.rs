//! The sheet that a chart is drawn on: heading, axes, grid and legend around a place for the data.

use farside_apps::svg::{Document, Number as N, escape};

use super::axis::Domain;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 560.0;
const MARGIN: f64 = 24.0;
/// Free space between two texts.
const GAP: f64 = 8.0;
/// Width of the sample beside a name in the legend.
const SAMPLE: f64 = 34.0;
/// Names wider than this are broken into lines.
const NAME_WIDTH: f64 = 210.0;
/// The sizes of texts.
const TITLE: f64 = 20.0;
const LABEL: f64 = 13.0;
pub(super) const TICK: f64 = 12.0;
/// The distance of two lines of text, relative to their size.
pub(super) const LEADING: f64 = 1.25;

const GRID: &str = "#e3e6ea";
const EDGE: &str = "#8a8f96";

/// Colours that stay apart for the common kinds of colour blindness: Okabe and Ito's without
/// yellow, which white swallows.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#aa4499", "#56b4e9", "#e69f00", "#444444", "#882255"];

/// Marker outlines around the origin.
const MARKERS: [&str; 8] = [
    "M-4.2 0a4.2 4.2 0 1 0 8.4 0a4.2 4.2 0 1 0 -8.4 0z",
    "M-3.8 -3.8H3.8V3.8H-3.8z",
    "M0 -5L4.8 3.6H-4.8z",
    "M0 -5.4L4.6 0L0 5.4L-4.6 0z",
    "M0 5L4.8 -3.6H-4.8z",
    "M-1.5 -5H1.5V-1.5H5V1.5H1.5V5H-1.5V1.5H-5V-1.5H-1.5z",
    "M0 -5L4.8 -1.5L2.9 4.2H-2.9L-4.8 -1.5z",
    "M0 -5.8L1.5 -1.8L5.6 -1.8L2.3 0.9L3.5 4.9L0 2.5L-3.5 4.9L-2.3 0.9L-5.6 -1.8L-1.5 -1.8z",
];

pub(super) struct Sheet {
    svg: Document,
    /// The edges of the place for the data.
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

/// Which end of a text its position names.
pub(super) const START: &str = "start";
pub(super) const MIDDLE: &str = "middle";
pub(super) const END: &str = "end";

impl Sheet {
    /// Lays a sheet out and draws its heading and its legend, where `sample` draws what stands
    /// before the n-th name around a place. `reach` is how far labels below the data go to the left
    /// and down.
    pub(super) fn new(
        (title, subtitle): (&str, &str),
        names: &[&str],
        reach: (f64, f64),
        sample: impl Fn(&mut Sheet, usize, (f64, f64)),
    ) -> Sheet {
        let names: Vec<_> = names.iter().map(|name| wrap(name, LABEL, NAME_WIDTH)).collect();
        let widths = names.iter().flatten().map(|line| width(line, LABEL));
        let legend = widths.reduce(f64::max).map_or(0.0, |names| names + SAMPLE + 3.0 * GAP);
        let line = LABEL * LEADING;
        let headings = [
            (wrap(title, TITLE, WIDTH - 2.0 * MARGIN), TITLE),
            (wrap(subtitle, LABEL, WIDTH - 2.0 * MARGIN), LABEL),
        ];
        let heading = headings.iter().map(|(lines, size)| lines.len() as f64 * size * LEADING);
        let top = MARGIN + heading.sum::<f64>() + 14.0;
        let below = reach.1 + line + 2.0 * GAP + MARGIN * 0.75;
        let lines: usize = names.iter().map(Vec::len).sum();
        // More names than the sheet holds make it longer instead of the text smaller.
        let beside = top + lines as f64 * line + names.len() as f64 * GAP + MARGIN;
        let height = beside.max(HEIGHT + reach.1);
        let (left, right) = (reach.0.max(MARGIN + 5.5 * TICK + line), WIDTH - MARGIN - legend);
        let svg = Document::new(WIDTH, height, title);
        let mut sheet = Sheet { svg, left, right, top, bottom: height - below };
        sheet.rect("sheet", (0.0, 0.0), (WIDTH, height), "#ffffff", "");
        let mut y = MARGIN;
        for (lines, size) in headings {
            for text in lines {
                sheet.text((MARGIN, y + size * 0.85), size, START, 0.0, &text);
                y += size * LEADING;
            }
        }
        let size = (right - left, sheet.bottom - top);
        sheet.rect("plot-area", (left, top), size, "#ffffff", "");
        let (x, mut y) = (right + 2.0 * GAP, top);
        for (index, lines) in names.iter().enumerate() {
            sample(&mut sheet, index, (x + SAMPLE / 2.0, y + line / 2.0));
            for text in lines {
                let place = (x + SAMPLE + GAP, y + line / 2.0 + LABEL * 0.35);
                sheet.text(place, LABEL, START, 0.0, text);
                y += line;
            }
            y += GAP;
        }
        sheet
    }

    /// From a fraction of the axis to the place on the sheet.
    pub(super) fn x(&self, fraction: f64) -> f64 {
        self.left + fraction * (self.right - self.left)
    }

    /// From a fraction of the axis to the place on the sheet.
    pub(super) fn y(&self, fraction: f64) -> f64 {
        self.bottom - fraction * (self.bottom - self.top)
    }

    /// Says that there is nothing to see.
    pub(super) fn empty(&mut self) {
        let middle = ((self.left + self.right) / 2.0, (self.top + self.bottom) / 2.0);
        self.text(middle, LABEL, MIDDLE, 0.0, "no data");
    }

    /// Lines across the data, with their labels, and the axis that they stand at.
    pub(super) fn y_axis(&mut self, domain: &Domain, title: &str) {
        for tick in &domain.ticks {
            let y = self.y(domain.fraction_at(tick.at));
            self.line((self.left, y), (self.right, y), GRID);
            self.text((self.left - GAP, y + TICK * 0.35), TICK, END, 0.0, &tick.label);
        }
        let zero = self.y(domain.base());
        self.line((self.left, zero), (self.right, zero), EDGE);
        self.line((self.left, self.top), (self.left, self.bottom), EDGE);
        let place = (MARGIN * 0.75 + LABEL, (self.top + self.bottom) / 2.0);
        self.text(place, LABEL, MIDDLE, -90.0, title);
    }

    /// Likewise of a numeric axis below the data, with as many labels as there is room for.
    pub(super) fn x_axis(&mut self, domain: &Domain, title: &str) {
        let labelled = domain.ticks.iter().filter(|tick| !tick.label.is_empty());
        let widest = labelled.clone().map(|tick| width(&tick.label, TICK)).fold(0.0, f64::max);
        let each = (self.right - self.left) / labelled.count().max(1) as f64;
        let every = ((widest + GAP) / each).ceil().max(1.0) as usize;
        let mut labels = 0;
        for tick in &domain.ticks {
            let x = self.x(domain.fraction_at(tick.at));
            self.line((x, self.top), (x, self.bottom), GRID);
            let is_labelled = !tick.label.is_empty();
            if is_labelled && labels % every == 0 {
                self.line((x, self.bottom), (x, self.bottom + 4.0), EDGE);
                self.text((x, self.bottom + 6.0 + TICK), TICK, MIDDLE, 0.0, &tick.label);
            }
            labels += usize::from(is_labelled);
        }
        let place =
            ((self.left + self.right) / 2.0, self.bottom + TICK * LEADING + LABEL + 2.0 * GAP);
        self.text(place, LABEL, MIDDLE, 0.0, title);
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str) {
        let (x1, y1, x2, y2) = (N(from.0), N(from.1), N(to.0), N(to.1));
        self.svg.push(format_args!(
            "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" stroke=\"{colour}\"/>\n"
        ));
    }

    /// A rectangle of a class; `note` is shown while the pointer rests on it.
    pub(super) fn rect(
        &mut self,
        class: &str,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        fill: &str,
        note: &str,
    ) {
        let (x, y, width, height, note) = (N(x), N(y), N(width), N(height), escape(note));
        self.svg.push(format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" \
             fill=\"{fill}\"><title>{note}</title></rect>\n"
        ));
    }

    pub(super) fn curve(&mut self, points: &[(f64, f64)], series: usize, dashed: bool) {
        let points: Vec<String> =
            points.iter().map(|&(x, y)| format!("{},{}", N(x), N(y))).collect();
        let dash = if dashed { " stroke-dasharray=\"7 4\"" } else { "" };
        self.svg.push(format_args!(
            "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" \
             stroke-linejoin=\"round\"{dash} points=\"{}\"/>\n",
            COLOURS[series % COLOURS.len()],
            points.join(" ")
        ));
    }

    /// The marker of a series, of a class; `note` is shown while the pointer rests on it. Where
    /// colours start again, markers are shifted, so that no pair repeats among 64.
    pub(super) fn marker(&mut self, class: &str, (x, y): (f64, f64), series: usize, note: &str) {
        // The white rim keeps markers apart where curves meet.
        self.svg.push(format_args!(
            "<path class=\"{class}\" transform=\"translate({} {})\" d=\"{}\" fill=\"{}\" \
             stroke=\"#ffffff\" stroke-width=\"0.9\"><title>{}</title></path>\n",
            N(x),
            N(y),
            MARKERS[(series + series / COLOURS.len()) % MARKERS.len()],
            COLOURS[series % COLOURS.len()],
            escape(note)
        ));
    }

    /// One line of text on the base line at a place, turned by so many degrees.
    pub(super) fn text(
        &mut self,
        (x, y): (f64, f64),
        size: f64,
        anchor: &str,
        turned: f64,
        text: &str,
    ) {
        if text.is_empty() {
            return;
        }
        let (x, y, text) = (N(x), N(y), escape(text));
        let weight = if size == TITLE { " font-weight=\"600\"" } else { "" };
        let turned = match turned == 0.0 {
            true => String::new(),
            false => format!(" transform=\"rotate({turned} {x} {y})\""),
        };
        self.svg.push(format_args!(
            "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" fill=\"#333333\" \
             text-anchor=\"{anchor}\"{weight}{turned}>{text}</text>\n"
        ));
    }

    /// Makes the fills of bars known.
    pub(super) fn hatches(&mut self) {
        for (index, colour) in COLOURS.iter().enumerate() {
            self.svg.push(format_args!(
                "<defs><pattern id=\"hatch{index}\" width=\"6\" height=\"6\" \
                 patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
                 <rect width=\"6\" height=\"6\" fill=\"{colour}\"/>\
                 <rect width=\"2.4\" height=\"6\" fill=\"#ffffff\"/></pattern></defs>\n"
            ));
        }
    }

    pub(super) fn finish(self) -> String {
        self.svg.finish()
    }
}

/// How the n-th series fills a bar: plain, and hatched where colours start again.
pub(super) fn fill(series: usize) -> String {
    match COLOURS.get(series) {
        Some(colour) => (*colour).into(),
        None => format!("url(#hatch{})", series % COLOURS.len()),
    }
}

/// An upper estimate of the drawn width, after the widest font of the family; the viewer chooses
/// the font.
pub(super) fn width(text: &str, size: f64) -> f64 {
    let advance = |letter: char| match letter {
        'i' | 'j' | 'l' | '\'' | '|' | '.' | ',' | ':' | ';' | ' ' => 0.34,
        '/' | '-' | '(' | ')' | '[' | ']' | 'f' | 'r' | 't' | '!' | '"' | 'I' => 0.42,
        'm' | 'M' | 'W' | 'w' | '@' | '%' | '…' => 1.0,
        letter if letter.is_ascii_lowercase() || letter.is_ascii_digit() => 0.64,
        letter if letter < '\u{2000}' => 0.8,
        _ => 1.0,
    };
    text.chars().map(advance).sum::<f64>() * size
}

/// `text` in lines of at most `most`, broken at spaces, or within a word that alone is too long.
fn wrap(text: &str, size: f64, most: f64) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_inclusive(' ') {
        if !line.is_empty() && width(&line, size) + width(word.trim_end(), size) > most {
            lines.push(std::mem::take(&mut line));
        }
        for letter in word.chars() {
            if width(&line, size) > most {
                lines.push(std::mem::take(&mut line));
            }
            line.push(letter);
        }
    }
    lines.push(line);
    lines.retain(|line| !line.trim().is_empty());
    lines
}
