//! The declarations of a header, one function after another.

use super::families::{Family, Over, SECTIONS};

/// The most characters of a line, less what a line of a macro needs.
const COLUMNS_MAX: usize = 94;

struct Function {
    returns: String,
    name: String,
    parameters: String,
}

pub(super) fn declarations(prefix: &str) -> String {
    let mut text = String::new();
    for section in SECTIONS {
        text += "\n";
        text += &comment(section.text);
        for family in section.families {
            if !family.note.is_empty() {
                text += &comment(family.note);
            }
            for function in functions(family, prefix) {
                text += &function.declaration();
            }
        }
    }
    text
}

#[cfg(test)]
pub(super) fn names(prefix: &str) -> Vec<String> {
    let families = SECTIONS.iter().flat_map(|section| section.families);
    families.flat_map(|family| functions(family, prefix)).map(|function| function.name).collect()
}

/// Returns a comment of one sentence or more, filled to the width of a line.
fn comment(text: &str) -> String {
    filled("/* ", &format!("{text} */"), " * ", ' ')
}

/// Returns `text` with every whole word `T` replaced by `with`.
pub(super) fn replace_type(text: &str, with: &str) -> String {
    let words = text.split_inclusive([' ', ',', '*']).map(|word| {
        let name = word.trim_end_matches([' ', ',', '*']);
        if name == "T" { format!("{with}{}", &word[1..]) } else { word.to_owned() }
    });
    words.collect()
}

fn functions(family: &Family, prefix: &str) -> Vec<Function> {
    let mut functions = Vec::new();
    let forms: &[bool] = if family.has_context_form { &[false, true] } else { &[false] };
    for with_context in forms {
        let (form, context) = if *with_context { ("ctx_", "shmem_ctx_t ctx, ") } else { ("", "") };
        let plain = |name: String| Function {
            returns: family.returns.to_owned(),
            name,
            parameters: format!("{context}{}", family.parameters),
        };
        let Family { name, .. } = family;
        match &family.over {
            Over::One => functions.push(plain(format!("{prefix}shmem_{form}{name}"))),
            Over::Unprefixed => functions.push(plain(format!("{prefix}{name}"))),
            Over::Sizes(sizes) => functions.extend(
                sizes
                    .iter()
                    .map(|size| plain(format!("{prefix}shmem_{form}{}", name.replace('#', size)))),
            ),
            Over::Types(types) => functions.extend(types.types().iter().map(|kind| Function {
                returns: replace_type(family.returns, kind.c),
                name: format!("{prefix}shmem_{form}{}_{name}", kind.name),
                parameters: format!("{context}{}", replace_type(family.parameters, kind.c)),
            })),
        }
    }
    functions
}

impl Function {
    fn declaration(&self) -> String {
        let Self { returns, name, parameters } = self;
        let space = if returns.ends_with('*') { "" } else { " " };
        filled("", &format!("{returns}{space}{name}({parameters});"), "    ", ',')
    }
}

/// Breaks `text` into lines after `end` of a word where a line would be too wide.
pub(super) fn filled(first: &str, text: &str, indent: &str, end: char) -> String {
    let mut lines = String::new();
    let mut line = first.to_owned();
    let mut at_start = true;
    for part in text.split_inclusive(end) {
        let part = if at_start { part.trim_start() } else { part };
        if !at_start && line.len() + part.trim_end().len() > COLUMNS_MAX {
            lines += line.trim_end();
            lines += "\n";
            line = indent.to_owned() + part.trim_start();
        } else {
            line += part;
        }
        at_start = false;
    }
    lines + line.trim_end() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_are_types() {
        assert_eq!(
            replace_type("T *dest, const T *sourceT", "int"),
            "int *dest, const int *sourceT"
        );
        assert_eq!(replace_type("T", "long"), "long");
    }

    #[test]
    fn a_wide_declaration_breaks_after_a_comma() {
        let parameters = format!("int {}, int {}", "a".repeat(60), "b".repeat(60));
        let function = Function { returns: "void *".into(), name: "f".into(), parameters };
        let text = function.declaration();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], format!("void *f(int {},", "a".repeat(60)));
        assert_eq!(lines[1], format!("    int {});", "b".repeat(60)));
    }
}
