//! The guard: a request shows host, token and length before it is answered.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{
    HeaderMap, HeaderValue, Method, StatusCode,
    header::{
        AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST,
        TRANSFER_ENCODING, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
    },
};

use super::{assets::FOLDER, token::Token};
use crate::config::Listen;

/// Most bytes of the body of a request that changes something.
const LONGEST_BODY: usize = 4 * 1024;

/// The rules for requests.
#[derive(Clone)]
pub(super) struct Guard {
    /// Whether the `Host` has to be this machine. A page of another site in a browser on this machine could ask otherwise.
    local_host_only: bool,
    /// Whether other machines may ask. They show the token for everything.
    is_remote: bool,
    token: Option<Arc<Token>>,
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// The page without its data.
    Page,
    Reading,
    Changing,
}

// === impl Guard ===

impl Guard {
    pub(super) fn new(listen: &Listen, token: Option<Token>) -> Self {
        let local_host_only = matches!(listen, Listen::Tcp(address) if address.ip().is_loopback());
        Self { local_host_only, is_remote: listen.is_remote(), token: token.map(Arc::new) }
    }

    /// The refusal of a request for `purpose` with these headers.
    fn refusal(&self, purpose: Purpose, headers: &HeaderMap) -> Option<(StatusCode, &'static str)> {
        let mut hosts = headers.get_all(HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host,
            _ => return Some((StatusCode::BAD_REQUEST, "a request has one Host header\n")),
        };
        if self.local_host_only && !is_local(host) {
            return Some((
                StatusCode::MISDIRECTED_REQUEST,
                "this server is localhost, not the Host of the request\n",
            ));
        }
        if let Some(refusal) = self.without_token(purpose, headers) {
            return Some(refusal);
        }
        let length = headers.get(CONTENT_LENGTH).map(HeaderValue::as_bytes);
        if purpose != Purpose::Changing {
            let has_body =
                length.is_some_and(|length| length != b"0") || headers.contains_key(TRANSFER_ENCODING);
            return has_body.then_some((StatusCode::PAYLOAD_TOO_LARGE, "a request that reads has no body\n"));
        }
        if headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes) != Some(b"application/json") {
            return Some((StatusCode::UNSUPPORTED_MEDIA_TYPE, "send a body of application/json\n"));
        }
        let length = length.and_then(|length| std::str::from_utf8(length).ok()?.parse::<usize>().ok());
        let fits = length.is_some_and(|length| length <= LONGEST_BODY);
        (!fits).then_some((StatusCode::PAYLOAD_TOO_LARGE, "send a body of at most 4 KiB, with its length\n"))
    }

    /// The refusal of a request that does not show the token where it has to.
    fn without_token(&self, purpose: Purpose, headers: &HeaderMap) -> Option<(StatusCode, &'static str)> {
        let is_free = match purpose {
            Purpose::Page => true,
            Purpose::Reading => !self.is_remote,
            Purpose::Changing => false,
        };
        if is_free {
            return None;
        }
        let Some(token) = &self.token else {
            return Some((StatusCode::FORBIDDEN, "this server only reads: admin.token_file is not set\n"));
        };
        let given = headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        let shows = given.is_some_and(|given| token.is(given));
        (!shows).then_some((StatusCode::UNAUTHORIZED, "send the header Authorization: Bearer TOKEN\n"))
    }
}

// === impl Purpose ===

impl Purpose {
    fn of(request: &Request) -> Self {
        let path = request.uri().path();
        match *request.method() {
            Method::GET | Method::HEAD if path == "/" || path.starts_with(FOLDER) => Self::Page,
            Method::GET | Method::HEAD => Self::Reading,
            _ => Self::Changing,
        }
    }
}

/// Whether `host`, with a port or without, is this machine.
fn is_local(host: &HeaderValue) -> bool {
    let Ok(host) = host.to_str() else { return false };
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Answers requests that keep the rules, and says in each answer what a browser may do with it.
pub(super) async fn guard(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let mut response = match guard.refusal(Purpose::of(&request), request.headers()) {
        None => next.run(request).await,
        Some(refusal) => refusal.into_response(),
    };
    let is_unauthorized = response.status() == StatusCode::UNAUTHORIZED;
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // The page has said what it may do.
    let nothing = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(nothing);
    if is_unauthorized {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_local() {
        for host in ["localhost", "LOCALHOST:9187", "127.0.0.1:9187", "127.1.2.3", "[::1]:9187", "[::1]"] {
            assert!(is_local(&HeaderValue::from_static(host)), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example:9187", "127.0.0.1.evil.example", "10.0.0.1:80", "", ":"]
        {
            assert!(!is_local(&HeaderValue::from_static(host)), "{host}");
        }
    }
}
