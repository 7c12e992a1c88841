//! Files of a crate that use each other in a circle cannot be understood one at a time: the number
//! of those that do may only fall.

use std::collections::{BTreeMap, BTreeSet};

use super::Report;
use super::source::{Source, Tree};

/// The crates with circles, and the number of files that are in one.
const KNOWN: &[(&str, usize)] = &[
    ("bench", 2),
    ("cli", 2),
    ("containers", 2),
    ("dsm", 7),
    ("epoch", 2),
    ("fabric", 12),
    ("farside", 2),
    ("job", 4),
    ("launch", 3),
    ("mpi", 8),
    ("ofi", 2),
    ("python", 10),
    ("rma", 21),
    ("shm", 6),
    ("shmem", 8),
];

/// For each file of a crate, by its module, those that it uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Counts the files in circles, and returns how many there are in all crates.
pub(super) fn check(tree: &Tree, report: &mut Report) -> usize {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in tree.sources.iter().filter(|source| !source.test_only) {
        let in_src = source.path_in_crate().is_some_and(|path| path.starts_with("src/"));
        if let Some(name) = source.crate_directory().filter(|_| in_src) {
            crates.entry(name).or_default().push(source);
        }
    }
    let mut all = 0;
    for (name, sources) in crates {
        let in_circles = in_circles(&uses(&sources));
        let known = KNOWN.iter().find(|(known, _)| *known == name).map_or(0, |(_, known)| *known);
        if in_circles.len() != known {
            let message = format!(
                "{} files of `{name}` use each other in circles, and circles.rs knows of {known}: \
                 move what both need into a third file, or lower the number: {}",
                in_circles.len(),
                in_circles.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
            );
            report.violation(&sources[0].path, 1, message);
        }
        all += in_circles.len();
    }
    all
}

/// The module that a file of `src` is.
fn module(source: &Source) -> String {
    let path =
        source.path_in_crate().and_then(|path| path.strip_prefix("src/")).unwrap_or_default();
    let path = path.strip_suffix(".rs").unwrap_or(path);
    path.strip_suffix("/mod").unwrap_or(path).replace('/', "::")
}

fn uses(sources: &[&Source]) -> Uses {
    let modules: BTreeSet<String> = sources.iter().map(|source| module(source)).collect();
    let of = |source: &&Source| {
        let own = module(source);
        let paths = source.paths.iter().filter(|path| !source.is_test(path.line));
        let used = paths.filter_map(|path| {
            let parts = from_root(&own, &path.segments)?;
            // The longest beginning that is a file.
            let beginnings = (1..=parts.len()).rev().map(|some| parts[..some].join("::"));
            beginnings.into_iter().find(|it| modules.contains(it))
        });
        (own.clone(), used.filter(|used| *used != own).collect())
    };
    sources.iter().map(of).collect()
}

/// The segments of a path of this crate that stand behind `crate`, in the file of a module.
fn from_root(own: &str, segments: &[String]) -> Option<Vec<String>> {
    let ups = segments.iter().take_while(|segment| *segment == "super").count();
    match segments.first()?.as_str() {
        "crate" => Some(segments[1..].to_vec()),
        "super" => {
            let above: Vec<&str> = own.split("::").collect();
            let above = above[..above.len().checked_sub(ups)?].iter().map(|&it| it.to_owned());
            Some(above.chain(segments[ups..].iter().cloned()).collect())
        }
        _ => None,
    }
}

/// The files from which one comes back to themselves.
fn in_circles(uses: &Uses) -> BTreeSet<String> {
    let comes_back = |from: &&String| {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&String> = uses[*from].iter().collect();
        while let Some(next) = open.pop() {
            if reached.insert(next) {
                open.extend(&uses[next]);
            }
        }
        reached.contains(*from)
    };
    uses.keys().filter(comes_back).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(files: &[(&str, &str)]) -> String {
        let source = |(path, text): &(&str, &str)| Source::parse(path, text).unwrap();
        let mut report = Report::default();
        check(&Tree::new(files.iter().map(source).collect()), &mut report);
        report.text()
    }

    #[test]
    fn a_circle_of_files_is_counted() {
        let (a, b, c) =
            ("crates/tools/a/src/a.rs", "crates/tools/a/src/b/mod.rs", "crates/tools/a/src/c.rs");
        let circle = [(a, "use crate::b::B;"), (b, "use crate::{c::C, d};"), (c, "use crate::a;")];
        assert!(violations(&circle).contains("3 files of `a`"), "{}", violations(&circle));
        let line = [(a, "use crate::b::B;"), (b, "use crate::c::C;"), (c, "")];
        assert_eq!(violations(&line), "");
    }

    #[test]
    fn paths_upwards_count() {
        let (a, b) = ("crates/tools/a/src/a/b.rs", "crates/tools/a/src/a/c.rs");
        let circle = [(a, "use super::c::C;"), (b, "use super::b;")];
        assert!(violations(&circle).contains("2 files of `a`"), "{}", violations(&circle));
    }

    #[test]
    fn tests_may_use_what_they_test() {
        let (a, b) = ("crates/tools/a/src/a.rs", "crates/tools/a/src/b.rs");
        let text = "#[cfg(test)]\nmod tests { use crate::a; }";
        assert_eq!(violations(&[(a, "use crate::b::B;"), (b, text)]), "");
    }
}
