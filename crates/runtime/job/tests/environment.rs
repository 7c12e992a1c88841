//! The list of environment variables is whole: what the sources read is on it, and the page shows
//! it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use farside_job::environment::{PREFIX, SetBy, TEST_PREFIX, VARIABLES, Variable};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn files(directory: &Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            found.extend(files(&path, end));
        } else if path.to_string_lossy().ends_with(end) {
            found.push(path);
        }
    }
    found
}

fn names(text: &str) -> BTreeSet<String> {
    let is_part =
        |letter: char| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_';
    let starts = text.match_indices(PREFIX).map(|(at, _)| &text[at..]);
    let names = starts.map(|rest| rest.split(|letter| !is_part(letter)).next().unwrap_or_default());
    names.filter(|name| name.len() > PREFIX.len()).map(str::to_owned).collect()
}

#[test]
fn no_source_and_no_page_mentions_a_variable_that_is_not_on_the_list() {
    let sources =
        ["crates", "xtask", "fuzz"].iter().flat_map(|part| files(&root().join(part), ".rs"));
    let pages = files(&root().join("docs"), ".md").into_iter().chain([root().join("README.md")]);
    let all: Vec<PathBuf> = sources.chain(pages).collect();
    assert!(all.len() > 100, "only {} files were found", all.len());
    // Misspelt on purpose.
    let excepted = [
        "crates/runtime/job/src/environment.rs",
        "cli/tests/command/failures.rs",
        "tests/launchers/main.rs",
    ];
    let mut unknown = Vec::new();
    // Constants of the C interface are named likewise.
    let is_of_c = |path: &PathBuf| {
        path.ends_with("docs/c.md") || path.components().any(|part| part.as_os_str() == "capi")
    };
    let is_excepted =
        |path: &PathBuf| is_of_c(path) || excepted.iter().any(|end| path.ends_with(end));
    for path in all.iter().filter(|path| !is_excepted(path)) {
        let text = std::fs::read_to_string(path).unwrap();
        let is_listed = |name: &String| VARIABLES.iter().any(|known| known.name == name);
        let names = names(&text)
            .into_iter()
            .filter(|name| !is_listed(name) && !name.starts_with(TEST_PREFIX))
            // Not variables, but what C calls the classes of errors, and macros of OpenSHMEM's
            // headers.
            .filter(|name| {
                let of_c = ["FARSIDE_ERROR_", "FARSIDE_SHMEM_", "FARSIDE_PSHMEM_"];
                !of_c.iter().any(|prefix| name.starts_with(prefix))
            });
        unknown.extend(names.map(|name| format!("{}: {name}", path.display())));
    }
    assert_eq!(unknown, [] as [&str; 0]);
}

#[test]
fn every_variable_of_the_list_is_read_somewhere() {
    let list = Path::new("crates/runtime/job/src/environment.rs");
    let sources =
        [".rs", ".c", ".sh"].into_iter().flat_map(|ending| files(&root().join("crates"), ending));
    let sources = sources.filter(|path| !path.ends_with(list));
    let mentioned: BTreeSet<String> =
        sources.flat_map(|path| names(&std::fs::read_to_string(path).unwrap())).collect();
    for variable in VARIABLES {
        assert!(mentioned.contains(variable.name), "nobody reads {}", variable.name);
    }
}

#[test]
fn the_page_shows_the_list() {
    let page = std::fs::read_to_string(root().join("docs/environment.md")).unwrap();
    // An item may have several lines; those after the first are indented.
    let items: Vec<String> = page
        .replace("\n  ", " ")
        .lines()
        .filter(|line| line.starts_with("- `FARSIDE_"))
        .map(str::to_owned)
        .collect();
    let item = |variable: &Variable| format!("- `{}`: {}.", variable.name, variable.meaning);
    let mut expected = Vec::new();
    for set_by in [SetBy::User, SetBy::Launcher, SetBy::Tester] {
        expected.extend(VARIABLES.iter().filter(|variable| variable.set_by == set_by).map(item));
    }
    assert_eq!(items, expected, "docs/environment.md and environment::VARIABLES differ");
}
