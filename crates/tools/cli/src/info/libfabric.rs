//! The providers of libfabric.

use serde_json::json;

use super::Section;

pub(super) fn section() -> Section {
    let rows = match farside_job::libfabric() {
        Err(why) => vec![vec![json!("libfabric"), json!(false), json!(why.to_string())]],
        Ok((version, providers)) => {
            let found = vec![json!("libfabric"), json!(true), json!(format!("version {version}"))];
            let each = providers.into_iter().enumerate().map(|(place, name)| {
                vec![json!(name), json!(true), json!(if place == 0 { "preferred" } else { "" })]
            });
            std::iter::once(found).chain(each).collect()
        }
    };
    Section { name: "libfabric", columns: &["provider", "here", "note"], rows }
}
