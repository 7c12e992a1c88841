//! The list of what MPI's chapter on one-sided communication says: each test that it names exists.

use std::collections::BTreeMap;

use super::here;

/// Returns the sentences of the list: each begins with `- `, and may go on in lines that are
/// indented.
fn sentences(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("- "), line.strip_prefix("  ")) {
            (Some(begin), _) => found.push(begin.to_owned()),
            (_, Some(more)) if !found.is_empty() => {
                let last = found.last_mut().expect("there is one");
                *last = format!("{last} {}", more.trim());
            }
            _ => {}
        }
    }
    found
}

/// Returns the tests that a sentence names behind its `Held by`, as `FILE:NAME`.
fn tests(sentence: &str) -> Vec<(&str, &str)> {
    let Some((_, tests)) = sentence.rsplit_once("Held by ") else { return Vec::new() };
    tests.split(' ').filter_map(|test| test.trim_matches([',', '.', '`']).split_once(':')).collect()
}

/// Whether a source runs a case, or defines a function, a macro or a program, of this name. A
/// comment that has the word does not.
fn has_test(file: &str, source: &str, name: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    let begins = format!("{name}(");
    let defines = |line: &str| match file.rsplit_once('.') {
        Some((_, "rs")) => line.starts_with(&format!("fn {name}(")),
        Some((_, "c" | "cc" | "h")) => {
            let is_code = line.starts_with(|first: char| is_part(first) || first == '#');
            let ends = |(at, _)| !line[..at].ends_with(is_part);
            is_code && line.match_indices(&begins).any(ends)
        }
        _ => {
            let kinds = ["program", "subroutine", "module"];
            kinds.iter().any(|kind| line.trim() == format!("{kind} {name}"))
        }
    };
    source.contains(&format!("CASE({name})")) || source.lines().any(defines)
}

#[test]
fn words_of_comments_are_no_tests() {
    let source = "/* held(by) nobody */\nstatic void defined(void)\n    called(1);\nCASE(run),\n";
    for (name, is_test) in
        [("defined", true), ("run", true), ("held", false), ("called", false), ("efined", false)]
    {
        assert_eq!(has_test("a.c", source, name), is_test, "{name}");
    }
    assert!(has_test("a.rs", "fn held() {}", "held") && !has_test("a.rs", "// fn held()", "held"));
    assert!(has_test("a.f90", "program held", "held") && !has_test("a.f90", "! held", "held"));
}

#[test]
fn every_test_that_the_list_of_the_standard_names_exists() {
    let text =
        std::fs::read_to_string(here("../../../docs/standards/mpi-rma.md")).expect("it exists");
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    let (mut held, mut not_tested) = (0, 0);
    for sentence in sentences(&text) {
        let tests = tests(&sentence);
        if tests.is_empty() {
            assert!(sentence.contains("Not tested: "), "neither a test nor a reason: {sentence}");
            not_tested += 1;
            continue;
        }
        held += 1;
        for (file, name) in tests {
            let at = if file == "programs.rs" { "tests" } else { "tests/programs" };
            let source = files.entry(file.to_owned()).or_insert_with(|| {
                let path = here(at).join(file);
                std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"))
            });
            assert!(has_test(file, source, name), "there is no {name} in {file}: {sentence}");
        }
    }
    println!("{} sentences: {held} held by a test, {not_tested} not tested", held + not_tested);
    assert!(held > 150 && not_tested < held / 2, "{held} held, {not_tested} not tested");
}
