//! One measured figure set as one JSON object a line, and tables of many of them.
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

use comfy_table::{Cell, CellAlignment, Table};
use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::Map;
pub use serde_json::Value;

use crate::plot::Unit;
use crate::table::plain_table;

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
        is_rival(&self.system)
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

/// Whether a system is a rival in a ratio. A limit is none, nor is ours, served by whomever, or
/// under the calls of somebody else's library.
fn is_rival(system: &str) -> bool {
    !system.starts_with(FARSIDE) && !system.starts_with(LIMIT) && !system.ends_with(TAKEN_OVER)
}

/// How to lay many records out as a table: one figure, by rows and columns.
#[derive(Clone, Copy, Debug)]
pub struct Pivot<'a> {
    /// Keys whose combinations make the rows, in the order of first appearance.
    pub row_keys: &'a [&'a str],
    /// Key whose values make the columns, in the order of first appearance; mostly `system`.
    pub column_key: &'a str,
    /// The figure in the cells. Records without it are passed over.
    pub figure: &'a str,
    /// The column, mostly `farside`, that a last column `ratio` compares with the best of the
    /// others except [`LIMIT`]: how many times better it is, so above 1 it wins. More is better for
    /// rates, less for all else.
    pub ratio_for: Option<&'a str>,
}

/// The records as a table with human units.
///
/// Where several records fall into one cell the last one counts, since a file may hold a run and
/// its repetition.
#[must_use]
pub fn table(records: &[Record], pivot: &Pivot<'_>) -> Table {
    let cells = Cells::gather(records, pivot);
    let mut header: Vec<String> = pivot.row_keys.iter().map(|key| (*key).into()).collect();
    header.extend(cells.columns.iter().cloned());
    if pivot.ratio_for.is_some() {
        header.push("ratio".into());
    }

    let mut table = plain_table(header);
    let unit = Unit::of(pivot.figure);
    for (labels, values) in &cells.rows {
        let left = labels.iter().map(|label| {
            let alignment =
                if label.is_number { CellAlignment::Right } else { CellAlignment::Left };
            Cell::new(&label.text).set_alignment(alignment)
        });
        let figures =
            (0..cells.columns.len()).map(|column| match values.get(column).copied().flatten() {
                Some(value) => unit.format(value),
                None => "-".into(),
            });
        let ratio = pivot.ratio_for.map(|own| match cells.ratio(values, own, unit) {
            Some(ratio) => times(ratio),
            None => "-".into(),
        });
        let right = |text| Cell::new(text).set_alignment(CellAlignment::Right);
        table.add_row(left.chain(figures.chain(ratio).map(right)).collect::<Vec<_>>());
    }
    table
}

struct Cells {
    columns: Vec<String>,
    /// Labels of each row and its figures; later columns may be absent.
    rows: Vec<(Vec<Label>, Vec<Option<f64>>)>,
}

impl Cells {
    fn gather(records: &[Record], pivot: &Pivot<'_>) -> Self {
        let mut cells = Self { columns: Vec::new(), rows: Vec::new() };
        for record in records {
            let (Some(value), Some(column)) =
                (record.number(pivot.figure), record.text(pivot.column_key))
            else {
                continue;
            };
            let labels: Vec<_> = pivot.row_keys.iter().map(|key| Label::of(record, key)).collect();
            let row = index_of(
                &mut cells.rows,
                |(known, _)| *known == labels,
                || (labels.clone(), Vec::new()),
            );
            let column = index_of(&mut cells.columns, |known| *known == column, || column.clone());
            let figures = &mut cells.rows[row].1;
            if figures.len() <= column {
                figures.resize(column + 1, None);
            }
            figures[column] = Some(value);
        }
        cells
    }

    /// How many times better the column `own` is than the best of its rivals.
    fn ratio(&self, values: &[Option<f64>], own: &str, unit: Unit) -> Option<f64> {
        let more_is_better = matches!(unit, Unit::PerS | Unit::BytesPerS);
        let named =
            || self.columns.iter().zip(values).filter_map(|(name, value)| Some((name, (*value)?)));
        let (_, own_value) = named().find(|(name, _)| *name == own)?;
        // The same system in another manner is no rival.
        let system = own.split(' ').next().unwrap_or(own);
        let is_rival = |name: &str| !name.starts_with(system) && is_rival(name);
        let rivals = named().filter(|(name, _)| is_rival(name)).map(|(_, value)| value);
        let ratio = if more_is_better {
            own_value / rivals.reduce(f64::max)?
        } else {
            rivals.reduce(f64::min)? / own_value
        };
        ratio.is_finite().then_some(ratio)
    }
}

/// A ratio with about three digits; zeros are kept, as a bare `1x` would hide how close it is.
pub(crate) fn times(ratio: f64) -> String {
    let decimals = if ratio < 10.0 { 2 } else { usize::from(ratio < 100.0) };
    format!("{ratio:.decimals$}x")
}

/// The place of the first entry that matches, which is added if there is none.
fn index_of<T>(
    entries: &mut Vec<T>,
    matches: impl Fn(&T) -> bool,
    new: impl FnOnce() -> T,
) -> usize {
    entries.iter().position(matches).unwrap_or_else(|| {
        entries.push(new());
        entries.len() - 1
    })
}

/// What stands in a row for a key.
#[derive(Clone, PartialEq)]
struct Label {
    text: String,
    is_number: bool,
}

impl Label {
    fn of(record: &Record, key: &str) -> Self {
        let value = record.attribute(key);
        let is_number = value.as_ref().is_some_and(Value::is_number);
        let bytes = value.as_ref().and_then(Value::as_u64).filter(|_| Unit::of(key) == Unit::Bytes);
        let text = bytes.map(size).or_else(|| record.text(key)).unwrap_or("-".into());
        Self { text, is_number }
    }
}

/// A size in the largest unit that divides it, so that different sizes never look the same.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut number = bytes;
    let mut unit = 0;
    while number != 0 && number.is_multiple_of(1024) && unit + 1 < UNITS.len() {
        number /= 1024;
        unit += 1;
    }
    format!("{number} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(system: &str, bytes: i32, median_ns: f64) -> Record {
        Record::new("ops", "put", system, "shm", 2, 1)
            .with("bytes", bytes)
            .figure("median_ns", median_ns)
    }

    fn rows(table: &Table) -> Vec<Vec<String>> {
        let cells = |row: &comfy_table::Row| row.cell_iter().map(Cell::content).collect();
        table.header().into_iter().chain(table.row_iter()).map(cells).collect()
    }

    fn by_bytes(figure: &str) -> Pivot<'_> {
        Pivot {
            row_keys: &["case", "bytes"],
            column_key: "system",
            figure,
            ratio_for: Some("farside"),
        }
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

    #[test]
    fn a_table_has_rows_columns_and_the_ratio_to_the_best_rival() {
        let records = [
            put("farside", 8, 3.2),
            put("limit", 8, 1.0),
            put("mpich", 8, 1250.0),
            put("openmpi", 8, 320.0),
            put("farside", 1024, 34e6),
            put("farside", 1500, 2.1e9),
            put("mpich", 1024, 17e6),
            Record::new("ops", "barrier", "mpich", "shm", 2, 1).figure("median_ns", 5),
            Record::new("ops", "rate", "mpich", "shm", 2, 1).figure("per_s", 5),
        ];
        let expected = [
            ["case", "bytes", "farside", "limit", "mpich", "openmpi", "ratio"],
            ["put", "8 B", "3.2 ns", "1 ns", "1.25 us", "320 ns", "100x"],
            ["put", "1 KiB", "34 ms", "-", "17 ms", "-", "0.50x"],
            ["put", "1500 B", "2.1 s", "-", "-", "-", "-"],
            ["barrier", "-", "-", "-", "5 ns", "-", "-"],
        ];
        assert_eq!(rows(&table(&records, &by_bytes("median_ns"))), expected);
    }

    #[test]
    fn more_is_better_for_rates() {
        let rate =
            |system, per_s| Record::new("ops", "rate", system, "shm", 2, 1).figure("per_s", per_s);
        let records = [rate("farside", 12.3e6), rate("mpich", 4.1e6), rate("openmpi", 1e6)];
        let table = table(&records, &by_bytes("per_s"));
        assert_eq!(rows(&table)[1], ["rate", "-", "12.3 M/s", "4.1 M/s", "1 M/s", "3.00x"]);
    }

    #[test]
    fn the_last_of_several_records_counts_and_none_gives_an_empty_table() {
        let pivot = Pivot { ratio_for: None, ..by_bytes("median_ns") };
        let table_of = |records: &[Record]| rows(&table(records, &pivot));
        assert_eq!(
            table_of(&[put("farside", 8, 9.0), put("farside", 8, 4.0)])[1],
            ["put", "8 B", "4 ns"]
        );
        assert_eq!(table_of(&[]), [["case", "bytes"]]);
        assert_eq!(size(0), "0 B");
        assert_eq!(size(4 << 20), "4 MiB");
    }
}
