//! Looking at Rust as tokens: neither comments nor strings can be mistaken for code, and the inside
//! of a macro call is seen like everything else.

use std::ops::RangeInclusive;

use proc_macro2::{Delimiter, Group, Spacing, Span, TokenTree};

/// Every token list of a file is given to `look`: the outermost, and the inside of each group.
pub(super) fn each_list(tokens: &[TokenTree], look: &mut dyn FnMut(&[TokenTree])) {
    look(tokens);
    for token in tokens {
        if let TokenTree::Group(group) = token {
            each_list(&inside(group), look);
        }
    }
}

/// The tokens of a group.
pub(super) fn inside(group: &Group) -> Vec<TokenTree> {
    group.stream().into_iter().collect()
}

/// Whether the token at `index` is the word `word`. A lifetime is not a word: its name follows a
/// tick.
pub(super) fn is_word(tokens: &[TokenTree], index: usize, word: &str) -> bool {
    let after_tick = index > 0 && is_punct(tokens, index - 1, '\'');
    !after_tick && matches!(tokens.get(index), Some(TokenTree::Ident(ident)) if ident == word)
}

/// Whether the token at `index` is the sign `sign`.
pub(super) fn is_punct(tokens: &[TokenTree], index: usize, sign: char) -> bool {
    matches!(tokens.get(index), Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

/// Whether the token is a group in braces.
pub(super) fn is_braced(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

/// The line on which a token begins.
pub(super) fn line(token: &TokenTree) -> usize {
    match token {
        TokenTree::Group(group) => line_of(group.span_open()),
        other => line_of(other.span()),
    }
}

/// The line on which a token ends.
pub(super) fn end_line(token: &TokenTree) -> usize {
    match token {
        TokenTree::Group(group) => group.span_close().end().line,
        other => other.span().end().line,
    }
}

/// The line on which a span begins.
pub(super) fn line_of(span: Span) -> usize {
    span.start().line
}

/// An attribute; a doc comment is one, too.
pub(super) struct Attribute {
    /// What stands between the brackets.
    pub(super) tokens: Vec<TokenTree>,
    /// How many tokens it takes in the list.
    pub(super) length: usize,
    /// Whether it speaks of what it stands in (`#![…]`).
    pub(super) inner: bool,
}

impl Attribute {
    /// The attribute that begins at `index`, if one does.
    pub(super) fn at(tokens: &[TokenTree], index: usize) -> Option<Self> {
        if !is_punct(tokens, index, '#') {
            return None;
        }
        let inner = is_punct(tokens, index + 1, '!');
        let length = if inner { 3 } else { 2 };
        match tokens.get(index + length - 1) {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket => {
                Some(Self { tokens: inside(group), length, inner })
            }
            _ => None,
        }
    }

    /// Whether what it stands on is compiled for tests only.
    pub(super) fn is_test(&self) -> bool {
        let bare = self.tokens.len() == 1 && is_word(&self.tokens, 0, "test");
        let condition = match self.tokens.get(1) {
            Some(TokenTree::Group(group)) if is_word(&self.tokens, 0, "cfg") => inside(group),
            _ => vec![],
        };
        bare || requires_test(&condition)
    }
}

/// Whether a condition of `cfg` can hold only in tests.
fn requires_test(condition: &[TokenTree]) -> bool {
    condition.iter().enumerate().any(|(index, token)| match token {
        TokenTree::Ident(_) if is_word(condition, index, "test") => true,
        TokenTree::Group(group) if index > 0 && is_word(condition, index - 1, "all") => {
            requires_test(&inside(group))
        }
        _ => false,
    })
}

/// The lines of the items that are compiled for tests only.
pub(super) fn test_lines(tokens: &[TokenTree]) -> Vec<RangeInclusive<usize>> {
    let mut ranges = Vec::new();
    each_list(tokens, &mut |list| {
        for index in 0..list.len() {
            if Attribute::at(list, index).is_some_and(|found| found.is_test() && !found.inner) {
                ranges.push(line(&list[index])..=item_end(list, index));
            }
        }
    });
    ranges
}

/// The last line of the item whose attributes begin at `index`.
fn item_end(list: &[TokenTree], mut index: usize) -> usize {
    while let Some(attribute) = Attribute::at(list, index) {
        index += attribute.length;
    }
    let ends = |at: &usize| is_braced(&list[*at]) || is_punct(list, *at, ';');
    let end = (index..list.len()).find(ends).or(list.len().checked_sub(1));
    end.map_or(usize::MAX, |end| end_line(&list[end]))
}

/// A module whose text is in another file.
#[derive(Debug)]
pub(super) struct ModuleFile {
    /// Its name.
    pub(super) name: String,
    /// The line of its declaration.
    pub(super) line: usize,
}

/// The modules that the outermost list of a file declares and other files contain.
pub(super) fn module_files(tokens: &[TokenTree]) -> Vec<ModuleFile> {
    let mut modules = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        if let Some(TokenTree::Ident(name)) = tokens.get(index + 1)
            && is_word(tokens, index, "mod")
            && is_punct(tokens, index + 2, ';')
        {
            modules.push(ModuleFile { name: name.to_string(), line: line(token) });
        }
    }
    modules
}

/// A function and the lines it takes, from its `fn` to its last brace.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) lines: RangeInclusive<usize>,
}

/// All functions of a file, those in macro calls included.
pub(super) fn functions(tokens: &[TokenTree]) -> Vec<Function> {
    let mut functions = Vec::new();
    each_list(tokens, &mut |list| {
        for index in 0..list.len() {
            // A function pointer's type has no name behind `fn`.
            if let Some(TokenTree::Ident(name)) = list.get(index + 1)
                && is_word(list, index, "fn")
            {
                let lines = line(&list[index])..=item_end(list, index);
                functions.push(Function { name: name.to_string(), lines });
            }
        }
    });
    functions
}

/// A path as it is meant: `use std::{net, time::Instant}` mentions `std::net` and
/// `std::time::Instant`.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) segments: Vec<String>,
    pub(super) line: usize,
}

impl Path {
    /// Whether the segments of `part`, separated by `::`, stand in this path one after another.
    pub(super) fn mentions(&self, part: &str) -> bool {
        let part: Vec<&str> = part.split("::").collect();
        self.segments.windows(part.len()).any(|window| window == part)
    }
}

/// All paths of a file; a single word is a path, too.
pub(super) fn paths(tokens: &[TokenTree]) -> Vec<Path> {
    let mut found = Vec::new();
    collect_paths(tokens, &[], &mut found);
    found
}

/// Collects the paths of a list; in the braces of a `use` they continue `prefix`.
fn collect_paths(tokens: &[TokenTree], prefix: &[String], found: &mut Vec<Path>) {
    let mut index = 0;
    while let Some(token) = tokens.get(index) {
        match token {
            // What follows is a new name, not one that is mentioned.
            _ if !prefix.is_empty() && is_word(tokens, index, "as") => index += 2,
            TokenTree::Ident(_) => index = collect_path(tokens, index, prefix, found),
            TokenTree::Punct(sign) if sign.as_char() == '*' && !prefix.is_empty() => {
                let segments = [prefix, &["*".to_owned()]].concat();
                found.push(Path { segments, line: line(token) });
                index += 1;
            }
            TokenTree::Group(group) => {
                collect_paths(&inside(group), prefix, found);
                index += 1;
            }
            _ => index += 1,
        }
    }
}

/// Collects the path that begins at `index` and returns the index behind it.
fn collect_path(
    tokens: &[TokenTree],
    mut index: usize,
    prefix: &[String],
    found: &mut Vec<Path>,
) -> usize {
    let mut segments = prefix.to_vec();
    let mut last = line(&tokens[index]);
    loop {
        match tokens.get(index) {
            Some(TokenTree::Ident(ident)) => segments.push(ident.to_string()),
            Some(TokenTree::Punct(sign)) if sign.as_char() == '*' => segments.push("*".to_owned()),
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                collect_paths(&inside(group), &segments, found);
                return index + 1;
            }
            // Generic arguments, or whatever else ends a path behind `::`.
            _ => break,
        }
        last = line(&tokens[index]);
        index += 1;
        if !is_path_separator(tokens, index) {
            break;
        }
        index += 2;
    }
    found.push(Path { segments, line: last });
    index
}

/// Whether `::` stands at `index`.
fn is_path_separator(tokens: &[TokenTree], index: usize) -> bool {
    let joint = match tokens.get(index) {
        Some(TokenTree::Punct(sign)) => sign.as_char() == ':' && sign.spacing() == Spacing::Joint,
        _ => false,
    };
    joint && is_punct(tokens, index + 1, ':')
}

#[cfg(test)]
mod tests {
    use proc_macro2::TokenStream;

    use super::*;

    fn tokens(text: &str) -> Vec<TokenTree> {
        text.parse::<TokenStream>().unwrap().into_iter().collect()
    }

    fn path_names(text: &str) -> Vec<String> {
        paths(&tokens(text)).iter().map(|path| path.segments.join("::")).collect()
    }

    #[test]
    fn a_use_is_expanded() {
        let names = path_names("use std::{net, time::{self, Instant as Now}, io::*};");
        let expected = ["use", "std::net", "std::time::self", "std::time::Instant", "std::io::*"];
        assert_eq!(names, expected);
    }

    #[test]
    fn paths_are_seen_in_macro_calls_and_not_in_strings_and_comments() {
        let names = path_names("f!(a::b); \"c::d\"; // e::f\n /* g::h */ x::<y::z>()");
        assert_eq!(names, ["f", "a::b", "x", "y::z"]);
    }

    #[test]
    fn a_path_mentions_what_stands_in_it_unbroken() {
        let path = Path { segments: ["std", "time", "Instant"].map(str::to_owned).into(), line: 1 };
        assert!(path.mentions("time::Instant") && path.mentions("std::time"));
        assert!(!path.mentions("std::Instant") && !path.mentions("Inst"));
    }

    #[test]
    fn items_for_tests_are_known_by_their_lines() {
        let text = "fn a() {}\n#[cfg(test)]\n#[allow(dead_code)]\nmod tests {\n fn b() {}\n}\nfn \
                    c() {}\n\
                    #[cfg(not(test))]\nfn d() {}\n#[cfg(all(loom, test))]\nuse x;\n#[test]\nfn e() \
                    {}\n\
                    #[cfg(any(test, loom))]\nfn f() {}";
        assert_eq!(test_lines(&tokens(text)), [2..=6, 10..=11, 12..=13]);
    }

    #[test]
    fn functions_have_names_and_lines() {
        let text = "fn a(x: u8)\n-> u8 {\n x\n}\nproptest! {\n fn b() {}\n}\nstruct P(unsafe \
                    fn(u8));\n\
                    trait T { fn c(&self); }";
        let found: Vec<_> =
            functions(&tokens(text)).into_iter().map(|f| (f.name, f.lines)).collect();
        assert_eq!(found, [("a".into(), 1..=4), ("b".into(), 6..=6), ("c".into(), 9..=9)]);
    }

    #[test]
    fn a_lifetime_is_no_word() {
        let list = tokens("&'static mut x");
        assert!((0..list.len()).all(|index| !is_word(&list, index, "static")));
    }

    #[test]
    fn only_modules_in_other_files_are_listed() {
        let found = module_files(&tokens("mod a;\npub mod b {}\npub(crate) mod c;"));
        let found: Vec<_> = found.into_iter().map(|module| (module.name, module.line)).collect();
        assert_eq!(found, [("a".into(), 1), ("c".into(), 3)]);
    }
}
