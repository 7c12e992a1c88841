//! The folders of a crate that have an order use only those before them.

use super::Report;
use super::source::Source;

/// The crates whose modules have an order, each with its modules from the lowest up. A module of
/// the list uses those before it, and itself; one that is not in the list is free.
const ORDERS: &[(&str, &[&str])] = &[(
    "nic",
    &[
        "settings",
        "clock",
        "lock",
        "transport",
        "wire",
        "link",
        "initiator",
        "target",
        "node",
        "endpoint",
    ],
)];

/// Checks the paths of one file. Tests may use everything.
pub(super) fn check(source: &Source, report: &mut Report) {
    let order = ORDERS.iter().find(|(name, _)| source.crate_directory() == Some(name));
    let module = source.path_in_crate().and_then(module_of);
    let (Some((_, order)), Some(module)) = (order, module) else { return };
    let Some(own) = order.iter().position(|name| *name == module) else { return };
    for path in &source.paths {
        if source.is_test(path.line) {
            continue;
        }
        for above in
            order[own + 1..].iter().filter(|above| path.contains(&format!("crate::{above}")))
        {
            let message = format!(
                "`crate::{above}` in `{module}`, which is below it: move what both need down, or \
                 hand it over as an argument"
            );
            report.violation(&source.path, path.line, message);
        }
    }
}

/// The topmost module that a file of `src` is in.
fn module_of(path: &str) -> Option<&str> {
    let first = path.strip_prefix("src/")?.split('/').next()?;
    Some(first.strip_suffix(".rs").unwrap_or(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::NOWHERE;

    fn check_text(path: &str, text: &str) -> Report {
        let mut report = Report::default();
        check(&Source::parse(path, text).unwrap(), &mut report);
        report
    }

    #[test]
    fn a_folder_may_use_those_below_it_only() {
        let text = "use crate::transport::Address;\nuse crate::{lock::lock, node::server};\n\
                    fn a() { crate::endpoint::b(); }\nuse crate::link::Sender;";
        assert_eq!(check_text("crates/runtime/nic/src/link/sender.rs", text).lines(), [2, 3]);
        assert_eq!(check_text("crates/runtime/nic/src/link.rs", text).lines(), [2, 3]);
        assert_eq!(check_text("crates/runtime/nic/src/endpoint/far.rs", text).lines(), NOWHERE);
    }

    #[test]
    fn tests_other_modules_and_other_crates_are_free() {
        let text = "use crate::node::server;";
        for path in [
            "crates/runtime/nic/src/fuzzing.rs",
            "crates/runtime/shm/src/link.rs",
            "crates/runtime/nic/tests/a.rs",
        ] {
            assert_eq!(check_text(path, text).lines(), NOWHERE, "{path}");
        }
        let text = "#[cfg(test)]\nmod tests {\n    use crate::node::server;\n}";
        assert_eq!(check_text("crates/runtime/nic/src/link/sender.rs", text).lines(), NOWHERE);
    }
}
