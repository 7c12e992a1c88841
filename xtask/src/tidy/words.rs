//! Words, names and statements that must not be in the tree.

use std::path::Path;

use proc_macro2::TokenTree;

use super::Report;
use super::source::Source;
use super::tokens::{self, Attribute, is_punct, is_word};

/// Macros that stand for work left undone.
const UNDONE: &[&str] = &["todo", "unimplemented", "dbg"];

/// The word that marks a known fault; it is looked for in comments, where it lives.
const FAULT_MARK: &str = "FIXME";

/// Names that say nothing about what a file contains.
const EMPTY_NAMES: &[&str] = &["util", "utils", "common", "helper", "helpers", "misc"];

/// The directories of the crates in which ten worlds in one process must be ten worlds.
const NO_GLOBALS: &[&str] = &[
    "fabric",
    "shm",
    "nic",
    "ofi",
    "sim",
    "rma",
    "sync",
    "epoch",
    "dsm",
    "containers",
    "pmi",
    "farside",
];

/// Types that make a `static` changeable; so does everything that begins with `Atomic`.
const CHANGEABLE: &[&str] = &[
    "Barrier",
    "Cell",
    "Condvar",
    "Lazy",
    "LazyCell",
    "LazyLock",
    "Mutex",
    "Once",
    "OnceCell",
    "OnceLock",
    "ReentrantLock",
    "RefCell",
    "RwLock",
    "SyncUnsafeCell",
    "UnsafeCell",
];

/// The mark, followed by a reason, without which a test may not sleep.
const SLEEP_MARK: &str = "sleep:";

/// The directory of the crate that may sleep: it measures what a sleeping rank costs.
const MAY_SLEEP: &str = "bench";

/// The directory of the crate that consists of tests, in `src` too.
const TESTS: &str = "conformance";

/// Checks one file.
pub(super) fn check(source: &Source, report: &mut Report) {
    check_name(source, report);
    check_comments(source, report);
    check_sleep(source, report);
    tokens::each_list(&source.tokens, &mut |list| {
        for index in 0..list.len() {
            check_undone(source, list, index, report);
            check_ignored(source, list, index, report);
            check_global(source, list, index, report);
        }
    });
}

fn check_name(source: &Source, report: &mut Report) {
    let path = Path::new(&source.path);
    let named = match path.file_stem() {
        Some(stem) if stem == "mod" => path.parent().and_then(Path::file_name),
        stem => stem,
    };
    if let Some(name) = named.and_then(|name| name.to_str())
        && EMPTY_NAMES.contains(&name)
    {
        let message = format!("`{name}` says nothing: name the file after what it contains");
        report.violation(&source.path, 1, message);
    }
}

fn check_comments(source: &Source, report: &mut Report) {
    for (line, text) in source.comments() {
        if text.contains(FAULT_MARK) {
            let message = format!("{FAULT_MARK}: repair it, or state the limit as a fact");
            report.violation(&source.path, line, message);
        }
    }
}

fn check_sleep(source: &Source, report: &mut Report) {
    if source.crate_directory() == Some(MAY_SLEEP) {
        return;
    }
    for path in tokens::paths(&source.tokens) {
        if !path.mentions("thread::sleep") {
            continue;
        }
        let is_test = source.is_test(path.line) || source.crate_directory() == Some(TESTS);
        if !is_test {
            let message = "a thread sleeps: block until the event itself, with a deadline";
            report.violation(&source.path, path.line, message);
        } else if !has_sleep_reason(source, path.line) {
            let message =
                "a test sleeps: wait for the event, or say why not in a comment, `// sleep: …`";
            report.violation(&source.path, path.line, message);
        }
    }
}

/// Whether a comment on the line or on the one above says why a test must sleep.
fn has_sleep_reason(source: &Source, line: usize) -> bool {
    let mut comments = source.comments_on(line).chain(source.comments_on(line - 1));
    comments.any(|text| {
        let reason = text.split_once(SLEEP_MARK).map(|(_, reason)| reason);
        reason.is_some_and(|reason| !reason.trim_matches(['*', '/', ' ']).is_empty())
    })
}

fn check_undone(source: &Source, list: &[TokenTree], index: usize, report: &mut Report) {
    if !is_punct(list, index + 1, '!') {
        return;
    }
    for word in UNDONE.iter().filter(|word| is_word(list, index, word)) {
        let message = format!("`{word}!` is not for the tree: finish it, or return an error");
        report.violation(&source.path, tokens::line(&list[index]), message);
    }
}

fn check_ignored(source: &Source, list: &[TokenTree], index: usize, report: &mut Report) {
    let Some(attribute) = Attribute::at(list, index) else {
        return;
    };
    let mut ignores = is_word(&attribute.tokens, 0, "ignore");
    if is_word(&attribute.tokens, 0, "cfg_attr") {
        tokens::each_list(&attribute.tokens, &mut |inside| {
            ignores |= (0..inside.len()).any(|at| is_word(inside, at, "ignore"));
        });
    }
    if ignores {
        let message = "an ignored test proves nothing: run it, or remove it";
        report.violation(&source.path, tokens::line(&list[index]), message);
    }
}

fn check_global(source: &Source, list: &[TokenTree], index: usize, report: &mut Report) {
    let line = tokens::line(&list[index]);
    if is_word(list, index, "static") && is_word(list, index + 1, "mut") {
        let message = "`static mut` is a data race in waiting: pass the state";
        report.violation(&source.path, line, message);
    }
    let in_src = source.path_in_crate().is_some_and(|path| path.starts_with("src/"));
    let no_globals =
        source.crate_directory().is_some_and(|directory| NO_GLOBALS.contains(&directory));
    if !in_src || !no_globals || source.is_test(line) {
        return;
    }
    if is_word(list, index, "thread_local") {
        let message = "a thread-local is a hidden argument: pass the state";
        report.violation(&source.path, line, message);
    }
    if is_word(list, index, "static")
        && let Some(kind) = changeable_type(&list[index + 1..])
    {
        let message = format!("a global `{kind}` joins worlds that are separate: pass the state");
        report.violation(&source.path, line, message);
    }
}

/// The first changeable type in the declaration of a `static` whose name and type come next.
fn changeable_type(declaration: &[TokenTree]) -> Option<String> {
    let ends =
        |index: &usize| is_punct(declaration, *index, '=') || is_punct(declaration, *index, ';');
    let end = (0..declaration.len()).find(ends).unwrap_or(declaration.len());
    let paths = tokens::paths(&declaration[..end]);
    let mut names = paths.into_iter().filter_map(|path| path.segments.into_iter().next_back());
    names.find(|name| name.starts_with("Atomic") || CHANGEABLE.contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::super::NOWHERE;
    use super::*;

    fn check_text(path: &str, text: &str) -> Report {
        let mut report = Report::default();
        check(&Source::parse(path, text).unwrap(), &mut report);
        report
    }

    fn lines(text: &str) -> Vec<usize> {
        check_text("crates/shm/src/segment.rs", text).lines()
    }

    #[test]
    fn undone_work_is_found() {
        let text = "fn a() { todo!() }\nfn b() { unimplemented!(\"x\") }\nfn c() { vec![dbg!(1)] }";
        assert_eq!(lines(text), [1, 2, 3]);
        assert_eq!(lines("// todo!()\nfn todo() { \"dbg!(1)\"; todo() }"), NOWHERE);
    }

    #[test]
    fn a_mark_of_a_fault_is_found_in_comments_only() {
        assert_eq!(lines("fn a() {} // FIXME later\n/// FIXME\nfn b() {}"), [1, 2]);
        assert_eq!(lines("fn a() { \"FIXME\" }"), NOWHERE);
    }

    #[test]
    fn an_ignored_test_is_found() {
        let text = "#[ignore]\nfn a() {}\n#[ignore = \"slow\"]\nfn b() {}\n#[cfg_attr(miri, \
                    ignore)]\nfn c() {}";
        assert_eq!(lines(text), [1, 3, 5]);
        assert_eq!(lines("#[must_use]\nfn ignore() { ignore() }\n// #[ignore]"), NOWHERE);
    }

    #[test]
    fn a_name_that_says_nothing_is_found() {
        for path in
            ["crates/shm/src/util.rs", "crates/shm/tests/common/mod.rs", "xtask/src/misc.rs"]
        {
            assert_eq!(check_text(path, "").lines(), [1], "{path}");
        }
        for path in ["crates/shm/src/utility_bill.rs", "crates/shm/src/bell/mod.rs"] {
            assert_eq!(check_text(path, "").text(), "", "{path}");
        }
    }

    #[test]
    fn only_the_benchmarks_sleep_without_a_reason() {
        let text = "use std::thread;\nfn a() { thread::sleep(x) }";
        assert_eq!(lines(text), [2]);
        assert_eq!(lines("use std::{thread::{self, sleep}};"), [1]);
        assert_eq!(check_text("xtask/src/main.rs", text).lines(), [2]);
        assert_eq!(check_text("crates/bench/src/overlap.rs", text).text(), "");
        assert_eq!(check_text("crates/shm/tests/a.rs", text).lines(), [2]);
        assert_eq!(lines("// std::thread::sleep\nfn sleep() { sleep() }"), NOWHERE);
    }

    #[test]
    fn a_test_sleeps_with_a_reason() {
        let test = |text| check_text("crates/shm/tests/a.rs", text).lines();
        assert_eq!(
            test("fn a() {\n// sleep: the target must be inside its loop\nthread::sleep(x)\n}"),
            NOWHERE
        );
        assert_eq!(test("fn a() { thread::sleep(x) } // sleep: it models a slow disk"), NOWHERE);
        assert_eq!(test("// sleep:\nfn a() { thread::sleep(x) }"), [2]);
        let suite = "// sleep: the target computes\nfn a() { thread::sleep(x) }";
        assert_eq!(check_text("crates/conformance/src/lib.rs", suite).text(), "");
        assert_eq!(lines(suite), [2]);
    }

    #[test]
    fn globals_are_found() {
        let text = "static mut A: u8 = 0;\nstatic B: AtomicU64 = AtomicU64::new(0);\n\
                    static C: std::sync::Mutex<u8> = x;\nstatic D: [OnceLock<u8>; 2] = x;\n\
                    thread_local! { static E: u8 = 0; }";
        assert_eq!(lines(text), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn constants_lifetimes_and_tests_are_no_globals() {
        let text = "static A: &[u8] = &[];\nfn a(x: &'static mut AtomicU8, y: &'static Mutex<u8>) \
                    {}\n\
                    const B: AtomicU8 = AtomicU8::new(0);\nstatic C: u8 = f::<Cell<u8>>();\n\
                    #[cfg(test)]\nmod tests {\n static D: AtomicU8 = AtomicU8::new(0);\n}";
        assert_eq!(lines(text), NOWHERE);
        let global = "static A: AtomicU8 = AtomicU8::new(0);";
        assert_eq!(check_text("crates/cli/src/main.rs", global).text(), "");
        assert_eq!(check_text("crates/shm/tests/a.rs", global).text(), "");
        assert_eq!(check_text("crates/cli/src/main.rs", "static mut A: u8 = 0;").lines(), [1]);
    }
}
