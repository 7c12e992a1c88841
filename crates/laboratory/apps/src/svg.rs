//! SVG documents, for the pictures of programs and the charts of benches: text is escaped, numbers
//! are kept short.

use std::fmt::{self, Write as _};

/// A document under construction.
///
/// ```
/// use farside_apps::svg::{Document, Number};
///
/// let mut document = Document::new(20.0, 10.0, "a & b");
/// document.push(format_args!("<circle r=\"{}\"/>\n", Number(2.504)));
/// let svg = document.finish();
/// assert!(svg.contains("<title>a &amp; b</title>") && svg.contains("<circle r=\"2.5\"/>"));
/// ```
pub struct Document {
    out: String,
}

impl Document {
    /// An empty document; `title` is what a screen reader says.
    pub fn new(width: f64, height: f64, title: &str) -> Document {
        let mut document = Document { out: String::new() };
        let (width, height) = (Number(width), Number(height));
        document.push(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"Inter, 'Helvetica Neue', \
             Helvetica, Arial, 'DejaVu Sans', sans-serif\">\n<title>{}</title>\n",
            escape(title)
        ));
        document
    }

    /// Adds elements, whose texts must be escaped.
    pub fn push(&mut self, text: fmt::Arguments<'_>) {
        self.out.write_fmt(text).expect("writing to a string cannot fail");
    }

    /// Ends the document and returns it.
    pub fn finish(mut self) -> String {
        self.out.push_str("</svg>\n");
        self.out
    }
}

/// A coordinate, written with at most two decimals.
pub struct Number(pub f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_assert!(self.0.is_finite(), "a coordinate must be finite");
        // Adding zero turns -0 into 0.
        let rounded = (self.0 * 100.0).round() / 100.0 + 0.0;
        write!(f, "{rounded}")
    }
}

/// `text` as XML or HTML content or attribute value; characters that XML forbids are dropped.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(' '),
            letter if letter < ' ' || matches!(letter, '\u{fffe}' | '\u{ffff}') => {}
            letter => out.push(letter),
        }
    }
    out
}
