//! What the reports of all benches have in common: tables that fit the screen, and a directory of
//! plots with a page of them all.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets::UTF8_FULL_CONDENSED};

use crate::plot::index_html;
use crate::record::Record;

/// The width of a table where the width of the screen is not known.
const COLUMNS: u16 = 80;

/// A table without rows, as wide as the screen at most, or as 80 columns where the output goes to a
/// file or a pipe: what does not fit is folded in its cell.
pub(crate) fn plain_table<T: ToString>(header: impl IntoIterator<Item = T>) -> Table {
    let screen = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    let columns = screen.map(|size| size.ws_col).filter(|columns| *columns > 0);
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(columns.unwrap_or(COLUMNS))
        .set_header(header.into_iter().map(|cell| cell.to_string()).collect::<Vec<_>>());
    table
}

/// A table of these rows. Columns of numbers stand to the right.
pub(crate) fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Table {
    let mut table = plain_table(header);
    for row in rows {
        table.add_row(row.into_iter().map(|text| {
            let is_number = text == "-" || text.starts_with(|first: char| first.is_ascii_digit());
            let alignment = if is_number { CellAlignment::Right } else { CellAlignment::Left };
            Cell::new(text).set_alignment(alignment)
        }));
    }
    table
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

/// What a reader of a page must know to judge it: machine, date, version and command.
fn about() -> Vec<(&'static str, String)> {
    let machine = rustix::system::uname();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let model = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|info| {
        let line = info.lines().find(|line| line.starts_with("model name"))?;
        line.split_once(':').map(|(_, model)| format!(", {}", model.trim()))
    });
    let machine = format!(
        "{}: {processors} processors{}, {} {}",
        text(machine.nodename()),
        model.unwrap_or_default(),
        text(machine.sysname()),
        text(machine.release())
    );
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let words = std::env::args().enumerate().map(|(at, word)| match at {
        0 => "farside".to_owned(),
        _ if word.contains(char::is_whitespace) => format!("'{word}'"),
        _ => word,
    });
    vec![
        ("machine", machine),
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

    #[test]
    fn a_table_fits_eighty_columns_however_much_it_says() {
        let header = ["ranks", "case", "a long name of a column", "another long name of a column"];
        let row = || (0..4).map(|at| format!("{at} {}", "word ".repeat(12))).collect();
        let text = table(&header, (0..3).map(|_| row())).to_string();
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(usize::from(COLUMNS)), "{text}");
        assert_eq!(text.matches("word").count(), 3 * 4 * 12, "{text}");
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
