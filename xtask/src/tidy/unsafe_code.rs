//! `unsafe` lives only in the files that a list names, and always says why it is sound.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, Span, TokenTree};

use super::source::{Source, Tree};
use super::tokens::{self, Attribute, is_braced, is_punct, is_word};
use super::{Report, UNSAFE_LIST};

/// What the comment of a block says that keeps its promise.
const SAFETY_COMMENT: &str = "SAFETY:";

/// The section of a doc comment that states what a caller must promise.
const SAFETY_SECTION: &str = "# Safety";

/// Checks all files against the text of the list, and each `unsafe` for its reason.
pub(super) fn check(tree: &Tree, list: &str, report: &mut Report) {
    let listed = read_list(list, report);
    let mut with_unsafe = BTreeSet::new();
    for source in &tree.sources {
        let uses = find(source);
        let is_listed = listed.iter().any(|entry| entry.path == source.path);
        if let Some(first) = uses.first() {
            with_unsafe.insert(source.path.as_str());
            if !is_listed {
                let message = format!(
                    "`unsafe` in a file that {UNSAFE_LIST} does not name: \
                     do without, or add it with the reason"
                );
                report.violation(&source.path, first.line(), message);
            }
        }
        for found in &uses {
            check_reason(source, found, report);
        }
    }
    for entry in listed.iter().filter(|entry| !with_unsafe.contains(entry.path)) {
        let message = format!("{} contains no `unsafe`: remove it from the list", entry.path);
        report.violation(UNSAFE_LIST, entry.line, message);
    }
}

/// A line of the list.
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

/// What an `unsafe` stands before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Block,
    Impl,
    /// A block of foreign declarations.
    Foreign,
    Function,
    /// A function in the implementation of a trait: the trait states what a caller must promise.
    TraitFunction,
    Trait,
    /// As in `#[unsafe(no_mangle)]`.
    Attribute,
}

/// One `unsafe`.
struct Unsafe {
    kind: Kind,
    span: Span,
    /// The line on which the statement around it begins.
    statement: usize,
}

impl Unsafe {
    fn line(&self) -> usize {
        tokens::line_of(self.span)
    }
}

/// Checks that one `unsafe` has its comment.
fn check_reason(source: &Source, found: &Unsafe, report: &mut Report) {
    let has = |lines: &[usize], mark: &str| {
        let mut comments = lines.iter().flat_map(|line| source.comments_above(*line));
        comments.any(|comment| comment.contains(mark))
    };
    let message = match found.kind {
        Kind::Block | Kind::Impl | Kind::Foreign => {
            let before = source.comments_before(found.span);
            let said = before.iter().any(|comment| comment.contains(SAFETY_COMMENT))
                || has(&[found.line(), found.statement], SAFETY_COMMENT);
            (!said).then_some("say above it why it is sound, `// SAFETY: …`")
        }
        Kind::Function | Kind::Trait => {
            let said = has(&[found.line()], SAFETY_SECTION);
            (!said).then_some("say in its doc comment what is required, under `# Safety`")
        }
        Kind::TraitFunction | Kind::Attribute => None,
    };
    if let Some(advice) = message {
        let what = match found.kind {
            Kind::Block => "block",
            Kind::Impl => "impl",
            Kind::Foreign => "extern block",
            Kind::Function | Kind::TraitFunction => "fn",
            Kind::Trait => "trait",
            Kind::Attribute => "attribute",
        };
        report.violation(
            &source.path,
            found.line(),
            format!("unsafe {what} without its reason: {advice}"),
        );
    }
}

/// Every `unsafe` of a file.
fn find(source: &Source) -> Vec<Unsafe> {
    let mut found = Vec::new();
    find_in(&source.tokens, Scope { statement: None, in_trait_impl: false }, &mut found);
    found.sort_by_key(Unsafe::line);
    found
}

/// What surrounds a list of tokens.
#[derive(Clone, Copy)]
struct Scope {
    /// Where the statement around it begins; `None` if the list itself consists of statements.
    statement: Option<usize>,
    /// Whether it is the body of the implementation of a trait.
    in_trait_impl: bool,
}

fn find_in(list: &[TokenTree], scope: Scope, found: &mut Vec<Unsafe>) {
    // The line of the current statement, once its first token behind the attributes was seen.
    let mut statement = scope.statement;
    let mut header = ImplHeader::None;
    let mut index = 0;
    while let Some(token) = list.get(index) {
        if let Some(attribute) = Attribute::at(list, index) {
            find_in_attribute(&attribute, tokens::line(token), found);
            index += attribute.length;
            continue;
        }
        let line = *statement.get_or_insert_with(|| tokens::line(token));
        header = header.next(list, index);
        if is_word(list, index, "unsafe")
            && let Some(kind) = classify(&list[index + 1..], scope.in_trait_impl)
        {
            found.push(Unsafe { kind, span: token.span(), statement: line });
        }
        if let TokenTree::Group(group) = token {
            let inner = match group.delimiter() {
                Delimiter::Brace => {
                    Scope { statement: None, in_trait_impl: header == ImplHeader::OfTrait }
                }
                _ => Scope { statement: Some(line), in_trait_impl: false },
            };
            find_in(&tokens::inside(group), inner, found);
        }
        if is_braced(token) || is_punct(list, index, ';') || is_punct(list, index, ',') {
            // Commas separate statements too: the fields of a literal and the arms of a match.
            statement = scope.statement;
        }
        if is_braced(token) || is_punct(list, index, ';') {
            header = ImplHeader::None;
        }
        index += 1;
    }
}

/// Notes an `unsafe` anywhere in an attribute; a doc comment has none, for its text is a string.
fn find_in_attribute(attribute: &Attribute, line: usize, found: &mut Vec<Unsafe>) {
    tokens::each_list(&attribute.tokens, &mut |inside| {
        for index in 0..inside.len() {
            if is_word(inside, index, "unsafe") {
                let span = inside[index].span();
                found.push(Unsafe { kind: Kind::Attribute, span, statement: line });
            }
        }
    });
}

/// Whether the tokens just seen begin an implementation, and of what.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ImplHeader {
    None,
    OfType,
    OfTrait,
}

impl ImplHeader {
    fn next(self, list: &[TokenTree], index: usize) -> Self {
        // `for<'a>` does not name the type that a trait is implemented for.
        let names_type = is_word(list, index, "for") && !is_punct(list, index + 1, '<');
        match self {
            ImplHeader::None if is_word(list, index, "impl") => ImplHeader::OfType,
            ImplHeader::OfType if names_type => ImplHeader::OfTrait,
            same => same,
        }
    }
}

/// What the tokens behind an `unsafe` make of it; a type of a function pointer makes nothing of it.
fn classify(behind: &[TokenTree], in_trait_impl: bool) -> Option<Kind> {
    let first = behind.first()?;
    if is_braced(first) {
        return Some(Kind::Block);
    }
    if is_word(behind, 0, "impl") {
        return Some(Kind::Impl);
    }
    if is_word(behind, 0, "trait") || is_word(behind, 0, "auto") {
        return Some(Kind::Trait);
    }
    let mut at = 0;
    if is_word(behind, 0, "extern") {
        at += 1;
        at += usize::from(matches!(behind.get(at), Some(TokenTree::Literal(_))));
        if behind.get(at).is_some_and(is_braced) {
            return Some(Kind::Foreign);
        }
    }
    if !is_word(behind, at, "fn") {
        return None;
    }
    // In a macro the name may be a variable, `$name`.
    let named =
        matches!(behind.get(at + 1), Some(TokenTree::Ident(_))) || is_punct(behind, at + 1, '$');
    let kind = if in_trait_impl { Kind::TraitFunction } else { Kind::Function };
    named.then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::super::NOWHERE;
    use super::*;

    const PATH: &str = "crates/shm/src/segment.rs";

    /// Checks a file that the list names.
    fn lines(text: &str) -> Vec<usize> {
        check_with(text, &format!("{PATH} # maps memory")).lines()
    }

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
        let report = check_with("fn a() { \"unsafe {}\" } // unsafe {}", &format!("# why\n{PATH}"));
        assert_eq!(
            report.text(),
            format!("{UNSAFE_LIST}:2: {PATH} contains no `unsafe`: remove it from the list")
        );
        assert_eq!(check_with("type F = unsafe fn(u8);", "").text(), "");
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

    #[test]
    fn a_block_needs_a_safety_comment() {
        assert_eq!(lines("fn a() {\n // Faster.\n unsafe { b() }\n}"), [3]);
        assert_eq!(
            lines(
                "fn a() {\n // SAFETY: in bounds.\n // Really.\n #[allow(x)]\n unsafe { b() }\n}"
            ),
            NOWHERE
        );
        assert_eq!(lines("fn a() {\n // SAFETY: in bounds.\n\n unsafe { b() }\n}"), [4]);
        assert_eq!(lines("fn a() {\n c(); // SAFETY: of c.\n unsafe { b() }\n}"), [3]);
        assert_eq!(lines("fn a() { /* SAFETY: yes. */ unsafe { b() } }"), NOWHERE);
        assert_eq!(lines("fn a() { unsafe { b() } // SAFETY: too late.\n}"), [1]);
    }

    #[test]
    fn the_comment_may_stand_above_the_statement() {
        assert_eq!(
            lines("fn a() {\n // SAFETY: yes.\n let x =\n  f(1,\n  unsafe { b() });\n}"),
            NOWHERE
        );
        assert_eq!(lines("fn a() {\n // SAFETY: yes.\n c();\n let x = unsafe { b() };\n}"), [4]);
        assert_eq!(lines("fn a() {\n // SAFETY: yes.\n if c() {\n  unsafe { b() }\n }\n}"), [4]);
        assert_eq!(
            lines(
                "fn a() {\n match x {\n // SAFETY: yes.\n 1\n | 2 => unsafe { b() },\n 3 => unsafe { c() },\n }\n}"
            ),
            [6]
        );
        assert_eq!(lines("/// Doc.\n// SAFETY: yes.\nstatic X: Y =\n unsafe { b() };"), NOWHERE);
    }

    #[test]
    fn an_impl_needs_a_safety_comment_of_its_own() {
        let text = "// SAFETY: yes.\nunsafe impl Send for A {}\nunsafe impl Sync for A {}";
        assert_eq!(lines(text), [3]);
        assert_eq!(lines("unsafe extern \"C\" {\n fn b();\n}"), [1]);
    }

    #[test]
    fn a_function_and_a_trait_need_a_safety_section() {
        let with = "/// Does.\n///\n/// # Safety\n///\n/// In bounds.\n#[inline]\npub ";
        for item in ["unsafe fn a() {}", "unsafe extern \"C\" fn a() {}", "unsafe trait A {}"] {
            assert_eq!(lines(&format!("{with}{item}")), NOWHERE, "{item}");
            assert_eq!(lines(&format!("/// Does.\n// # Safe\npub {item}")), [3], "{item}");
        }
        assert_eq!(lines("macro_rules! m { ($n:ident) => {\n unsafe fn $n() {}\n} }"), [2]);
    }

    #[test]
    fn a_trait_states_the_requirements_of_its_functions() {
        let body = "{\n unsafe fn a() {}\n}";
        assert_eq!(lines(&format!("impl T for A {body}")), NOWHERE);
        assert_eq!(lines(&format!("impl<F: for<'a> G<'a>> A<F> {body}")), [2]);
        assert_eq!(lines(&format!("trait T {body}")), [2]);
    }
}
