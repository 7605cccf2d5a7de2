//! The first law, checked in every window: never more than `capacity + rate × w`.
//!
//! Redis decided a take at an instant from `sent` to `received`. A window counts the takes that lie in it as a whole: these
//! were certainly decided in it. A slow reply can therefore hide a small excess, and never makes one up.

mod budget;

pub(crate) use budget::Budget;
use topup_lab::clock::Micros;

/// An allowed take, decided from `sent` to `received`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Take {
    pub(crate) sent: Micros,
    pub(crate) received: Micros,
}

/// Some takes in the order of `sent`.
#[derive(Clone, Copy)]
struct Span {
    counted: u32,
    /// For the best beginning of a window: credit up to there, plus the takes counted from there on. −∞ if none is counted.
    best: f64,
}

const EMPTY: Span = Span { counted: 0, best: f64::NEG_INFINITY };

// === impl Span ===

impl Span {
    /// Two neighbours as one.
    fn with(self, later: Self) -> Self {
        let best = (self.best + f64::from(later.counted)).max(later.best);
        Self { counted: self.counted + later.counted, best }
    }
}

/// Tokens above `capacity + rate × w` in the worst window over the takes of one bucket; negative if every window has fewer,
/// −∞ if there are no takes.
///
/// A window is never worse than the one shrunk to its takes. n²/2 such windows are left. A tree over the beginnings, filled
/// in the order of the ends, finds the worst in n log n.
pub(crate) fn worst_excess(takes: &[Take], budget: &Budget) -> f64 {
    let mut begins = takes.to_vec();
    begins.sort_by_key(|take| take.sent);
    let mut ends: Vec<usize> = (0..begins.len()).collect();
    ends.sort_by_key(|&index| begins[index].received);

    let leaves = begins.len().next_power_of_two();
    let mut tree = vec![EMPTY; 2 * leaves];
    let mut worst = f64::NEG_INFINITY;
    for index in ends {
        let Take { sent, received } = begins[index];
        tree[leaves + index] = Span { counted: 1, best: 1.0 + budget.credit(0, sent) };
        let mut node = (leaves + index) / 2;
        while node > 0 {
            tree[node] = tree[2 * node].with(tree[2 * node + 1]);
            node /= 2;
        }
        worst = worst.max(tree[1].best - budget.capacity as f64 - budget.credit(0, received));
    }
    worst
}

#[cfg(test)]
mod tests;
