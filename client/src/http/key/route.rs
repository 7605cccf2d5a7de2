//! Which route of axum's it is.

use axum::extract::MatchedPath;
use http::request::Parts;

use super::{KeyExtractor, NoKey};

/// What requests that match no route have in common.
const UNMATCHED: &str = "unmatched";

/// A key from the route, from [`route`].
#[derive(Clone, Copy, Debug)]
pub struct Route(());

/// The template of the route that axum has matched, such as `/users/{id}`: a bucket for each route, not for each path a
/// sender can think of. Requests that match none share the bucket `unmatched`.
pub const fn route() -> Route {
    Route(())
}

// === impl Route ===

impl KeyExtractor for Route {
    fn key(&self, request: &Parts) -> Result<Option<String>, NoKey> {
        let matched = request.extensions.get::<MatchedPath>().map(MatchedPath::as_str);
        Ok(Some(matched.unwrap_or(UNMATCHED).to_owned()))
    }
}
