//! Outgoing requests and their responses, for any HTTP client.

use http::{HeaderMap, Request, Response, StatusCode, Uri};

/// The key of requests without a host. No client can send them.
const NO_HOST: &str = "none";

/// A request that a client sends.
pub trait OutgoingRequest {
    /// The called host in lower case, and the port if it is not the default of the scheme. `None` if the request has none.
    fn host(&self) -> Option<String>;
}

/// The response to an outgoing request.
pub trait OutgoingResponse {
    /// Its status.
    fn status(&self) -> StatusCode;

    /// Its headers.
    fn headers(&self) -> &HeaderMap;
}

/// The choice of a bucket for an outgoing request: [`PerHost`], a closure `Fn(&Request) -> Option<String>`, or `()` for a
/// limit with one bucket.
pub trait OutgoingKey<Q> {
    /// The key of the bucket; `None` for an unkeyed limit.
    fn key(&self, request: &Q) -> Option<String>;
}

/// A bucket for each host and port.
#[derive(Clone, Copy, Debug, Default)]
pub struct PerHost;

// === impl OutgoingRequest ===

impl<B> OutgoingRequest for Request<B> {
    fn host(&self) -> Option<String> {
        of_uri(self.uri())
    }
}

#[cfg(feature = "reqwest")]
impl OutgoingRequest for reqwest::Request {
    fn host(&self) -> Option<String> {
        // The host of a `Url` is in lower case, and its port is `None` for the default of the scheme.
        let host = self.url().host_str()?;
        Some(self.url().port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
    }
}

// === impl OutgoingResponse ===

impl<B> OutgoingResponse for Response<B> {
    fn status(&self) -> StatusCode {
        self.status()
    }

    fn headers(&self) -> &HeaderMap {
        self.headers()
    }
}

#[cfg(feature = "reqwest")]
impl OutgoingResponse for reqwest::Response {
    fn status(&self) -> StatusCode {
        self.status()
    }

    fn headers(&self) -> &HeaderMap {
        self.headers()
    }
}

// === impl OutgoingKey ===

impl<Q> OutgoingKey<Q> for () {
    fn key(&self, _: &Q) -> Option<String> {
        None
    }
}

impl<Q: OutgoingRequest> OutgoingKey<Q> for PerHost {
    fn key(&self, request: &Q) -> Option<String> {
        Some(request.host().unwrap_or_else(|| NO_HOST.to_owned()))
    }
}

impl<Q, F: Fn(&Q) -> Option<String>> OutgoingKey<Q> for F {
    fn key(&self, request: &Q) -> Option<String> {
        self(request)
    }
}

fn of_uri(uri: &Uri) -> Option<String> {
    let host = uri.host()?.to_ascii_lowercase();
    let own = match uri.scheme_str() {
        Some("http") => Some(80),
        Some("https") => Some(443),
        _ => None,
    };
    let port = uri.port_u16().filter(|port| Some(*port) != own);
    Some(port.map_or_else(|| host.clone(), |port| format!("{host}:{port}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_one_however_it_is_written() {
        for (uri, host) in [
            ("http://Example.org/a", Some("example.org")),
            ("http://example.org:80/", Some("example.org")),
            ("https://example.org:443/", Some("example.org")),
            ("https://example.org:80/", Some("example.org:80")),
            ("http://[::1]:8080/", Some("[::1]:8080")),
            ("/a", None),
        ] {
            let request = Request::builder().uri(uri).body(()).unwrap();
            assert_eq!(request.host().as_deref(), host, "{uri}");
            #[cfg(feature = "reqwest")]
            if let Ok(url) = uri.parse() {
                assert_eq!(reqwest::Request::new(http::Method::GET, url).host().as_deref(), host, "{uri}");
            }
        }
    }
}
