//! The window, of all windows, in which most was allowed above capacity and rate.
//!
//! A window counts the takes that lie in it as a whole, from the sending to the answer: these were decided in it for
//! certain. A slow answer can therefore hide a small excess, and never makes one up.

use topup_lab::clock::Micros;

use crate::{rule::Rule, take::Take};

/// The windows over takes of one bucket, as far as they have been entered. A tree over the beginnings: entering a take
/// and asking for the worst window that ends with it is log n.
#[derive(Debug)]
pub struct Windows {
    tree: Vec<Span>,
    leaves: usize,
    rule: Rule,
}

/// The window in which most was allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worst {
    /// When it begins.
    pub from: Micros,
    /// When it ends.
    pub until: Micros,
    /// Allowed above capacity and what came meanwhile, in 1/micros of a token; mostly negative.
    excess: i128,
    micros: u64,
}

/// A part of the takes in order of their sending: the tokens entered, and the best of them to begin a window with.
#[derive(Clone, Copy, Debug)]
struct Span {
    tokens: i128,
    best: i128,
    from: Micros,
}

const EMPTY: Span = Span { tokens: 0, best: i128::MIN / 2, from: 0 };

// === impl Span ===

impl Span {
    /// Two neighbours as one; `micros` are the worth of a token.
    fn with(self, later: Self, micros: i128) -> Self {
        let best = self.best + later.tokens * micros;
        let tokens = self.tokens + later.tokens;
        if best >= later.best { Self { tokens, best, ..self } } else { Self { tokens, ..later } }
    }
}

// === impl Windows ===

impl Windows {
    /// Room for so many takes.
    pub fn new(rule: Rule, takes: usize) -> Self {
        let leaves = takes.next_power_of_two();
        Self { tree: vec![EMPTY; 2 * leaves], leaves, rule }
    }

    /// Enters `take`, whose place in the order of sending is `place`: the worst window that ends with its answer. Takes
    /// are entered in the order of their answers.
    pub fn enter(&mut self, place: usize, take: &Take) -> Worst {
        let tokens = i128::from(take.count);
        let begins = i128::from(take.sent) * i128::from(self.rule.tokens);
        let best = begins + tokens * i128::from(self.rule.micros);
        self.put(place, Span { tokens, best, from: take.sent });
        let (root, rule) = (self.tree[1], self.rule);
        let room = i128::from(rule.capacity) * i128::from(rule.micros)
            + i128::from(take.received) * i128::from(rule.tokens);
        Worst { from: root.from, until: take.received, excess: root.best - room, micros: rule.micros }
    }

    /// Takes out what was entered at `place`.
    pub fn forgive(&mut self, place: usize) {
        self.put(place, EMPTY);
    }

    fn put(&mut self, place: usize, span: Span) {
        let mut node = self.leaves + place;
        self.tree[node] = span;
        while node > 1 {
            node /= 2;
            self.tree[node] = self.tree[2 * node].with(self.tree[2 * node + 1], i128::from(self.rule.micros));
        }
    }
}

// === impl Worst ===

impl Worst {
    /// Tokens above capacity and rate.
    pub fn tokens(&self) -> f64 {
        self.excess as f64 / self.micros as f64
    }

    /// Whether it is above them however the clocks disagree.
    pub fn is_certain(&self, rule: &Rule) -> bool {
        let grace = i128::from(super::grace(self.until - self.from)) * i128::from(rule.tokens);
        self.excess > grace
    }
}

/// For each take, its place in the order of sending.
pub(super) fn places(takes: &[Take]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..takes.len()).collect();
    order.sort_by_key(|&index| takes[index].sent);
    let mut places = vec![0; takes.len()];
    for (place, index) in order.into_iter().enumerate() {
        places[index] = place;
    }
    places
}

/// For each allowed take of one bucket, in the order of their answers, the worst window that ends with it.
pub fn worst_of(rule: &Rule, takes: &[Take]) -> Vec<Worst> {
    let (mut windows, places) = (Windows::new(*rule, takes.len()), places(takes));
    let allowed = takes.iter().zip(places).filter(|(take, _)| take.is_allowed());
    allowed.map(|(take, place)| windows.enter(place, take)).collect()
}
