//! Decisions about a bucket whose key is blocked after too many denied takes.
//!
//! A denial that tells a longer wait than a bucket ever has tells the end of a block. Workers count denied takes for up to
//! a second before Redis knows them, and learn of a block up to a second after it began.

use std::collections::BTreeSet;

use topup_lab::clock::{Micros, SECOND};

use super::{CLOCK_STEP, EXPIRY_STEP, books::Books, bucket};
use crate::{penalty::Penalty, rule::Rule, take::Take};

/// The penalty of each limit that has one.
pub const PENALTY: Penalty =
    Penalty { after: 20, within: 10 * SECOND, block: SECOND, factor: 2, longest: 8 * SECOND };
/// Workers hand denied takes over so often.
const HAND_OVER: Micros = SECOND;
/// A worker goes on later than a block ends by the time of a control poll.
const POLL: Micros = SECOND / 4;

/// No block grows any more after so many.
const MOST_STEPS: u32 = 4;

/// Which of `takes` of one bucket, in the order of their answers, were certainly wrong.
pub(super) fn wrong(rule: &Rule, takes: &[Take]) -> Vec<bool> {
    let slowest = takes.iter().map(|take| take.received - take.sent).max().unwrap_or(0);
    let first = takes.first().map_or(0, |take| take.sent);
    let own = takes.iter().filter(|take| take.is_denied() && !is_of_block(rule, take));
    let mut may_count: Vec<(Micros, Micros)> = own.map(|take| (take.sent, take.received)).collect();
    may_count.sort_unstable();
    let mut key = Key {
        rule: *rule,
        late: 4 * slowest,
        last: None,
        may_count,
        counted: 0,
        denied: Vec::new(),
        asked: first,
        watched: 0,
    };
    let (mut wrong, mut plain) = (vec![false; takes.len()], Vec::new());
    for (place, take) in takes.iter().enumerate() {
        match key.told_end(take) {
            Some(end) => wrong[place] = !key.block(take, end),
            None => {
                wrong[place] = !key.answer(take);
                plain.push(place);
            }
        }
    }
    let books = Books { entries: plain.iter().map(|place| takes[*place]).collect(), returns: Vec::new() };
    plain.into_iter().zip(bucket::wrong(rule, &books)).for_each(|(place, is)| wrong[place] |= is);
    wrong
}

/// Knowledge of a key.
struct Key {
    rule: Rule,
    /// An instant may take so long on this machine.
    late: Micros,
    /// The last block.
    last: Option<Block>,
    /// Sending and answer of all takes that its bucket denied, in the order of the sending.
    may_count: Vec<(Micros, Micros)>,
    /// Takes that were sent before count no more.
    counted: Micros,
    /// Denied takes that were answered by now and may lead to a block, in the order of the answers.
    denied: Vec<(Micros, Micros)>,
    /// The last answer.
    asked: Micros,
    /// Since then, no block would have gone unseen.
    watched: Micros,
}

/// A block.
struct Block {
    /// Blocks before that were not forgotten: one of these numbers.
    steps: Vec<u32>,
    /// It ends between these two.
    end: (Micros, Micros),
    /// It begins between these two. At the second, a worker has told it.
    begin: (Micros, Micros),
    /// When each worker had told it.
    known: Vec<(u32, Micros)>,
    /// It has been found to be wrong, which counts once.
    is_wrong: bool,
}

// === impl Key ===

impl Key {
    /// The end of a block that a denial told, between two instants.
    fn told_end(&self, take: &Take) -> Option<(Micros, Micros)> {
        let wait = take.retry_after()?;
        let end = (take.sent + wait, take.received + wait);
        let is_known = self.last.as_ref().is_some_and(|block| block.ends_at(end));
        (is_known || is_of_block(&self.rule, take)).then_some(end)
    }

    /// Takes note of a block that ends at `end`, as `take` was told. Returns whether it may.
    fn block(&mut self, take: &Take, end: (Micros, Micros)) -> bool {
        if take.received - take.sent > POLL / 2 {
            // It tells too little: the ends of two blocks are a second apart, perhaps.
            return true;
        }
        // Never before its end, and later than that by the time of a poll at most.
        let end = (end.0.saturating_sub(POLL), end.1 + CLOCK_STEP);
        let asked = std::mem::replace(&mut self.asked, take.received);
        if let Some(block) = self.last.as_mut().filter(|block| block.ends_at(end)) {
            if !block.known.iter().any(|(worker, _)| *worker == take.worker) {
                block.known.push((take.worker, take.received));
            }
            return block.narrow(end);
        }
        let earned = self.earned(take.received);
        let free = self.last.as_ref().map_or(0, |block| block.end.0);
        let begin = (earned.unwrap_or(take.sent).max(free), take.received);
        let steps = match &self.last {
            // A block may have begun and ended unseen.
            _ if self.watched > free => (0..MOST_STEPS).collect(),
            Some(last) => last.next_steps(begin),
            None => vec![0],
        };
        let mut block =
            Block { steps, end, begin, known: vec![(take.worker, take.received)], is_wrong: false };
        let fits = block.narrow(end);
        self.last = Some(block);
        // Workers that do not know of it yet may hand over after its end what they denied in it.
        let unaware = asked.min(take.sent).saturating_sub(POLL + self.late);
        self.counted = unaware;
        self.denied.clear();
        earned.is_some() && fits
    }

    /// Takes note of an answer of the bucket. Returns whether no block forbids it, and none is missing.
    fn answer(&mut self, take: &Take) -> bool {
        if take.is_denied() {
            self.denied.push((take.sent, take.received));
        }
        let is_blocked = self.last.as_ref().is_some_and(|block| {
            let known = block.known.iter().find(|(worker, _)| *worker == take.worker);
            // All know it by then, or this one does.
            let by = known.map_or(block.begin.1 + 2 * POLL + self.late, |(_, at)| *at);
            take.sent > by && take.received < block.end.0
        });
        // While nobody asks, nobody sees a block.
        if take.sent > self.asked + (PENALTY.block - 2 * POLL).saturating_sub(self.late) {
            self.watched = take.sent;
        }
        self.asked = take.received;
        // Takes do not count that a worker denied before it learned of the last block.
        let free = self.last.as_ref().map_or(0, |block| block.end.1).max(self.watched);
        self.denied.retain(|(sent, _)| *sent >= free);
        // However the time in which they count begins, it has enough of them.
        let enough = 2 * PENALTY.after as usize - 1;
        let surely = |some: &&[(Micros, Micros)]| {
            let first = some.iter().map(|(sent, _)| *sent).min().unwrap_or(0);
            some[some.len() - 1].1 - first < PENALTY.within - SECOND
        };
        let missing = self.denied.windows(enough).find(surely).map(|some| some[some.len() - 1].1);
        let is_missing = missing.is_some_and(|at| take.sent > at + 2 * HAND_OVER + self.late);
        if is_missing {
            self.denied.clear();
        }
        !(take.is_allowed() && is_blocked || is_missing)
    }

    /// The earliest instant at which denied takes may have earned a block that was seen at `seen`.
    fn earned(&self, seen: Micros) -> Option<Micros> {
        let place = |at: Micros| self.may_count.partition_point(|(sent, _)| *sent < at);
        let may = &self.may_count[place(self.counted)..place(seen)];
        let within = PENALTY.within + HAND_OVER + self.late;
        may.windows(PENALTY.after as usize).find_map(|some| {
            let last = some[some.len() - 1].0;
            (last.saturating_sub(some[0].1) <= within).then_some(last)
        })
    }
}

/// Whether a denial tells a longer wait than a bucket has.
fn is_of_block(rule: &Rule, take: &Take) -> bool {
    let longest = u64::from(take.count) * rule.micros / rule.tokens + EXPIRY_STEP;
    take.retry_after().is_some_and(|wait| wait > longest)
}

// === impl Block ===

impl Block {
    /// Takes note that it ends at `end`. Returns whether it may, for its length.
    fn narrow(&mut self, end: (Micros, Micros)) -> bool {
        self.end = (self.end.0.max(end.0), self.end.1.min(end.1));
        let fits = |step: &u32| {
            let length = PENALTY.length(*step);
            self.end.1 >= self.begin.0 + length && self.end.0 <= self.begin.1 + length
        };
        let fitting: Vec<u32> = self.steps.iter().copied().filter(fits).collect();
        if fitting.is_empty() {
            return std::mem::replace(&mut self.is_wrong, true);
        }
        self.steps = fitting;
        true
    }

    /// Blocks before one that begins at `begin`. A key that stays free for as long as its last block begins anew.
    fn next_steps(&self, begin: (Micros, Micros)) -> Vec<u32> {
        let next = self.steps.iter().flat_map(|step| {
            let length = PENALTY.length(*step);
            let anew = (begin.1 >= self.end.0 + length).then_some(0);
            anew.into_iter().chain((begin.0 < self.end.1 + length).then_some(step + 1))
        });
        let next: BTreeSet<u32> = next.collect();
        next.into_iter().collect()
    }

    /// Whether it may be this one that ends between these two instants.
    fn ends_at(&self, end: (Micros, Micros)) -> bool {
        end.0 <= self.end.1 + POLL && end.1 + POLL >= self.end.0
    }
}
