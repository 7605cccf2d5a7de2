//! Who is logged in.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{StatusCode, header::AUTHORIZATION, request::Parts};

use super::{KeyExtractor, NoKey};

/// Who sent a request, in its extensions: put there by whatever has authenticated it, in front of this layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject(pub String);

/// A key from [`Subject`], from [`bearer_subject`].
#[derive(Clone, Copy, Debug)]
pub struct BearerSubject(());

/// A key from a token nobody has looked at, from [`unverified_jwt_subject`].
#[derive(Clone, Copy, Debug)]
pub struct UnverifiedJwtSubject(());

/// The [`Subject`] an authenticator has put into the request's extensions. A request without one is refused with 401.
pub const fn bearer_subject() -> BearerSubject {
    BearerSubject(())
}

/// The `sub` of the JSON Web Token in `Authorization: Bearer …`, whose signature is **not** looked at.
///
/// Only behind a gateway that has verified the token of every request. Elsewhere a sender writes a new `sub` into each
/// request and is never limited, or writes another's and has him limited. Where this server verifies tokens itself, let
/// that insert a [`Subject`] and use [`bearer_subject`].
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
