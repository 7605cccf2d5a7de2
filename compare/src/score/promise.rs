//! Delays from a promised instant to the retry that succeeds.

use serde::{Deserialize, Serialize};
use topup_lab::Quantiles;
use topup_lab::clock::Micros;

use crate::{
    oracle::{Oracle, Perfect},
    take::{Answer, Take},
};

/// Delays behind promises of `retry_after`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Promises {
    /// Denials that promised an instant, and were followed by a retry at or after it.
    pub count: u64,
    /// µs from the promised instant to the sending of the first retry that succeeded. It is 0 if the first retry at or after the
    /// promised instant did.
    pub late: Option<Quantiles>,
    /// µs by which the promised instant lies after the one at which the perfect bucket has the tokens.
    pub cautious: Option<Quantiles>,
}

/// Promises so far.
#[derive(Debug, Default)]
pub(super) struct Seen {
    late: Vec<f64>,
    cautious: Vec<f64>,
}

/// An instant at which so many tokens were to be had.
struct Promised {
    at: Micros,
    count: u32,
    /// Whether a retry at or after it was denied.
    broken: bool,
}

// === impl Seen ===

impl Seen {
    /// Judges the takes of one bucket with one taker.
    pub(super) fn judge(&mut self, oracle: &Oracle, takes: &[Take]) {
        let mut perfect = Perfect::new(oracle);
        // A promised instant for a number of tokens, not yet tested.
        let mut promised: Option<Promised> = None;
        for take in takes {
            match take.answer {
                Answer::Allowed => {
                    perfect.take(take.middle(), u64::from(take.count));
                    // One that came before its time says nothing.
                    if let Some(Promised { at, broken, .. }) = promised.take().filter(|it| it.at <= take.sent)
                    {
                        self.late.push(if broken { (take.sent - at) as f64 } else { 0.0 });
                    }
                }
                Answer::Denied { retry_after: Some(wait) } => {
                    // A second denial does not renew what was promised first.
                    if let Some(promised) = &mut promised
                        && promised.count == take.count
                        && promised.at <= take.sent
                    {
                        promised.broken = true;
                        continue;
                    }
                    let at = take.received + wait;
                    promised = Some(Promised { at, count: take.count, broken: false });
                    if let Some(again) = perfect.again(take.sent, u64::from(take.count)) {
                        self.cautious.push(at as f64 - again as f64);
                    }
                }
                Answer::Denied { retry_after: None } | Answer::Failed | Answer::Charged => {}
            }
        }
    }

    pub(super) fn summary(&self) -> Option<Promises> {
        let count = self.late.len() as u64;
        let (late, cautious) = (self.late.iter().copied(), self.cautious.iter().copied());
        (count > 0).then(|| Promises { count, late: Quantiles::of(late), cautious: Quantiles::of(cautious) })
    }
}
