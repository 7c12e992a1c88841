//! The invariants of the workspace as a program.
//!
//! A rule that is only written down is followed until the first hurry. Each module here is one rule
//! or a few related ones; what they look at is prepared by [`source`], so that no rule about code
//! is fooled by a comment or a string.

mod circles;
mod columns;
mod copies;
mod dependencies;
mod headers;
mod layers;
mod lengths;
mod links;
mod packed;
mod retired;
mod source;
mod unsafe_code;
mod waist;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

pub(crate) use self::dependencies::metadata;
use self::retired::Retired;
#[cfg(test)]
use self::source::Source;
use self::source::Tree;
use self::waist::Width;
use crate::process::output;

const UNSAFE_LIST: &str = "xtask/unsafe-files.txt";

/// Checks the workspace at `root`; an error says how many violations were printed.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut report = Report::default();
    let paths = tracked(root)?;
    let tree = Tree::load(root, &paths, &mut report)?;
    match metadata(root) {
        Ok(metadata) => dependencies::check(root, &metadata, &mut report),
        // The other rules can do without, and what they find may be the cause.
        Err(error) => report.violation("Cargo.toml", 1, format!("correct this first: {error:#}")),
    }
    let retired_words = read(root, retired::LIST)?;
    let retired = Retired::read(&retired_words, &mut report);
    for source in &tree.sources {
        copies::check(source, &mut report);
        layers::check(source, &mut report);
        lengths::check(source, &mut report);
        retired.check_names(source, &mut report);
        words::check(source, &mut report);
    }
    for document in documents(root, &paths) {
        columns::check(&document, &mut report);
        retired.check_spans(&document, &mut report);
    }
    unsafe_code::check(&tree, &read(root, UNSAFE_LIST)?, &mut report);
    headers::check(&tree, &read(root, headers::PROMISES)?, &mut report);
    packed::check(&tree, &read(root, packed::LIST)?, &mut report);
    links::check(root, &paths, &mut report)?;
    let of_waist = |document: &Document| document.path.starts_with(waist::FOLDER);
    let waist: Vec<Document> = documents(root, &paths).into_iter().filter(of_waist).collect();
    let Width { required, methods } = waist::check(&waist, &mut report);
    circles::check(&tree, &mut report);
    let violations = report.print();
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for source in &tree.sources {
        *lines.entry(source.group()).or_default() += source.text.lines().count();
    }
    let lines: Vec<_> = lines.iter().map(|(group, lines)| format!("{group} {lines}")).collect();
    println!("tidy: lines of Rust: {}", lines.join(", "));
    println!("tidy: the waist has {methods} methods, and a fabric must write {required} of them");
    println!("tidy: {violations} violations in {} source files", tree.sources.len());
    match violations {
        0 => Ok(()),
        1 => bail!("1 violation"),
        many => bail!("{many} violations"),
    }
}

struct Document {
    /// The path from the root of the workspace, with slashes.
    path: String,
    text: String,
}

fn read(root: &Path, path: &str) -> Result<String> {
    fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))
}

/// Lists the files that belong to the workspace at `root`: those that git tracks. What a command
/// has written there, or a user has left, is nobody's business; a new file is looked at once it is
/// added.
fn tracked(root: &Path) -> Result<Vec<String>> {
    let list = ["ls-files", "-z", "--cached"];
    let paths = String::from_utf8(output(Command::new("git").current_dir(root).args(list))?)
        .context("a path is not UTF-8")?;
    // What is deleted and not yet committed is listed all the same.
    let is_there = |path: &&str| root.join(path).is_file();
    Ok(paths.split_terminator('\0').filter(is_there).map(str::to_owned).collect())
}

/// Reads those of these files that are text.
fn documents(root: &Path, paths: &[String]) -> Vec<Document> {
    let read = |path: &String| {
        let text = fs::read_to_string(root.join(path)).ok()?;
        Some(Document { path: path.clone(), text })
    };
    paths.iter().filter_map(read).collect()
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// The violations, in the order of their places.
#[derive(Debug, Default)]
struct Report(BTreeSet<Finding>);

impl Report {
    fn violation(&mut self, path: &str, line: usize, message: impl Into<String>) {
        let (path, message) = (path.to_owned(), message.into());
        self.0.insert(Finding { path, line, message });
    }

    /// Prints everything, and returns how many there are.
    fn print(&self) -> usize {
        self.0.iter().for_each(|violation| println!("{violation}"));
        self.0.len()
    }
}

/// The lines of no violation, for tests to compare with.
#[cfg(test)]
const NOWHERE: [usize; 0] = [];

#[cfg(test)]
impl Report {
    /// What a rule says of a file.
    fn of(check: fn(&Source, &mut Report), path: &str, text: &str) -> Report {
        let mut report = Report::default();
        check(&Source::parse(path, text).unwrap(), &mut report);
        report
    }

    /// The lines of all violations, for tests which know what stands there.
    fn lines(&self) -> Vec<usize> {
        self.0.iter().map(|finding| finding.line).collect()
    }

    fn text(&self) -> String {
        let lines: Vec<String> = self.0.iter().map(Finding::to_string).collect();
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_tracked_is_not_looked_at() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        let git = |words: &[&str]| {
            output(Command::new("git").current_dir(root).args(words)).unwrap();
        };
        git(&["init", "-q"]);
        for path in ["src/a.rs", "figures/index.html", "figures/a.rs", "docs/a.md"] {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            // Neither a line of this length nor the next one is allowed in a source.
            fs::write(root.join(path), format!("fn a() {{ {} }}\n@\n", "1;".repeat(100))).unwrap();
        }
        git(&["add", "src/a.rs"]);
        let paths = tracked(root).unwrap();
        assert_eq!(paths, ["src/a.rs"]);
        let mut report = Report::default();
        Tree::load(root, &paths, &mut report).unwrap();
        for document in documents(root, &paths) {
            columns::check(&document, &mut report);
        }
        links::check(root, &paths, &mut report).unwrap();
        // The line that is too long, and what is not Rust.
        assert_eq!(report.lines(), [1, 2], "{}", report.text());
        assert!(report.text().starts_with("src/a.rs:1: "), "{}", report.text());
    }
}
