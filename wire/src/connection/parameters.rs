//! Parameters of a URL, behind its question mark.

use crate::namespace::{Namespace, NamespaceError};

/// Parameters of `redis://` and `rediss://`.
const ON_TCP: &[&str] = &["protocol", "tls_ca", "tls_cert", "tls_key"];
/// Parameters of the URL of sentinels.
const OF_SENTINELS: &[&str] =
    &["protocol", "tls_ca", "tls_cert", "tls_key", "sentinel_username", "sentinel_password"];
/// Parameters of `unix://` that the redis crate knows.
const ON_A_SOCKET: &[&str] = &["db", "user", "pass", "protocol"];

/// A wrong parameter of a URL. The message repeats no value, which may be a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// Neither topup nor the redis crate knows it. A misspelt one would be ignored.
    #[error("unknown parameter{name}: behind ? may stand namespace, {}", .known.join(", "))]
    Unknown {
        /// The name, quoted and after a space; empty where it may be a part of a password.
        name: String,
        /// The parameters that are known beside `namespace`.
        known: &'static [&'static str],
    },
    /// The parameter `namespace` stands there twice.
    #[error("the parameter namespace stands there twice: name one")]
    Twice,
    /// The value of `namespace` is none.
    #[error("parameter namespace: {0}")]
    Namespace(#[from] NamespaceError),
}

/// Splits `url` into one without the parameter `namespace`, which the redis crate does not know, and the namespace.
///
/// # Errors
/// When `url` has an unknown parameter, or a wrong namespace.
pub fn split_namespace(url: &str) -> Result<(String, Option<Namespace>), ParameterError> {
    let (whole, fragment) = url.find('#').map_or((url, ""), |at| url.split_at(at));
    let Some((address, query)) = whole.split_once('?') else { return Ok((url.to_owned(), None)) };
    let scheme = address.split_once("://").map_or("", |(scheme, _)| scheme);
    let known = match scheme {
        _ if scheme.contains("unix") => ON_A_SOCKET,
        _ if scheme.contains("sentinel") => OF_SENTINELS,
        _ => ON_TCP,
    };
    let (mut namespace, mut others) = (None, Vec::new());
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        match parameter.split_once('=').unwrap_or((parameter, "")) {
            ("namespace", value) => {
                if namespace.replace(value.parse()?).is_some() {
                    return Err(ParameterError::Twice);
                }
            }
            (name, _) if known.contains(&name) => others.push(parameter),
            // Behind the question mark of an unescaped password, this is a part of it.
            _ if query.contains('@') => return Err(ParameterError::Unknown { name: String::new(), known }),
            (name, _) => return Err(ParameterError::Unknown { name: format!(" {name:?}"), known }),
        }
    }
    let mark = if others.is_empty() { "" } else { "?" };
    Ok((format!("{address}{mark}{}{fragment}", others.join("&")), namespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_may_name_a_namespace_that_the_redis_crate_never_sees() {
        for (url, plain, namespace) in [
            ("redis://a", "redis://a", None),
            ("redis://a/0?namespace=shop", "redis://a/0", Some("shop")),
            ("redis://a,b?namespace=shop", "redis://a,b", Some("shop")),
            ("redis://a/?protocol=resp3&namespace=shop", "redis://a/?protocol=resp3", Some("shop")),
            (
                "redis://u:p%3F@a/?namespace=shop&protocol=resp3",
                "redis://u:p%3F@a/?protocol=resp3",
                Some("shop"),
            ),
            ("rediss://a/?namespace=shop#insecure", "rediss://a/#insecure", Some("shop")),
            ("unix:///r.sock?db=2&namespace=shop&pass=x@y", "unix:///r.sock?db=2&pass=x@y", Some("shop")),
            ("redis://a/?", "redis://a/", None),
            ("redis://a/#?namespace=b", "redis://a/#?namespace=b", None),
        ] {
            let namespace = namespace.map(|namespace| namespace.parse().unwrap());
            assert_eq!(split_namespace(url), Ok((plain.to_owned(), namespace)), "{url}");
        }
    }

    #[test]
    fn a_wrong_parameter_is_told_and_a_password_never() {
        for (url, problem) in [
            (
                "redis://a/?namspace=shop",
                r#"unknown parameter "namspace": behind ? may stand namespace, protocol"#,
            ),
            ("redis://a/?db=3", r#"unknown parameter "db": behind ? may stand namespace, protocol"#),
            ("redis://a/?Namespace=a", r#"unknown parameter "Namespace": behind ?"#),
            ("unix:///r?database=3", "may stand namespace, db, user, pass, protocol"),
            ("redis://a/?namespace=a&namespace=a", "twice"),
            ("redis://a/?namespace=", r#"parameter namespace: "" is not a namespace: use 1 to 32"#),
            ("redis://a/?namespace", r#"parameter namespace: "" is not"#),
            ("redis://a/?namespace=a%20b", "is not a namespace"),
            ("redis://u:se?cret=x@a", "unknown parameter: behind ?"),
        ] {
            let error = split_namespace(url).unwrap_err().to_string();
            assert!(error.contains(problem) && !error.contains("cret"), "{url}: {error}");
        }
    }
}
