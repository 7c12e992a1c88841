//! Dependencies point one way only, a fabric's name cannot be hidden behind another, and a crate is
//! in the folder of its layer.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Report;
use crate::process::output;

/// For each crate its layer, which is the folder below `crates/` that it is in, and the crates of
/// the workspace that it may depend on, from the bottom to the top. Names are without `farside-`.
#[rustfmt::skip]
const ALLOWED: &[(&str, &str, &str)] = &[
    ("runtime", "fabric", ""),
    ("runtime", "shm", "fabric"),
    ("runtime", "nic", "fabric shm"),
    ("runtime", "ofi", "fabric shm nic"),
    ("verification", "sim", "fabric"),
    ("runtime", "rma", "fabric"),
    ("runtime", "sync", "fabric rma"),
    ("runtime", "epoch", "fabric rma sync"),
    ("runtime", "pager", ""),
    ("runtime", "dsm", "fabric pager rma sync"),
    ("runtime", "containers", "fabric rma sync"),
    ("tools", "races", "fabric"),
    ("runtime", "macros", ""),
    ("runtime", "job", "fabric shm nic ofi races rma"),
    ("runtime", "farside", "fabric job macros races sim rma sync epoch dsm containers"),
    ("interfaces", "interop", "farside fabric pager"),
    ("interfaces", "capi", "farside interop"),
    ("interfaces", "shmem", "farside interop"),
    ("interfaces", "mpi", "farside interop"),
    ("interfaces", "python", "farside interop"),
    ("tools", "inspect", "fabric shm"),
    ("tools", "launch", "job inspect fabric"),
    ("tools", "command", "fabric launch"),
    ("verification", "check", "farside epoch sync rma fabric job command"),
    ("development", "testing", "job launch"),
    ("development", "conformance", "farside job launch rma fabric"),
    ("laboratory", "apps", "farside fabric job"),
    ("laboratory", "bench", "farside job launch apps command shm fabric"),
    ("laboratory", "figures", "farside bench command"),
    ("tools", "cli",
     "fabric shm nic ofi sim rma sync epoch pager dsm containers job races farside \
      conformance inspect launch apps command"),
    ("xtask", "xtask", ""),
];

/// Crates that may not depend on the workspace even in their tests. The others may: a protocol is
/// tested on a fabric that it does not know.
const ALONE_IN_TESTS_TOO: &[&str] = &["fabric"];

/// What cargo knows about the workspace.
pub(crate) fn metadata(root: &Path) -> Result<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root).args(["metadata", "--format-version", "1", "--no-deps"]);
    serde_json::from_slice(&output(&mut command)?)
        .context("cargo metadata printed something else than JSON")
}

fn short(name: &str) -> &str {
    name.strip_prefix("farside-").unwrap_or(name)
}

pub(super) fn check(root: &Path, metadata: &Value, report: &mut Report) {
    let packages = list(&metadata["packages"]);
    let ours: BTreeSet<&str> = packages.iter().map(|package| word(&package["name"])).collect();
    for package in packages {
        let name = word(&package["name"]);
        let manifest = Manifest::read(root, word(&package["manifest_path"]));
        let mut refuse = |line, message: String| report.violation(&manifest.path, line, message);
        let Some((layer, _, allowed)) = ALLOWED.iter().find(|row| row.1 == short(name)) else {
            let advice = "add it to the table ALLOWED in xtask/src/tidy/dependencies.rs";
            let message = format!("the direction of the crate {name} is not known: {advice}");
            refuse(manifest.line_of(name), message);
            continue;
        };
        if !manifest.path.trim_start_matches("crates/").starts_with(&format!("{layer}/")) {
            refuse(1, format!("{name} is of the layer {layer}: move it to crates/{layer}"));
        }
        let dependencies = list(&package["dependencies"]).iter();
        for dependency in dependencies.filter(|it| ours.contains(word(&it["name"]))) {
            let on = word(&dependency["name"]);
            let line = manifest.line_of(on);
            if !dependency["rename"].is_null() {
                refuse(line, format!("{on} is renamed, which hides who uses it: use its own name"));
            }
            let for_tests = word(&dependency["kind"]) == "dev";
            if for_tests && ALONE_IN_TESTS_TOO.contains(&short(name)) {
                refuse(
                    line,
                    format!("{name} may not depend on {on}, not even in its tests: test it above"),
                );
            } else if !for_tests && !allowed.split(' ').any(|allowed| allowed == short(on)) {
                let may = if allowed.is_empty() { "nothing of ours" } else { allowed };
                let advice = "move the code to the right layer";
                refuse(line, format!("{name} may not depend on {on}, only on {may}: {advice}"));
            }
        }
    }
}

/// A manifest, for the sake of the line in a message.
struct Manifest {
    path: String,
    text: String,
}

impl Manifest {
    fn read(root: &Path, path: &str) -> Self {
        let relative = Path::new(path).strip_prefix(root).unwrap_or(Path::new(path));
        Self {
            path: relative.display().to_string(),
            text: fs::read_to_string(path).unwrap_or_default(),
        }
    }

    /// The first line that has `name` as a whole, or else the first.
    fn line_of(&self, name: &str) -> usize {
        let separator = |c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_';
        let names = |line: &str| line.split(separator).any(|part| part == name);
        self.text.lines().position(names).map_or(1, |index| index + 1)
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Checks a workspace of one crate of the runtime, which has one dependency.
    fn check_dependency(name: &str, dependency: Value) -> String {
        let package = |name: &str, layer: &str, dependencies: &[&Value]| {
            let manifest = format!("/w/crates/{layer}/{name}/Cargo.toml");
            json!({ "name": name, "manifest_path": manifest, "dependencies": dependencies })
        };
        let on = ALLOWED.iter().filter(|row| format!("farside-{}", row.1) != name);
        let on = on.map(|row| package(&format!("farside-{}", row.1), row.0, &[]));
        let packages: Vec<Value> = on.chain([package(name, "runtime", &[&dependency])]).collect();
        let mut report = Report::default();
        check(Path::new("/w"), &json!({ "packages": packages }), &mut report);
        let said = report.text();
        said.lines().filter(|line| line.contains(&format!("/{name}/"))).collect()
    }

    #[test]
    fn dependencies_point_downwards_and_only_tests_may_use_a_fabric() {
        for (name, on, kind, expected) in [
            ("rma", "sync", None, "Cargo.toml:1: farside-rma may not depend on farside-sync"),
            ("sync", "rma", None, ""),
            ("sync", "sim", Some("dev"), ""),
            ("sync", "sim", None, "may not depend on farside-sim"),
            ("sync", "sim", Some("build"), "may not depend on farside-sim"),
            ("fabric", "shm", Some("dev"), "not even in its tests"),
        ] {
            let dependency =
                json!({ "name": format!("farside-{on}"), "kind": kind, "rename": null });
            let said = check_dependency(&format!("farside-{name}"), dependency);
            assert!(said.contains(expected), "{name} on {on}: {said}");
            assert_eq!(said.is_empty(), expected.is_empty(), "{name} on {on}: {said}");
        }
        let foreign = json!({ "name": "serde", "kind": null, "rename": null });
        assert_eq!(check_dependency("farside-rma", foreign), "");
        let renamed = json!({ "name": "farside-shm", "kind": null, "rename": "memory" });
        assert!(check_dependency("farside-nic", renamed).contains("is renamed"));
    }

    #[test]
    fn a_crate_is_known_and_in_the_folder_of_its_layer() {
        let said = |name: &str, manifest: &str| {
            let package = json!({ "name": name, "manifest_path": manifest, "dependencies": [] });
            let mut report = Report::default();
            check(Path::new("/w"), &json!({ "packages": [package] }), &mut report);
            report.text()
        };
        assert!(
            said("farside-new", "/w/crates/tools/new/Cargo.toml").contains("add it to the table")
        );
        assert!(
            said("farside-shm", "/w/crates/tools/shm/Cargo.toml").contains("of the layer runtime")
        );
        assert_eq!(said("farside-shm", "/w/crates/runtime/shm/Cargo.toml"), "");
        assert_eq!(said("xtask", "/w/xtask/Cargo.toml"), "");
    }

    #[test]
    fn the_table_itself_points_one_way() {
        for (index, (_, name, allowed)) in ALLOWED.iter().enumerate() {
            for on in allowed.split_whitespace() {
                let below = ALLOWED.iter().position(|row| row.1 == on).unwrap();
                assert!(below < index, "{name} stands below {on}");
            }
        }
    }

    #[test]
    fn a_message_names_the_line_of_the_dependency() {
        let text =
            "[dependencies]\nfarside-shm-extra = 1\nfarside-shm.workspace = true\n".to_owned();
        let manifest = Manifest { path: String::new(), text };
        assert_eq!(manifest.line_of("farside-shm"), 3);
        assert_eq!(manifest.line_of("farside-nic"), 1);
    }
}
