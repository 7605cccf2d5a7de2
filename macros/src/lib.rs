//! The attribute `#[topup::limited]`. It only reads its arguments and writes one call of `topup::Admission`.

use proc_macro::TokenStream;

mod arguments;
mod expand;
mod stack;

/// Lets an `async fn` begin only when a limit allows it.
///
/// The function returns a `Result` whose error is made `From<topup::Denied>`, and `From<topup::Error>` too unless
/// `on_error` is given. Arguments, all but the first optional:
///
/// | argument | what it says |
/// |---|---|
/// | `limit = "user"` | which limit, as in `[limit.user]` of the daemon's config |
/// | `key = user_id` | whose bucket, for a keyed limit: an expression over the function's arguments, shown by `Display` |
/// | `count = 1` | how many tokens, a `u64` |
/// | `message = "…"` | what `Denied` says |
/// | `wait = "2s"` | how long to wait for tokens before being denied; or an expression, a `Duration` |
/// | `client = self.topup` | who asks; without it, the client given to `topup::set_default` |
/// | `on_error = allow` | go on when nothing can be decided, or `deny`; without it, that is an error |
///
/// Several of these attributes on one function are one decision: tokens are taken from all the limits or from none.
/// `wait`, `client` and `on_error` speak for all of them and are given once. They are recognized by their name, `limited`
/// or `topup::limited`.
///
/// # Examples
/// ```no_run
/// #[derive(Debug)]
/// enum Failure {
///     TooMany(topup::Denied),
///     Limiter(topup::Error),
/// }
/// # impl From<topup::Denied> for Failure { fn from(denied: topup::Denied) -> Self { Self::TooMany(denied) } }
/// # impl From<topup::Error> for Failure { fn from(error: topup::Error) -> Self { Self::Limiter(error) } }
///
/// #[topup::limited(limit = "api", wait = "2s")]
/// #[topup::limited(limit = "sms", key = number, message = "one text message a minute")]
/// async fn send(number: &str, text: &str) -> Result<(), Failure> {
///     // only when both allow it
///     Ok(())
/// }
/// ```
#[proc_macro_attribute]
pub fn limited(arguments: TokenStream, function: TokenStream) -> TokenStream {
    expand::expand(arguments.into(), function.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
