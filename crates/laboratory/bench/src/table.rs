//! How tables look.

use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;

pub(crate) fn plain_table<T: ToString>(header: impl IntoIterator<Item = T>) -> Table {
    let mut table = Table::new();
    let header: Vec<String> = header.into_iter().map(|cell| cell.to_string()).collect();
    table.load_style(UTF8_FULL_CONDENSED).set_header(header);
    table
}
