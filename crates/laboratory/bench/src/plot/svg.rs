//! The few SVG elements that charts need.

use farside_apps::svg::{Document, Number, escape};

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

pub(super) fn colour(series: usize) -> &'static str {
    COLOURS[series % COLOURS.len()]
}

/// The marker of the n-th series: where colours start again, markers are shifted, so that no pair
/// repeats among 64.
pub(super) fn marker(series: usize) -> &'static str {
    MARKERS[(series + series / COLOURS.len()) % MARKERS.len()]
}

/// How the n-th series fills a bar: plain, and hatched where colours start again.
pub(super) fn fill(series: usize) -> String {
    if series < COLOURS.len() {
        colour(series).into()
    } else {
        format!("url(#hatch{})", series % COLOURS.len())
    }
}

/// Which end of a text its position names.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Clone, Copy)]
pub(super) struct Style {
    pub(super) size: f64,
    pub(super) bold: bool,
    pub(super) colour: &'static str,
    pub(super) anchor: Anchor,
    /// Degrees, clockwise, around the position.
    pub(super) turned: f64,
}

impl Style {
    pub(super) const TITLE: Self = Self::plain(20.0, "#1a1a1a").bold();
    pub(super) const SUBTITLE: Self = Self::plain(13.0, "#5a5a5a");
    pub(super) const LABEL: Self = Self::plain(13.0, "#333333");
    pub(super) const TICK: Self = Self::plain(12.0, "#4a4a4a");
    pub(super) const LEGEND: Self = Self::plain(12.5, "#222222");
    pub(super) const VALUE: Self = Self::plain(11.0, "#333333");

    const fn plain(size: f64, colour: &'static str) -> Self {
        Self { size, bold: false, colour, anchor: Anchor::Start, turned: 0.0 }
    }

    const fn bold(mut self) -> Self {
        self.bold = true;
        self
    }

    pub(super) const fn anchored(mut self, anchor: Anchor) -> Self {
        self.anchor = anchor;
        self
    }

    pub(super) const fn turned(mut self, degrees: f64) -> Self {
        self.turned = degrees;
        self
    }

    /// Distance between two lines of text.
    pub(super) fn leading(&self) -> f64 {
        self.size * 1.25
    }

    /// An upper estimate of the drawn width, after the widest font of the family; the viewer
    /// chooses the font.
    pub(super) fn width(&self, text: &str) -> f64 {
        let em: f64 = text.chars().map(advance).sum();
        em * self.size * if self.bold { 1.1 } else { 1.0 }
    }

    /// `text` in lines of at most `width`, broken at spaces, or within a word that alone is too
    /// long.
    pub(super) fn wrap(&self, text: &str, width: f64) -> Vec<String> {
        let mut lines = vec![String::new()];
        for word in text.split_whitespace() {
            let last = lines.last_mut().expect("lines starts with one entry and only grows");
            let joined = if last.is_empty() { word.into() } else { format!("{last} {word}") };
            if self.width(&joined) <= width {
                *last = joined;
                continue;
            }
            if !last.is_empty() {
                lines.push(String::new());
            }
            for letter in word.chars() {
                let last = lines.last_mut().expect("lines starts with one entry and only grows");
                if !last.is_empty()
                    && self.width(last) + self.width(letter.encode_utf8(&mut [0; 4])) > width
                {
                    lines.push(letter.into());
                } else {
                    last.push(letter);
                }
            }
        }
        lines.retain(|line| !line.is_empty());
        lines
    }

    /// `text`, cut with an ellipsis if it is wider than `width`.
    pub(super) fn cut(&self, text: &str, width: f64) -> String {
        if self.width(text) <= width {
            return text.into();
        }
        let mut kept = String::new();
        for letter in text.chars() {
            kept.push(letter);
            if self.width(&kept) + self.width("…") > width {
                kept.pop();
                break;
            }
        }
        kept.trim_end().to_owned() + "…"
    }
}

/// Width of a character in units of the font size.
fn advance(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' | '\'' | '|' | '.' | ',' | ':' | ';' | ' ' => 0.34,
        '/' | '-' | '(' | ')' | '[' | ']' | 'f' | 'r' | 't' | '!' | '"' | 'I' => 0.42,
        'm' | 'M' | 'W' | '@' | '%' | '…' => 1.0,
        'w' | '+' | '=' | '<' | '>' => 0.84,
        'A'..='Z' | '&' => 0.74,
        letter if letter.is_ascii() => 0.64,
        letter if letter < '\u{2000}' => 0.75,
        _ => 1.0,
    }
}

pub(super) struct Drawing(Document);

impl Drawing {
    /// An empty white sheet; `title` is what a screen reader says.
    pub(super) fn new(width: f64, height: f64, title: &str) -> Self {
        let mut drawing = Self(Document::new(width, height, title));
        let (width, height) = (Number(width), Number(height));
        drawing
            .push(format_args!("<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"));
        drawing
    }

    /// Makes the hatched fills of `series` bars known.
    pub(super) fn hatches(&mut self, series: usize) {
        let hatched = series.saturating_sub(COLOURS.len()).min(COLOURS.len());
        for (index, colour) in COLOURS.iter().enumerate().take(hatched) {
            self.push(format_args!(
                "<defs><pattern id=\"hatch{index}\" width=\"6\" height=\"6\" \
                 patternUnits=\"userSpaceOnUse\" \
                 patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"{colour}\"/>\
                 <rect width=\"2.4\" height=\"6\" fill=\"#ffffff\"/></pattern></defs>\n"
            ));
        }
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64) {
        self.push(format_args!(
            "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{colour}\" \
             stroke-width=\"{}\"/>\n",
            Number(from.0),
            Number(from.1),
            Number(to.0),
            Number(to.1),
            Number(width)
        ));
    }

    /// A rectangle of class `class`; `note` is shown while the pointer rests on it.
    pub(super) fn rect(
        &mut self,
        class: &str,
        corner: (f64, f64),
        size: (f64, f64),
        fill: &str,
        note: &str,
    ) {
        self.push(format_args!(
            "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{fill}\"",
            Number(corner.0),
            Number(corner.1),
            Number(size.0),
            Number(size.1)
        ));
        self.note("rect", note);
    }

    pub(super) fn curve(&mut self, points: &[(f64, f64)], series: usize, dashed: bool) {
        let dash = if dashed { " stroke-dasharray=\"7 4\"" } else { "" };
        self.push(format_args!(
            "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" \
             stroke-linejoin=\"round\"{dash} points=\"",
            colour(series)
        ));
        for (index, (x, y)) in points.iter().enumerate() {
            let gap = if index == 0 { "" } else { " " };
            self.push(format_args!("{gap}{},{}", Number(*x), Number(*y)));
        }
        self.push(format_args!("\"/>\n"));
    }

    /// The marker of a series, of class `class`; `note` is shown while the pointer rests on it.
    pub(super) fn marker(&mut self, class: &str, (x, y): (f64, f64), series: usize, note: &str) {
        // The white rim keeps markers apart where curves meet.
        self.push(format_args!(
            "<path class=\"{class}\" transform=\"translate({} {})\" d=\"{}\" fill=\"{}\" \
             stroke=\"#ffffff\" \
             stroke-width=\"0.9\"",
            Number(x),
            Number(y),
            marker(series),
            colour(series)
        ));
        self.note("path", note);
    }

    /// One line of text on the base line at `(x, y)`.
    pub(super) fn text(&mut self, (x, y): (f64, f64), style: Style, text: &str) {
        let anchor = match style.anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y) = (Number(x), Number(y));
        self.push(format_args!(
            "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\" fill=\"{}\" text-anchor=\"{anchor}\"",
            Number(style.size),
            style.colour
        ));
        if style.bold {
            self.push(format_args!(" font-weight=\"600\""));
        }
        if style.turned != 0.0 {
            self.push(format_args!(" transform=\"rotate({} {x} {y})\"", Number(style.turned)));
        }
        self.push(format_args!(">{}</text>\n", escape(text)));
    }

    pub(super) fn finish(self) -> String {
        self.0.finish()
    }

    /// Ends an open tag, with a note inside unless it is empty.
    fn note(&mut self, element: &str, note: &str) {
        if note.is_empty() {
            self.push(format_args!("/>\n"));
        } else {
            self.push(format_args!("><title>{}</title></{element}>\n", escape(note)));
        }
    }

    fn push(&mut self, text: std::fmt::Arguments<'_>) {
        self.0.push(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("a<b & \"c\"\u{1}\n'"), "a&lt;b &amp; &quot;c&quot; &#39;");
    }

    #[test]
    fn no_two_of_many_series_look_alike() {
        let looks: std::collections::HashSet<_> = (0..64).map(|n| (colour(n), marker(n))).collect();
        assert_eq!(looks.len(), 64);
    }

    #[test]
    fn wrapped_lines_keep_every_letter_and_fit() {
        let style = Style::LEGEND;
        let text = "openmpi-sm computing averyveryverylongwordwithoutanyspace end";
        let lines = style.wrap(text, 90.0);
        assert!(lines.iter().all(|line| style.width(line) <= 90.0), "{lines:?}");
        let letters = |text: &str| text.replace(' ', "");
        assert_eq!(letters(&lines.concat()), letters(text));
        assert!(style.wrap("", 90.0).is_empty());
    }

    #[test]
    fn a_cut_text_fits() {
        let cut = Style::TICK.cut("a very long label indeed", 60.0);
        assert!(cut.ends_with('…') && Style::TICK.width(&cut) <= 60.0, "{cut}");
        assert_eq!(Style::TICK.cut("short", 60.0), "short");
    }
}
