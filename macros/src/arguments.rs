//! The arguments of one attribute.

use proc_macro2::Span;
use syn::{
    Error, Expr, ExprLit, Ident, Lit, Result, Token,
    ext::IdentExt,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
    spanned::Spanned,
};

/// The arguments of one attribute, as written.
pub(crate) struct Arguments {
    pub(crate) limit: Expr,
    pub(crate) key: Option<Expr>,
    pub(crate) count: Option<Expr>,
    pub(crate) message: Option<Expr>,
    pub(crate) shared: Shared,
    /// The place of the attribute.
    pub(crate) span: Span,
}

/// Arguments for all attributes of a function, each with its name as written.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) wait: Option<(Ident, Expr)>,
    pub(crate) client: Option<(Ident, Expr)>,
    pub(crate) on_outage: Option<(Ident, OnOutage)>,
}

/// The outage policy.
#[derive(Clone, Copy)]
pub(crate) enum OnOutage {
    Allow,
    Deny,
    Local,
}

/// One `name = value`.
struct Argument {
    name: Ident,
    value: Expr,
}

const KNOWN: &str = "limit, key, count, message, wait, client, on_outage";

// === impl Arguments ===

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let span = input.span();
        let (mut limit, mut key, mut count, mut message) = (None, None, None, None);
        let mut shared = Shared::default();
        for Argument { name, value } in Punctuated::<Argument, Token![,]>::parse_terminated(input)? {
            match name.to_string().as_str() {
                "limit" => once(&mut limit, &name, checked_limit(value)?)?,
                "key" => once(&mut key, &name, value)?,
                "count" => once(&mut count, &name, checked_count(value)?)?,
                "message" => once(&mut message, &name, value)?,
                "wait" => once(&mut shared.wait, &name, (name.clone(), checked_wait(value)?))?,
                "client" => once(&mut shared.client, &name, (name.clone(), value))?,
                "on_outage" => once(&mut shared.on_outage, &name, (name.clone(), on_outage(&value)?))?,
                other => {
                    return Err(Error::new(name.span(), format!("no argument is called `{other}`: {KNOWN}")));
                }
            }
        }
        let limit = limit.ok_or_else(|| {
            Error::new(span, "which limit? Say limit = \"name\", as in [limit.name] of topupd's config")
        })?;
        Ok(Self { limit, key, count, message, shared, span })
    }
}

// === impl Argument ===

impl Parse for Argument {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let name = input
            .call(Ident::parse_any)
            .map_err(|error| Error::new(error.span(), format!("write name = value: {KNOWN}")))?;
        if !input.peek(Token![=]) {
            return Err(Error::new(name.span(), format!("what about `{name}`? Write {name} = value")));
        }
        input.parse::<Token![=]>()?;
        Ok(Self { name, value: input.parse()? })
    }
}

fn once<T>(place: &mut Option<T>, name: &Ident, value: T) -> Result<()> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::new(name.span(), format!("`{name}` is given twice"))),
    }
}

/// Checks the name of a limit, if it is a literal. An invalid name would be an error of every call.
fn checked_limit(value: Expr) -> Result<Expr> {
    let of_name = |c: char| c.is_ascii_alphanumeric() || ['.', '_', '-'].contains(&c);
    match literal(&value) {
        Some(Lit::Str(name))
            if !(1..=64).contains(&name.value().len()) || !name.value().chars().all(of_name) =>
        {
            Err(Error::new(
                name.span(),
                "the name of a limit has 1 to 64 of the characters A-Z a-z 0-9 . _ -",
            ))
        }
        Some(Lit::Str(_)) | None => Ok(value),
        Some(_) => Err(Error::new(value.span(), "a limit is named by a text: limit = \"name\"")),
    }
}

fn checked_count(value: Expr) -> Result<Expr> {
    match literal(&value) {
        Some(Lit::Int(count)) if count.base10_parse::<u64>()? == 0 => {
            Err(Error::new(count.span(), "a take is of one token at least"))
        }
        Some(Lit::Int(_)) | None => Ok(value),
        Some(_) => Err(Error::new(value.span(), "a count is a whole number of tokens")),
    }
}

fn checked_wait(value: Expr) -> Result<Expr> {
    match literal(&value) {
        Some(Lit::Str(text)) => {
            let longest = humantime::parse_duration(&text.value()).map_err(|error| {
                Error::new(text.span(), format!("not a duration such as \"2s\" or \"500ms\": {error}"))
            })?;
            let (seconds, nanos) = (longest.as_secs(), longest.subsec_nanos());
            Ok(syn::parse_quote_spanned!(text.span()=> ::core::time::Duration::new(#seconds, #nanos)))
        }
        None => Ok(value),
        Some(_) => Err(Error::new(value.span(), "a duration has a unit: wait = \"2s\"")),
    }
}

fn on_outage(value: &Expr) -> Result<OnOutage> {
    let word = match value {
        Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
        value => literal(value).and_then(|literal| match literal {
            Lit::Str(text) => Some(text.value()),
            _ => None,
        }),
    };
    match word.as_deref() {
        Some("allow") => Ok(OnOutage::Allow),
        Some("deny") => Ok(OnOutage::Deny),
        Some("local") => Ok(OnOutage::Local),
        _ => Err(Error::new(
            value.span(),
            "on_outage is `allow`, `deny` or `local`; leave it out to leave it to the limit and the client",
        )),
    }
}

fn literal(value: &Expr) -> Option<&Lit> {
    match value {
        Expr::Lit(ExprLit { lit, .. }) => Some(lit),
        _ => None,
    }
}
