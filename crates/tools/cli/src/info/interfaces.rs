//! The network interfaces of this host, those included that reach memory by themselves.

use serde_json::{Value, json};

use super::Section;

/// Where the system lists interfaces, and what those are.
const CLASSES: [(&str, &str); 3] =
    [("net", "network"), ("infiniband", "verbs or EFA"), ("cxi", "Slingshot")];

/// Whether there is one that needs memory to be locked.
pub(super) fn reaches_memory() -> bool {
    ["infiniband", "cxi"].iter().any(|class| !names(class).is_empty())
}

pub(super) fn section() -> Section {
    let rows = CLASSES.iter().flat_map(|(class, kind)| {
        names(class).into_iter().map(move |name| {
            let number = |file: &str| {
                let text = std::fs::read_to_string(format!("/sys/class/{class}/{name}/{file}"))
                    .unwrap_or_default();
                text.trim()
                    .parse::<i64>()
                    .ok()
                    .filter(|&number| number > 0)
                    .map_or(Value::Null, |number| json!(number))
            };
            vec![json!(name), json!(kind), number("mtu"), number("speed")]
        })
    });
    Section {
        name: "interfaces",
        columns: &["interface", "kind", "mtu", "mbit_per_s"],
        rows: rows.collect(),
    }
}

fn names(class: &str) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/sys/class/{class}")).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
