//! Where legibility usually ends.

use super::Report;
use super::source::Source;

const FILE_LINES_MAX: usize = 600;

/// The most lines of a function before it draws a warning.
const FUNCTION_LINES_MAX: usize = 70;

pub(super) fn check(source: &Source, report: &mut Report) {
    let lines = source.text.lines().count();
    if lines > FILE_LINES_MAX {
        let message = format!(
            "{lines} lines, more than {FILE_LINES_MAX}: split the file where a new idea begins"
        );
        report.violation(&source.path, FILE_LINES_MAX + 1, message);
    }
    for function in &source.functions {
        let lines = function.lines.end() - function.lines.start() + 1;
        if lines > FUNCTION_LINES_MAX {
            let name = &function.name;
            let message =
                format!("`{name}` has {lines} lines, more than {FUNCTION_LINES_MAX}: split it");
            report.warning(&source.path, *function.lines.start(), message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(text: &str) -> Report {
        let mut report = Report::default();
        check(&Source::parse("crates/runtime/a/src/b.rs", text).unwrap(), &mut report);
        report
    }

    #[test]
    fn a_file_may_have_just_so_many_lines() {
        assert_eq!(check_text(&"\n".repeat(FILE_LINES_MAX)).text(), "");
        assert_eq!(check_text(&"\n".repeat(FILE_LINES_MAX + 1)).lines(), [FILE_LINES_MAX + 1]);
    }

    #[test]
    fn a_long_function_is_only_a_warning() {
        let function =
            |lines: usize| format!("\n/// Doc.\nfn long() {{{}}}", "\n".repeat(lines - 1));
        let report = check_text(&function(FUNCTION_LINES_MAX + 1));
        assert_eq!(report.text(), "");
        assert_eq!(report.warnings.len(), 1);
        assert_eq!(report.warnings[0].line, 3);
        assert_eq!(check_text(&function(FUNCTION_LINES_MAX)).warnings, []);
    }
}
