//! Dependencies point one way only, and a fabric's name cannot be hidden behind another.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Report;

/// For each crate the crates of the workspace that it may depend on, from the bottom to the top.
const ALLOWED: &[(&str, &[&str])] = &[
    ("farside-fabric", &[]),
    ("farside-shm", &["farside-fabric"]),
    ("farside-nic", &["farside-fabric", "farside-shm"]),
    ("farside-ofi", &["farside-fabric", "farside-shm", "farside-nic"]),
    ("farside-sim", &["farside-fabric"]),
    ("farside-rma", &["farside-fabric"]),
    ("farside-sync", &["farside-fabric", "farside-rma"]),
    ("farside-epoch", &["farside-fabric", "farside-rma", "farside-sync"]),
    ("farside-pager", &[]),
    ("farside-dsm", &["farside-fabric", "farside-pager", "farside-rma", "farside-sync"]),
    ("farside-containers", &["farside-fabric", "farside-rma", "farside-sync"]),
    ("farside-races", &["farside-fabric"]),
    ("farside-macros", &[]),
    (
        "farside-job",
        &[
            "farside-fabric",
            "farside-shm",
            "farside-nic",
            "farside-ofi",
            "farside-races",
            "farside-rma",
        ],
    ),
    (
        "farside",
        &[
            "farside-fabric",
            "farside-job",
            "farside-macros",
            "farside-races",
            "farside-sim",
            "farside-rma",
            "farside-sync",
            "farside-epoch",
            "farside-dsm",
            "farside-containers",
        ],
    ),
    ("farside-interop", &["farside", "farside-fabric", "farside-pager"]),
    ("farside-capi", &["farside", "farside-interop"]),
    ("farside-shmem", &["farside", "farside-interop"]),
    ("farside-mpi", &["farside", "farside-interop"]),
    ("farside-python", &["farside", "farside-interop"]),
    ("farside-inspect", &["farside-fabric", "farside-shm"]),
    ("farside-launch", &["farside-job", "farside-inspect", "farside-fabric"]),
    ("farside-command", &["farside-fabric", "farside-launch"]),
    (
        "farside-check",
        &[
            "farside",
            "farside-epoch",
            "farside-sync",
            "farside-rma",
            "farside-fabric",
            "farside-job",
            "farside-command",
        ],
    ),
    ("farside-testing", &["farside-job", "farside-launch"]),
    (
        "farside-conformance",
        &["farside", "farside-job", "farside-launch", "farside-rma", "farside-fabric"],
    ),
    ("farside-apps", &["farside", "farside-fabric", "farside-job"]),
    (
        "farside-bench",
        &[
            "farside",
            "farside-job",
            "farside-launch",
            "farside-apps",
            "farside-command",
            "farside-shm",
            "farside-fabric",
        ],
    ),
    ("farside-figures", &["farside", "farside-bench", "farside-command"]),
    (
        "farside-cli",
        &[
            "farside-fabric",
            "farside-shm",
            "farside-nic",
            "farside-ofi",
            "farside-sim",
            "farside-rma",
            "farside-sync",
            "farside-epoch",
            "farside-pager",
            "farside-dsm",
            "farside-containers",
            "farside-job",
            "farside-races",
            "farside",
            "farside-conformance",
            "farside-inspect",
            "farside-launch",
            "farside-apps",
            "farside-command",
        ],
    ),
    ("xtask", &[]),
];

/// Crates that may not depend on the workspace even in their tests. The others may: a protocol is
/// tested on a fabric that it does not know.
const ALONE_IN_TESTS_TOO: &[&str] = &["farside-fabric"];

/// What cargo knows about the workspace.
pub(super) fn metadata(root: &Path) -> Result<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root)
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout)
        .context("cargo metadata printed something else than JSON")
}

pub(super) fn check(root: &Path, metadata: &Value, report: &mut Report) {
    let packages = list(&metadata["packages"]);
    let ours: BTreeSet<&str> = packages.iter().map(|package| word(&package["name"])).collect();
    for package in packages {
        let name = word(&package["name"]);
        let manifest = Manifest::read(root, word(&package["manifest_path"]));
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
            let advice = "add it to the table ALLOWED in xtask/src/tidy/dependencies.rs";
            report.violation(
                &manifest.path,
                manifest.line_of(name),
                format!("the direction of the crate {name} is not known: {advice}"),
            );
            continue;
        };
        let dependencies = list(&package["dependencies"]).iter();
        for dependency in dependencies.filter(|dependency| ours.contains(word(&dependency["name"])))
        {
            check_one(name, allowed, dependency, &manifest, report);
        }
    }
}

fn check_one(
    name: &str,
    allowed: &[&str],
    dependency: &Value,
    manifest: &Manifest,
    report: &mut Report,
) {
    let on = word(&dependency["name"]);
    let line = manifest.line_of(on);
    if !dependency["rename"].is_null() {
        let message = format!("{on} is renamed, which hides who uses it: use its own name");
        report.violation(&manifest.path, line, message);
    }
    let for_tests = word(&dependency["kind"]) == "dev";
    if for_tests && ALONE_IN_TESTS_TOO.contains(&name) {
        let message =
            format!("{name} may not depend on {on}, not even in its tests: test it above");
        report.violation(&manifest.path, line, message);
    } else if !for_tests && !allowed.contains(&on) {
        let may =
            if allowed.is_empty() { "nothing of ours".to_owned() } else { allowed.join(", ") };
        let message = format!(
            "{name} may not depend on {on}, only on {may}: move the code to the right layer"
        );
        report.violation(&manifest.path, line, message);
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

    /// Checks a workspace of all known crates, of which `name` has one dependency.
    fn check_dependency(name: &str, dependency: Value) -> Report {
        let packages: Vec<Value> = ALLOWED
            .iter()
            .map(|(known, _)| {
                let dependencies = if *known == name { vec![dependency.clone()] } else { vec![] };
                let manifest = format!("/w/crates/{known}/Cargo.toml");
                json!({ "name": known, "manifest_path": manifest, "dependencies": dependencies })
            })
            .collect();
        let mut report = Report::default();
        check(Path::new("/w"), &json!({ "packages": packages }), &mut report);
        report
    }

    fn normal(on: &str) -> Value {
        json!({ "name": on, "kind": null, "rename": null })
    }

    #[test]
    fn a_dependency_upwards_is_found_and_one_downwards_is_not() {
        let report = check_dependency("farside-rma", normal("farside-sync"));
        let expected =
            "crates/farside-rma/Cargo.toml:1: farside-rma may not depend on farside-sync";
        assert!(report.text().starts_with(expected), "{}", report.text());
        assert_eq!(check_dependency("farside-sync", normal("farside-rma")).text(), "");
        assert_eq!(check_dependency("farside-rma", normal("serde")).text(), "");
    }

    #[test]
    fn a_protocol_may_not_use_a_fabric_except_in_its_tests() {
        let dev = json!({ "name": "farside-sim", "kind": "dev", "rename": null });
        assert_eq!(check_dependency("farside-sync", dev).text(), "");
        assert_eq!(check_dependency("farside-sync", normal("farside-sim")).lines().len(), 1);
        let build = json!({ "name": "farside-sim", "kind": "build", "rename": null });
        assert_eq!(check_dependency("farside-sync", build).lines().len(), 1);
    }

    #[test]
    fn the_waist_depends_on_nothing_even_in_its_tests() {
        let dev = json!({ "name": "farside-shm", "kind": "dev", "rename": null });
        assert!(check_dependency("farside-fabric", dev).text().contains("not even in its tests"));
    }

    #[test]
    fn an_unknown_crate_and_a_renamed_one_are_found() {
        let mut report = Report::default();
        let packages = json!({ "packages": [{ "name": "farside-new", "dependencies": [] }] });
        check(Path::new("/w"), &packages, &mut report);
        assert!(report.text().contains("add it to the table"));
        let renamed = json!({ "name": "farside-shm", "kind": null, "rename": "memory" });
        assert!(check_dependency("farside-launch", renamed).text().contains("is renamed"));
    }

    #[test]
    fn the_table_itself_points_one_way() {
        for (index, (name, allowed)) in ALLOWED.iter().enumerate() {
            for on in *allowed {
                let below = ALLOWED.iter().position(|(known, _)| known == on).unwrap();
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
