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

/// The window with the largest excess.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Worst {
    pub(crate) from: Micros,
    pub(crate) until: Micros,
    /// Tokens allowed in it above capacity and credit; negative if less was allowed.
    pub(crate) excess: f64,
}

/// Some takes in the order of `sent`: the number of those counted, and the best of them to begin a window with.
#[derive(Clone, Copy)]
struct Span {
    counted: u32,
    /// Credit up to the best beginning, plus the takes counted from there on; −∞ if none is counted.
    best: f64,
    begin: u32,
}

const EMPTY: Span = Span { counted: 0, best: f64::NEG_INFINITY, begin: 0 };

// === impl Span ===

impl Span {
    /// Two neighbours as one.
    fn with(self, later: Self) -> Self {
        let best = self.best + f64::from(later.counted);
        let counted = self.counted + later.counted;
        if best >= later.best { Self { counted, best, begin: self.begin } } else { Self { counted, ..later } }
    }
}

/// The worst window over the takes of one bucket; `None` if there are none.
///
/// A window is never worse than the one shrunk to its takes. That leaves n²/2 windows. A tree over the beginnings, filled
/// in the order of the ends, finds the worst in n log n.
pub(crate) fn worst_window(takes: &[Take], budget: &Budget) -> Option<Worst> {
    let mut begins = takes.to_vec();
    begins.sort_by_key(|take| take.sent);
    let mut ends: Vec<usize> = (0..begins.len()).collect();
    ends.sort_by_key(|&index| begins[index].received);

    let leaves = begins.len().next_power_of_two();
    let mut tree = vec![EMPTY; 2 * leaves];
    let mut worst: Option<Worst> = None;
    for index in ends {
        let Take { sent, received: until } = begins[index];
        // As many takes as fit into memory: far below 2^32.
        tree[leaves + index] = Span { counted: 1, best: 1.0 + budget.credit(0, sent), begin: index as u32 };
        let mut node = (leaves + index) / 2;
        while node > 0 {
            tree[node] = tree[2 * node].with(tree[2 * node + 1]);
            node /= 2;
        }
        let excess = tree[1].best - budget.capacity as f64 - budget.credit(0, until);
        if worst.is_none_or(|worst| excess > worst.excess) {
            worst = Some(Worst { from: begins[tree[1].begin as usize].sent, until, excess });
        }
    }
    worst
}

#[cfg(test)]
mod tests;
