//! All that was taken of a bucket, and all that came back.

use topup_lab::clock::Micros;

use crate::take::{Answer, End, Take};

/// Takes of one bucket, and what became of them.
#[derive(Debug, Default)]
pub(super) struct Books {
    /// Takes, and charges after them, in the order of their answers.
    pub(super) entries: Vec<Take>,
    /// Tokens that came back, in the order of their answers.
    pub(super) returns: Vec<Return>,
}

/// Tokens that came back between two instants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Return {
    pub(super) sent: Micros,
    pub(super) received: Micros,
    pub(super) count: u32,
}

// === impl Books ===

impl Books {
    pub(super) fn of(takes: &[Take]) -> Self {
        let mut books = Self { entries: takes.to_vec(), returns: Vec::new() };
        for take in takes {
            let Some(End { sent, received, tokens }) = take.end else { continue };
            let charge = |count, answer| Take { count, sent, received, answer, end: None, ..*take };
            match tokens {
                Some(0) => {}
                Some(tokens) => {
                    let count = u32::try_from(tokens.unsigned_abs()).unwrap_or(u32::MAX);
                    match tokens > 0 {
                        true => books.entries.push(charge(count, Answer::Charged)),
                        false => books.returns.push(Return { sent, received, count }),
                    }
                }
                None => {
                    // All of it may have come back at any time since, or as much may have been charged.
                    books.returns.push(Return { sent, received: Micros::MAX, count: take.count });
                    books.entries.push(charge(take.count, Answer::Failed));
                }
            }
        }
        books.entries.sort_by_key(|entry| entry.received);
        books.returns.sort_by_key(|back| back.received);
        books
    }

    /// The instants by which the windows over all of it are ordered.
    pub(super) fn instants(&self) -> Vec<Micros> {
        let sent = self.entries.iter().map(|entry| entry.sent);
        sent.chain(self.returns.iter().map(|back| back.received)).collect()
    }
}
