//! Addresses of servers, as a URL or a cluster names them.

use std::{fmt, io, sync::Arc};

use redis::{ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, RedisError, RedisResult};

#[cfg(feature = "tls")]
use super::tls::explain;
use super::{parameters::split_namespace, tls_files::TlsFiles};
#[cfg(feature = "in-memory")]
use crate::in_memory::InMemoryRedis;

/// Where a node of a cluster listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    host: Arc<str>,
    port: u16,
}

// === impl Address ===

impl Address {
    pub(super) fn new(host: &str, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// Parses the address of a redirection, `host:port`. An empty host is that of `asked`, the node that redirects.
    pub(super) fn parse(text: &str, asked: Option<&Self>) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        Self::named(host, port.parse().ok()?, asked)
    }

    /// The same from a host and a port.
    pub(super) fn named(host: &str, port: u16, asked: Option<&Self>) -> Option<Self> {
        let host = match host {
            // The host of any other node would be a guess.
            "" => asked?.host.clone(),
            // The host of the node is unknown.
            "?" => return None,
            host => host.into(),
        };
        Some(Self { host, port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// A server, and how to connect to it.
#[derive(Clone)]
pub(crate) struct Endpoint {
    info: ConnectionInfo,
    tls: Option<Arc<TlsFiles>>,
    #[cfg(feature = "in-memory")]
    in_memory: Option<InMemoryRedis>,
}

// === impl Endpoint ===

impl Endpoint {
    /// The server's address, and how to sign in.
    pub(crate) const fn info(&self) -> &ConnectionInfo {
        &self.info
    }

    /// A server in this process.
    #[cfg(feature = "in-memory")]
    pub(super) fn of_memory(redis: InMemoryRedis) -> Self {
        let info = ConnectionAddr::Unix("a Redis in memory".into()).into_connection_info();
        Self {
            info: info.unwrap_or_else(|_| unreachable!("a path is an address")),
            tls: None,
            in_memory: Some(redis),
        }
    }

    #[cfg(feature = "in-memory")]
    pub(super) const fn in_memory(&self) -> Option<&InMemoryRedis> {
        self.in_memory.as_ref()
    }

    /// Whether the server is in this process, so that nothing is gained by waiting for it.
    pub(crate) const fn is_in_memory(&self) -> bool {
        #[cfg(feature = "in-memory")]
        return self.in_memory.is_some();
        #[cfg(not(feature = "in-memory"))]
        false
    }

    /// The files of TLS; `None` without TLS.
    pub(super) fn tls(&self) -> Option<&TlsFiles> {
        self.tls.as_deref()
    }

    /// Its address; `None` on a unix socket.
    pub(super) fn address(&self) -> Option<Address> {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) => Some(Address::new(host, *port)),
            _ => None,
        }
    }

    /// The server at `address`, otherwise like this one.
    pub(super) fn at(&self, address: &Address) -> Self {
        let addr = ConnectionAddr::Tcp(address.host.to_string(), address.port);
        Self { info: self.info.clone().set_addr(addr), ..self.clone() }
    }

    /// An error of the handshake in words that say what to do.
    pub(super) fn explain(&self, error: io::Error) -> RedisError {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return explain(tls, error, None);
        }
        // A TLS port closes the connection without a word.
        let ended = matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset);
        if ended && self.address().is_some() {
            let hint = "before its first reply: does this port speak TLS? then write rediss://".to_owned();
            return RedisError::from((ErrorKind::Io, "Redis closed the connection", hint));
        }
        error.into()
    }
}

/// The servers that `url` names: one, or several nodes of a cluster, `redis://user:password@host:port,host:port`.
pub(super) fn servers(url: &str) -> RedisResult<Vec<Endpoint>> {
    if !is_unix(url) && behind_authority(url).contains('@') {
        return Err(RedisError::from((
            ErrorKind::InvalidClientConfig,
            "an @ behind the host: in a password, write / as %2F, ? as %3F, # as %23 and % as %25",
        )));
    }
    let (url, _) = split_namespace(url).map_err(|error| {
        RedisError::from((ErrorKind::InvalidClientConfig, "wrong Redis URL", error.to_string()))
    })?;
    let (plain, tls) = TlsFiles::split(&url)?;
    let tls = tls.map(Arc::new);
    let endpoint = |url: &String| {
        Ok(Endpoint {
            info: url.as_str().into_connection_info()?,
            tls: tls.clone(),
            #[cfg(feature = "in-memory")]
            in_memory: None,
        })
    };
    each(&plain).iter().map(endpoint).collect()
}

pub(super) fn is_unix(url: &str) -> bool {
    url.split_once("://").is_some_and(|(scheme, _)| scheme.contains("unix"))
}

/// Path, query and fragment of `url`.
fn behind_authority(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    &url[end..]
}

/// `url`, once for each address that it names.
fn each(url: &str) -> Vec<String> {
    let whole = || vec![url.to_owned()];
    let Some((scheme, rest)) = url.split_once("://").filter(|(scheme, _)| !scheme.contains("unix")) else {
        return whole();
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    // A password may contain a comma, too.
    let (user, hosts) = authority.rfind('@').map_or(("", authority), |at| authority.split_at(at + 1));
    if !hosts.contains(',') {
        return whole();
    }
    hosts.split(',').map(|host| format!("{scheme}://{user}{host}{path}")).collect()
}

/// Whether `url` names Redis servers.
///
/// # Errors
/// The reason why it does not.
pub(super) fn check(url: &str) -> RedisResult<()> {
    let servers = servers(url)?;
    if servers.len() > 1 && servers.iter().any(|one| one.info.redis_settings().db() != 0) {
        return Err(RedisError::from((ErrorKind::InvalidClientConfig, "a cluster has no database but 0")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(url: &str) -> Vec<String> {
        let servers = servers(url).unwrap();
        servers.iter().map(|one| one.address().unwrap().to_string()).collect()
    }

    #[test]
    fn a_url_names_one_server_or_several_nodes() {
        assert_eq!(named("redis://10.0.0.1"), ["10.0.0.1:6379"]);
        assert_eq!(named("redis://u:a,b@10.0.0.1:7000/0"), ["10.0.0.1:7000"]);
        let url = "redis://u:a,b@10.0.0.1:7000,[::1]:7001,host/?protocol=3";
        assert_eq!(named(url), ["10.0.0.1:7000", "::1:7001", "host:6379"]);
        for one in servers(url).unwrap() {
            let settings = one.info.redis_settings();
            assert_eq!((settings.username(), settings.password()), (Some("u"), Some("a,b")));
        }
        assert_eq!(servers("unix:///run/a,b.sock").unwrap().len(), 1);
    }

    #[test]
    fn several_nodes_have_one_database() {
        assert!(check("redis://a,b").is_ok() && check("redis://a/3").is_ok());
        assert!(check("redis://a,b/3").is_err() && check("redis://a,").is_err());
    }

    #[test]
    fn a_node_is_reached_as_the_one_the_url_names() {
        let url = servers("redis://u:p@10.0.0.1:7000").unwrap().remove(0);
        let asked = url.address();
        let node = Address::parse(":7001", asked.as_ref()).unwrap();
        assert_eq!(node, Address::new("10.0.0.1", 7001));
        let other = url.at(&node);
        assert_eq!(other.info.redis_settings().password(), Some("p"));
        assert_eq!(other.address(), Some(node));
        assert_eq!(Address::parse("fe80::1:7002", None), Some(Address::new("fe80::1", 7002)));
        for unknown in [":7001", "?:7001", "host", "host:port"] {
            assert_eq!(Address::parse(unknown, None), None, "{unknown}");
        }
    }
}
