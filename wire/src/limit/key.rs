//! The subject of a bucket: a user, an address, a phone number.

use std::fmt;

/// The longest key, in bytes of UTF-8.
pub const MAX_KEY_BYTES: usize = 256;

/// The subject of a bucket of a keyed limit: any UTF-8 text of 1 to [`MAX_KEY_BYTES`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key<'a>(&'a str);

/// A text that cannot be a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key has 1 to 256 bytes of UTF-8, this one has {bytes}")]
pub struct KeyError {
    /// Length of the text, in bytes.
    pub bytes: usize,
}

// === impl Key ===

impl<'a> Key<'a> {
    /// `text` as a key.
    ///
    /// # Errors
    /// When `text` is empty or longer than [`MAX_KEY_BYTES`].
    pub const fn new(text: &'a str) -> Result<Self, KeyError> {
        let bytes = text.len();
        if bytes == 0 || bytes > MAX_KEY_BYTES {
            return Err(KeyError { bytes });
        }
        Ok(Self(text))
    }

    /// The key as text.
    pub const fn as_str(self) -> &'a str {
        self.0
    }
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}
