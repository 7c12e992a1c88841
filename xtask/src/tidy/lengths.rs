//! Where legibility of a file usually ends; that of a function is clippy's to see
//! (`too_many_lines`).

use super::Report;
use super::source::Source;

const FILE_LINES_MAX: usize = 600;

pub(super) fn check(source: &Source, report: &mut Report) {
    let lines = source.text.lines().count();
    if lines > FILE_LINES_MAX {
        let message = format!(
            "{lines} lines, more than {FILE_LINES_MAX}: split the file where a new idea begins"
        );
        report.violation(&source.path, FILE_LINES_MAX + 1, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_have_just_so_many_lines() {
        let lines =
            |count| Report::of(check, "crates/runtime/a/src/b.rs", &"\n".repeat(count)).lines();
        assert_eq!(lines(FILE_LINES_MAX), crate::tidy::NOWHERE);
        assert_eq!(lines(FILE_LINES_MAX + 1), [FILE_LINES_MAX + 1]);
    }
}
