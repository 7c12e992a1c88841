//! The waist stays narrow: the `Fabric` trait requires few methods of the author of a fabric, and
//! all traits that a fabric may meet have few methods together.

use std::collections::BTreeSet;

use syn::spanned::Spanned;
use syn::{Item, TraitItem, TraitItemFn, Visibility};

use super::{Document, Report};

/// Where the traits are.
pub(super) const FOLDER: &str = "crates/runtime/fabric/src/";

/// The most methods that `Fabric` may require.
const REQUIRED_MAX: usize = 18;
/// The most methods that all traits together may have, those of one name counted once.
const METHODS_MAX: usize = 40;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Width {
    /// The methods that `Fabric` requires.
    pub(super) required: usize,
    /// The methods of all traits, those of one name counted once.
    pub(super) methods: usize,
}

/// Checks the files of the crate that has the traits.
pub(super) fn check(documents: &[Document], report: &mut Report) -> Width {
    let mut width = Width { required: 0, methods: 0 };
    let mut names = BTreeSet::new();
    let mut has_fabric = false;
    for document in documents {
        for (name, methods) in traits(&document.text) {
            if name == "Fabric" {
                has_fabric = true;
                width.required = check_required(document, &methods, report);
            }
            for method in methods {
                let line = method.sig.ident.span().start().line;
                if names.insert(method.sig.ident.to_string()) && names.len() > METHODS_MAX {
                    let message = format!(
                        "`{}` of `{name}` is method {} of the waist, which may have {METHODS_MAX}: \
                         what looks at a rank is an event of the probe",
                        method.sig.ident,
                        names.len()
                    );
                    report.violation(&document.path, line, message);
                }
            }
        }
    }
    if !has_fabric {
        report.violation(FOLDER, 1, "there is no `pub trait Fabric` to count the methods of");
    }
    width.methods = names.len();
    width
}

/// Checks the methods of `Fabric`; returns how many it requires.
fn check_required(document: &Document, methods: &[TraitItemFn], report: &mut Report) -> usize {
    let required: Vec<_> = methods.iter().filter(|method| method.default.is_none()).collect();
    if let Some(method) = required.get(REQUIRED_MAX) {
        let message = format!(
            "`{}` is one of {} required methods, and at most {REQUIRED_MAX} may be: provide it, or \
             make it an extension that a fabric may offer",
            method.sig.ident,
            required.len()
        );
        report.violation(&document.path, method.sig.span().start().line, message);
    }
    required.len()
}

/// The public traits of a file, with their methods; none if it cannot be parsed, which is found
/// elsewhere.
fn traits(text: &str) -> Vec<(String, Vec<TraitItemFn>)> {
    let items = syn::parse_file(text).map(|file| file.items).unwrap_or_default();
    let public = items.into_iter().filter_map(|item| match item {
        Item::Trait(found) if matches!(found.vis, Visibility::Public(_)) => Some(found),
        _ => None,
    });
    let methods = |item| match item {
        TraitItem::Fn(method) => Some(method),
        _ => None,
    };
    let named = |found: syn::ItemTrait| {
        (found.ident.to_string(), found.items.into_iter().filter_map(methods).collect())
    };
    public.map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: String) -> [Document; 1] {
        [Document { path: format!("{FOLDER}waist.rs"), text }]
    }

    /// A waist of so many required methods, a provided one, and so many of another trait.
    fn waist(required: usize, others: usize) -> [Document; 1] {
        let methods = |prefix: &str, count: usize| -> String {
            (0..count).map(|number| format!("    fn {prefix}{number}(&self);\n")).collect()
        };
        document(format!(
            "pub trait Fabric: Send {{\n{}    fn none(&self) {{}}\n}}\n\npub trait Other {{\n{}    \
             fn f0(&self);\n}}\ntrait Private {{\n    fn private(&self);\n}}\n",
            methods("f", required),
            methods("o", others),
        ))
    }

    #[test]
    fn methods_without_a_body_are_required_and_a_name_counts_once() {
        let mut report = Report::default();
        assert_eq!(check(&waist(3, 4), &mut report), Width { required: 3, methods: 8 });
        let full = check(&waist(REQUIRED_MAX, METHODS_MAX - REQUIRED_MAX - 1), &mut report);
        assert_eq!(full, Width { required: REQUIRED_MAX, methods: METHODS_MAX });
        assert_eq!(report.text(), "");
    }

    #[test]
    fn a_method_too_many_is_refused_where_it_stands() {
        let mut report = Report::default();
        check(&waist(REQUIRED_MAX + 2, 0), &mut report);
        assert_eq!(report.lines(), [REQUIRED_MAX + 2]);
        assert!(report.text().contains("`f18` is one of 20"), "{}", report.text());
        let mut report = Report::default();
        check(&waist(1, METHODS_MAX - 1), &mut report);
        assert!(report.text().contains("is method 41 of the waist"), "{}", report.text());
    }

    #[test]
    fn a_waist_that_is_not_there_is_refused() {
        let mut report = Report::default();
        assert_eq!(check(&document("pub trait Other {}\n".into()), &mut report).required, 0);
        assert_eq!(report.lines(), [1]);
    }
}
