//! The bearer token of the admin server.

use std::{fs, path::Path};

use anyhow::{Context, ensure};
use subtle::ConstantTimeEq;

/// The lengths of a token.
const LENGTHS: std::ops::RangeInclusive<usize> = 16..=256;

/// A bearer token. Never shown.
pub(super) struct Token(Vec<u8>);

// === impl Token ===

impl Token {
    /// The token in `file`, without the white space around it.
    pub(super) fn read(file: &Path) -> anyhow::Result<Self> {
        let text = fs::read(file).with_context(|| format!("admin.token_file {}", file.display()))?;
        Self::new(text.trim_ascii()).with_context(|| format!("admin.token_file {}", file.display()))
    }

    fn new(token: &[u8]) -> anyhow::Result<Self> {
        let is_right = LENGTHS.contains(&token.len()) && token.iter().all(u8::is_ascii_graphic);
        ensure!(is_right, "a token has {} to {} visible ASCII characters", LENGTHS.start(), LENGTHS.end());
        Ok(Self(token.to_owned()))
    }

    /// Whether `given` is the token. The time tells nothing but the length.
    pub(super) fn is(&self, given: &[u8]) -> bool {
        self.0.ct_eq(given).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_long_enough_and_compared_as_a_whole() {
        let token = Token::new(b"0123456789abcdef").unwrap();
        assert!(token.is(b"0123456789abcdef"));
        for other in [&b"0123456789abcdeg"[..], b"0123456789abcde", b"0123456789abcdef0", b""] {
            assert!(!token.is(other));
        }
        for bad in [&b"short"[..], &[b'a'; 257], b"0123456789 abcdef", "0123456789abcdef\u{e9}".as_bytes()] {
            assert!(Token::new(bad).is_err());
        }
    }
}
