//! The terms of a limit with fair shares, and of its parts.

use std::sync::Arc;

use topup_wire::limit::{Limit, Part, Parts};

use crate::record::Record;

/// The terms of a limit with fair shares.
#[derive(Clone, Debug)]
pub struct ShareTerms {
    /// The limit's record.
    pub record: Record,
    parts: Parts,
    pub(super) under: Arc<[Part]>,
    pub(super) period: u64,
}

// === impl ShareTerms ===

impl ShareTerms {
    /// The terms of `limit`, whose record is `record`.
    ///
    /// # Panics
    /// If its parts do not fit its terms.
    #[allow(clippy::expect_used, reason = "a limit that no config makes")]
    pub fn new(limit: &Limit, record: Record) -> Self {
        let terms = limit.terms;
        let pace = terms.supply.pace();
        let under = limit.parts.under(terms.capacity, pace).expect("parts fit the terms").into();
        let period = limit.parts.period(terms.capacity, pace, record.tick).expect("parts fit the terms");
        Self { record, parts: limit.parts.clone(), under, period }
    }

    /// The parts, in order.
    pub fn parts(&self) -> &[Part] {
        &self.under
    }

    /// The time for which a deal holds, in µs.
    pub const fn period(&self) -> u64 {
        self.period
    }

    /// The index of the part of `key`.
    pub fn index_of(&self, key: &str) -> usize {
        let name = self.parts.of(key);
        self.under.iter().position(|part| Some(part.name.as_str()) == name).unwrap_or_default()
    }

    pub(super) fn under(&self, part: &Part) -> Record {
        Record { capacity: part.capacity, pace: part.pace, ..self.record }
    }
}
