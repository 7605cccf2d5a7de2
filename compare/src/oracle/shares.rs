//! Decisions about fair shares: a total that all parts take from, and parts that are each sure of their own.

use topup_lab::clock::Micros;

use super::{
    books::Books,
    bucket::{self, Takes},
    credit::Credit,
    grace,
};
use crate::{
    rule::{Rule, TICK},
    take::Take,
};

/// The weights of the parts: those of the first buckets, and that of all others together.
pub const WEIGHTS: [u64; 4] = [4, 2, 1, 1];
/// Tokens by which two parts that share by weight may differ: an instant lies between two of them.
const ROUNDED: u64 = 2;
/// A limit loses less than one part in this of the tokens that a part waits for.
const LOST: Micros = 50;

/// The part of a bucket.
const fn part_of(bucket: u32) -> usize {
    let last = WEIGHTS.len() - 1;
    if (bucket as usize) < last { bucket as usize } else { last }
}

/// The least capacity of which each part has a token.
pub fn least_capacity() -> u64 {
    let least = WEIGHTS.iter().min().copied().unwrap_or(1);
    weights().div_ceil(least)
}

fn weights() -> u64 {
    WEIGHTS.iter().sum()
}

/// The bucket that a part is sure of.
pub(super) fn own(rule: &Rule, weight: u64) -> Rule {
    let all = weights();
    Rule { capacity: rule.capacity * weight / all, tokens: rule.tokens * weight, micros: rule.micros * all }
}

/// The time between two deals of what the parts leave: loans end within it. `None` if the smallest part holds too little
/// to borrow everything.
fn period(rule: &Rule) -> Option<Micros> {
    // As the whole rate fills the smallest part.
    let fill = WEIGHTS.iter().map(|weight| Rule { capacity: own(rule, *weight).capacity, ..*rule }.window());
    let period = TICK.min(fill.min()? / 2);
    (period >= 1_000.max(50 * WEIGHTS.len() as Micros)).then_some(period)
}

/// Which of `takes` of all parts, in the order of their answers, were certainly wrong.
pub(super) fn wrong(rule: &Rule, takes: &[Take]) -> Vec<bool> {
    let mut wrong = bucket::wrong(rule, &Books::of(takes));
    // A take may be denied while others have tokens.
    wrong.iter_mut().zip(takes).for_each(|(wrong, take)| *wrong &= take.is_allowed());
    let lost = lost(rule, takes);
    let parts: Vec<Part> = (0..WEIGHTS.len()).map(|index| Part::of(index, takes)).collect();
    for part in &parts {
        let own = Credit::of(own(rule, WEIGHTS[part.index]), None);
        let denied =
            bucket::judge(own, &Books { entries: part.takes.clone(), returns: Vec::new() }, Takes::OwnFirst);
        part.places.iter().zip(denied).for_each(|(place, denied)| wrong[*place] |= denied);
        for need in period(rule).map(|period| part.needs(period)).into_iter().flatten() {
            if need.loses(rule, &lost) || parts.iter().any(|other| need.has_less_than(other, part, rule)) {
                wrong[part.places[need.last]] = true;
            }
        }
    }
    wrong
}

/// The takes of a part.
struct Part {
    index: usize,
    takes: Vec<Take>,
    /// Their places among all takes.
    places: Vec<usize>,
}

/// Denials of a part that follow each other so fast that no deal passes it over.
#[derive(Clone, Copy, Debug)]
struct Need {
    /// The first denial, from its sending to its answer.
    first: (Micros, Micros),
    /// The last one.
    until: (Micros, Micros),
    /// Its place among the part's takes.
    last: usize,
    /// From then on, loans that were dealt before are over.
    from: Micros,
}

// === impl Part ===

impl Part {
    fn of(index: usize, all: &[Take]) -> Self {
        let own = all.iter().enumerate().filter(|(_, take)| part_of(take.bucket) == index);
        let (places, takes) = own.map(|(place, take)| (place, *take)).unzip();
        Self { index, takes, places }
    }

    /// The times in which it is in need.
    fn needs(&self, period: Micros) -> Vec<Need> {
        let mut needs: Vec<Need> = Vec::new();
        for (place, take) in self.takes.iter().enumerate().filter(|(_, take)| take.is_denied()) {
            match needs.last_mut().filter(|need| take.received <= need.until.0 + period) {
                Some(need) => (need.until, need.last) = ((take.sent, take.received), place),
                None => needs.push(Need {
                    first: (take.sent, take.received),
                    until: (take.sent, take.received),
                    last: place,
                    from: take.received + period + grace(period),
                }),
            }
        }
        needs.retain(|need| need.from < need.until.0);
        needs
    }

    /// Tokens of its takes of which this is true.
    fn tokens(&self, counts: impl Fn(&Take) -> bool) -> u64 {
        self.takes.iter().filter(|take| counts(take)).map(|take| u64::from(take.count)).sum()
    }
}

// === impl Need ===

impl Need {
    /// Whether more went to nobody than the limit may lose while a part waits.
    fn loses(&self, rule: &Rule, lost: &[(Micros, Micros)]) -> bool {
        let (from, until) = (self.from, self.until.0);
        let within = |(begin, end): &(Micros, Micros)| end.min(&until).saturating_sub(*begin.max(&from));
        lost.iter().map(within).sum::<Micros>() > (until - from) / LOST + ROUNDED * rule.token()
    }

    /// Whether another part had more by weight than this `part`, of what both were lent.
    fn has_less_than(&self, other: &Part, part: &Part, rule: &Rule) -> bool {
        // A loan is lost to a part if its takes need more.
        if other.index == part.index || part.takes.iter().any(|take| take.count > 1) {
            return false;
        }
        let [own_weight, its_weight] = [part, other].map(|part| WEIGHTS[part.index]);
        let had = part.tokens(|take| {
            take.may_have_taken() && take.received >= self.first.0 && take.sent <= self.until.1
        });
        let others =
            other.tokens(|take| take.is_allowed() && take.sent > self.from && take.received < self.until.0);
        // It may have begun with all that it is sure of.
        let most = had * its_weight + own(rule, its_weight).capacity * own_weight;
        others * own_weight > most + ROUNDED * (own_weight + its_weight)
    }
}

/// The times in which the bucket of `rule` was certainly full, and what came was lost.
fn lost(rule: &Rule, takes: &[Take]) -> Vec<(Micros, Micros)> {
    let credit = Credit::of(*rule, None);
    let taken: Vec<&Take> = takes.iter().filter(|take| take.may_have_taken()).collect();
    let mut next: Vec<Micros> = taken
        .iter()
        .rev()
        .scan(Micros::MAX, |next, take| {
            *next = take.sent.min(*next);
            Some(*next)
        })
        .collect();
    next.reverse();
    let (mut full, mut lost) = (0_i128, Vec::new());
    for (take, next) in taken.iter().zip(next.into_iter().skip(1)) {
        full = full.max(credit.least(take.received)) + i128::from(take.count) * credit.unit();
        let at = (full / credit.fastest().max(1)) as Micros + 1 + grace(credit.window());
        if at < next {
            lost.push((at, next));
        }
    }
    lost
}
