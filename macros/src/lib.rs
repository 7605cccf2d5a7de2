//! The attribute `#[topup::limited]`. It parses its arguments and adds one call of `topup::Admission` to the function.

use proc_macro::TokenStream;

mod arguments;
mod expand;
mod stack;

/// Takes a token before an `async fn` runs. A denied call returns `Err`.
///
/// The error type of the function implements `From<topup::Denied>`. Without `on_outage`, it implements
/// `From<topup::Error>`, too. All arguments but the first are optional:
///
/// | argument | meaning |
/// |---|---|
/// | `limit = "user"` | the limit, as in `[limit.user]` of the daemon's config |
/// | `key = user_id` | the bucket of a keyed limit: an expression over the function's arguments, formatted by `Display` |
/// | `count = 1` | the number of tokens, a `u64` |
/// | `message = "…"` | the message of `Denied` |
/// | `wait = "2s"` | the longest wait for tokens; or an expression, a `Duration` |
/// | `client = self.topup` | the client; without it, the default client of `topup::set_default` |
/// | `on_outage = allow` | the outage policy: `allow`, `deny` or `local`; without it, the limit's or the client's, or the error is returned |
///
/// Several of these attributes on one function are one decision: tokens are taken from all limits or from none. `wait`,
/// `client` and `on_outage` are given once, for all of them. The attribute has to be written as `limited` or
/// `topup::limited`.
#[proc_macro_attribute]
pub fn limited(arguments: TokenStream, function: TokenStream) -> TokenStream {
    expand::expand(arguments.into(), function.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
