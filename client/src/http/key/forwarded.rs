//! Headers that proxies write: `X-Forwarded-For`, and `Forwarded` of RFC 7239.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, header::FORWARDED};

/// The caller of one proxy, as the proxy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hop {
    Address(IpAddr),
    /// `unknown`, a name of the proxy's own, or unreadable text.
    Unknown,
}

/// The position in a text with quoted strings: within quotes or not.
#[derive(Default)]
struct Quotes {
    open: bool,
    escaped: bool,
}

// === impl Hop ===

impl Hop {
    /// An address, with a port or without.
    fn of(node: &str) -> Self {
        let node = node.trim();
        let bare = node.strip_prefix('[').and_then(|node| node.strip_suffix(']')).unwrap_or(node);
        let address = bare.parse().ok().or_else(|| Some(node.parse::<SocketAddr>().ok()?.ip()));
        address.map_or(Self::Unknown, |address: IpAddr| Self::Address(address.to_canonical()))
    }
}

// === impl Quotes ===

impl Quotes {
    /// Moves past `c`. Returns whether `c` is within quotes.
    fn advance(&mut self, c: char) -> bool {
        let escapes = self.open && c == '\\' && !self.escaped;
        if c == '"' && !self.escaped {
            self.open = !self.open;
        }
        self.escaped = escapes;
        self.open
    }
}

/// The callers of all proxies, that of the nearest proxy last.
pub(super) fn x_forwarded_for(headers: &HeaderMap) -> Vec<Hop> {
    let mut hops = Vec::new();
    for line in headers.get_all("x-forwarded-for") {
        match line.to_str() {
            Ok(line) => hops.extend(line.split(',').map(Hop::of)),
            Err(_) => hops.push(Hop::Unknown),
        }
    }
    hops
}

/// The callers of all proxies, that of the nearest proxy last.
pub(super) fn forwarded(headers: &HeaderMap) -> Vec<Hop> {
    let mut hops = Vec::new();
    for line in headers.get_all(FORWARDED) {
        match line.to_str() {
            // After an open quote, the text of our own proxy would be part of the sender's.
            Ok(line) if is_closed(line) => hops.extend(split(line, ',').map(element)),
            _ => hops.push(Hop::Unknown),
        }
    }
    hops
}

/// `for=192.0.2.60;proto=http`
fn element(element: &str) -> Hop {
    let mut calls = split(element, ';')
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(name, _)| name.eq_ignore_ascii_case("for"));
    match (calls.next(), calls.next()) {
        (Some((_, node)), None) => Hop::of(&unquoted(node)),
        _ => Hop::Unknown,
    }
}

/// The parts of `text` between `separator`s outside quotes.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut quotes = Quotes::default();
    text.split(move |c| !quotes.advance(c) && c == separator)
}

/// Whether every quote is closed.
fn is_closed(text: &str) -> bool {
    let mut quotes = Quotes::default();
    text.chars().for_each(|c| {
        quotes.advance(c);
    });
    !quotes.open
}

fn unquoted(text: &str) -> String {
    match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(quoted) => {
            let mut escaped = false;
            quoted
                .chars()
                .filter(|c| {
                    escaped = *c == '\\' && !escaped;
                    !escaped
                })
                .collect()
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::{Hop::Unknown, *};

    fn address(text: &str) -> Hop {
        Hop::Address(text.parse().unwrap())
    }

    fn read(read: fn(&HeaderMap) -> Vec<Hop>, name: &'static str, values: &[&str]) -> Vec<Hop> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        read(&headers)
    }

    #[test]
    fn addresses_are_read_with_ports_and_without() {
        for (text, hops) in [
            ("192.0.2.1", address("192.0.2.1")),
            (" 192.0.2.1:47011 ", address("192.0.2.1")),
            ("2001:db8::1", address("2001:db8::1")),
            ("[2001:db8::1]", address("2001:db8::1")),
            ("[2001:db8::1]:4711", address("2001:db8::1")),
            ("::ffff:192.0.2.1", address("192.0.2.1")),
            ("unknown", Unknown),
            ("_gazonk", Unknown),
            ("192.0.2", Unknown),
            ("192.0.2.1 192.0.2.2", Unknown),
            ("", Unknown),
        ] {
            assert_eq!(read(x_forwarded_for, "x-forwarded-for", &[text]), [hops], "{text:?}");
        }
    }

    #[test]
    fn forwarded_is_read_as_its_rfc_writes_it() {
        for (text, hops) in [
            ("for=192.0.2.60;proto=http;by=203.0.113.43", vec![address("192.0.2.60")]),
            ("For=\"[2001:db8:cafe::17]:4711\"", vec![address("2001:db8:cafe::17")]),
            ("for=192.0.2.43, for=198.51.100.17", vec![address("192.0.2.43"), address("198.51.100.17")]),
            ("for=\"_mdn\"", vec![Unknown]),
            ("proto=https", vec![Unknown]),
            ("for=192.0.2.1;for=192.0.2.2", vec![Unknown]),
            (r#"by="a,b;for=1.1.1.1\",x";for=192.0.2.1"#, vec![address("192.0.2.1")]),
            (r#"for="192.0.2.1"#, vec![Unknown]),
            (r#"for=1.1.1.1;by=", for=192.0.2.1"#, vec![Unknown]),
            (r#"for="192.0.2.\1""#, vec![address("192.0.2.1")]),
        ] {
            assert_eq!(read(forwarded, "forwarded", &[text]), hops, "{text:?}");
        }
    }

    #[test]
    fn lines_follow_one_another() {
        let hops = [address("192.0.2.1"), address("192.0.2.2"), Unknown];
        assert_eq!(read(x_forwarded_for, "x-forwarded-for", &["192.0.2.1, 192.0.2.2", "x"]), hops);
        assert_eq!(read(forwarded, "forwarded", &["for=192.0.2.1, for=192.0.2.2", "for=x"]), hops);
    }
}
