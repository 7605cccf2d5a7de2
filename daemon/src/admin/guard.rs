//! What a request has to show before it is answered.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{
        AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, HOST, TRANSFER_ENCODING,
        WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
    },
};

use super::token::Token;
use crate::config::Listen;

/// The rules for requests.
#[derive(Clone)]
pub(super) struct Guard {
    /// Whether the `Host` has to be this machine. A page of another site in a browser on this machine could ask otherwise.
    local_host_only: bool,
    token: Option<Arc<Token>>,
}

// === impl Guard ===

impl Guard {
    pub(super) fn new(listen: &Listen, token: Option<Token>) -> Self {
        let local_host_only = matches!(listen, Listen::Tcp(address) if address.ip().is_loopback());
        Self { local_host_only, token: token.map(Arc::new) }
    }

    /// The refusal of a request with these headers.
    fn refusal(&self, headers: &HeaderMap) -> Option<(StatusCode, &'static str)> {
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
        if let Some(token) = &self.token {
            let given =
                headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
            if !given.is_some_and(|given| token.is(given)) {
                return Some((StatusCode::UNAUTHORIZED, "send the header Authorization: Bearer TOKEN\n"));
            }
        }
        let has_body = headers.get(CONTENT_LENGTH).is_some_and(|length| length.as_bytes() != b"0")
            || headers.contains_key(TRANSFER_ENCODING);
        has_body.then_some((StatusCode::PAYLOAD_TOO_LARGE, "no request here has a body\n"))
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

/// Answers requests that keep the rules, and says in each answer what a browser may do with it: nothing.
pub(super) async fn guard(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let mut response = match guard.refusal(request.headers()) {
        None => next.run(request).await,
        Some(refusal) => refusal.into_response(),
    };
    let is_unauthorized = response.status() == StatusCode::UNAUTHORIZED;
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"),
    );
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
