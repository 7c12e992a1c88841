//! `cargo xtask quick`: a verdict on what was changed, within a minute on a warm tree.
//!
//! Formatting and the invariants of the workspace are checked whole. Lints and unit tests run for
//! the crates that have changed; the crates that depend on them directly must compile. All the rest
//! is left to `cargo xtask test`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process::{Runner, Task, output};
use crate::tidy;

/// Checks what has changed since `since`, or since the branch left `main`.
pub(crate) fn run(root: &Path, since: Option<&str>, at_most: Duration) -> Result<()> {
    let started = Instant::now();
    let runner = Runner::start(at_most)?;
    let files = changed_files(root, since)?;
    let crates = Crates::of_metadata(root, &tidy::metadata(root)?);
    let changed = crates.of(&files);
    let dependents = crates.dependents(&changed);
    println!("changed: {}", words(&changed, "no crate"));
    let mut tasks = vec![Task::new(root, "cargo", "fmt --all --check")];
    if !changed.is_empty() {
        let packages = packages(&changed);
        let clippy = format!("clippy {packages} --all-targets -- -D warnings");
        tasks.push(Task::new(root, "cargo", &clippy));
        let tested: BTreeSet<&str> =
            changed.iter().copied().filter(|name| crates.has_library(name)).collect();
        if !tested.is_empty() {
            let line = format!("test {} --lib", self::packages(&tested));
            tasks.push(Task::new(root, "cargo", &line));
        }
    }
    if !dependents.is_empty() {
        println!("direct dependents, which must compile: {}", words(&dependents, ""));
        tasks.push(Task::new(root, "cargo", &format!("check {}", packages(&dependents))));
    }
    tidy::run(root).context("`cargo xtask tidy`")?;
    tasks.iter().try_for_each(|task| runner.run(task))?;
    println!("quick: good, after {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// The files that differ from a commit, and those that git does not know yet.
fn changed_files(root: &Path, since: Option<&str>) -> Result<Vec<String>> {
    let base = match since {
        Some(commit) => commit.to_owned(),
        None => {
            let main = ["origin/main", "main"].into_iter();
            let base = main.filter_map(|main| git(root, &["merge-base", "HEAD", main]).ok()).next();
            base.map_or_else(|| "HEAD".to_owned(), |base| base.trim().to_owned())
        }
    };
    let differing = git(root, &["diff", "--name-only", &base])?;
    let unknown = git(root, &["ls-files", "--others", "--exclude-standard"])?;
    Ok(differing.lines().chain(unknown.lines()).map(str::to_owned).collect())
}

fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    let said = output(Command::new("git").current_dir(root).args(arguments))?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

fn packages(names: &BTreeSet<&str>) -> String {
    names.iter().map(|name| format!("-p {name}")).collect::<Vec<String>>().join(" ")
}

fn words(names: &BTreeSet<&str>, none: &str) -> String {
    if names.is_empty() {
        return none.to_owned();
    }
    names.iter().copied().collect::<Vec<&str>>().join(", ")
}

struct Crates(Vec<Package>);

struct Package {
    name: String,
    /// Relative to the root, with a slash at its end.
    directory: String,
    has_library: bool,
    /// What it depends on, tests included.
    dependencies: BTreeSet<String>,
}

impl Crates {
    fn of_metadata(root: &Path, metadata: &Value) -> Crates {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let package = |package: &Value| {
            let manifest = text(&package["manifest_path"]);
            let directory = Path::new(&manifest).parent().unwrap_or(root);
            let directory = directory.strip_prefix(root).unwrap_or(directory);
            let is_library = |target: &Value| {
                let kinds = list(&target["kind"]);
                kinds.iter().any(|kind| kind == "lib" || kind == "proc-macro")
            };
            Package {
                name: text(&package["name"]),
                directory: format!("{}/", directory.display()),
                has_library: list(&package["targets"]).iter().any(is_library),
                dependencies: list(&package["dependencies"])
                    .iter()
                    .map(|dependency| text(&dependency["name"]))
                    .collect(),
            }
        };
        Crates(list(&metadata["packages"]).iter().map(package).collect())
    }

    fn of(&self, files: &[String]) -> BTreeSet<&str> {
        let is_changed = |package: &&Package| {
            // A page changes no program.
            files.iter().any(|file| file.starts_with(&package.directory) && !file.ends_with(".md"))
        };
        self.0.iter().filter(is_changed).map(|package| package.name.as_str()).collect()
    }

    /// The crates that depend on some of these, and are none of them.
    fn dependents(&self, changed: &BTreeSet<&str>) -> BTreeSet<&str> {
        let depends = |package: &&Package| {
            package.dependencies.iter().any(|name| changed.contains(name.as_str()))
        };
        let names = self.0.iter().filter(depends).map(|package| package.name.as_str());
        names.filter(|name| !changed.contains(name)).collect()
    }

    fn has_library(&self, name: &str) -> bool {
        self.0.iter().any(|package| package.name == name && package.has_library)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_lead_to_crates_and_crates_to_their_dependents() {
        let package = |name: &str, on: &[&str], kind: &str| {
            let on: Vec<Value> = on.iter().map(|on| json!({ "name": on })).collect();
            let manifest = format!("/w/crates/{name}/Cargo.toml");
            let targets = json!([{ "kind": [kind] }]);
            json!({ "name": name, "manifest_path": manifest, "dependencies": on,
                    "targets": targets })
        };
        let packages = [
            package("low", &[], "lib"),
            package("middle", &["low", "serde"], "lib"),
            package("top", &["middle"], "bin"),
        ];
        let crates = Crates::of_metadata(Path::new("/w"), &json!({ "packages": packages }));
        let files = |files: &[&str]| files.iter().map(|&file| file.to_owned()).collect::<Vec<_>>();
        let changed = crates.of(&files(&["crates/low/src/lib.rs", "crates/lower/src/lib.rs"]));
        assert_eq!(changed, BTreeSet::from(["low"]));
        assert_eq!(crates.dependents(&changed), BTreeSet::from(["middle"]));
        assert!(crates.of(&files(&["docs/a.md", "crates/low/README.md"])).is_empty());
        assert!(crates.has_library("low") && !crates.has_library("top"));
        assert_eq!(super::packages(&changed), "-p low");
    }
}
