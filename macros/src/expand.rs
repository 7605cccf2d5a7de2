//! The expansion of a function.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::{Error, Expr, ExprReference, ItemFn, Result, ReturnType, Token, spanned::Spanned};

use crate::{
    arguments::{Arguments, OnOutage},
    stack::Stack,
};

pub(crate) fn expand(arguments: TokenStream, function: TokenStream) -> Result<TokenStream> {
    let mut function: ItemFn = syn::parse2(function).map_err(|error| {
        Error::new(error.span(), "#[topup::limited] stands before an async fn with a body")
    })?;
    let stack = Stack::collect(arguments, &mut function)?;
    if function.sig.asyncness.is_none() {
        let message = "#[topup::limited] asks Redis, so it needs an async fn";
        return Err(Error::new(function.sig.fn_token.span(), message));
    }
    if matches!(function.sig.output, ReturnType::Default) {
        let message = "a limit may deny: return Result<_, E>, where E is made From<topup::Denied>";
        return Err(Error::new(function.sig.ident.span(), message));
    }
    let admission = admission(&stack);
    function.block.stmts.insert(0, syn::parse2(admission)?);
    Ok(function.into_token_stream())
}

/// The statement that calls `Admission`.
fn admission(Stack { limits, shared }: &Stack) -> TokenStream {
    let span = limits.first().map_or_else(proc_macro2::Span::call_site, |outermost| outermost.span);
    let begin = match &shared.client {
        Some((_, client)) => {
            let client = borrowed(client);
            quote_spanned!(client.span()=> ::topup::Admission::of(#client))
        }
        None => quote_spanned!(span=> ::topup::Admission::by_default()),
    };
    let takes = limits.iter().map(take);
    let wait = shared.wait.iter().map(|(_, longest)| quote_spanned!(longest.span()=> .wait(#longest)));
    let decide = match &shared.on_outage {
        None => quote_spanned!(span=> .decide().await??),
        Some((_, OnOutage::Allow)) => quote_spanned!(span=> .decide_or(::topup::OnOutage::Allow).await?),
        Some((_, OnOutage::Deny)) => quote_spanned!(span=> .decide_or(::topup::OnOutage::Deny).await?),
        Some((_, OnOutage::Local)) => quote_spanned!(span=> .decide_or(::topup::OnOutage::Local).await?),
    };
    quote!(#begin #(#takes)* #(#wait)* #decide;)
}

fn take(Arguments { limit, key, count, message, .. }: &Arguments) -> TokenStream {
    // Formatted, not moved: the function still uses the key.
    let key = key.iter().map(|key| {
        let key = borrowed(key);
        quote_spanned!(key.span()=> .key(::std::string::ToString::to_string(#key)))
    });
    let count = count.iter().map(|count| quote_spanned!(count.span()=> .count(#count)));
    let message = message.iter().map(|message| quote_spanned!(message.span()=> .message(#message)));
    quote_spanned!(limit.span()=> .take(::topup::Take::of(#limit) #(#key)* #(#count)* #(#message)*))
}

/// A reference to `value`, which may be any expression.
fn borrowed(value: &Expr) -> ExprReference {
    let and_token = Token![&](value.span());
    ExprReference { attrs: Vec::new(), and_token, mutability: None, expr: Box::new(value.clone()) }
}
