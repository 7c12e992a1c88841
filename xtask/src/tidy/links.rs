//! A link in a document points to a file that exists.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Report;

/// The documents at the root; those in `docs` come in addition.
const DOCUMENTS: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];

/// The directory whose documents are all checked, those in its folders too.
const DIRECTORY: &str = "docs/";

/// Checks those of these files of the workspace at `root` that are documents.
pub(super) fn check(root: &Path, paths: &[String], report: &mut Report) -> Result<()> {
    let in_docs = |path: &str| path.starts_with(DIRECTORY) && path.ends_with(".md");
    let is_checked = |path: &&String| DOCUMENTS.contains(&path.as_str()) || in_docs(path);
    for path in paths.iter().filter(is_checked) {
        let text =
            fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))?;
        let directory = Path::new(path).parent().unwrap_or(Path::new(""));
        let exists = |target: &str| match target.strip_prefix('/') {
            Some(from_root) => root.join(from_root).exists(),
            None => root.join(directory).join(target).exists(),
        };
        check_text(path, &text, exists, report);
    }
    Ok(())
}

fn check_text(path: &str, text: &str, exists: impl Fn(&str) -> bool, report: &mut Report) {
    for (line, target) in links(text) {
        if let Some(file) = file_of(&target)
            && !exists(&file)
        {
            let message = format!("the link to {target} points to nothing: correct or remove it");
            report.violation(path, line, message);
        }
    }
}

/// The targets of all links with their lines; code contains none.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fence: Option<&str> = None;
    for (index, line) in text.lines().enumerate() {
        let start = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => {
                found.extend(
                    targets(&without_code(line)).into_iter().map(|target| (index + 1, target)),
                );
            }
            _ => {}
        }
    }
    found
}

/// The targets of the links of one line: `[text](target)`, and the definition `[name]: target`.
fn targets(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices("](") {
        let rest = line[at + 2..].trim_start();
        let target = match rest.strip_prefix('<') {
            Some(rest) => rest.split_once('>').map(|(target, _)| target),
            None => rest.split([')', ' ']).next(),
        };
        found.extend(target.filter(|target| !target.is_empty()).map(str::to_owned));
    }
    let definition = line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]:"));
    if let Some((name, target)) = definition
        && !name.contains(']')
        && !name.starts_with('^')
    {
        let target = target.split_whitespace().next().unwrap_or_default();
        found.extend(
            Some(target.trim_matches(['<', '>']).to_owned()).filter(|target| !target.is_empty()),
        );
    }
    found
}

/// A line without what stands between backticks.
fn without_code(line: &str) -> String {
    let mut kept = String::new();
    let mut rest = line;
    while let Some(at) = rest.find('`') {
        let length = rest[at..].find(|c| c != '`').unwrap_or(rest.len() - at);
        let (before, ticks) = (&rest[..at], &rest[at..at + length]);
        kept.push_str(before);
        rest = &rest[at + length..];
        // Without an end the ticks are only ticks.
        if let Some(end) = rest.find(ticks) {
            rest = &rest[end + length..];
        }
    }
    kept + rest
}

/// The file that a target means, or nothing if it is elsewhere or in the same document.
fn file_of(target: &str) -> Option<String> {
    let has_scheme = target.split_once(':').is_some_and(|(scheme, _)| {
        scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    });
    let file = target.split('#').next().unwrap_or_default();
    (!has_scheme && !target.starts_with("//") && !file.is_empty()).then(|| file.replace("%20", " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_nothing_is_found_and_code_and_foreign_links_are_none() {
        let check_links = |text: &str| {
            let mut report = Report::default();
            check_text("README.md", text, |target| target == "docs/a.md", &mut report);
            report
        };
        let text = "See [a](docs/a.md),\n[b](docs/b.md#part) and ![c](<no file>).\n\n[d]: e.md";
        assert_eq!(check_links(text).lines(), [2, 2, 4]);
        let text = "[a](docs/a.md#part \"title\") [b](https://example.org/x) [c](#here) \
                    [d](mailto:a@b)\n\
                    `[e](no.md)` and ``f[`](no.md)``\n```rust\nlet x = a[1](no.md);\n```\n\
                    [ARMCI03] [^1]: a note\n[x]: docs/a.md";
        assert_eq!(check_links(text).text(), "");
    }

    #[test]
    fn documents_are_found_where_they_are() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        fs::create_dir_all(root.join("docs/part")).unwrap();
        fs::write(root.join("README.md"), "[a](docs/a.md) [b](/docs/a.md) [c](a.md)").unwrap();
        fs::write(root.join("docs/a.md"), "[up](../README.md)\n[wrong](README.md)").unwrap();
        fs::write(root.join("docs/part/b.md"), "[a](../a.md)\n\n[wrong](a.md)").unwrap();
        let mut report = Report::default();
        let paths = ["README.md", "docs/a.md", "docs/part/b.md"].map(str::to_owned);
        check(root, &paths, &mut report).unwrap();
        let places: Vec<_> = report.0.iter().map(|f| (f.path.as_str(), f.line)).collect();
        assert_eq!(places, [("README.md", 1), ("docs/a.md", 2), ("docs/part/b.md", 3)]);
    }
}
