//! `include/farside.h` is what the sources say, and every function of it is called by a test.

use std::path::{Path, PathBuf};

/// Set, it has the test write the header instead of comparing it: `cargo xtask header` does so.
const WRITE: &str = "FARSIDE_TEST_WRITE_HEADER";

const HEAD: &str = "/* The C interface of farside: one-sided remote memory for parallel programs.
 *
 * Every function that returns int returns FARSIDE_OK, which is 0, or the code of an error, whose
 * text farside_error_text gives; names of codes come from farside_error_name. On an error, memory
 * that results are written to is untouched unless a function says otherwise. A context, and what
 * was made from it, is used by one thread at a time. Offsets and lengths are bytes.
 *
 * Generated from the sources by `cargo xtask header`. */";

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn generated() -> String {
    let mut config = cbindgen::Config {
        language: cbindgen::Language::C,
        header: Some(HEAD.into()),
        include_guard: Some("FARSIDE_H".into()),
        cpp_compat: true,
        no_includes: true,
        sys_includes: vec!["stddef.h".into(), "stdint.h".into()],
        style: cbindgen::Style::Type,
        usize_is_size_t: true,
        documentation_style: cbindgen::DocumentationStyle::Doxy,
        line_length: 100,
        tab_width: 4,
        ..cbindgen::Config::default()
    };
    config.function.sort_by = Some(cbindgen::SortKey::None);
    let mut files: Vec<PathBuf> = std::fs::read_dir(here("src"))
        .expect("the sources are there")
        .map(|entry| entry.expect("a directory can be read").path())
        .filter(|path| path.file_name().is_some_and(|name| name != "lib.rs"))
        .collect();
    // In the order in which a reader meets them.
    const ORDER: [&str; 12] = [
        "status",
        "job",
        "team",
        "window",
        "transfer",
        "atomic",
        "wait",
        "request",
        "number",
        "collective",
        "lock",
        "epoch",
    ];
    files.sort_by_key(|path| {
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        (ORDER.iter().position(|known| *known == name).unwrap_or(ORDER.len()), path.clone())
    });
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in files {
        builder = builder.with_src(file);
    }
    let mut text = Vec::new();
    builder.generate().expect("the sources can be read").write(&mut text);
    String::from_utf8(text).expect("the header is text")
}

#[test]
fn the_header_is_what_the_sources_say() {
    let (path, text) = (here("include/farside.h"), generated());
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, text).expect("the header can be written");
        return;
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(known == text, "{} is old: run `cargo xtask header`", path.display());
}

fn functions(header: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for (at, _) in header.match_indices("farside_") {
        let rest = &header[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(0);
        let before = header[..at].trim_end_matches(['*', ' ']);
        let declares = ["int", "char", "uint32_t"].iter().any(|kind| before.ends_with(kind));
        if declares && rest[end..].starts_with('(') && !names.contains(&&rest[..end]) {
            names.push(&rest[..end]);
        }
    }
    names
}

#[test]
fn every_function_is_documented_and_called_by_a_test() {
    let header = std::fs::read_to_string(here("include/farside.h")).expect("the header is there");
    let names = functions(&header);
    assert!(names.len() > 100, "only {} functions were found", names.len());
    let page = std::fs::read_to_string(here("../../../docs/c.md")).expect("the page is there");
    let unnamed: Vec<_> =
        names.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(unnamed.is_empty(), "docs/c.md does not name {unnamed:?}");
    let mut programs = String::new();
    for directory in ["tests/programs", "examples"] {
        for entry in std::fs::read_dir(here(directory)).expect("the programs are there") {
            let path = entry.expect("a directory can be read").path();
            programs += &std::fs::read_to_string(path).expect("a program is text");
        }
    }
    let uncalled: Vec<_> =
        names.iter().filter(|name| !programs.contains(&format!("{name}("))).collect();
    assert!(uncalled.is_empty(), "no program of the tests calls {uncalled:?}");
    for name in &names {
        let at = header.find(&format!("{name}(")).expect("it was found there");
        let line = header[..at].rfind('\n').unwrap_or(0);
        assert!(header[..line].ends_with("*/"), "{name} has no documentation");
    }
}
