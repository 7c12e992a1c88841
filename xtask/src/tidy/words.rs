//! Words, names and statements that must not be in the tree.

use std::path::Path;

use super::Report;
use super::source::{Source, Token};

/// The word that marks a known fault; it is looked for in comments, where it lives.
const FAULT_MARK: &str = "FIXME";

/// Names that say nothing about what a file contains.
const EMPTY_NAMES: &[&str] = &["util", "utils", "common", "helper", "helpers", "misc"];

/// A part of a crate that has a global elsewhere.
const NO_GLOBALS_EITHER: &str = "crates/runtime/job/src/pmi/";
/// The directories of the crates in which ten worlds in one process must be ten worlds.
const NO_GLOBALS: &[&str] =
    &["fabric", "shm", "nic", "ofi", "sim", "rma", "sync", "epoch", "dsm", "containers", "farside"];

/// Types that make a `static` changeable; so does everything that begins with `Atomic`.
#[rustfmt::skip]
const CHANGEABLE: &[&str] = &[
    "Barrier", "Cell", "Condvar", "Lazy", "LazyCell", "LazyLock", "Mutex", "Once", "OnceCell",
    "OnceLock", "ReentrantLock", "RefCell", "RwLock", "SyncUnsafeCell", "UnsafeCell",
];

/// The mark, followed by a reason, without which a test may not sleep.
const SLEEP_MARK: &str = "sleep:";

/// The directory of the crate that may sleep: it measures what a sleeping rank costs.
const MAY_SLEEP: &str = "bench";

/// The directories of the crates that consist of tests, in `src` too.
const TESTS: &[&str] = &["conformance", "testing"];

pub(super) fn check(source: &Source, report: &mut Report) {
    check_name(source, report);
    check_comments(source, report);
    check_sleep(source, report);
    check_ignored(source, report);
    check_globals(source, report);
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
    for (index, line) in source.text.lines().enumerate() {
        if comment(line).contains(FAULT_MARK) {
            let message = format!("{FAULT_MARK}: repair it, or state the limit as a fact");
            report.violation(&source.path, index + 1, message);
        }
    }
}

/// What a line says behind its first `//`.
fn comment(line: &str) -> &str {
    line.split_once("//").map_or("", |(_, comment)| comment)
}

fn check_sleep(source: &Source, report: &mut Report) {
    if source.crate_directory() == Some(MAY_SLEEP) {
        return;
    }
    for path in source.paths.iter().filter(|path| path.contains("thread::sleep")) {
        let is_test = source.is_test(path.line)
            || source.crate_directory().is_some_and(|name| TESTS.contains(&name));
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
    let mut lines = source.text.lines().skip(line.saturating_sub(2)).take(2);
    lines.any(|line| {
        let reason = comment(line).split_once(SLEEP_MARK).map(|(_, reason)| reason);
        reason.is_some_and(|reason| !reason.trim().is_empty())
    })
}

fn check_ignored(source: &Source, report: &mut Report) {
    let tokens = &source.tokens;
    for at in 2..tokens.len() {
        if tokens[at - 2].text != "#" || tokens[at - 1].text != "[" {
            continue;
        }
        let attribute = tokens[at..].iter().take_while(|token| token.text != "]");
        let ignores = match tokens[at].text.as_str() {
            "ignore" => true,
            "cfg_attr" => attribute.into_iter().any(|token| token.text == "ignore"),
            _ => false,
        };
        if ignores {
            let message = "an ignored test proves nothing: run it, or remove it";
            report.violation(&source.path, tokens[at].line, message);
        }
    }
}

fn check_globals(source: &Source, report: &mut Report) {
    for line in source.lines_of(&["static", "mut"]) {
        let message = "`static mut` is a data race in waiting: pass the state";
        report.violation(&source.path, line, message);
    }
    let no_globals = source.in_src().is_some_and(|(name, _)| NO_GLOBALS.contains(&name))
        || source.path.starts_with(NO_GLOBALS_EITHER);
    if !no_globals {
        return;
    }
    let outside_tests = source.tokens.iter().enumerate();
    for (at, token) in outside_tests.filter(|(_, token)| !source.is_test(token.line)) {
        if token.text == "thread_local" {
            let message = "a thread-local is a hidden argument: pass the state";
            report.violation(&source.path, token.line, message);
        }
        if token.text == "static"
            && let Some(kind) = changeable_type(&source.tokens[at + 1..])
        {
            let message =
                format!("a global `{kind}` joins worlds that are separate: pass the state");
            report.violation(&source.path, token.line, message);
        }
    }
}

/// The first changeable type in the declaration of a `static` whose name and type come next.
fn changeable_type(declaration: &[Token]) -> Option<&str> {
    let words = declaration.iter().map(|token| token.text.as_str());
    let mut words = words.skip_while(|word| *word != ":").take_while(|word| *word != "=");
    words.find(|name| name.starts_with("Atomic") || CHANGEABLE.contains(name))
}

#[cfg(test)]
mod tests {
    use super::super::NOWHERE;
    use super::*;

    fn lines_in(path: &str, text: &str) -> Vec<usize> {
        Report::of(check, path, text).lines()
    }

    fn lines(text: &str) -> Vec<usize> {
        lines_in("crates/runtime/shm/src/segment.rs", text)
    }

    #[test]
    fn marks_of_faults_and_ignored_tests_are_found() {
        let text = format!("fn a() {{}} // {FAULT_MARK} later\n/// {FAULT_MARK}\nfn b() {{}}");
        assert_eq!(lines(&text), [1, 2]);
        assert_eq!(lines(&format!("fn a() {{ \"{FAULT_MARK}\" }}")), NOWHERE);
        let text = "#[ignore]\nfn a() {}\n#[ignore = \"slow\"]\nfn b() {}\n#[cfg_attr(miri, \
                    ignore)]\nfn c() {}";
        assert_eq!(lines(text), [1, 3, 5]);
        assert_eq!(lines("#[must_use]\nfn ignore() { ignore() }\n// #[ignore]"), NOWHERE);
    }

    #[test]
    fn a_name_that_says_nothing_is_found() {
        for (path, expected) in [
            ("crates/runtime/shm/src/util.rs", &[1][..]),
            ("crates/runtime/shm/tests/common/mod.rs", &[1]),
            ("crates/runtime/shm/src/utility_bill.rs", &[]),
            ("crates/runtime/shm/src/bell/mod.rs", &[]),
        ] {
            assert_eq!(lines_in(path, ""), expected, "{path}");
        }
    }

    #[test]
    fn only_the_benchmarks_and_tests_with_a_reason_sleep() {
        let text = "use std::thread;\nfn a() { thread::sleep(x) }";
        assert_eq!(lines(text), [2]);
        assert_eq!(lines("use std::{thread::{self, sleep}};"), [1]);
        assert_eq!(lines("// std::thread::sleep\nfn sleep() { sleep() }"), NOWHERE);
        assert_eq!(lines_in("crates/laboratory/bench/src/overlap.rs", text), NOWHERE);
        let test = |text| lines_in("crates/runtime/shm/tests/a.rs", text);
        assert_eq!(test(text), [2]);
        assert_eq!(test("// sleep:\nfn a() { thread::sleep(x) }"), [2]);
        assert_eq!(test("fn a() { thread::sleep(x) } // sleep: it models a slow disk"), NOWHERE);
        let with_reason = "// sleep: the target computes\nfn a() { thread::sleep(x) }";
        assert_eq!(test(with_reason), NOWHERE);
        assert_eq!(lines_in("crates/development/conformance/src/lib.rs", with_reason), NOWHERE);
        assert_eq!(lines(with_reason), [2]);
    }

    #[test]
    fn globals_are_found_and_constants_lifetimes_and_tests_are_none() {
        let text = "static mut A: u8 = 0;\nstatic B: AtomicU64 = AtomicU64::new(0);\n\
                    static C: std::sync::Mutex<u8> = x;\nstatic D: [OnceLock<u8>; 2] = x;\n\
                    thread_local! { static E: u8 = 0; }";
        assert_eq!(lines(text), [1, 2, 3, 4, 5]);
        let text = "static A: &[u8] = &[];\nfn a(x: &'static mut AtomicU8, y: &'static Mutex<u8>) \
                    {}\n\
                    const B: AtomicU8 = AtomicU8::new(0);\nstatic C: u8 = f::<Cell<u8>>();\n\
                    #[cfg(test)]\nmod tests {\n static D: AtomicU8 = AtomicU8::new(0);\n}";
        assert_eq!(lines(text), NOWHERE);
        let global = "static A: AtomicU8 = AtomicU8::new(0);";
        assert_eq!(lines_in("crates/tools/cli/src/main.rs", global), NOWHERE);
        assert_eq!(lines_in("crates/runtime/shm/tests/a.rs", global), NOWHERE);
        assert_eq!(lines_in("crates/tools/cli/src/main.rs", "static mut A: u8 = 0;"), [1]);
    }
}
