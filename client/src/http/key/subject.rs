//! Keys from the authenticated user.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{StatusCode, header::AUTHORIZATION, request::Parts};

use super::{KeyExtractor, NoKey};

/// The user that sent a request, for the request's extensions. An authenticator in front of this layer inserts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject(pub String);

/// The key from [`bearer_subject`].
#[derive(Clone, Copy, Debug)]
pub struct BearerSubject(());

/// The key from [`unverified_jwt_subject`].
#[derive(Clone, Copy, Debug)]
pub struct UnverifiedJwtSubject(());

/// The key is the [`Subject`] in the request's extensions. A request without one is rejected with 401.
pub const fn bearer_subject() -> BearerSubject {
    BearerSubject(())
}

/// The key is the `sub` of the JSON Web Token in `Authorization: Bearer …`. Its signature is **not** verified.
///
/// Use it only behind a gateway that has verified the token of every request. Otherwise a sender may write a new `sub`
/// into each request and is never limited, or may use up the bucket of another user. If this server verifies tokens
/// itself, insert a [`Subject`] there and use [`bearer_subject`].
pub const fn unverified_jwt_subject() -> UnverifiedJwtSubject {
    UnverifiedJwtSubject(())
}

// === impl BearerSubject ===

impl KeyExtractor for BearerSubject {
    fn key(&self, request: &Parts) -> Result<Option<String>, NoKey> {
        let subject = request.extensions.get().map(|Subject(subject)| subject.clone());
        subject.map(Some).ok_or_else(unauthenticated)
    }
}

// === impl UnverifiedJwtSubject ===

impl KeyExtractor for UnverifiedJwtSubject {
    fn key(&self, request: &Parts) -> Result<Option<String>, NoKey> {
        jwt_subject(request).map(Some).ok_or_else(unauthenticated)
    }
}

fn unauthenticated() -> NoKey {
    NoKey::new(StatusCode::UNAUTHORIZED, "the request does not say who sends it")
}

fn jwt_subject(request: &Parts) -> Option<String> {
    let (scheme, token) = request.headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let payload = URL_SAFE_NO_PAD.decode(token.trim().split('.').nth(1)?).ok()?;
    let claims: serde_json::Value = serde_json::from_slice(&payload).ok()?;
    claims.get("sub")?.as_str().filter(|subject| !subject.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(authorization: &str) -> Parts {
        http::Request::builder().header(AUTHORIZATION, authorization).body(()).unwrap().into_parts().0
    }

    fn token(claims: &str) -> String {
        format!("e30.{}.signature", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn a_subject_is_only_what_an_authenticator_has_said() {
        let mut request = request(&format!("Bearer {}", token(r#"{"sub":"alice"}"#)));
        assert_eq!(bearer_subject().key(&request).unwrap_err().into_parts().0, StatusCode::UNAUTHORIZED);
        request.extensions.insert(Subject("bob".to_owned()));
        assert_eq!(bearer_subject().key(&request), Ok(Some("bob".to_owned())));
    }

    #[test]
    fn the_unverified_reader_reads_what_is_written() {
        let read = |authorization: &str| unverified_jwt_subject().key(&request(authorization));
        for (claims, subject) in [(r#"{"sub":"alice"}"#, Some("alice")), (r#"{"sub":7}"#, None), ("{}", None)]
        {
            assert_eq!(
                read(&format!("bearer {}", token(claims))).ok().flatten().as_deref(),
                subject,
                "{claims}"
            );
        }
        for wrong in ["", "Bearer", "Bearer a", "Bearer a.!.c", "Basic YTpi", "Bearer e30.bm9qc29u.x"] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
