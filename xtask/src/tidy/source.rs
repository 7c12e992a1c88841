//! The source files of the workspace, prepared for the rules.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::{Context, Result};
use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};

use super::Report;
use super::tokens::{self, Attribute, ModuleFile};

/// All source files of the workspace.
pub(super) struct Tree {
    pub(super) sources: Vec<Source>,
}

impl Tree {
    /// Reads every Rust file below `root`, except what was built and what is hidden.
    pub(super) fn load(root: &Path, report: &mut Report) -> Result<Self> {
        let mut paths = Vec::new();
        find(root, "", &mut paths)?;
        paths.sort();
        let mut sources = Vec::new();
        for path in paths {
            let text = fs::read_to_string(root.join(&path))
                .with_context(|| format!("cannot read {path}"))?;
            match Source::parse(&path, &text) {
                Ok(source) => sources.push(source),
                Err(line) => report.violation(&path, line, "this is not Rust: correct it"),
            }
        }
        Ok(Self::new(sources))
    }

    /// The tree of these files.
    pub(super) fn new(mut sources: Vec<Source>) -> Self {
        let test_only = files_for_tests(&sources);
        for source in &mut sources {
            source.test_only |= test_only.contains(&source.path);
        }
        Self { sources }
    }
}

/// Collects the Rust files of the directory `below`, which is relative to `root` and ends in a
/// slash.
fn find(root: &Path, below: &str, paths: &mut Vec<String>) -> Result<()> {
    let directory = root.join(below);
    let entries =
        fs::read_dir(&directory).with_context(|| format!("cannot list {}", directory.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot list {}", directory.display()))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        // What cargo builds; a module may have that name, too.
        let is_built = name == "target" && !below.contains("src/");
        if is_directory && !is_built && !name.starts_with('.') {
            find(root, &format!("{below}{name}/"), paths)?;
        } else if !is_directory && name.ends_with(".rs") {
            paths.push(format!("{below}{name}"));
        }
    }
    Ok(())
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

/// A comment, or one line of a longer one.
struct Comment {
    line: usize,
    /// Where it begins, in bytes from the beginning of the file.
    offset: usize,
    text: String,
}

/// One source file.
pub(super) struct Source {
    /// The path from the root of the workspace, with slashes.
    pub(super) path: String,
    /// The file as it is.
    pub(super) text: String,
    /// The outermost tokens.
    pub(super) tokens: Vec<TokenTree>,
    /// Whether the whole file is compiled for tests only.
    pub(super) test_only: bool,
    /// In the order of the text.
    comments: Vec<Comment>,
    /// The lines of attributes; doc comments are attributes.
    attribute_lines: BTreeSet<usize>,
    /// The lines with any other token.
    code_lines: BTreeSet<usize>,
    test_lines: Vec<RangeInclusive<usize>>,
    modules: Vec<ModuleFile>,
}

impl Source {
    /// Prepares a file; the error is the line where it stops being Rust.
    pub(super) fn parse(path: &str, text: &str) -> Result<Self, usize> {
        let stream: TokenStream =
            text.parse().map_err(|error: proc_macro2::LexError| tokens::line_of(error.span()))?;
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let inner_test = (0..tokens.len())
            .filter_map(|index| Attribute::at(&tokens, index))
            .any(|attribute| attribute.inner && attribute.is_test());
        let mut source = Self {
            path: path.to_owned(),
            text: text.to_owned(),
            test_only: inner_test || is_below_tests(path),
            comments: Vec::new(),
            attribute_lines: BTreeSet::new(),
            code_lines: BTreeSet::new(),
            test_lines: tokens::test_lines(&tokens),
            modules: tokens::module_files(&tokens),
            tokens: Vec::new(),
        };
        let mut scan = Scan { source: &mut source, line: 1, end: 0 };
        scan.list(&tokens, false);
        scan.gap(text.len());
        source.tokens = tokens;
        Ok(source)
    }

    /// The directory of the crate below `crates/`, if the file belongs to one.
    pub(super) fn crate_directory(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split_once('/').map(|(name, _)| name)
    }

    /// The path of the file in its crate below `crates/`.
    pub(super) fn path_in_crate(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split_once('/').map(|(_, path)| path)
    }

    /// Whether `line` is compiled for tests only.
    pub(super) fn is_test(&self, line: usize) -> bool {
        self.test_only || self.test_lines.iter().any(|lines| lines.contains(&line))
    }

    /// The comments on `line`.
    pub(super) fn comments_on(&self, line: usize) -> impl Iterator<Item = &str> {
        let first = self.comments.partition_point(|comment| comment.line < line);
        let on_line = self.comments[first..].iter();
        on_line.take_while(move |comment| comment.line == line).map(|comment| comment.text.as_str())
    }

    /// All comments with their lines.
    pub(super) fn comments(&self) -> impl Iterator<Item = (usize, &str)> {
        self.comments.iter().map(|comment| (comment.line, comment.text.as_str()))
    }

    /// The comments directly above `line`; only attributes and other comments may stand between.
    pub(super) fn comments_above(&self, line: usize) -> Vec<&str> {
        let mut found = Vec::new();
        let mut above = line.saturating_sub(1);
        while self.is_remark(above) {
            found.extend(self.comments_on(above));
            above -= 1;
        }
        found
    }

    /// The comments that stand on the line of `span` and before it.
    pub(super) fn comments_before(&self, span: Span) -> Vec<&str> {
        let (line, offset) = (tokens::line_of(span), span.byte_range().start);
        let before = |comment: &&Comment| comment.line == line && comment.offset < offset;
        self.comments.iter().filter(before).map(|comment| comment.text.as_str()).collect()
    }

    /// Whether a line consists of comments and attributes.
    fn is_remark(&self, line: usize) -> bool {
        let remarks =
            self.comments_on(line).next().is_some() || self.attribute_lines.contains(&line);
        remarks && !self.code_lines.contains(&line)
    }

    /// The paths where the file of a module may be.
    fn files_of(&self, module: &ModuleFile) -> [String; 2] {
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

/// Whether a file belongs to the integration tests of a crate.
fn is_below_tests(path: &str) -> bool {
    let in_crate = path.strip_prefix("crates/").and_then(|path| path.split_once('/'));
    in_crate.is_some_and(|(_, path)| path.starts_with("tests/"))
}

/// A walk through the tokens in the order of the text. What lies between two tokens is white space
/// and comments, and nothing else, so that the comments need no lexer of their own.
struct Scan<'a> {
    source: &'a mut Source,
    /// The line at `end`.
    line: usize,
    /// Where the tokens seen so far end.
    end: usize,
}

impl Scan<'_> {
    fn list(&mut self, tokens: &[TokenTree], in_attribute: bool) {
        let mut attribute_end = 0;
        for (index, token) in tokens.iter().enumerate() {
            if let Some(attribute) = Attribute::at(tokens, index) {
                attribute_end = index + attribute.length;
            }
            let in_attribute = in_attribute || index < attribute_end;
            match token {
                TokenTree::Group(group) if group.delimiter() != Delimiter::None => {
                    self.token(group.span_open(), in_attribute);
                    self.list(&tokens::inside(group), in_attribute);
                    self.token(group.span_close(), in_attribute);
                }
                other => self.token(other.span(), in_attribute),
            }
        }
    }

    /// Notes one token, and the comments before it.
    fn token(&mut self, span: Span, in_attribute: bool) {
        let bytes = span.byte_range();
        // The tokens of one doc comment all claim its whole text; only the first is news.
        if bytes.start < self.end {
            return;
        }
        self.gap(bytes.start);
        let text = self.source.text[bytes.clone()].to_owned();
        let first = self.line;
        if in_attribute && (text.starts_with("//") || text.starts_with("/*")) {
            self.comment(bytes.start, &text);
        }
        self.line = first + text.matches('\n').count();
        self.end = bytes.end;
        let lines = if in_attribute {
            &mut self.source.attribute_lines
        } else {
            &mut self.source.code_lines
        };
        lines.extend(first..=self.line);
    }

    /// Notes the comments between the last token and `start`.
    fn gap(&mut self, start: usize) {
        let text = self.source.text[self.end..start].to_owned();
        let mut rest = text.as_str();
        while let Some(at) = rest.find('/') {
            self.line += rest[..at].matches('\n').count();
            rest = &rest[at..];
            let length = comment_length(rest);
            self.comment(start - rest.len(), &rest[..length]);
            self.line += rest[..length].matches('\n').count();
            rest = &rest[length..];
        }
        self.line += rest.matches('\n').count();
        self.end = start;
    }

    /// Notes a comment that begins on the current line.
    fn comment(&mut self, offset: usize, text: &str) {
        let first = self.line;
        let mut offset = offset;
        for (number, line) in text.split('\n').enumerate() {
            let text = line.to_owned();
            self.source.comments.push(Comment { line: first + number, offset, text });
            offset += line.len() + 1;
        }
    }
}

/// The length of the comment with which `text` begins.
fn comment_length(text: &str) -> usize {
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::parse("crates/a/src/b.rs", text).unwrap()
    }

    #[test]
    fn comments_have_lines_and_strings_are_none() {
        let source = source(
            "// é one\nfn a() { \"// no\\\n\"; } // two\n/* x /* y */\n z */ fn b() {}\n/// doc\n\
             fn c() {}\n// end",
        );
        let found: Vec<_> = source.comments().collect();
        let expected = [
            (1, "// é one"),
            (3, "// two"),
            (4, "/* x /* y */"),
            (5, " z */"),
            (6, "/// doc"),
            (8, "// end"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn comments_above_pass_attributes_but_no_code() {
        let source = source(
            "// far\nfn a() {}\n// why\n#[cfg(\n  unix\n)]\n/// doc\nfn b() {}\nlet x = 1; // \
             beside\nfn c() {}",
        );
        assert_eq!(source.comments_above(8), ["/// doc", "// why"]);
        assert!(source.comments_above(10).is_empty());
        assert!(source.comments_above(1).is_empty());
    }

    #[test]
    fn a_file_that_is_not_rust_names_its_line() {
        assert_eq!(Source::parse("a.rs", "fn a() {}\nfn b( {}").err(), Some(2));
    }

    #[test]
    fn modules_for_tests_in_other_files_are_followed() {
        let parse = |path: &str, text: &str| Source::parse(path, text).unwrap();
        let tree = Tree::new(vec![
            parse("crates/a/src/lib.rs", "mod b;\n#[cfg(test)]\nmod tests;"),
            parse("crates/a/src/b.rs", "mod c;"),
            parse("crates/a/src/b/c.rs", ""),
            parse("crates/a/src/tests.rs", "mod deep;"),
            parse("crates/a/src/tests/deep.rs", ""),
            parse("crates/a/tests/all.rs", ""),
            parse("crates/a/src/whole.rs", "#![cfg(test)]"),
        ]);
        let tests = tree.sources.iter().filter(|source| source.test_only);
        let tests: Vec<_> =
            tests.map(|source| source.path.trim_start_matches("crates/a/")).collect();
        assert_eq!(tests, ["src/tests.rs", "src/tests/deep.rs", "tests/all.rs", "src/whole.rs"]);
    }

    #[test]
    fn a_file_knows_its_crate() {
        let source = source("");
        assert_eq!(source.crate_directory(), Some("a"));
        assert_eq!(source.path_in_crate(), Some("src/b.rs"));
        assert_eq!(Source::parse("xtask/src/main.rs", "").unwrap().crate_directory(), None);
    }
}
