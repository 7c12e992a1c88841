//! What the reports of all benches have in common: plain tables, and a directory of plots with a
//! page of them all.

use std::path::Path;

use anyhow::{Context as _, Result};
use comfy_table::{Cell, CellAlignment, Table, presets::UTF8_FULL_CONDENSED};

use crate::plot::index_html;
use crate::record::Record;

/// A table of these rows. Columns of numbers stand to the right.
pub(crate) fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(header);
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
    record.attribute(key).map_or("-".into(), |value| value.to_string())
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
    write("index.html", &index_html(title, &list))
}
