//! What the reports of all benches have in common: drawings of records, and a directory of them
//! with a page that shows them all.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};

use crate::cores::processors;
use crate::plot::{Axis, BarChart, Chart, Group, Scale, Series, Unit, index_html};
use crate::record::{FARSIDE, Record};
use crate::table::grouped;

/// Returns the numbers of ranks in records, in order.
pub(crate) fn all_ranks(records: &[Record]) -> Vec<usize> {
    distinct(records.iter().map(|record| record.ranks))
}

/// All values of a number in records, in order, each once.
pub(crate) fn distinct<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// The records of a case.
pub(crate) fn of_case<'a>(records: &'a [Record], case: &str) -> Vec<&'a Record> {
    records.iter().filter(|record| record.case == case).collect()
}

/// What a record says under a key, or a dash.
pub(crate) fn text_of(record: &Record, key: &str) -> String {
    record.text(key).unwrap_or("-".into())
}

/// A system and what else tells curves apart; of ours, that alone.
pub(crate) fn name_by(key: &'static str) -> impl Fn(&Record) -> String {
    move |record: &Record| match (record.system.as_str(), record.text(key)) {
        (FARSIDE, Some(what)) => what,
        (system, Some(what)) => format!("{system} {what}"),
        (system, None) => system.to_owned(),
    }
}

/// One curve for each name, of two figures of each record; dashed unless it is of ours.
pub(crate) fn curves<'a>(
    records: impl IntoIterator<Item = &'a Record>,
    name: impl Fn(&Record) -> String,
    (x, y): (&str, &str),
) -> Vec<Series> {
    let curve = |(name, of): (String, Vec<&Record>)| {
        let point = |record: &&Record| Some((record.number(x)?, record.number(y)?));
        let points: Vec<(f64, f64)> = of.iter().filter_map(point).collect();
        (!points.is_empty()).then(|| Series { name, points, dashed: !of[0].is_ours() })
    };
    grouped(records, name).into_iter().filter_map(curve).collect()
}

/// One group of bars for each label, with one figure of each of its records.
pub(crate) fn bars<'a>(
    records: impl IntoIterator<Item = &'a Record>,
    label: impl Fn(&Record) -> String,
    name: impl Fn(&Record) -> String,
    figure: &str,
) -> Vec<Group> {
    let group = |(label, of): (String, Vec<&Record>)| {
        let bar = |record: &&Record| Some((name(record), record.number(figure)?));
        let bars: Vec<(String, f64)> = of.iter().filter_map(bar).collect();
        (!bars.is_empty()).then_some(Group { label, bars })
    };
    grouped(records, label).into_iter().filter_map(group).collect()
}

/// A drawing of what was measured.
pub struct Plot {
    caption: String,
    file: String,
    svg: String,
}

impl Plot {
    /// A drawing of curves; nothing if there are none.
    pub(crate) fn of_curves(caption: &str, file: impl Into<String>, chart: &Chart) -> Option<Plot> {
        let plot = || Plot { caption: caption.into(), file: file.into(), svg: chart.to_svg() };
        (!chart.series.is_empty()).then(plot)
    }

    /// Likewise of bars.
    pub(crate) fn of_bars(
        caption: &str,
        file: impl Into<String>,
        chart: &BarChart,
    ) -> Option<Plot> {
        let plot = || Plot { caption: caption.into(), file: file.into(), svg: chart.to_svg() };
        (!chart.groups.is_empty()).then(plot)
    }
}

/// The axes of most charts.
pub(crate) fn over_ranks() -> Axis {
    Axis::new("ranks", Scale::Log2, Unit::Count)
}

/// Likewise.
pub(crate) fn time(label: &str) -> Axis {
    Axis::new(label, Scale::Log10, Unit::Ns)
}

/// Writes drawings into a directory, and a page that shows them.
pub(crate) fn write_plots(title: &str, directory: &Path, plots: &[Plot]) -> Result<()> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    plots.iter().try_for_each(|plot| write(&plot.file, &plot.svg))?;
    let list: Vec<(&str, &str)> =
        plots.iter().map(|plot| (plot.caption.as_str(), plot.file.as_str())).collect();
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
