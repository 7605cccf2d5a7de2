//! The window, of all windows, in which most was allowed above capacity and rate.
//!
//! A window counts the takes that lie in it as a whole, from the sending to the answer: these were decided in it for
//! certain. Tokens that may have come back in it count as come back. A slow answer can therefore hide a small excess, and
//! never makes one up.

use topup_lab::clock::Micros;

use super::{
    books::{Books, Return},
    credit::Credit,
};
use crate::{rule::Rule, take::Take};

/// The windows over takes of one bucket, as far as they have been entered. A tree over the beginnings: entering a take
/// and asking for the worst window that ends with it is log n.
#[derive(Debug)]
pub struct Windows {
    tree: Vec<Span>,
    leaves: usize,
    credit: Credit,
    places: Vec<usize>,
    /// Tokens that came back, and were not entered: by the place of each, those sent first at the end.
    returns: Vec<(usize, Return)>,
}

/// The window in which most was allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worst {
    /// When it begins.
    pub from: Micros,
    /// When it ends.
    pub until: Micros,
    /// Allowed above capacity and what came meanwhile, in parts of a token; mostly negative.
    excess: i128,
    /// The parts of a token.
    unit: i128,
    /// The parts that come in a µs.
    per_micro: i128,
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
    /// Two neighbours as one; a token has so many parts.
    fn with(self, later: Self, unit: i128) -> Self {
        let best = self.best + later.tokens * unit;
        let tokens = self.tokens + later.tokens;
        if best >= later.best { Self { tokens, best, ..self } } else { Self { tokens, ..later } }
    }
}

// === impl Windows ===

impl Windows {
    /// Windows over `books`, of which nothing is entered.
    pub(super) fn of(credit: Credit, books: &Books) -> Self {
        let places = places(&books.instants());
        let leaves = places.len().next_power_of_two();
        let mut returns: Vec<(usize, Return)> =
            places[books.entries.len()..].iter().copied().zip(books.returns.iter().copied()).collect();
        returns.sort_by_key(|(_, back)| std::cmp::Reverse(back.sent));
        Self { tree: vec![EMPTY; 2 * leaves], leaves, credit, places, returns }
    }

    /// Enters `take`, the entry `index` of the books: the worst window that ends with its answer. Takes are entered in the
    /// order of their answers.
    pub(super) fn enter(&mut self, index: usize, take: &Take) -> Worst {
        // No window begins with tokens that come back.
        while let Some((place, back)) = self.returns.pop_if(|(_, back)| back.sent <= take.received) {
            self.put(place, Span { tokens: -i128::from(back.count), ..EMPTY });
        }
        let (tokens, credit, unit) = (i128::from(take.count), self.credit, self.credit.unit());
        let best = credit.most(take.sent) - credit.capacity(take.sent) + tokens * unit;
        self.put(self.places[index], Span { tokens, best, from: take.sent });
        let root = self.tree[1];
        let excess = root.best - credit.most(take.received);
        Worst { from: root.from, until: take.received, excess, unit, per_micro: credit.fastest() }
    }

    /// Takes out the entry `index`.
    pub(super) fn forgive(&mut self, index: usize) {
        self.put(self.places[index], EMPTY);
    }

    fn put(&mut self, place: usize, span: Span) {
        let (mut node, unit) = (self.leaves + place, self.credit.unit());
        self.tree[node] = span;
        while node > 1 {
            node /= 2;
            self.tree[node] = self.tree[2 * node].with(self.tree[2 * node + 1], unit);
        }
    }
}

// === impl Worst ===

impl Worst {
    /// Tokens above capacity and rate.
    pub fn tokens(&self) -> f64 {
        self.excess as f64 / self.unit as f64
    }

    /// Whether it is above them by more than `debt` tokens however the clocks disagree.
    pub fn is_certain(&self, debt: i128) -> bool {
        let grace = i128::from(super::grace(self.until - self.from)) * self.per_micro;
        self.excess > grace + debt * self.unit
    }
}

/// For each of `instants`, its place in their order.
fn places(instants: &[Micros]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..instants.len()).collect();
    order.sort_by_key(|&index| instants[index]);
    let mut places = vec![0; instants.len()];
    for (place, index) in order.into_iter().enumerate() {
        places[index] = place;
    }
    places
}

/// For each allowed take of one bucket, in the order of their answers, the worst window that ends with it.
pub fn worst_of(rule: &Rule, takes: &[Take]) -> Vec<Worst> {
    let books = Books::of(takes);
    let mut windows = Windows::of(Credit::of(*rule, None), &books);
    let allowed = books.entries.iter().enumerate().filter(|(_, take)| take.is_allowed());
    allowed.map(|(index, take)| windows.enter(index, take)).collect()
}
