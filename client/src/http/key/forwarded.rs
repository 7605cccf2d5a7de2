//! What proxies write: `X-Forwarded-For`, and `Forwarded` as of RFC 7239.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, header::FORWARDED};

/// What one station says of who called it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Address(IpAddr),
    /// `unknown`, a name only the station understands, or nothing that can be read.
    Nothing,
}

/// Where in a text with quoted strings we are.
#[derive(Default)]
struct Quotes {
    open: bool,
    escaped: bool,
}

// === impl Said ===

impl Said {
    /// An address, with a port or without.
    fn of(node: &str) -> Self {
        let node = node.trim();
        let bare = node.strip_prefix('[').and_then(|node| node.strip_suffix(']')).unwrap_or(node);
        let address = bare.parse().ok().or_else(|| Some(node.parse::<SocketAddr>().ok()?.ip()));
        address.map_or(Self::Nothing, |address: IpAddr| Self::Address(address.to_canonical()))
    }
}

// === impl Quotes ===

impl Quotes {
    /// Goes past `c`: whether it stands in quotes.
    fn hold(&mut self, c: char) -> bool {
        let escapes = self.open && c == '\\' && !self.escaped;
        if c == '"' && !self.escaped {
            self.open = !self.open;
        }
        self.escaped = escapes;
        self.open
    }
}

/// What the stations say, the nearest last.
pub(super) fn x_forwarded_for(headers: &HeaderMap) -> Vec<Said> {
    let mut said = Vec::new();
    for line in headers.get_all("x-forwarded-for") {
        match line.to_str() {
            Ok(line) => said.extend(line.split(',').map(Said::of)),
            Err(_) => said.push(Said::Nothing),
        }
    }
    said
}

/// What the stations say, the nearest last.
pub(super) fn forwarded(headers: &HeaderMap) -> Vec<Said> {
    let mut said = Vec::new();
    for line in headers.get_all(FORWARDED) {
        match line.to_str() {
            // A quote left open would make what our own proxy appends a part of what a sender has written.
            Ok(line) if is_closed(line) => said.extend(split(line, ',').map(element)),
            _ => said.push(Said::Nothing),
        }
    }
    said
}

/// `for=192.0.2.60;proto=http`
fn element(element: &str) -> Said {
    let mut calls = split(element, ';')
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(name, _)| name.eq_ignore_ascii_case("for"));
    match (calls.next(), calls.next()) {
        (Some((_, node)), None) => Said::of(&unquoted(node)),
        _ => Said::Nothing,
    }
}

/// The parts of `text` between `separator`s that do not stand in quotes.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut quotes = Quotes::default();
    text.split(move |c| !quotes.hold(c) && c == separator)
}

/// Whether every quote that is opened is closed.
fn is_closed(text: &str) -> bool {
    let mut quotes = Quotes::default();
    text.chars().for_each(|c| {
        quotes.hold(c);
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

    use super::{Said::Nothing, *};

    fn address(text: &str) -> Said {
        Said::Address(text.parse().unwrap())
    }

    fn read(read: fn(&HeaderMap) -> Vec<Said>, name: &'static str, values: &[&str]) -> Vec<Said> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        read(&headers)
    }

    #[test]
    fn addresses_are_read_with_ports_and_without() {
        for (text, said) in [
            ("192.0.2.1", address("192.0.2.1")),
            (" 192.0.2.1:47011 ", address("192.0.2.1")),
            ("2001:db8::1", address("2001:db8::1")),
            ("[2001:db8::1]", address("2001:db8::1")),
            ("[2001:db8::1]:4711", address("2001:db8::1")),
            ("::ffff:192.0.2.1", address("192.0.2.1")),
            ("unknown", Nothing),
            ("_gazonk", Nothing),
            ("192.0.2", Nothing),
            ("192.0.2.1 192.0.2.2", Nothing),
            ("", Nothing),
        ] {
            assert_eq!(read(x_forwarded_for, "x-forwarded-for", &[text]), [said], "{text:?}");
        }
    }

    #[test]
    fn forwarded_is_read_as_its_rfc_writes_it() {
        for (text, said) in [
            ("for=192.0.2.60;proto=http;by=203.0.113.43", vec![address("192.0.2.60")]),
            ("For=\"[2001:db8:cafe::17]:4711\"", vec![address("2001:db8:cafe::17")]),
            ("for=192.0.2.43, for=198.51.100.17", vec![address("192.0.2.43"), address("198.51.100.17")]),
            ("for=\"_mdn\"", vec![Nothing]),
            ("proto=https", vec![Nothing]),
            ("for=192.0.2.1;for=192.0.2.2", vec![Nothing]),
            (r#"by="a,b;for=1.1.1.1\",x";for=192.0.2.1"#, vec![address("192.0.2.1")]),
            (r#"for="192.0.2.1"#, vec![Nothing]),
            (r#"for=1.1.1.1;by=", for=192.0.2.1"#, vec![Nothing]),
            (r#"for="192.0.2.\1""#, vec![address("192.0.2.1")]),
        ] {
            assert_eq!(read(forwarded, "forwarded", &[text]), said, "{text:?}");
        }
    }

    #[test]
    fn lines_follow_one_another() {
        let said = [address("192.0.2.1"), address("192.0.2.2"), Nothing];
        assert_eq!(read(x_forwarded_for, "x-forwarded-for", &["192.0.2.1, 192.0.2.2", "x"]), said);
        assert_eq!(read(forwarded, "forwarded", &["for=192.0.2.1, for=192.0.2.2", "for=x"]), said);
    }
}
