//! The attributes `#[farside::main]` and `#[farside::test]`. Programs use them through the crate
//! `farside`, whose modules `entry` and `check` document them.

use proc_macro::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

/// Makes a function of a world the entry of a program.
///
/// ```ignore
/// #[farside::main]
/// fn main(world: &farside::World) -> farside::Result<()> {
///     world.barrier()
/// }
/// ```
///
/// The function stays as it is, inside of a `main` without arguments that hands it to
/// `farside::entry::run`. So the macro reads nothing of it but its name, and needs no parser.
#[proc_macro_attribute]
pub fn main(attribute: TokenStream, item: TokenStream) -> TokenStream {
    if !attribute.is_empty() {
        return error("#[farside::main] takes no arguments", Span::call_site());
    }
    if let Some((message, span)) = problem(&item) {
        return error(&message, span);
    }
    // fn main() -> ::std::process::ExitCode { ITEM ::farside::entry::run(main) }
    let head: TokenStream = "fn main() -> ::std::process::ExitCode"
        .parse()
        .unwrap_or_else(|_| unreachable!("the text is Rust"));
    let call: TokenStream =
        "::farside::entry::run(main)".parse().unwrap_or_else(|_| unreachable!("the text is Rust"));
    let body = Group::new(Delimiter::Brace, item.into_iter().chain(call).collect());
    head.into_iter().chain([TokenTree::Group(body)]).collect()
}

/// Makes a function of a world a test that explores its schedules.
///
/// ```ignore
/// #[farside::test(ranks = 3)]
/// fn all_meet(world: &farside::World) -> farside::Result<()> {
///     world.barrier()
/// }
/// ```
///
/// The arguments are calls of the builder `farside::check::Check`: `ranks`, which is needed, and
/// `nodes`, `topology`, `policy`, `schedules`, `seed`, `deaths`, `slow_news`, `torn`, `races`.
/// Attributes such as `#[ignore]` count for the test.
#[proc_macro_attribute]
pub fn test(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand_test(attribute, item).unwrap_or_else(|(message, span)| error(&message, span))
}

type Problem = (String, Span);

fn expand_test(attribute: TokenStream, item: TokenStream) -> Result<TokenStream, Problem> {
    const SETTINGS: [&str; 10] = [
        "ranks",
        "nodes",
        "topology",
        "policy",
        "schedules",
        "seed",
        "deaths",
        "slow_news",
        "torn",
        "races",
    ];
    let usage = "expected #[farside::test(ranks = 3)], and perhaps nodes, topology, policy, \
                 schedules, seed, deaths, slow_news, torn, races";
    let (mut ranks, mut rest) = (None, String::new());
    let tokens: Vec<TokenTree> = attribute.into_iter().collect();
    for setting in tokens.split(|token| is_mark(token, ',')).filter(|setting| !setting.is_empty()) {
        let [
            TokenTree::Ident(name),
            equals,
            value @ TokenTree::Literal(_) | value @ TokenTree::Ident(_),
        ] = setting
        else {
            return Err((usage.to_owned(), setting[0].span()));
        };
        let name_text = name.to_string();
        if !is_mark(equals, '=') || !SETTINGS.contains(&name_text.as_str()) {
            return Err((usage.to_owned(), name.span()));
        }
        match name_text.as_str() {
            "ranks" => ranks = Some(value.to_string()),
            name => rest += &format!(".{name}({value})"),
        }
    }
    let Some(ranks) = ranks else { return Err((usage.to_owned(), Span::call_site())) };
    let tokens: Vec<TokenTree> = item.into_iter().collect();
    let name = function(&tokens, "test")?.to_string();
    // Attributes stand ahead of the item: a mark and a group each.
    let attributes = tokens
        .chunks(2)
        .take_while(|pair| {
            is_mark(&pair[0], '#') && matches!(pair.get(1), Some(TokenTree::Group(_)))
        })
        .count();
    let (attributes, function) = tokens.split_at(2 * attributes);
    let head = format!("#[::core::prelude::v1::test] fn {name}()");
    let call = format!(
        "::farside::check::Check::new({ranks}){rest}\
         .assert(concat!(module_path!(), \"::{name}\"), {name})"
    );
    let parsed = |text: &str| {
        let failed = |_| (usage.to_owned(), Span::call_site());
        text.parse::<TokenStream>().map_err(failed)
    };
    let body = function.iter().cloned().chain(parsed(&call)?).collect();
    let body = TokenTree::Group(Group::new(Delimiter::Brace, body));
    Ok(attributes.iter().cloned().chain(parsed(&head)?).chain([body]).collect())
}

fn is_mark(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(name) if name.to_string() == word)
}

/// Returns the name of a function that takes something.
fn function<'a>(tokens: &'a [TokenTree], attribute: &str) -> Result<&'a TokenTree, Problem> {
    let Some(at) = tokens.iter().position(|token| is_word(token, "fn")) else {
        return Err((
            format!("#[farside::{attribute}] applies to functions only"),
            Span::call_site(),
        ));
    };
    if let Some(token) = tokens[..at].iter().find(|token| is_word(token, "async")) {
        return Err((
            format!("#[farside::{attribute}] needs a function that is not async"),
            token.span(),
        ));
    }
    let Some(name) = tokens.get(at + 1) else {
        return Err(("a function has a name".to_owned(), tokens[at].span()));
    };
    match tokens.get(at + 2) {
        Some(TokenTree::Group(arguments)) if arguments.stream().is_empty() => Err((
            format!("the function needs a world: `fn {name}(world: &farside::World)`"),
            arguments.span(),
        )),
        _ => Ok(name),
    }
}

fn problem(item: &TokenStream) -> Option<Problem> {
    let tokens: Vec<TokenTree> = item.clone().into_iter().collect();
    match function(&tokens, "main") {
        Ok(name) if is_word(name, "main") => None,
        Ok(name) => Some(("#[farside::main] is for the function `main`".to_owned(), name.span())),
        Err(problem) => Some(problem),
    }
}

/// Returns `::core::compile_error!("message");`, at a place of the source.
fn error(message: &str, span: Span) -> TokenStream {
    let mark = |mark: char, spacing: Spacing| {
        let mut mark = Punct::new(mark, spacing);
        mark.set_span(span);
        TokenTree::Punct(mark)
    };
    let name = |name: &str| TokenTree::Ident(Ident::new(name, span));
    let mut text = Literal::string(message);
    text.set_span(span);
    let mut argument = Group::new(Delimiter::Parenthesis, TokenTree::Literal(text).into());
    argument.set_span(span);
    [
        mark(':', Spacing::Joint),
        mark(':', Spacing::Alone),
        name("core"),
        mark(':', Spacing::Joint),
        mark(':', Spacing::Alone),
        name("compile_error"),
        mark('!', Spacing::Alone),
        TokenTree::Group(argument),
        mark(';', Spacing::Alone),
    ]
    .into_iter()
    .collect()
}
