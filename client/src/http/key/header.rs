//! The value of a header.

use http::{HeaderName, StatusCode, request::Parts};

use super::{KeyExtractor, NoKey};

/// A key from a header, from [`header`].
#[derive(Clone, Debug)]
pub struct Header(HeaderName);

/// The value of the header `name`, such as an API key.
///
/// Only for a header that is checked or written before this layer: whoever may write any value there finds a full bucket for
/// each. A request without it is refused with 400.
///
/// # Panics
/// When `name` is not a header's name in lower case.
pub const fn header(name: &'static str) -> Header {
    Header(HeaderName::from_static(name))
}

// === impl Header ===

impl KeyExtractor for Header {
    fn key(&self, request: &Parts) -> Result<Option<String>, NoKey> {
        let value = request.headers.get(&self.0).and_then(|value| value.to_str().ok());
        match value.map(str::trim) {
            Some(value) if !value.is_empty() => Ok(Some(value.to_owned())),
            _ => Err(NoKey::new(StatusCode::BAD_REQUEST, format!("the header {} is missing", self.0))),
        }
    }
}
