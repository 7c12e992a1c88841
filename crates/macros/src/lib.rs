//! The attribute `#[farside::main]`. Programs use it through the crate `farside`, whose module
//! `entry` documents it.

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
        return error(message, span);
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

/// Returns what is wrong with the item, and where.
fn problem(item: &TokenStream) -> Option<(&'static str, Span)> {
    let tokens: Vec<TokenTree> = item.clone().into_iter().collect();
    let word = |token: &TokenTree, word: &str| match token {
        TokenTree::Ident(name) => name.to_string() == word,
        _ => false,
    };
    let Some(at) = tokens.iter().position(|token| word(token, "fn")) else {
        return Some(("#[farside::main] stands before `fn main`", Span::call_site()));
    };
    if let Some(token) = tokens[..at].iter().find(|token| word(token, "async")) {
        return Some(("#[farside::main] needs a function that is not async", token.span()));
    }
    match tokens.get(at + 1) {
        Some(name) if word(name, "main") => {}
        Some(name) => return Some(("#[farside::main] is for the function `main`", name.span())),
        None => return Some(("a function has a name", tokens[at].span())),
    }
    match tokens.get(at + 2) {
        Some(TokenTree::Group(arguments)) if arguments.stream().is_empty() => Some((
            "the function needs a world: `fn main(world: &farside::World)`",
            arguments.span(),
        )),
        _ => None,
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
