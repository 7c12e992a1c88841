//! A word that was replaced does not come back: one idea has one name.

use std::collections::BTreeMap;

use super::source::Source;
use super::{Document, Report};

/// The list of words, one `old -> new` a line.
pub(super) const LIST: &str = "xtask/retired-words.txt";

/// Documents that speak of the past, and the list itself.
const HISTORY: &[&str] = &["CHANGELOG.md", LIST];

/// The words that were replaced, each with what is said instead.
pub(super) struct Retired<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Retired<'a> {
    /// Reads the list; a line that is neither a pair nor a comment is a violation.
    pub(super) fn read(list: &'a str, report: &mut Report) -> Self {
        let mut words = BTreeMap::new();
        for (index, line) in list.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match line.split_once("->").map(|(old, new)| (old.trim(), new.trim())) {
                Some((old, new)) if !old.is_empty() && !new.is_empty() => {
                    words.insert(old, new);
                }
                _ => {
                    let message = format!("`{line}` is not a pair: write `old -> new`");
                    report.violation(LIST, index + 1, message);
                }
            }
        }
        Self(words)
    }

    pub(super) fn check_names(&self, source: &Source, report: &mut Report) {
        let mut before = "";
        for token in &source.tokens {
            if token.is_word() {
                self.check_word(&token.text, &source.path, token.line, report);
            }
            if ["struct", "enum", "union", "trait", "type"].contains(&before) {
                let word = format!("type {}", token.text);
                self.check_word(&word, &source.path, token.line, report);
            }
            before = &token.text;
        }
    }

    /// Checks the code spans of a document, or of the comments of a source file.
    pub(super) fn check_spans(&self, document: &Document, report: &mut Report) {
        if HISTORY.contains(&document.path.as_str()) {
            return;
        }
        let is_prose = document.path.ends_with(".md");
        for (index, line) in document.text.lines().enumerate() {
            let is_comment = line.trim_start().starts_with("//");
            let spans = line.split('`').skip(1).step_by(2);
            for span in spans.filter(|_| is_prose || is_comment) {
                for word in span.split(|c: char| !c.is_alphanumeric() && c != '_') {
                    self.check_word(word, &document.path, index + 1, report);
                }
            }
        }
    }

    fn check_word(&self, word: &str, path: &str, line: usize, report: &mut Report) {
        if let Some(new) = self.0.get(word) {
            let message = format!("`{word}` was replaced: write `{new}` ({LIST})");
            report.violation(path, line, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &str =
        "# Names.\n\nWidget -> Gadget\nquiet_part -> uncounted_part\ntype Over -> Ending\n";

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let mut report = Report::default();
        let retired = Retired::read(WORDS, &mut report);
        if path.ends_with(".rs") {
            retired.check_names(&Source::parse(path, text).unwrap(), &mut report);
        }
        let document = Document { path: path.to_owned(), text: text.to_owned() };
        retired.check_spans(&document, &mut report);
        report.lines()
    }

    #[test]
    fn a_retired_name_is_refused_where_it_is_code() {
        let named = "use a::Widget;\nm!(quiet_part());\n/// See [`Widget::new`].\nstruct A;";
        for (path, text, expected) in [
            ("crates/runtime/a/src/b.rs", named, &[1, 2, 3][..]),
            ("docs/a.md", "The `Widget`.\nA plain Widget.", &[1]),
            ("crates/runtime/a/src/b.rs", "enum A { Over }\nenum Over {}", &[2]),
            ("crates/runtime/a/src/b.rs", "fn widget() -> Widgets { \"Widget\" } // a Widget", &[]),
            ("CHANGELOG.md", "The `Widget` is gone.", &[]),
        ] {
            assert_eq!(lines(path, text), expected, "{text}");
        }
        let mut report = Report::default();
        Retired::read("Widget Gadget\n", &mut report);
        assert!(report.text().contains("not a pair"), "{}", report.text());
    }
}
