//! Addresses of servers, as a URL or a cluster names them.

use std::{fmt, sync::Arc};

use redis::{
    ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, RedisError, RedisResult,
    io::tcp::TcpSettings,
};

use super::parameters::split_namespace;

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

    /// The address in `info`; `None` on a unix socket.
    pub(super) fn of(info: &ConnectionInfo) -> Option<Self> {
        match info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Some(Self::new(host, *port))
            }
            _ => None,
        }
    }

    /// Settings of a connection to this address, otherwise those of `other`.
    pub(super) fn like(&self, other: &ConnectionInfo) -> ConnectionInfo {
        let addr = match other.addr().clone() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host: self.host.to_string(), port: self.port, insecure, tls_params }
            }
            _ => ConnectionAddr::Tcp(self.host.to_string(), self.port),
        };
        settled(other.clone().set_addr(addr))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// The servers that `url` names: one, or several nodes of a cluster, `redis://user:password@host:port,host:port`.
pub(super) fn servers(url: &str) -> RedisResult<Vec<ConnectionInfo>> {
    let (url, _) = split_namespace(url).map_err(|error| {
        RedisError::from((ErrorKind::InvalidClientConfig, "wrong Redis URL", error.to_string()))
    })?;
    each(&url).iter().map(|url| url.as_str().into_connection_info().map(settled)).collect()
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

/// Adds the settings that all connections share.
fn settled(info: ConnectionInfo) -> ConnectionInfo {
    // Without nodelay, a small command waits for the acknowledgement of the previous one.
    let tcp = TcpSettings::default().set_nodelay(true);
    #[cfg(target_os = "linux")]
    let tcp = tcp.set_user_timeout(super::VANISHED);
    info.set_tcp_settings(tcp)
}

/// Whether `url` names Redis servers.
///
/// # Errors
/// The reason why it does not.
pub(super) fn check(url: &str) -> RedisResult<()> {
    let servers = servers(url)?;
    if servers.len() > 1 && servers.iter().any(|info| info.redis_settings().db() != 0) {
        return Err(RedisError::from((ErrorKind::InvalidClientConfig, "a cluster has no database but 0")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(url: &str) -> Vec<String> {
        let servers = servers(url).unwrap();
        servers.iter().map(|info| Address::of(info).unwrap().to_string()).collect()
    }

    #[test]
    fn a_url_names_one_server_or_several_nodes() {
        assert_eq!(named("redis://10.0.0.1"), ["10.0.0.1:6379"]);
        assert_eq!(named("redis://u:a,b@10.0.0.1:7000/0"), ["10.0.0.1:7000"]);
        let url = "redis://u:a,b@10.0.0.1:7000,[::1]:7001,host/?protocol=3";
        assert_eq!(named(url), ["10.0.0.1:7000", "::1:7001", "host:6379"]);
        for info in servers(url).unwrap() {
            let settings = info.redis_settings();
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
        let asked = Address::of(&url);
        let node = Address::parse(":7001", asked.as_ref()).unwrap();
        assert_eq!(node, Address::new("10.0.0.1", 7001));
        let info = node.like(&url);
        assert_eq!(info.redis_settings().password(), Some("p"));
        assert_eq!(Address::of(&info), Some(node));
        assert_eq!(Address::parse("fe80::1:7002", None), Some(Address::new("fe80::1", 7002)));
        for unknown in [":7001", "?:7001", "host", "host:port"] {
            assert_eq!(Address::parse(unknown, None), None, "{unknown}");
        }
    }
}
