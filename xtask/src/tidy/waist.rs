//! The waist stays narrow: the `Fabric` trait requires few methods of the author of a fabric.

use super::Report;

/// Where the trait is.
pub(super) const FILE: &str = "crates/fabric/src/waist.rs";

/// The most methods that the trait may require.
const REQUIRED_MAX: usize = 18;

/// Checks the text of the trait's file; returns how many methods the trait requires.
pub(super) fn check(text: &str, report: &mut Report) -> usize {
    let Some(required) = required_methods(text) else {
        report.violation(FILE, 1, "there is no `pub trait Fabric` to count the methods of");
        return 0;
    };
    if let Some((name, line)) = required.get(REQUIRED_MAX) {
        let message = format!(
            "`{name}` is one of {} required methods, and at most {REQUIRED_MAX} may be: provide \
             it, or make it an extension that a fabric may offer",
            required.len()
        );
        report.violation(FILE, *line, message);
    }
    required.len()
}

/// The methods without a body in the block of the trait, each with its line.
fn required_methods(text: &str) -> Option<Vec<(String, usize)>> {
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.iter().position(|line| line.starts_with("pub trait Fabric"))?;
    let length = lines[first..].iter().position(|line| *line == "}")?;
    let mut required = Vec::new();
    let mut method: Option<(String, usize)> = None;
    for (at, line) in lines[first..first + length].iter().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        // What is nested deeper is the body of a provided method.
        if let Some(item) = code.strip_prefix("    ").filter(|item| !item.starts_with([' ', '}'])) {
            let item = item.strip_prefix("unsafe ").unwrap_or(item);
            if let Some(name) = item.strip_prefix("fn ") {
                let end = name.find(['(', '<']).unwrap_or(name.len());
                method = Some((name[..end].to_owned(), first + at + 1));
            }
        }
        // A signature ends with a semicolon, or with the brace that opens its body.
        let end = code.trim_end();
        if end.ends_with(';') {
            required.extend(method.take());
        } else if end.ends_with('{') || end.ends_with('}') {
            method = None;
        }
    }
    Some(required)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waist(required: usize) -> String {
        let methods: String = (0..required)
            .map(|number| format!("    /// Does; something.\n    fn f{number}(&self);\n"))
            .collect();
        format!(
            "/// Text.\npub trait Fabric: Send {{\n{methods}    unsafe fn long(\n        \
             &self,\n    ) -> bool {{\n        let x = 1;\n        x == 1\n    }}\n    \
             fn none(&self) {{}}\n}}\n\n\
             pub trait Other {{\n    fn other(&self);\n}}\n"
        )
    }

    #[test]
    fn only_methods_without_a_body_are_counted() {
        let mut report = Report::default();
        assert_eq!(check(&waist(3), &mut report), 3);
        assert_eq!(check(&waist(REQUIRED_MAX), &mut report), REQUIRED_MAX);
        assert_eq!(report.text(), "");
    }

    #[test]
    fn a_method_too_many_is_refused_where_it_stands() {
        let mut report = Report::default();
        check(&waist(REQUIRED_MAX + 2), &mut report);
        assert_eq!(report.lines(), [2 + 2 * (REQUIRED_MAX + 1)]);
        assert!(report.text().contains("`f18` is one of 20"), "{}", report.text());
    }

    #[test]
    fn a_waist_that_is_not_there_is_refused() {
        let mut report = Report::default();
        assert_eq!(check("pub trait Other {}\n", &mut report), 0);
        assert_eq!(report.lines(), [1]);
    }
}
