//! Files of a crate that use each other in a circle cannot be understood one at a time.

use std::collections::{BTreeMap, BTreeSet};

use super::Report;
use super::source::{Source, Tree};

/// For each file of a crate, by its module, those that it uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

pub(super) fn check(tree: &Tree, report: &mut Report) {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in tree.sources.iter().filter(|source| !source.test_only) {
        if let Some((name, _)) = source.in_src() {
            crates.entry(name).or_default().push(source);
        }
    }
    for (name, sources) in crates {
        let found: Vec<String> = in_circles(&uses(&sources)).into_iter().collect();
        if !found.is_empty() {
            let message = format!(
                "{} files of `{name}` use each other in circles: move what both need into a third \
                 file: {}",
                found.len(),
                found.join(", ")
            );
            report.violation(&sources[0].path, 1, message);
        }
    }
}

/// The module that a file of `src` is.
fn module(source: &Source) -> String {
    let (_, path) = source.in_src().unwrap_or_default();
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
    fn files_that_use_each_other_in_a_circle_are_counted() {
        let [a, b, c] = ["a", "b/mod", "c"].map(|name| format!("crates/tools/a/src/{name}.rs"));
        for (texts, expected) in [
            (["use crate::b::B;", "use crate::{c::C, d};", "use crate::a;"], "3 files of `a`"),
            (["use crate::b::B;", "use super::a;", ""], "2 files of `a`"),
            (["use crate::b::B;", "use crate::c::C;", ""], ""),
            // Tests may use what they test.
            (["use crate::b::B;", "#[cfg(test)]\nmod tests { use crate::a; }", ""], ""),
        ] {
            let found = violations(&[(&a, texts[0]), (&b, texts[1]), (&c, texts[2])]);
            assert!(found.contains(expected), "{texts:?}: {found}");
            assert_eq!(found.is_empty(), expected.is_empty(), "{texts:?}: {found}");
        }
    }
}
