//! A record as Redis has it: its fields as bytes, right or wrong.

use std::collections::BTreeMap;

use super::record::{parse, text_fields};
use crate::limit::{Limit, LimitName};

/// The fields of a record, as bytes: packed terms are no text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record(pub(super) BTreeMap<Vec<u8>, Vec<u8>>);

// === impl Record ===

impl Record {
    /// The limit that the record tells.
    ///
    /// # Errors
    /// If the record is not of this version.
    pub fn limit(&self, name: &LimitName) -> Result<Limit, String> {
        parse(name, &text_fields(self.0.clone()))
    }

    /// Counts its changes; 0 if it does not tell.
    pub fn generation(&self) -> u64 {
        let text = self.0.get(b"generation".as_slice()).and_then(|text| str::from_utf8(text).ok());
        text.and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// Whether the terms are not packed, so that a settle costs twice as much.
    pub fn is_unpacked(&self) -> bool {
        self.0.get(b"packed".as_slice()).is_some_and(Vec::is_empty)
    }

    /// Whether a change of terms is announced in it.
    pub fn is_frozen(&self) -> bool {
        self.0.get(b"frozen".as_slice()).is_some_and(|since| since != b"0")
    }
}
