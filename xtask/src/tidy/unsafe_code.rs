//! `unsafe` lives only in the files that a list names. That each says why it is sound is clippy's
//! to see (`undocumented_unsafe_blocks`, `missing_safety_doc`).

use std::collections::BTreeSet;

use super::source::{Source, Tree};
use super::{Report, UNSAFE_LIST};

pub(super) fn check(tree: &Tree, list: &str, report: &mut Report) {
    let listed = read_list(list, report);
    let mut with_unsafe = BTreeSet::new();
    for source in &tree.sources {
        let Some(line) = first(source) else { continue };
        with_unsafe.insert(source.path.as_str());
        if !listed.iter().any(|entry| entry.path == source.path) {
            let message = format!(
                "`unsafe` in a file that {UNSAFE_LIST} does not name: \
                 do without, or add it with the reason"
            );
            report.violation(&source.path, line, message);
        }
    }
    for entry in listed.iter().filter(|entry| !with_unsafe.contains(entry.path)) {
        let message = format!("{} contains no `unsafe`: remove it from the list", entry.path);
        report.violation(UNSAFE_LIST, entry.line, message);
    }
}

struct Entry<'a> {
    path: &'a str,
    line: usize,
}

/// Reads the list: one path a line, with a reason behind it or in the comment above its paragraph.
fn read_list<'a>(list: &'a str, report: &mut Report) -> Vec<Entry<'a>> {
    let mut entries: Vec<Entry<'a>> = Vec::new();
    let mut has_reason = false;
    for (index, text) in list.lines().enumerate() {
        let line = index + 1;
        let (path, comment) = text.split_once('#').unwrap_or((text, ""));
        let (path, comment) = (path.trim(), comment.trim());
        if path.is_empty() {
            has_reason = !comment.is_empty() || has_reason && !text.trim().is_empty();
            continue;
        }
        if comment.is_empty() && !has_reason {
            let message = format!("{path} is listed without a reason: add one, as a comment");
            report.violation(UNSAFE_LIST, line, message);
        }
        if entries.iter().any(|entry| entry.path == path) {
            report.violation(UNSAFE_LIST, line, format!("{path} is listed twice: remove one"));
        }
        entries.push(Entry { path, line });
    }
    entries
}

/// The line of the first `unsafe` of a file; the type of a function pointer is none.
fn first(source: &Source) -> Option<usize> {
    let tokens = &source.tokens;
    let is = |at: usize, text: &str| tokens.get(at).is_some_and(|token| token.text == text);
    let is_pointer = |at: usize| {
        let has_abi = is(at, "extern") && !is(at + 1, "fn");
        let at = at + usize::from(is(at, "extern")) + usize::from(has_abi);
        is(at, "fn") && is(at + 1, "(")
    };
    let mut found = (0..tokens.len()).filter(|at| is(*at, "unsafe") && !is_pointer(at + 1));
    found.next().map(|at| tokens[at].line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "crates/runtime/shm/src/segment.rs";

    fn check_with(text: &str, list: &str) -> Report {
        let mut report = Report::default();
        let tree = Tree::new(vec![Source::parse(PATH, text).unwrap()]);
        check(&tree, list, &mut report);
        report
    }

    #[test]
    fn only_listed_files_contain_unsafe_and_all_of_them_do() {
        let text = "// SAFETY: yes.\nunsafe impl Send for A {}";
        assert_eq!(check_with(text, &format!("{PATH} # why")).text(), "");
        assert!(check_with(text, "").text().contains("does not name"));
        let report =
            check_with("fn a() { \"unsafe {}\"; } // unsafe {}", &format!("# why\n{PATH}"));
        assert_eq!(
            report.text(),
            format!("{UNSAFE_LIST}:2: {PATH} contains no `unsafe`: remove it from the list")
        );
        assert_eq!(check_with("type F = unsafe fn(u8);", "").text(), "");
        assert_eq!(check_with("type F = unsafe extern \"C\" fn(u8);", "").text(), "");
        assert_eq!(check_with("unsafe extern \"C\" fn a() {}", "").lines(), [1]);
        assert_eq!(check_with("#[unsafe(no_mangle)]\nfn a() {}", "").lines(), [1]);
        assert_eq!(check_with("m! { /* SAFETY: */ unsafe { x } }", "").lines(), [1]);
    }

    #[test]
    fn a_path_in_the_list_has_a_reason_and_stands_there_once() {
        let text = "// SAFETY: yes.\nunsafe impl Send for A {}";
        assert!(check_with(text, PATH).text().contains("without a reason"));
        assert!(
            check_with(text, &format!("# title\n\n{PATH}")).text().contains("without a reason")
        );
        assert_eq!(check_with(text, &format!("# title\n\n# why\n#\n{PATH}")).text(), "");
        assert!(check_with(text, &format!("# why\n{PATH}\n{PATH}")).text().contains("twice"));
    }
}
