//! Tables of records, as wide as the screen at most.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Row, Table};

use crate::plot::Unit;
use crate::record::{FARSIDE, Record};

/// What one column says of a record; a dash stands for nothing.
type Says<'a> = Box<dyn Fn(&Record) -> Option<String> + 'a>;

/// The columns of a table that has a row for each record.
pub(crate) struct Columns<'a>(Vec<(&'a str, Says<'a>)>);

impl<'a> Columns<'a> {
    /// Columns of what records say under some keys.
    pub(crate) fn of(keys: &[&'a str]) -> Columns<'a> {
        Columns(Vec::new()).texts(keys)
    }

    pub(crate) fn texts(self, keys: &[&'a str]) -> Columns<'a> {
        keys.iter().fold(self, |columns, &key| columns.cell(key, move |record| record.text(key)))
    }

    /// Figures with the units that their names carry, each as heading and name.
    pub(crate) fn figures(self, figures: &[(&'a str, &'a str)]) -> Columns<'a> {
        figures.iter().fold(self, |columns, &(heading, name)| {
            columns.number(heading, name, move |value| Unit::of(name).format(value))
        })
    }

    /// A figure in a form of its own.
    pub(crate) fn number(
        self,
        heading: &'a str,
        name: &'a str,
        form: impl Fn(f64) -> String + 'a,
    ) -> Columns<'a> {
        self.cell(heading, move |record| record.number(name).map(&form))
    }

    /// A column of anything.
    pub(crate) fn cell(
        mut self,
        heading: &'a str,
        says: impl Fn(&Record) -> Option<String> + 'a,
    ) -> Columns<'a> {
        self.0.push((heading, Box::new(says)));
        self
    }

    /// The table, of which the first `labels` columns say what a row is about.
    pub(crate) fn table<'r>(
        &self,
        labels: usize,
        records: impl IntoIterator<Item = &'r Record>,
    ) -> String {
        let header: Vec<&str> = self.0.iter().map(|(heading, _)| *heading).collect();
        let cells = |record: &Record| {
            self.0.iter().map(|(_, says)| says(record).unwrap_or("-".into())).collect::<Vec<_>>()
        };
        table(labels, &header, records.into_iter().map(cells))
    }
}

/// How to lay records out so that one figure has several columns.
pub(crate) struct Pivot<'a> {
    /// The keys whose combinations make the rows, in the order of first appearance.
    pub(crate) rows: &'a [&'a str],
    /// In which column a record stands, mostly that of its system.
    pub(crate) column: &'a dyn Fn(&Record) -> String,
    /// The figure in the cells. Records without it are passed over.
    pub(crate) figure: &'a str,
    /// The column that a last column `ratio` compares with the best rival.
    pub(crate) ratio_for: Option<&'a str>,
}

impl Pivot<'_> {
    /// The table. Where several records fall into one cell the last one counts, since a file may
    /// hold a run and its repetition.
    pub(crate) fn table(&self, records: &[Record]) -> String {
        let (header, rows) = self.cells(records);
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        table(self.rows.len(), &header, rows.into_iter())
    }

    fn cells(&self, records: &[Record]) -> (Vec<String>, Vec<Vec<String>>) {
        let with_figure = || records.iter().filter(|record| record.number(self.figure).is_some());
        let columns = grouped(with_figure(), self.column).into_iter().map(|(column, _)| column);
        let columns: Vec<String> = columns.collect();
        let label = |record: &Record| {
            self.rows.iter().map(|key| label(record, key)).collect::<Vec<String>>()
        };
        let cells = |(labels, of): (Vec<String>, Vec<&Record>)| {
            let of_column = |column: &str| of.iter().rfind(|it| (self.column)(it) == *column);
            let figure = |column: &String| {
                let value = of_column(column).and_then(|record| record.number(self.figure));
                value.map_or("-".into(), |value| Unit::of(self.figure).format(value))
            };
            let ratio = self.ratio_for.map(|own| {
                let own = of_column(own);
                let ratio = own.and_then(|own| ratio(own, of.iter().copied(), self.figure));
                ratio.map_or("-".into(), times)
            });
            labels.into_iter().chain(columns.iter().map(figure)).chain(ratio).collect::<Vec<_>>()
        };
        let rows = grouped(with_figure(), label).into_iter().map(cells).collect();
        let header = self.rows.iter().map(|key| (*key).to_owned()).chain(columns.iter().cloned());
        (header.chain(self.ratio_for.map(|_| "ratio".to_owned())).collect(), rows)
    }
}

/// What a record says under a key; a size in the largest unit that divides it, so that different
/// sizes never look the same.
fn label(record: &Record, key: &str) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let bytes = record.attribute(key).and_then(|value| value.as_u64());
    let Some(bytes) = bytes.filter(|_| Unit::of(key) == Unit::Bytes) else {
        return record.text(key).unwrap_or("-".into());
    };
    let divides = |unit: &usize| bytes != 0 && bytes.is_multiple_of(1 << (10 * unit));
    let unit = (0..UNITS.len()).rev().find(divides).unwrap_or(0);
    format!("{} {}", bytes >> (10 * unit), UNITS[unit])
}

/// Records by what `key` says of them, in the order in which that comes first.
pub(crate) fn grouped<'a, K: PartialEq>(
    records: impl IntoIterator<Item = &'a Record>,
    key: impl Fn(&Record) -> K,
) -> Vec<(K, Vec<&'a Record>)> {
    let mut groups: Vec<(K, Vec<&Record>)> = Vec::new();
    for record in records {
        let key = key(record);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, of)) => of.push(record),
            None => groups.push((key, vec![record])),
        }
    }
    groups
}

/// The records that say the same as one of them under some keys.
pub(crate) fn alike<'a>(records: &'a [Record], own: &Record, keys: &[&str]) -> Vec<&'a Record> {
    let is_alike =
        |other: &&Record| keys.iter().all(|key| other.attribute(key) == own.attribute(key));
    records.iter().filter(is_alike).collect()
}

/// How many times better a figure of ours is than that of the best rival among some records: more
/// is better for rates, less for all else.
pub(crate) fn ratio<'a>(
    own: &Record,
    others: impl IntoIterator<Item = &'a Record>,
    figure: &str,
) -> Option<f64> {
    let value = own.number(figure).filter(|_| own.system.starts_with(FARSIDE))?;
    let rivals = others.into_iter().filter(|other| other.is_of_rival());
    let rivals = rivals.filter_map(|rival| rival.number(figure));
    let ratio = match Unit::of(figure) {
        Unit::PerS | Unit::BytesPerS => value / rivals.reduce(f64::max)?,
        _ => rivals.reduce(f64::min)? / value,
    };
    ratio.is_finite().then_some(ratio)
}

/// A ratio with about three digits; zeros are kept, as a bare `1x` would hide how close it is.
pub(crate) fn times(ratio: f64) -> String {
    let decimals = if ratio < 10.0 { 2 } else { usize::from(ratio < 100.0) };
    format!("{ratio:.decimals$}x")
}

/// The width of a table where the width of the screen is not known: in a file or a pipe.
const COLUMNS: usize = 80;

/// A table of these rows, of which the first `labels` columns say what a row is about. Columns of
/// numbers stand to the right.
pub(crate) fn table(
    labels: usize,
    header: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(header);
    for row in rows {
        table.add_row(row.into_iter().map(|text| {
            let is_number = text == "-" || text.starts_with(|first: char| first.is_ascii_digit());
            let alignment = if is_number { CellAlignment::Right } else { CellAlignment::Left };
            Cell::new(text).set_alignment(alignment)
        }));
    }
    let screen = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    let columns = screen.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    fold_to(columns.unwrap_or(COLUMNS), &table, labels)
}

/// Writes a table in pieces that are no wider than `width`: each has the first `labels` columns, or
/// those of them that leave half of the width, and as many of the others as fit. Where not even one
/// fits, its cells are folded.
fn fold_to(width: usize, table: &Table, labels: usize) -> String {
    // A column has a blank on both sides of its content, and a line behind it.
    let widths: Vec<usize> =
        table.column_max_content_widths().iter().map(|&column| usize::from(column) + 3).collect();
    let columns = widths.len();
    if widths.iter().sum::<usize>() < width || labels >= columns {
        return table.to_string();
    }
    let width_of = |labels: usize| 1 + widths[..labels].iter().sum::<usize>();
    let labels = (0..=labels).rev().find(|&some| width_of(some) <= width / 2).unwrap_or(0);
    let of_labels = width_of(labels);
    let mut pieces = Vec::new();
    let mut next = labels;
    while next < columns {
        let (first, mut used) = (next, of_labels + widths[next]);
        next += 1;
        while next < columns && used + widths[next] <= width {
            used += widths[next];
            next += 1;
        }
        pieces
            .push(piece(width, table, |column| column < labels || (first..next).contains(&column)));
    }
    pieces.join("\n")
}

/// Some columns of a table, in at most `width` columns of the screen.
fn piece(width: usize, table: &Table, is_in: impl Fn(usize) -> bool) -> String {
    let some = |row: &Row| -> Vec<Cell> {
        let cells = row.cell_iter().enumerate().filter(|(column, _)| is_in(*column));
        cells.map(|(_, cell)| cell.clone()).collect()
    };
    let mut piece = Table::new();
    piece
        .load_style(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(width).unwrap_or(u16::MAX));
    if let Some(header) = table.header() {
        piece.set_header(some(header));
    }
    piece.add_rows(table.row_iter().map(some));
    piece.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(system: &str, bytes: i32, median_ns: f64) -> Record {
        Record::new("ops", "put", system, "shm", 2, 1)
            .with("bytes", bytes)
            .figure("median_ns", median_ns)
    }

    fn rows(records: &[Record], figure: &str) -> Vec<Vec<String>> {
        let pivot = Pivot {
            rows: &["case", "bytes"],
            column: &|record| record.system.clone(),
            figure,
            ratio_for: Some(FARSIDE),
        };
        let (header, rows) = pivot.cells(records);
        std::iter::once(header).chain(rows).collect()
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
        assert_eq!(rows(&records, "median_ns"), expected);
    }

    #[test]
    fn more_is_better_for_rates() {
        let rate =
            |system, per_s| Record::new("ops", "rate", system, "shm", 2, 1).figure("per_s", per_s);
        let records = [rate("farside", 12.3e6), rate("mpich", 4.1e6), rate("openmpi", 1e6)];
        assert_eq!(
            rows(&records, "per_s")[1],
            ["rate", "-", "12.3 M/s", "4.1 M/s", "1 M/s", "3.00x"]
        );
    }

    #[test]
    fn the_last_of_several_records_counts_and_none_gives_an_empty_table() {
        let twice = [put("farside", 8, 9.0), put("farside", 8, 4.0)];
        assert_eq!(rows(&twice, "median_ns")[1], ["put", "8 B", "4 ns", "-"]);
        assert_eq!(rows(&[], "median_ns"), [["case", "bytes", "ratio"]]);
        assert_eq!(label(&put("farside", 0, 1.0), "bytes"), "0 B");
        assert_eq!(label(&put("farside", 4 << 20, 1.0), "bytes"), "4 MiB");
    }

    fn widest(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    #[test]
    fn a_wide_table_is_folded_by_columns() {
        let header = ["ranks", "case", "barrier time", "check-in again", "release again", "cold"];
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED).set_header(header);
        table.add_row(["8", "fft3d", "1.2 ms", "7", "0", "13"]);
        for width in [200, 60, 40] {
            let text = fold_to(width, &table, 2);
            assert!(widest(&text) <= width, "{text}");
            assert!(header.iter().all(|name| text.contains(name)), "{text}");
            let pieces = text.matches("fft3d").count();
            assert_eq!(pieces, text.matches("ranks").count(), "{text}");
            assert_eq!(pieces > 1, width < 80, "{text}");
        }
        assert!(widest(&fold_to(COLUMNS, &table, 2)) <= COLUMNS);
    }

    #[test]
    fn a_cell_that_does_not_fit_is_folded() {
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED).set_header(["what", "note"]);
        table.add_row(["x".to_owned(), "word ".repeat(40)]);
        let text = fold_to(COLUMNS, &table, 1);
        assert!(widest(&text) <= COLUMNS, "{text}");
        assert_eq!(text.matches("word").count(), 40, "{text}");
    }
}
