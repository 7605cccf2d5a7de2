//! Keys from a header.

use http::{HeaderName, StatusCode, request::Parts};

use super::{KeyExtractor, NoKey};

/// The key from [`header`].
#[derive(Clone, Debug)]
pub struct Header(HeaderName);

/// The key is the value of the header `name`, such as an API key. A request without the header is rejected with 400.
///
/// Use it only for a header that is checked or written in front of this layer. A sender that may write any value finds
/// a full bucket for each.
///
/// # Panics
/// If `name` is not the name of a header in lower case.
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
