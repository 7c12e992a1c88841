//! The README's table of what works on which fabric, made from what the conformance suite found.
//!
//! Each test of the suite that passes leaves a file `FABRIC/GROUP/TEST`. The table says `yes` where
//! every test of a group passed, and how many did not where some were skipped.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The variable that tells the tests where to leave their records.
pub(crate) const RECORD: &str = "FARSIDE_TEST_RECORD";

/// The lines of the README around the table.
const MARKS: [&str; 2] = ["<!-- works -->\n", "<!-- /works -->\n"];

/// The columns.
const FABRICS: [(&str, &str); 4] = [
    ("shm", "`shm`: one machine"),
    ("nic", "`nic`: UDP"),
    ("ofi", "`ofi`: libfabric"),
    ("sim", "`sim`: simulator"),
];

/// The rows: a group of the suite and what it tests.
const GROUPS: [(&str, &str); 10] = [
    ("memory", "windows, words, casts"),
    ("transfers", "put, get, strided, vector, accumulate, scopes"),
    ("atomics", "atomics on 32, 64 and 2 x 64 bits"),
    ("ordering", "fence, flush, signal, wait"),
    ("collectives", "barrier, sync, broadcast, reductions, …"),
    ("nonblocking", "non-blocking barrier and reductions"),
    ("teams", "teams"),
    ("agents", "calls of handlers on a node's agent"),
    ("layers", "locks, epochs, arrays, tables, aggregators, shared pages"),
    ("failures", "misuse and lost ranks are reported as errors"),
];

pub(crate) fn records(root: &Path) -> PathBuf {
    root.join("target/conformance")
}

/// Removes the records of earlier runs.
pub(crate) fn forget(root: &Path) -> Result<()> {
    match fs::remove_dir_all(records(root)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Fails if the README does not say what the tests found.
pub(crate) fn check(root: &Path) -> Result<()> {
    let (readme, fresh) = renewed(root)?;
    if readme != fresh {
        bail!("README.md does not say what the tests found: `cargo xtask works` writes the table");
    }
    Ok(())
}

/// Writes what the tests found into the README.
pub(crate) fn write(root: &Path) -> Result<()> {
    let (readme, fresh) = renewed(root)?;
    if readme != fresh {
        fs::write(root.join("README.md"), fresh)?;
    }
    Ok(())
}

/// Returns the README as it is, and as it should be.
fn renewed(root: &Path) -> Result<(String, String)> {
    let readme = fs::read_to_string(root.join("README.md")).context("README.md")?;
    let table = table(&found(&records(root))?)?;
    let fresh = with_table(&readme, &table)?;
    Ok((readme, fresh))
}

fn with_table(readme: &str, table: &str) -> Result<String> {
    let [begin, end] = MARKS;
    let (before, rest) = readme.split_once(begin).context("README.md has no mark `works`")?;
    let (_, after) = rest.split_once(end).context("README.md has no mark `/works`")?;
    Ok(format!("{before}{begin}{table}{end}{after}"))
}

/// How many tests of a group passed on a fabric, and how many were skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found {
    passed: usize,
    skipped: usize,
}

/// Reads the records: fabric and group to what was found.
fn found(records: &Path) -> Result<BTreeMap<(String, String), Found>> {
    let mut all = BTreeMap::new();
    let advice = || format!("{}: run `cargo xtask test --only test` first", records.display());
    for fabric in fs::read_dir(records).with_context(advice)? {
        let fabric = fabric?;
        for group in fs::read_dir(fabric.path())? {
            let group = group?;
            let mut found = Found::default();
            for test in fs::read_dir(group.path())? {
                match fs::read_to_string(test?.path())?.as_str() {
                    "passed" => found.passed += 1,
                    _ => found.skipped += 1,
                }
            }
            let name = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
            all.insert((name(&fabric), name(&group)), found);
        }
    }
    Ok(all)
}

/// Returns the table; an error names a group that has no row.
fn table(all: &BTreeMap<(String, String), Found>) -> Result<String> {
    if let Some((_, group)) =
        all.keys().find(|(_, group)| !GROUPS.iter().any(|(name, _)| name == group))
    {
        bail!("the group {group:?} of the conformance suite has no row in xtask/src/works.rs");
    }
    let columns = FABRICS.map(|(_, title)| title).join(" | ");
    let mut text = format!("| | {columns} |\n| --- | --- | --- | --- | --- |\n");
    for (group, title) in GROUPS {
        write!(text, "| {title} |")?;
        for (fabric, _) in FABRICS {
            let found =
                all.get(&(fabric.to_owned(), group.to_owned())).copied().unwrap_or_default();
            match found {
                Found { passed: 0, .. } => write!(text, " no |")?,
                Found { skipped: 0, .. } => write!(text, " yes |")?,
                Found { skipped, .. } => write!(text, " yes, except {skipped} |")?,
            }
        }
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(rows: &[(&str, &str, usize, usize)]) -> BTreeMap<(String, String), Found> {
        let row = |&(fabric, group, passed, skipped): &(&str, &str, usize, usize)| {
            ((fabric.to_owned(), group.to_owned()), Found { passed, skipped })
        };
        rows.iter().map(row).collect()
    }

    #[test]
    fn a_group_without_a_passed_test_does_not_work() {
        let text = table(&all(&[("shm", "teams", 3, 0), ("sim", "teams", 2, 1)])).unwrap();
        assert!(text.contains("| teams | yes | no | no | yes, except 1 |"), "{text}");
    }

    #[test]
    fn a_group_without_a_row_is_an_error() {
        assert!(table(&all(&[("shm", "new", 1, 0)])).unwrap_err().to_string().contains("\"new\""));
    }

    #[test]
    fn only_the_table_is_replaced() {
        let readme = "a\n<!-- works -->\nold\n<!-- /works -->\nb\n";
        let fresh = with_table(readme, "new\n").unwrap();
        assert_eq!(fresh, "a\n<!-- works -->\nnew\n<!-- /works -->\nb\n");
        assert!(with_table("nothing", "new\n").is_err());
    }
}
