//! Keys from the routes of axum.

use axum::extract::MatchedPath;
use http::request::Parts;

use super::{KeyExtractor, NoKey};

/// The key of requests that match no route.
const UNMATCHED: &str = "unmatched";

/// The key from [`route`].
#[derive(Clone, Copy, Debug)]
pub struct Route(());

/// The key is the template of the route that axum has matched, such as `/users/{id}`. There is one bucket for each
/// route, not for each path. Requests that match no route share the bucket `unmatched`.
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

#[cfg(test)]
mod tests {
    use axum::{Router, body::Body, extract::Request, routing::get};
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    async fn key(request: Request) -> String {
        route().key(&request.into_parts().0).unwrap().unwrap()
    }

    #[tokio::test]
    async fn a_route_is_one_key_whatever_stands_in_its_place() {
        let app = Router::new().route("/users/{id}", get(key)).fallback(key);
        for (path, key) in [("/users/1", "/users/{id}"), ("/users/2", "/users/{id}"), ("/x", UNMATCHED)] {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let answer = app.clone().oneshot(request).await.unwrap().into_body().collect().await.unwrap();
            assert_eq!(answer.to_bytes(), key, "{path}");
        }
    }
}
