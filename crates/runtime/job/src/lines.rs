//! Settings as text: a line for each, with its name, a space and its value. Every description of a
//! job that goes from one process to another is written so.

use std::str::FromStr;

use farside_fabric::{Error, Result};

/// Settings to be written.
#[derive(Default)]
pub(crate) struct Lines {
    settings: Vec<(&'static str, String)>,
}

impl Lines {
    pub(crate) fn push(&mut self, name: &'static str, value: impl ToString) {
        self.settings.push((name, value.to_string()));
    }

    /// Adds a setting for each value: none or one of an `Option`, any number of a list.
    pub(crate) fn push_each<V: ToString>(
        &mut self,
        name: &'static str,
        values: impl IntoIterator<Item = V>,
    ) {
        self.settings.extend(values.into_iter().map(|value| (name, value.to_string())));
    }

    /// Returns the text. Refuses values of several lines.
    pub(crate) fn encode(&self) -> Result<String> {
        let is_bad = |(_, value): &&(&str, String)| value.contains(['\n', '\0']);
        if let Some((name, value)) = self.settings.iter().find(is_bad) {
            return Err(Error::InvalidArgument(format!(
                "cannot pass the {name} of a job to its program: {value:?} must be a single line"
            )));
        }
        let lines = self.settings.iter().map(|(name, value)| format!("{name} {value}"));
        Ok(lines.collect::<Vec<String>>().join("\n"))
    }
}

#[derive(Clone, Copy)]
pub(crate) struct LineReader<'a> {
    text: &'a str,
    /// Makes the error of a text that is not understood, of which the argument names a part.
    damaged: fn(&str) -> Error,
}

impl<'a> LineReader<'a> {
    pub(crate) fn new(text: &'a str, damaged: fn(&str) -> Error) -> LineReader<'a> {
        LineReader { text, damaged }
    }

    pub(crate) fn all(self, name: &str) -> impl Iterator<Item = &'a str> {
        let settings = self.text.split('\n').filter_map(|line| line.split_once(' '));
        settings.filter(move |(known, _)| *known == name).map(|(_, value)| value)
    }

    pub(crate) fn find(self, name: &str) -> Option<&'a str> {
        self.all(name).next()
    }

    pub(crate) fn need(self, name: &str) -> Result<&'a str> {
        self.find(name).ok_or_else(|| (self.damaged)(&format!("without {name}")))
    }

    pub(crate) fn text(self, name: &str) -> Option<String> {
        self.find(name).map(str::to_owned)
    }

    pub(crate) fn number<N: FromStr>(self, name: &str) -> Result<N> {
        let value = self.need(name)?;
        value.parse().map_err(|_| (self.damaged)(value))
    }

    pub(crate) fn find_number<N: FromStr>(self, name: &str) -> Result<Option<N>> {
        self.find(name).map(|_| self.number(name)).transpose()
    }

    /// Reads a value that has a syntax of its own.
    pub(crate) fn read<V>(self, name: &str, read: impl FnOnce(&str) -> Option<V>) -> Result<V> {
        read(self.need(name)?).ok_or_else(|| (self.damaged)(name))
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(byte).collect()
}
