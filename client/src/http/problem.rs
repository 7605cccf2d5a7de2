//! Problem details of a rejection: RFC 9457, with the problem types of draft-ietf-httpapi-ratelimit-headers.

use http::StatusCode;
use serde_json::{Value, json};

use super::Rejection;

/// The registry of problem types.
const TYPES: &str = "https://iana.org/assignments/http-problem-types";

/// The media type.
pub(super) const MEDIA_TYPE: &str = "application/problem+json";

/// The body.
pub(super) fn details(rejection: &Rejection) -> Value {
    let status = rejection.status();
    let (kind, title) = match (status, rejection.limit()) {
        (StatusCode::TOO_MANY_REQUESTS, Some(_)) => (format!("{TYPES}#quota-exceeded"), "Quota exceeded"),
        (StatusCode::SERVICE_UNAVAILABLE, _) => {
            (format!("{TYPES}#temporary-reduced-capacity"), "Temporarily reduced capacity")
        }
        // A type without a meaning of its own has the title of the status.
        _ => ("about:blank".to_owned(), status.canonical_reason().unwrap_or_default()),
    };
    let mut body =
        json!({ "type": kind, "title": title, "status": status.as_u16(), "detail": rejection.message() });
    if let Some(limit) = rejection.limit() {
        // The policies have the names of limits in RateLimit-Policy, too.
        body["violated-policies"] = json!([limit]);
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{error::Error, http::key::NoKey};

    #[test]
    fn each_rejection_has_its_type() {
        let undecided = Rejection::because(&Error::CircuitOpen);
        let too_large = Rejection::because(&Error::InvalidCount { count: 0 });
        let no_key = Rejection::from(NoKey::new(StatusCode::UNAUTHORIZED, "who are you?"));
        for (rejection, status, kind, title) in [
            (undecided, 503, format!("{TYPES}#temporary-reduced-capacity"), "Temporarily reduced capacity"),
            (too_large, 429, "about:blank".to_owned(), "Too Many Requests"),
            (no_key, 401, "about:blank".to_owned(), "Unauthorized"),
        ] {
            let body = details(&rejection);
            assert_eq!(
                (&body["status"], &body["type"], &body["title"]),
                (&status.into(), &kind.into(), &title.into())
            );
            assert_eq!(body["detail"], rejection.message());
            assert!(body.get("violated-policies").is_none());
        }
    }
}
