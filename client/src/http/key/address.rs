//! Keys from the sender's address.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

#[cfg(feature = "axum")]
use axum::extract::ConnectInfo;
use http::{Extensions, StatusCode, request::Parts};
#[cfg(feature = "tonic")]
use tonic::transport::server::TcpConnectInfo;

use super::{KeyExtractor, NoKey, Proxies};

/// Bits of an IPv6 address that identify a sender, unless set. A customer gets a network of this size at least, and may use
/// each of its 2^64 addresses.
const IPV6_PREFIX: u8 = 64;

/// The peer address of a connection, for a request's extensions. Servers without a feature of this crate insert it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// The key from [`peer_ip`] or [`client_ip`]: `203.0.113.7`, or `2001:db8:1:2::/64`.
#[derive(Clone, Debug)]
pub struct ClientIp {
    proxies: Option<Proxies>,
    ipv6_prefix: u8,
}

/// The key is the peer address of the connection. No header is read.
pub const fn peer_ip() -> ClientIp {
    ClientIp { proxies: None, ipv6_prefix: IPV6_PREFIX }
}

/// The key is the address of the sender that called the first of our own `proxies`, by the headers of these proxies.
pub const fn client_ip(proxies: Proxies) -> ClientIp {
    ClientIp { proxies: Some(proxies), ipv6_prefix: IPV6_PREFIX }
}

// === impl ClientIp ===

impl ClientIp {
    /// Bits of an IPv6 address that identify a sender; 64 unless set. Use 56 or 48 if customers have larger networks,
    /// and 128 for a bucket per address.
    #[must_use]
    pub fn ipv6_prefix(self, bits: u8) -> Self {
        Self { ipv6_prefix: bits.min(128), ..self }
    }

    fn text(&self, address: IpAddr) -> String {
        // An IPv4 sender on an IPv6 socket is the same sender.
        match address.to_canonical() {
            IpAddr::V6(address) if self.ipv6_prefix < 128 => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.ipv6_prefix)).unwrap_or(0);
                format!("{}/{}", Ipv6Addr::from_bits(address.to_bits() & mask), self.ipv6_prefix)
            }
            address => address.to_string(),
        }
    }
}

impl KeyExtractor for ClientIp {
    fn key(&self, request: &Parts) -> Result<Option<String>, NoKey> {
        let peer = peer(&request.extensions).map(|peer| peer.ip().to_canonical());
        let address = match &self.proxies {
            Some(proxies) => proxies.client(peer, &request.headers),
            None => peer,
        };
        let unknown = "the server does not say where requests come from: with axum, serve \
                       into_make_service_with_connect_info::<SocketAddr>(); elsewhere, put a topup::http::key::Peer into \
                       the request's extensions";
        address
            .map(|address| Some(self.text(address)))
            .ok_or_else(|| NoKey::new(StatusCode::INTERNAL_SERVER_ERROR, unknown))
    }
}

fn peer(extensions: &Extensions) -> Option<SocketAddr> {
    let peer = extensions.get().map(|Peer(peer)| *peer);
    #[cfg(feature = "axum")]
    let peer = peer.or_else(|| extensions.get().map(|ConnectInfo(peer): &ConnectInfo<SocketAddr>| *peer));
    #[cfg(feature = "tonic")]
    let peer = peer.or_else(|| extensions.get::<TcpConnectInfo>().and_then(TcpConnectInfo::remote_addr));
    peer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(extractor: &ClientIp, peer: &str) -> String {
        extractor.text(peer.parse().unwrap())
    }

    #[test]
    fn a_customer_s_network_is_one_key() {
        let by_64 = peer_ip();
        assert_eq!(key(&by_64, "2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
        assert_eq!(key(&by_64, "2001:db8:1:2:ffff::"), "2001:db8:1:2::/64");
        assert_ne!(key(&by_64, "2001:db8:1:3::1"), key(&by_64, "2001:db8:1:2::1"));
        assert_eq!(key(&peer_ip().ipv6_prefix(48), "2001:db8:1:2::1"), "2001:db8:1::/48");
        assert_eq!(key(&peer_ip().ipv6_prefix(128), "2001:db8::1"), "2001:db8::1");
        assert_eq!(key(&peer_ip().ipv6_prefix(0), "2001:db8::1"), "::/0");
    }

    #[test]
    fn an_ipv4_address_is_the_same_on_an_ipv6_socket() {
        assert_eq!(key(&peer_ip(), "::ffff:203.0.113.7"), "203.0.113.7");
        assert_eq!(key(&peer_ip(), "203.0.113.7"), "203.0.113.7");
    }
}
