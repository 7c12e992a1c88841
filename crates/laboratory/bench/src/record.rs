//! One measured figure set as one JSON object a line.
//!
//! ```
//! use farside_bench::record::Record;
//!
//! let record = Record::new("ops", "put", "farside", "shm", 2, 1)
//!     .with("bytes", 8)
//!     .with("target", "idle")
//!     .figure("median_ns", 3.2);
//! let line = record.to_json_line();
//! assert!(line.starts_with(r#"{"bench":"ops","case":"put","system":"farside","fabric":"shm","#));
//! assert!(line.ends_with(r#""nodes":1,"bytes":8,"target":"idle","median_ns":3.2}"#));
//! assert_eq!(Record::from_json_line(&line).unwrap(), record);
//! ```

use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::Map;
pub use serde_json::Value;

/// The keys that every record has, in the order they are written.
pub const KEYS: [&str; 6] = ["bench", "case", "system", "fabric", "ranks", "nodes"];

/// The name of our own system.
pub const FARSIDE: &str = "farside";
/// How the names of rivals end whose one-sided calls farside takes over.
const TAKEN_OVER: &str = "+farside";

/// The system whose figures bound what is possible; it is no rival in a ratio.
pub const LIMIT: &str = "limit";
/// The limit for those who sleep at once when there is nothing to do.
pub const LIMIT_ASLEEP: &str = "limit-asleep";

/// What was measured, where, and what came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Name of the benchmark.
    pub bench: String,
    /// What the benchmark did.
    pub case: String,
    /// The system that did it: farside, a rival or [`LIMIT`].
    pub system: String,
    /// What carried it.
    pub fabric: String,
    /// Number of ranks.
    pub ranks: usize,
    /// Number of nodes.
    pub nodes: usize,
    /// Further attributes and figures in the order they were added: texts and finite numbers.
    #[serde(flatten)]
    further: Map<String, Value>,
}

impl Record {
    /// A record without figures.
    #[must_use]
    pub fn new(
        bench: &str,
        case: &str,
        system: &str,
        fabric: &str,
        ranks: usize,
        nodes: usize,
    ) -> Self {
        Self {
            bench: bench.into(),
            case: case.into(),
            system: system.into(),
            fabric: fabric.into(),
            ranks,
            nodes,
            further: Map::new(),
        }
    }

    /// Adds an attribute, or replaces the one of that name.
    ///
    /// A float that is not finite has no form in JSON: it is left out.
    ///
    /// # Panics
    ///
    /// If `key` is one of [`KEYS`], which are fields of their own.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        assert!(
            !KEYS.contains(&key),
            "`{key}` is a field of every record, not a further attribute"
        );
        match value.into() {
            Value::Null => self.further.shift_remove(key),
            value => self.further.insert(key.into(), value),
        };
        self
    }

    /// Adds a figure; its name carries the unit, as in `median_ns`, `per_s`, `bytes_per_s` or
    /// `messages`.
    ///
    /// A figure that is not finite was not measured: it is left out.
    ///
    /// # Panics
    ///
    /// If `name` is one of [`KEYS`], or the value is a text.
    #[must_use]
    pub fn figure(self, name: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        let fits = value.is_number() || value.is_null();
        assert!(fits, "figure `{name}` must be a number, but is {value}");
        self.with(name, value)
    }

    /// The value of any key, those of [`KEYS`] included.
    #[must_use]
    pub fn attribute(&self, key: &str) -> Option<Value> {
        Some(match key {
            "bench" => self.bench.as_str().into(),
            "case" => self.case.as_str().into(),
            "system" => self.system.as_str().into(),
            "fabric" => self.fabric.as_str().into(),
            "ranks" => self.ranks.into(),
            "nodes" => self.nodes.into(),
            _ => self.further.get(key)?.clone(),
        })
    }

    /// The value of any key as people read it.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<String> {
        Some(match self.attribute(key)? {
            Value::String(text) => text,
            Value::Number(number) if number.is_f64() => number.as_f64()?.to_string(),
            other => other.to_string(),
        })
    }

    /// The number under any key: a figure, or an attribute such as `bytes`.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        self.attribute(name)?.as_f64()
    }

    /// Whether it is of a rival: neither of ours nor of a limit.
    #[must_use]
    pub fn is_of_rival(&self) -> bool {
        !self.is_ours() && !self.system.starts_with(LIMIT)
    }

    /// Whether it is of ours, served by whomever, or under the calls of somebody else's library.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.system.starts_with(FARSIDE) || self.system.ends_with(TAKEN_OVER)
    }

    /// The record as one line, without the line's end.
    #[must_use]
    pub fn to_json_line(&self) -> String {
        serde_json::to_string(self).expect("a record holds only strings and finite numbers")
    }

    /// Reads one line.
    ///
    /// # Errors
    ///
    /// If the line is no JSON object, lacks one of [`KEYS`] or has a value that is neither text nor
    /// number.
    pub fn from_json_line(line: &str) -> Result<Self, serde_json::Error> {
        let record: Record = serde_json::from_str(line)?;
        let is_wrong = |value: &Value| !value.is_number() && !value.is_string();
        match record.further.iter().find(|(_, value)| is_wrong(value)) {
            Some((key, value)) => Err(serde_json::Error::custom(format!(
                "`{key}` must be text or a number, but is {value}"
            ))),
            None => Ok(record),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(system: &str, bytes: i32, median_ns: f64) -> Record {
        Record::new("ops", "put", system, "shm", 2, 1)
            .with("bytes", bytes)
            .figure("median_ns", median_ns)
    }

    #[test]
    fn a_line_keeps_order_and_kinds() {
        let record = Record::new("locks", "lb", "farside", "shm", 16, 2)
            .with("lock", "rma \"mcs\"\n")
            .with("alpha", 0.5)
            .with("seed", u64::MAX)
            .with("offset", -3i64)
            .figure("per_s", 3.0)
            .figure("messages", 12u64);
        let line = record.to_json_line();
        assert!(!line.contains('\n'), "{line}");
        let read = Record::from_json_line(&line).unwrap();
        assert_eq!(read, record);
        let keys: Vec<_> = read.further.keys().collect();
        assert_eq!(keys, ["lock", "alpha", "seed", "offset", "per_s", "messages"]);
        assert_eq!(read.attribute("messages"), Some(12.into()));
        assert_eq!(read.attribute("per_s"), Some(3.0.into()));
        assert_eq!(read.text("per_s").as_deref(), Some("3"));
        assert_eq!(read.number("ranks"), Some(16.0));
        assert_eq!(read.number("lock"), None);
        assert_eq!(read.attribute("case"), Some("lb".into()));
        assert_eq!(read.attribute("absent"), None);
    }

    #[test]
    fn a_key_is_replaced_in_place_and_not_a_number_is_left_out() {
        let record = put("farside", 8, 3.0).figure("p99_ns", f64::INFINITY).with("bytes", 16);
        assert!(record.to_json_line().ends_with(r#""nodes":1,"bytes":16,"median_ns":3.0}"#));
        assert_eq!(record.figure("median_ns", f64::NAN).number("median_ns"), None);
    }

    #[test]
    #[should_panic(expected = "`case` is a field of every record")]
    fn a_field_is_no_further_attribute() {
        let _ = put("farside", 8, 3.0).with("case", "get");
    }

    #[test]
    #[should_panic(expected = "figure `median_ns` must be a number")]
    fn a_text_is_no_figure() {
        let _ = put("farside", 8, 3.0).figure("median_ns", "fast");
    }

    #[test]
    fn a_bad_line_says_what_is_wrong() {
        let good = put("farside", 8, 3.0).to_json_line();
        let cases = [
            ("", "EOF"),
            ("[1]", "invalid type"),
            ("{\"bench\":", "EOF"),
            (&good.replace("\"system\":\"farside\",", ""), "missing field `system`"),
            (&good.replace("\"ranks\":2", "\"ranks\":-2"), "integer `-2`, expected usize"),
            (&good.replace("\"ops\"", "7"), "integer `7`, expected a string"),
            (&good.replace("3.0", "null"), "`median_ns` must be text or a number, but is null"),
            (&good.replace("3.0", "1e999"), "number out of range"),
            (&good.replace("\"bytes\"", "\"case\""), "duplicate field `case`"),
        ];
        for (line, expected) in cases {
            let error = Record::from_json_line(line).unwrap_err().to_string();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
