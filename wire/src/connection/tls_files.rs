//! The parameters of TLS in a URL.

use std::path::PathBuf;

use redis::{ErrorKind, RedisError, RedisResult};

/// Files of a TLS connection, in PEM. They are read for each connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// Certificates of the CAs that may sign the server's; the system's if not given.
    pub(super) ca: Option<PathBuf>,
    /// The client's certificate, and its key.
    pub(super) cert: Option<(PathBuf, PathBuf)>,
}

// === impl TlsFiles ===

impl TlsFiles {
    /// The same URL without TLS, which the redis crate can read, and the files that it names. `None` without TLS.
    pub(super) fn split(url: &str) -> RedisResult<(String, Option<Self>)> {
        let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
        let (rest, fragment) = rest.split_once('#').map_or((rest, None), |(rest, end)| (rest, Some(end)));
        let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut named = [None, None, None];
        let mut others = Vec::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let pair = url::form_urlencoded::parse(part.as_bytes()).next();
            let place = pair.as_ref().and_then(|(name, _)| NAMES.iter().position(|known| known == name));
            match (place, pair) {
                (Some(place), Some((_, path))) => named[place] = Some(PathBuf::from(path.into_owned())),
                _ => others.push(part),
            }
        }
        match scheme {
            "rediss" => {}
            _ if named.iter().any(Option::is_some) => {
                return Err(wrong("tls_ca, tls_cert and tls_key need rediss://"));
            }
            _ => return Ok((url.to_owned(), None)),
        }
        if cfg!(not(feature = "tls")) {
            return Err(without_tls());
        }
        if fragment.is_some() {
            return Err(wrong("rediss:// takes no #: name a CA that is not the system's with tls_ca"));
        }
        let [ca, cert, key] = named;
        let cert = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => return Err(wrong("tls_cert and tls_key belong together")),
        };
        let mark = if others.is_empty() { "" } else { "?" };
        Ok((format!("redis://{address}{mark}{}", others.join("&")), Some(Self { ca, cert })))
    }
}

/// The parameters of a URL that name files.
const NAMES: [&str; 3] = ["tls_ca", "tls_cert", "tls_key"];

/// Adds a file to `url`, as one of its parameters `tls_ca`, `tls_cert` and `tls_key`.
pub fn with_tls_file(url: &str, parameter: &str, path: &str) -> String {
    let mark = if url.contains('?') { '&' } else { '?' };
    let path: String = url::form_urlencoded::byte_serialize(path.as_bytes()).collect();
    format!("{url}{mark}{parameter}={path}")
}

/// The error of a build without the feature.
pub(super) fn without_tls() -> RedisError {
    wrong("this build has no TLS: build it with the feature tls, or write redis://")
}

fn wrong(reason: &'static str) -> RedisError {
    RedisError::from((ErrorKind::InvalidClientConfig, reason))
}

#[cfg(all(test, feature = "tls"))]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_its_files() {
        let url = with_tls_file("rediss://u:p@a,b:1/0?protocol=3", "tls_ca", "/etc/ä ?&@#/ca.pem");
        let (plain, files) = TlsFiles::split(&url).unwrap();
        assert_eq!(plain, "redis://u:p@a,b:1/0?protocol=3");
        assert_eq!(files.unwrap().ca, Some("/etc/ä ?&@#/ca.pem".into()));
        assert_eq!(
            TlsFiles::split("rediss://a").unwrap(),
            ("redis://a".to_owned(), Some(TlsFiles::default()))
        );
        assert_eq!(TlsFiles::split("unix:///a?db=1").unwrap(), ("unix:///a?db=1".to_owned(), None));
    }

    #[test]
    fn parameters_that_would_have_no_effect_are_refused() {
        for url in
            ["redis://a?tls_ca=x", "rediss://a?tls_cert=x", "rediss://a?tls_key=x", "rediss://a#insecure"]
        {
            assert!(TlsFiles::split(url).is_err(), "{url}");
        }
    }
}
