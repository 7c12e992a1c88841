//! The invariants of the workspace as a program.
//!
//! A rule that is only written down is followed until the first hurry. Each module here is one rule
//! or a few related ones; what they look at is prepared by [`source`], so that no rule about code
//! is fooled by a comment or a string.

mod circles;
mod columns;
mod copies;
mod dependencies;
mod folders;
mod headers;
mod layers;
mod lengths;
mod links;
mod packed;
mod promises;
mod retired;
mod source;
mod unsafe_code;
mod waist;
mod words;

#[cfg(test)]
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use self::retired::Retired;
use self::source::Tree;
use self::waist::Width;

const UNSAFE_LIST: &str = "xtask/unsafe-files.txt";

/// Checks the workspace at `root`; an error says how many violations were printed.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut report = Report::default();
    let paths = tracked(root)?;
    let tree = Tree::load(root, &paths, &mut report)?;
    match dependencies::metadata(root) {
        Ok(metadata) => dependencies::check(root, &metadata, &mut report),
        // The other rules can do without, and what they find may be the cause.
        Err(error) => report.violation("Cargo.toml", 1, format!("correct this first: {error:#}")),
    }
    let retired_words = read(root, retired::LIST)?;
    let retired = Retired::read(&retired_words, &mut report);
    for source in &tree.sources {
        copies::check(source, &mut report);
        folders::check(source, &mut report);
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
    headers::check(&tree, &mut report);
    promises::check(&tree, &read(root, promises::FILE)?, &mut report);
    packed::check(&tree, &read(root, packed::LIST)?, &mut report);
    links::check(root, &paths, &mut report)?;
    let of_waist = |document: &Document| document.path.starts_with(waist::FOLDER);
    let waist: Vec<Document> = documents(root, &paths).into_iter().filter(of_waist).collect();
    let Width { required, methods } = waist::check(&waist, &mut report);
    let in_circles = circles::check(&tree, &mut report);
    println!("tidy: the waist has {methods} methods, and a fabric must write {required} of them");
    println!("tidy: {in_circles} files use each other in circles");
    report.print();
    println!(
        "tidy: {} violations, {} warnings in {} source files",
        report.violations.len(),
        report.warnings.len(),
        tree.sources.len()
    );
    match report.violations.len() {
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
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached"]);
    let output = git.output().context("cannot run git, which says what belongs to the tree")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git cannot list the tree: {}", complaint.trim());
    let paths = String::from_utf8(output.stdout).context("a path is not UTF-8")?;
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

#[derive(Debug, Default)]
struct Report {
    violations: Vec<Finding>,
    warnings: Vec<Finding>,
}

impl Report {
    fn violation(&mut self, path: &str, line: usize, message: impl Into<String>) {
        let (path, message) = (path.to_owned(), message.into());
        self.violations.push(Finding { path, line, message });
    }

    fn warning(&mut self, path: &str, line: usize, message: impl Into<String>) {
        let (path, message) = (path.to_owned(), message.into());
        self.warnings.push(Finding { path, line, message });
    }

    /// Prints everything, in the order of the places, warnings first so that violations stay in
    /// sight.
    fn print(&mut self) {
        self.warnings.sort();
        self.violations.sort();
        self.violations.dedup();
        for warning in &self.warnings {
            println!("{}:{}: warning: {}", warning.path, warning.line, warning.message);
        }
        for violation in &self.violations {
            println!("{violation}");
        }
    }
}

/// The lines of no violation, for tests to compare with.
#[cfg(test)]
const NOWHERE: [usize; 0] = [];

#[cfg(test)]
impl Report {
    /// The lines of all violations, for tests which know what stands there.
    fn lines(&self) -> Vec<usize> {
        let findings: BTreeSet<&Finding> = self.violations.iter().collect();
        findings.into_iter().map(|finding| finding.line).collect()
    }

    fn text(&self) -> String {
        let lines: Vec<String> = self.violations.iter().map(Finding::to_string).collect();
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_prints_as_path_line_message() {
        let mut report = Report::default();
        report.violation("crates/runtime/a/src/b.rs", 7, "wrong: make it right");
        assert_eq!(report.text(), "crates/runtime/a/src/b.rs:7: wrong: make it right");
    }

    #[test]
    fn the_rules_accept_the_program_that_states_them() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut report = Report::default();
        let paths = tracked(root).unwrap();
        let tree = Tree::load(root, &paths, &mut report).unwrap();
        assert!(tree.sources.len() > 10, "the sources of this crate were not found");
        for source in &tree.sources {
            layers::check(source, &mut report);
            lengths::check(source, &mut report);
            words::check(source, &mut report);
        }
        for document in documents(root, &paths) {
            columns::check(&document, &mut report);
        }
        unsafe_code::check(&tree, "", &mut report);
        assert_eq!(report.text(), "");
        assert_eq!(report.warnings, []);
    }

    /// A tree of git with these files, of which the first is tracked; it is removed when dropped.
    struct Tracked(tempfile::TempDir);

    impl Tracked {
        fn new(files: &[&str]) -> Tracked {
            let scratch = tempfile::tempdir().unwrap();
            let root = scratch.path();
            for path in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                // Neither a line of this length nor this is allowed in a source.
                fs::write(path, format!("fn a() {{ {} }}\n@\n", "1;".repeat(100))).unwrap();
            }
            for words in [&["init", "-q"][..], &["add", files[0]]] {
                assert!(
                    Command::new("git").current_dir(root).args(words).status().unwrap().success()
                );
            }
            Tracked(scratch)
        }
    }

    #[test]
    fn what_is_not_tracked_is_not_looked_at() {
        let files = ["src/a.rs", "figures/index.html", "figures/a.rs", "docs/a.md"];
        let tree = Tracked::new(&files);
        let paths = tracked(tree.0.path()).unwrap();
        assert_eq!(paths, ["src/a.rs"]);
        let mut report = Report::default();
        Tree::load(tree.0.path(), &paths, &mut report).unwrap();
        for document in documents(tree.0.path(), &paths) {
            columns::check(&document, &mut report);
        }
        links::check(tree.0.path(), &paths, &mut report).unwrap();
        // The line that is too long, and what is not Rust.
        assert_eq!(report.lines(), [1, 2], "{}", report.text());
    }
}
