//! What the reports of all benches have in common: tables that fit the screen, and a directory of
//! plots with a page of them all.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use comfy_table::{
    Cell, CellAlignment, ContentArrangement, Row, Table, presets::UTF8_FULL_CONDENSED,
};

use crate::cores::processors;
use crate::plot::index_html;
use crate::record::Record;
use crate::table::plain_table;

/// The width of a table where the width of the screen is not known: in a file or a pipe.
const COLUMNS: usize = 80;

/// Writes a table, as wide as the screen at most.
pub(crate) fn fold(table: &Table, labels: usize) -> String {
    let screen = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    let columns = screen.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    fold_to(columns.unwrap_or(COLUMNS), table, labels)
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

/// A table of these rows, of which the first `labels` columns say what a row is about. Columns of
/// numbers stand to the right.
pub(crate) fn table(
    labels: usize,
    header: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
) -> String {
    let mut table = plain_table(header);
    for row in rows {
        table.add_row(row.into_iter().map(|text| {
            let is_number = text == "-" || text.starts_with(|first: char| first.is_ascii_digit());
            let alignment = if is_number { CellAlignment::Right } else { CellAlignment::Left };
            Cell::new(text).set_alignment(alignment)
        }));
    }
    fold(&table, labels)
}

/// What a record says under a key, or a dash.
pub(crate) fn text_of(record: &Record, key: &str) -> String {
    record.text(key).unwrap_or("-".into())
}

/// All values of a number in records, in order, each once.
pub(crate) fn distinct<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// A drawing, if there is something to draw: caption, file and SVG.
pub(crate) type Plot = (String, String, Option<String>);

/// Writes the drawings that there are into a directory, and a page that shows them.
pub(crate) fn write_plots(title: &str, directory: &Path, plots: &[Plot]) -> Result<()> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    let mut list: Vec<(&str, &str)> = Vec::new();
    for (caption, file, svg) in plots {
        if let Some(svg) = svg {
            write(file, svg)?;
            list.push((caption, file));
        }
    }
    write("index.html", &index_html(title, &about(), &list))
}

/// The machine that this runs on: name, processors and system.
pub(crate) fn machine() -> String {
    let machine = rustix::system::uname();
    let processors = processors();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let model = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|info| {
        let line = info.lines().find(|line| line.starts_with("model name"))?;
        line.split_once(':').map(|(_, model)| format!(", {}", model.trim()))
    });
    format!(
        "{}: {processors} processors{}, {} {}",
        text(machine.nodename()),
        model.unwrap_or_default(),
        text(machine.sysname()),
        text(machine.release())
    )
}

/// What a reader of a page must know to judge it: machine, date, version and command.
pub fn about() -> Vec<(&'static str, String)> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let words = std::env::args().enumerate().map(|(at, word)| match at {
        0 => "farside".to_owned(),
        _ if word.contains(char::is_whitespace) => format!("'{word}'"),
        _ => word,
    });
    vec![
        ("machine", machine()),
        ("date", date(seconds)),
        ("version", format!("farside {}", env!("CARGO_PKG_VERSION"))),
        ("command", words.collect::<Vec<_>>().join(" ")),
    ]
}

/// Seconds since 1970 as a date and time in UTC, by Hinnant's count of days in eras of 400 years.
fn date(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let (hour, minute) = (seconds / 3600 % 24, seconds / 60 % 60);
    let year = era * 400 + year + later;
    format!("{year:04}-{month:02}-{day_of_month:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widest(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    #[test]
    fn a_wide_table_is_folded_by_columns() {
        let header = ["ranks", "case", "barrier time", "check-in again", "release again", "cold"];
        let mut table = plain_table(header);
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
        let mut table = plain_table(["what", "note"]);
        table.add_row(["x".to_owned(), "word ".repeat(40)]);
        let text = fold_to(COLUMNS, &table, 1);
        assert!(widest(&text) <= COLUMNS, "{text}");
        assert_eq!(text.matches("word").count(), 40, "{text}");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_825_540), "2000-02-29 11:59 UTC");
        assert_eq!(date(1_735_689_599), "2024-12-31 23:59 UTC");
    }

    #[test]
    fn a_page_knows_where_it_comes_from() {
        let about = about();
        let keys: Vec<&str> = about.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, ["machine", "date", "version", "command"]);
        assert!(about.iter().all(|(_, value)| !value.is_empty()), "{about:?}");
    }
}
