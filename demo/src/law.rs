//! The first law, checked in every window there is: never more than capacity, what came meanwhile, and a tick's credit.
//!
//! A take was decided at an instant that only Redis knows, somewhere between `sent` and `received`. A window counts
//! the takes that lie in it as a whole: these were decided in it for certain. So a slow reply can hide an excess as
//! small as what comes in the time of one reply, and never makes one up.

use crate::{budget::Budget, clock::Micros};

/// An allowed take: decided between these two instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Take {
    pub(crate) sent: Micros,
    pub(crate) received: Micros,
}

/// The window in which most was allowed, compared to what the law has room for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Worst {
    pub(crate) from: Micros,
    pub(crate) until: Micros,
    pub(crate) allowed: u64,
    /// Allowed above capacity and credit; mostly negative.
    pub(crate) excess: f64,
    /// How much of that the law has room for: one tick's credit.
    pub(crate) room: f64,
}

/// Doubles add up thousands of credits; a token is never missed by so little.
const ROUNDING: f64 = 1e-6;

/// A part of the takes in order of their beginnings: how many are counted, and the best one to begin a window with.
#[derive(Clone, Copy)]
struct Span {
    counted: u32,
    /// Credit up to that beginning, plus takes counted from it on; nothing when none is counted.
    best: f64,
    begin: u32,
}

const EMPTY: Span = Span { counted: 0, best: f64::NEG_INFINITY, begin: 0 };

// === impl Worst ===

impl Worst {
    /// Whether the law held, here and so everywhere.
    pub(crate) fn held(&self) -> bool {
        self.excess <= self.room + ROUNDING
    }
}

// === impl Span ===

impl Span {
    /// Two neighbours as one.
    fn with(self, later: Self) -> Self {
        let best = self.best + f64::from(later.counted);
        let counted = self.counted + later.counted;
        if best >= later.best { Self { counted, best, begin: self.begin } } else { Self { counted, ..later } }
    }
}

/// The worst of all windows over the takes of one bucket; `None` when there are none.
///
/// A window that begins between two takes, or ends between two, is never worse than the one shrunk to takes. Those
/// are still n²/2; a tree over the beginnings, filled in the order of the ends, finds the worst in n log n.
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
        // As many takes as fit into memory; far below 2^32.
        tree[leaves + index] = Span { counted: 1, best: 1.0 + budget.credit(0, sent), begin: index as u32 };
        let mut node = (leaves + index) / 2;
        while node > 0 {
            tree[node] = tree[2 * node].with(tree[2 * node + 1]);
            node /= 2;
        }
        let root = tree[1];
        let excess = root.best - budget.capacity as f64 - budget.credit(0, until);
        let room = budget.tick_credit(until);
        if worst.is_none_or(|worst| excess - room > worst.excess - worst.room) {
            let from = begins[root.begin as usize].sent;
            worst = Some(Worst { from, until, allowed: 0, excess, room });
        }
    }
    worst.map(|worst| {
        let inside = takes.iter().filter(|take| worst.from <= take.sent && take.received <= worst.until);
        Worst { allowed: inside.count() as u64, ..worst }
    })
}

#[cfg(test)]
mod tests;
