//! The source files of the workspace, prepared for the rules: each as `syn` reads it, and as a flat
//! list of tokens, which sees the inside of macro calls as well.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::{Context, Result};
use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use super::Report;

pub(super) struct Tree {
    pub(super) sources: Vec<Source>,
}

impl Tree {
    /// Reads those of these files below `root` that are Rust.
    pub(super) fn load(root: &Path, paths: &[String], report: &mut Report) -> Result<Self> {
        let mut sources = Vec::new();
        for path in paths.iter().filter(|path| path.ends_with(".rs")) {
            let text = fs::read_to_string(root.join(path))
                .with_context(|| format!("cannot read {path}"))?;
            match Source::parse(path, &text) {
                Ok(source) => sources.push(source),
                Err(line) => report.violation(path, line, "this is not Rust: correct it"),
            }
        }
        Ok(Self::new(sources))
    }

    /// Joins files to a tree, and finds those whose modules are compiled for tests only.
    pub(super) fn new(mut sources: Vec<Source>) -> Self {
        let test_only = files_for_tests(&sources);
        for source in &mut sources {
            source.test_only |= test_only.contains(&source.path);
        }
        Self { sources }
    }
}

/// The files whose module is compiled for tests only, because its declaration or the file of its
/// declaration is.
fn files_for_tests(sources: &[Source]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open: VecDeque<String> = VecDeque::new();
    for source in sources {
        let declared = source.modules.iter().filter(|module| source.is_test(module.line));
        open.extend(declared.flat_map(|module| source.files_of(module)));
    }
    while let Some(path) = open.pop_front() {
        if let Some(source) = sources.iter().find(|source| source.path == path)
            && found.insert(path)
        {
            open.extend(source.modules.iter().flat_map(|module| source.files_of(module)));
        }
    }
    found
}

pub(super) struct Source {
    /// The path from the root of the workspace, with slashes.
    pub(super) path: String,
    pub(super) text: String,
    /// All tokens in the order of the text, those inside of groups and macro calls included.
    pub(super) tokens: Vec<Token>,
    /// The paths that the file mentions, with those of each `use` written out.
    pub(super) paths: Vec<Mention>,
    pub(super) test_only: bool,
    test_lines: Vec<RangeInclusive<usize>>,
    modules: Vec<Module>,
}

impl Source {
    /// Prepares a file; the error is the line where it stops being Rust.
    pub(super) fn parse(path: &str, text: &str) -> Result<Self, usize> {
        let line = |error: syn::Error| error.span().start().line;
        let stream: TokenStream = syn::parse_str(text).map_err(line)?;
        let file = syn::parse_file(text).map_err(line)?;
        let mut tokens = Vec::new();
        flatten(stream, &mut tokens);
        let mut items = Items { paths: plain_paths(&tokens), ..Items::default() };
        items.visit_file(&file);
        let mut source = Self {
            path: path.to_owned(),
            text: text.to_owned(),
            tokens,
            paths: items.paths,
            test_only: file.attrs.iter().any(is_test),
            test_lines: items.test_lines,
            modules: items.modules,
        };
        source.test_only |= source.place().is_some_and(|(_, path)| path.starts_with("tests/"));
        Ok(source)
    }

    /// The crate that the file belongs to, by its directory below that of its layer, and the path
    /// in it.
    fn place(&self) -> Option<(&str, &str)> {
        let (_layer, path) = self.path.strip_prefix("crates/")?.split_once('/')?;
        path.split_once('/')
    }

    /// The layer of the crate, or the folder at the root.
    pub(super) fn group(&self) -> &str {
        let path = self.path.strip_prefix("crates/").unwrap_or(&self.path);
        path.split('/').next().unwrap_or_default()
    }

    pub(super) fn crate_directory(&self) -> Option<&str> {
        Some(self.place()?.0)
    }

    /// The crate of a file of `src`, and the path there.
    pub(super) fn in_src(&self) -> Option<(&str, &str)> {
        let (name, path) = self.place()?;
        Some((name, path.strip_prefix("src/")?))
    }

    pub(super) fn is_test(&self, line: usize) -> bool {
        self.test_only || self.test_lines.iter().any(|lines| lines.contains(&line))
    }

    /// The lines on which these tokens stand one after another; `_` stands for any word.
    pub(super) fn lines_of(&self, sequence: &[&str]) -> impl Iterator<Item = usize> {
        let windows = self.tokens.windows(sequence.len());
        let found = windows.filter(move |window| {
            let mut pairs = window.iter().zip(sequence);
            pairs.all(|(token, &expected)| match expected {
                "_" => token.is_word(),
                expected => token.text == expected,
            })
        });
        found.map(|window| window[0].line)
    }

    /// The paths where the file of a module may be.
    fn files_of(&self, module: &Module) -> [String; 2] {
        let (directory, file) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let stem = file.trim_end_matches(".rs");
        let directory = match stem {
            "mod" | "lib" | "main" => directory.to_owned(),
            _ => format!("{directory}/{stem}"),
        };
        let name = &module.name;
        [format!("{directory}/{name}.rs"), format!("{directory}/{name}/mod.rs")]
    }
}

/// A word, sign, delimiter or literal. A lifetime is one token, with its tick.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) text: String,
    pub(super) line: usize,
}

impl Token {
    /// Whether it is a name or a keyword.
    pub(super) fn is_word(&self) -> bool {
        self.text.starts_with(|c: char| c.is_alphabetic() || c == '_')
    }
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    let mut tick = false;
    for tree in stream {
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                let (first, last) = (group.span_open().start().line, group.span_close().end().line);
                tokens.push(Token { text: open.to_owned(), line: first });
                flatten(group.stream(), tokens);
                tokens.push(Token { text: close.to_owned(), line: last });
            }
            TokenTree::Ident(ident) if tick => {
                if let Some(lifetime) = tokens.last_mut() {
                    lifetime.text.push_str(&ident.to_string());
                }
                tick = false;
            }
            other => {
                let (text, line) = (other.to_string(), other.span().start().line);
                tick = text == "'";
                tokens.push(Token { text, line });
            }
        }
    }
}

/// A path as it is meant: `use std::{net, time::Instant}` mentions `std::net` and
/// `std::time::Instant`.
#[derive(Debug)]
pub(super) struct Mention {
    pub(super) segments: Vec<String>,
    pub(super) line: usize,
}

impl Mention {
    /// Whether the segments of `part`, separated by `::`, stand in this path one after another.
    pub(super) fn contains(&self, part: &str) -> bool {
        let part: Vec<&str> = part.split("::").collect();
        self.segments.windows(part.len()).any(|window| window == part)
    }
}

/// The paths of all tokens; a single word is a path, too.
fn plain_paths(tokens: &[Token]) -> Vec<Mention> {
    let is_sign = |at: usize| tokens.get(at).is_some_and(|token| token.text == ":");
    let is_separator = |at: usize| is_sign(at) && is_sign(at + 1);
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        if !token.is_word() {
            continue;
        }
        let (mut segments, mut line) = (vec![token.text.clone()], token.line);
        while is_separator(at)
            && let Some(next) = tokens.get(at + 2)
            && next.is_word()
        {
            segments.push(next.text.clone());
            line = next.line;
            at += 3;
        }
        found.push(Mention { segments, line });
    }
    found
}

/// A module whose text is in another file, and the line of its declaration.
#[derive(Debug)]
struct Module {
    name: String,
    line: usize,
}

#[derive(Default)]
struct Items {
    paths: Vec<Mention>,
    test_lines: Vec<RangeInclusive<usize>>,
    modules: Vec<Module>,
}

impl Items {
    /// Notes the lines of an item that is compiled for tests only.
    fn note(&mut self, attributes: &[syn::Attribute], span: Span) {
        if attributes.iter().any(is_test) {
            self.test_lines.push(span.start().line..=span.end().line);
        }
    }

    /// Writes out what a `use` brings in.
    fn import(&mut self, tree: &syn::UseTree, before: &[String]) {
        let with = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
        let line = tree.span().start().line;
        let segments = match tree {
            syn::UseTree::Path(path) => return self.import(&path.tree, &with(&path.ident)),
            syn::UseTree::Group(group) => {
                return group.items.iter().for_each(|item| self.import(item, before));
            }
            syn::UseTree::Name(name) => with(&name.ident),
            syn::UseTree::Rename(name) => with(&name.ident),
            syn::UseTree::Glob(_) => [before, &["*".to_owned()]].concat(),
        };
        self.paths.push(Mention { segments, line });
    }
}

impl<'ast> Visit<'ast> for Items {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        use syn::Item;
        let attributes = match item {
            Item::Const(item) => &item.attrs,
            Item::Enum(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Macro(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Static(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            Item::Trait(item) => &item.attrs,
            Item::Type(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => &Vec::new(),
        };
        self.note(attributes, item.span());
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.note(&item.attrs, item.span());
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.content.is_none() {
            let line = item.mod_token.span.start().line;
            self.modules.push(Module { name: item.ident.to_string(), line });
        }
        visit::visit_item_mod(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.import(&item.tree, &[]);
    }
}

fn is_test(attribute: &syn::Attribute) -> bool {
    match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) => list.path.is_ident("cfg") && requires_test(list.tokens.clone()),
        syn::Meta::NameValue(_) => false,
    }
}

/// Whether a condition of `cfg` can hold only in tests.
fn requires_test(condition: TokenStream) -> bool {
    let mut in_all = false;
    condition.into_iter().any(|tree| {
        let found = match &tree {
            TokenTree::Ident(ident) => ident == "test",
            TokenTree::Group(group) => in_all && requires_test(group.stream()),
            _ => false,
        };
        in_all = matches!(&tree, TokenTree::Ident(ident) if ident == "all");
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::parse("crates/runtime/a/src/b.rs", text).unwrap()
    }

    #[test]
    fn paths_are_seen_in_uses_and_macro_calls_and_not_in_strings_and_comments() {
        let names = |text: &str| -> Vec<String> {
            source(text).paths.iter().map(|path| path.segments.join("::")).collect()
        };
        let text = "f!(a::b); const C: &str = \"c::d\"; // e::f\n /* g::h */";
        assert_eq!(names(text), ["f", "a::b", "const", "C", "str"]);
        let names = names("use std::{net, time::{self, Instant as Now}, io::*};");
        for name in ["std::net", "std::time::self", "std::time::Instant", "std::io::*"] {
            assert!(names.iter().any(|found| found == name), "{name} of {names:?}");
        }
    }

    #[test]
    fn items_for_tests_are_known_by_their_lines() {
        let text = "fn a() {}\n#[cfg(test)]\n#[allow(dead_code)]\nmod tests {\n fn b() {}\n}\nfn \
                    c() {}\n\
                    #[cfg(not(test))]\nfn d() {}\n#[cfg(all(loom, test))]\nuse x;\n#[test]\nfn e() \
                    {}\n\
                    #[cfg(any(test, loom))]\nfn f() {}";
        assert_eq!(source(text).test_lines, [2..=6, 10..=11, 12..=13]);
    }

    #[test]
    fn modules_for_tests_in_other_files_are_followed() {
        let parse = |(path, text): (&str, &str)| {
            Source::parse(&format!("crates/runtime/a/{path}"), text).unwrap()
        };
        let files = [
            ("src/lib.rs", "mod b;\n#[cfg(test)]\nmod tests;"),
            ("src/b.rs", "mod c;"),
            ("src/b/c.rs", ""),
            ("src/tests.rs", "mod deep;"),
            ("src/tests/deep.rs", ""),
            ("tests/all.rs", ""),
            ("src/whole.rs", "#![cfg(test)]"),
        ];
        let tree = Tree::new(files.map(parse).into());
        let tests = tree.sources.iter().filter(|source| source.test_only);
        let tests: Vec<_> = tests.map(|source| source.place().unwrap().1).collect();
        assert_eq!(tests, ["src/tests.rs", "src/tests/deep.rs", "tests/all.rs", "src/whole.rs"]);
    }
}
