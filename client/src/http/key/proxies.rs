//! The proxies in front of a server, and the sender's address by their headers.

use std::net::IpAddr;

use http::HeaderMap;
use ipnet::IpNet;

use super::forwarded::{Hop, forwarded, x_forwarded_for};

/// The trusted proxies in front of this server.
///
/// A proxy appends the address of its caller to a header. Addresses farther to the left were there before, and a sender may
/// have invented them. The header is `X-Forwarded-For` unless [`forwarded`](Self::forwarded) is called. All proxies must
/// append to it.
#[derive(Clone, Debug)]
pub struct Proxies {
    trust: Trust,
    read: fn(&HeaderMap) -> Vec<Hop>,
}

/// The hops that are trusted.
#[derive(Clone, Debug)]
enum Trust {
    /// Hops in these networks.
    Networks(Vec<IpNet>),
    /// The nearest hops, by their number.
    Count(usize),
}

/// The error of a text that is not a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no network: write an address such as \"192.0.2.1\", or a network such as \"10.0.0.0/8\" or \"fd00::/8\""
)]
pub struct NetworkError(String);

// === impl Proxies ===

impl Proxies {
    /// Proxies with addresses in these networks. A request from another address is taken as the sender's own.
    ///
    /// # Errors
    /// A text that is neither an address nor a network.
    pub fn networks(networks: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, NetworkError> {
        let networks = networks.into_iter().map(|text| network(text.as_ref())).collect::<Result<_, _>>()?;
        Ok(Self { trust: Trust::Networks(networks), read: x_forwarded_for })
    }

    /// The last `proxies` hops of every request, at any address. Use it only if every sender has to pass them: a sender
    /// that does not may write any address.
    pub const fn count(proxies: usize) -> Self {
        Self { trust: Trust::Count(proxies), read: x_forwarded_for }
    }

    /// Reads the header `Forwarded` (RFC 7239) instead of `X-Forwarded-For`.
    #[must_use]
    pub fn forwarded(self) -> Self {
        Self { read: forwarded, ..self }
    }

    /// The sender of a request with these headers, which came from `peer`.
    pub(super) fn client(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> Option<IpAddr> {
        match &self.trust {
            Trust::Networks(networks) => {
                let mut client = peer?;
                let trusted = |address| networks.iter().any(|network| network.contains(&address));
                if !trusted(client) {
                    return Some(client);
                }
                // From the nearest hop outwards, as long as a trusted proxy names an address.
                for hop in (self.read)(headers).into_iter().rev() {
                    let Hop::Address(address) = hop else { break };
                    client = address;
                    if !trusted(client) {
                        break;
                    }
                }
                Some(client)
            }
            Trust::Count(proxies) => {
                let hops = (self.read)(headers);
                // A request with fewer hops has bypassed a proxy. No header of it is trusted.
                match hops.len().checked_sub(*proxies).and_then(|at| hops.get(at)) {
                    Some(Hop::Address(address)) => Some(*address),
                    _ => peer,
                }
            }
        }
    }
}

fn network(text: &str) -> Result<IpNet, NetworkError> {
    let text = text.trim();
    let network = text.parse().or_else(|_| text.parse().map(|address: IpAddr| IpNet::from(address)));
    network.map_err(|_| NetworkError(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue, header::FORWARDED};
    use proptest::prelude::*;

    use super::*;

    const OURS: [&str; 2] = ["10.0.0.0/8", "2001:db8:aaaa::1"];

    fn client(proxies: &Proxies, peer: &str, name: &'static str, values: &[&'static str]) -> String {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name, HeaderValue::from_static(value));
        }
        proxies.client(Some(peer.parse().unwrap()), &headers).unwrap().to_string()
    }

    fn by_networks(peer: &str, values: &[&'static str]) -> String {
        client(&Proxies::networks(OURS).unwrap(), peer, "x-forwarded-for", values)
    }

    fn by_count(proxies: usize, values: &[&'static str]) -> String {
        client(&Proxies::count(proxies), "198.51.100.9", "x-forwarded-for", values)
    }

    #[test]
    fn a_stranger_s_header_changes_nothing() {
        for header in ["1.1.1.1", "10.0.0.1", "1.1.1.1, 10.0.0.1", "", "nonsense"] {
            assert_eq!(by_networks("198.51.100.9", &[header]), "198.51.100.9");
        }
    }

    #[test]
    fn the_nearest_who_is_not_ours_is_the_client() {
        assert_eq!(by_networks("10.0.0.1", &["203.0.113.7"]), "203.0.113.7");
        assert_eq!(by_networks("10.0.0.1", &["1.1.1.1, 203.0.113.7"]), "203.0.113.7", "what a sender wrote");
        assert_eq!(by_networks("10.0.0.1", &["1.1.1.1, 203.0.113.7, 10.9.9.9"]), "203.0.113.7");
        assert_eq!(by_networks("10.0.0.1", &["1.1.1.1", "203.0.113.7", "10.9.9.9"]), "203.0.113.7", "lines");
        assert_eq!(by_networks("2001:db8:aaaa::1", &["2001:db8::7"]), "2001:db8::7");
        assert_eq!(by_networks("10.0.0.1", &["10.0.0.2, 10.0.0.3"]), "10.0.0.2", "one of our own calls");
    }

    #[test]
    fn what_cannot_be_read_ends_the_search_at_the_last_of_ours() {
        assert_eq!(by_networks("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(by_networks("10.0.0.1", &["203.0.113.7, unknown, 10.0.0.2"]), "10.0.0.2");
        assert_eq!(by_networks("10.0.0.1", &["203.0.113.7, "]), "10.0.0.1");
    }

    #[test]
    fn counted_proxies_are_believed_as_far_as_they_reach() {
        assert_eq!(by_count(1, &["1.1.1.1, 203.0.113.7"]), "203.0.113.7");
        assert_eq!(by_count(2, &["1.1.1.1, 203.0.113.7, 192.0.2.1"]), "203.0.113.7");
        assert_eq!(by_count(2, &["1.1.1.1"]), "198.51.100.9", "too few stations: nothing is believed");
        assert_eq!(by_count(1, &[]), "198.51.100.9");
        assert_eq!(by_count(0, &["1.1.1.1"]), "198.51.100.9", "no proxy, no belief");
        assert_eq!(by_count(1, &["1.1.1.1, unknown"]), "198.51.100.9");
    }

    #[test]
    fn only_the_header_that_was_asked_for_is_read() {
        let proxies = Proxies::networks(OURS).unwrap().forwarded();
        assert_eq!(client(&proxies, "10.0.0.1", "x-forwarded-for", &["1.1.1.1"]), "10.0.0.1");
        assert_eq!(client(&proxies, "10.0.0.1", "forwarded", &["for=203.0.113.7"]), "203.0.113.7");
        assert_eq!(client(&proxies, "198.51.100.9", "forwarded", &["for=203.0.113.7"]), "198.51.100.9");
    }

    #[test]
    fn a_wrong_network_says_what_to_write() {
        let error = Proxies::networks(["10.0.0.0/33"]).unwrap_err().to_string();
        assert!(error.contains("10.0.0.0/33") && error.contains("10.0.0.0/8"), "{error}");
        assert!(Proxies::networks(["192.0.2.1", "::1"]).is_ok());
    }

    proptest! {
        #[test]
        fn whatever_a_sender_writes_is_not_who_he_is(
            written in prop::collection::vec(r#"[ -~]{0,8}|for=1\.1\.1\.1|1\.1\.1\.1|;by=|"|\\|,"#, 0..8),
            quoted in any::<bool>(),
        ) {
            let written = written.concat();
            let hops = |appended: &str| HeaderValue::try_from(format!("{written}, {appended}")).unwrap();
            let read = |proxies: &Proxies, peer: &str, headers: &HeaderMap| {
                proxies.client(Some(peer.parse().unwrap()), headers).unwrap().to_string()
            };
            let (ours, one) = (Proxies::networks(OURS).unwrap(), Proxies::count(1));
            let headers = HeaderMap::from_iter([(HeaderName::from_static("x-forwarded-for"), hops("203.0.113.7"))]);
            prop_assert_eq!(read(&ours, "10.0.0.1", &headers), "203.0.113.7");
            prop_assert_eq!(read(&one, "10.0.0.1", &headers), "203.0.113.7");
            prop_assert_eq!(read(&ours, "198.51.100.9", &headers), "198.51.100.9");
            // A quote that he leaves open spoils what the proxy appends; then the request is the proxy's own.
            let appended = if quoted { "for=\"203.0.113.7:80\"" } else { "for=203.0.113.7" };
            let headers = HeaderMap::from_iter([(FORWARDED, hops(appended))]);
            for proxies in [ours.forwarded(), one.forwarded()] {
                let client = read(&proxies, "10.0.0.1", &headers);
                prop_assert!(["203.0.113.7", "10.0.0.1"].contains(&client.as_str()), "{}", client);
                prop_assert_eq!(read(&proxies, "10.0.0.1", &HeaderMap::new()), "10.0.0.1");
            }
        }
    }
}
