//! What is known of a bucket is never wrong, however late, and in whatever order, it was learned.

use std::collections::VecDeque;

use proptest::prelude::*;
use topup_wire::{
    bucket::{Bucket, Operation, Record, decrement, refill, settle},
    limit::{Algorithm, Capacity, Limit, OnChange, Rate, Shards, Supply, Terms},
};

use super::*;

/// Redis's clock, when that of the client is at 0.
const EPOCH: u64 = 1_790_000_000_000_000;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Time passes: so many thousandths of a token's time.
    Pass(u64),
    /// The daemon comes by.
    Refill,
    /// Somebody else takes.
    Rival(u64),
    /// The worker decides what to do for a take.
    Ask(u64),
    /// What it sent first arrives at Redis.
    Arrive,
    /// An answer comes back; they may overtake each other.
    Learn(usize),
}

/// A request on its way: a bare `DECR`, or a script.
type Request = (Asked, bool);

enum Reply {
    Left(u64),
    Settled(Settled),
}

/// One bucket in Redis and one worker.
struct World {
    record: Record,
    bucket: Bucket,
    stray: i64,
    now: u64,
    memory: Memory,
    sent: VecDeque<Request>,
    replies: Vec<(Asked, Reply)>,
    /// Decided by `DECR`, by memory, by script.
    decided: [u32; 3],
}

// === impl World ===

impl World {
    fn new(rate: Rate, capacity: u64, tick: u64) -> Self {
        let limit = Limit {
            name: "api".parse().unwrap(),
            keyed: false,
            algorithm: Algorithm::TokenBucket,
            terms: Terms { capacity: Capacity::new(capacity).unwrap(), supply: Supply::Rate(rate) },
            catch_up: true,
            on_change: OnChange::Keep,
            tick: std::time::Duration::from_micros(tick),
            shards: Shards::ONE,
        };
        Self {
            record: Record::new(&limit, EPOCH),
            bucket: None,
            stray: 0,
            now: EPOCH,
            memory: Memory::new(),
            sent: VecDeque::new(),
            replies: Vec::new(),
            decided: [0; 3],
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Pass(thousandths) => self.now += 1 + time_of(thousandths, self.record.pace) / 1_000,
            Step::Refill => drop(refill(&self.record, &mut self.bucket, self.now)),
            Step::Rival(count) => drop(self.settle(Operation::Take(count))),
            Step::Ask(count) => self.ask(count),
            Step::Arrive => self.arrive(),
            Step::Learn(which) if !self.replies.is_empty() => self.learn(which % self.replies.len()),
            Step::Learn(_) => {}
        }
    }

    fn ask(&mut self, count: u64) {
        let asked = Asked { count, sent: self.now - EPOCH, pace: self.record.pace, epoch: 0 };
        let truth = settle(&self.record, &mut self.bucket.clone(), Operation::Peek(count), self.now);
        match self.memory.advise("b", asked) {
            Advice::Decrement { capacity } => {
                assert_eq!(capacity, truth.capacity);
                assert!(truth.tokens < capacity, "whoever credits it, it is below full: {truth:?}");
                self.sent.push_back((asked, true));
                self.decided[0] += 1;
            }
            Advice::Deny(denial) => {
                assert_eq!(truth.verdict, Verdict::Denied, "{denial:?} for {count}, in truth {truth:?}");
                assert!(denial.wait <= truth.wait, "{denial:?} for {count}, in truth {truth:?}");
                self.decided[1] += 1;
            }
            Advice::Settle => {
                self.sent.push_back((asked, false));
                self.decided[2] += 1;
            }
        }
    }

    fn arrive(&mut self) {
        let Some((asked, bare)) = self.sent.pop_front() else { return };
        if !bare {
            let settled = self.settle(Operation::Take(asked.count));
            self.replies.push((asked, Reply::Settled(settled)));
        } else if let Ok(left) = u64::try_from(decrement(&mut self.bucket, &mut self.stray)) {
            self.replies.push((asked, Reply::Left(left)));
        } else {
            // It was empty, or has become full on the way: the worker settles it.
            self.sent.push_back((Asked { sent: self.now - EPOCH, ..asked }, false));
        }
    }

    fn learn(&mut self, which: usize) {
        match self.replies.swap_remove(which) {
            (asked, Reply::Left(left)) => self.memory.taken("b", left, asked),
            (asked, Reply::Settled(settled)) if settled.verdict != Verdict::ExceedsCapacity => {
                self.memory.settled("b", &settled, asked);
            }
            _ => {}
        }
    }

    fn settle(&mut self, operation: Operation) -> Settled {
        self.stray = 0;
        settle(&self.record, &mut self.bucket, operation, self.now)
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let time = prop_oneof![4 => 0..100_u64, 4 => 0..2_000_u64, 1 => 0..60_000_u64];
    let count = prop_oneof![8 => Just(1_u64), 1 => 2..8_u64];
    let step = prop_oneof![
        4 => time.prop_map(Step::Pass),
        2 => Just(Step::Refill),
        1 => count.clone().prop_map(Step::Rival),
        6 => count.prop_map(Step::Ask),
        6 => Just(Step::Arrive),
        6 => (0..4_usize).prop_map(Step::Learn),
    ];
    prop::collection::vec(step, 1..300)
}

fn rates() -> impl Strategy<Value = Rate> {
    let texts =
        vec!["1/60s", "1/s", "100/s", "7/3s", "1000/s", "50_000/s", "999_983/s", "3_000_000/s", "5/1d"];
    prop::sample::select(texts).prop_map(|text| text.parse().unwrap())
}

proptest! {
    #[test]
    fn advice_is_never_wrong(
        rate in rates(), capacity in prop_oneof![1..12_u64, Just(1_000_000)],
        tick in prop_oneof![Just(1_000_u64), Just(100_000)], steps in steps(),
    ) {
        let mut world = World::new(rate, capacity, tick);
        steps.into_iter().for_each(|step| world.take(step));
    }
}

/// Without this the property above could hold because nothing is ever known.
#[test]
fn a_worker_by_itself_decides_by_decr_and_by_memory() {
    let mut world = World::new("10/s".parse().unwrap(), 100, 100_000);
    for _ in 0..300 {
        let turn = [Step::Ask(1), Step::Arrive, Step::Learn(0), Step::Pass(1), Step::Refill];
        turn.into_iter().for_each(|step| world.take(step));
    }
    let [decr, memory, script] = world.decided;
    assert!(decr == 99 && memory > 190 && script < 10, "{:?}", world.decided);
}

fn asked(count: u64) -> Asked {
    Asked { count, sent: 0, pace: Pace { n: 1, p: 1_000_000 }, epoch: 0 }
}

fn denied() -> Settled {
    Settled {
        verdict: Verdict::Denied,
        tokens: 0,
        capacity: 5,
        wait: 500_000,
        headroom: 5_000_000,
        granted: 0,
        now: EPOCH,
    }
}

#[test]
fn a_denial_ends_with_its_time_with_another_epoch_and_when_it_is_forgotten() {
    let memory = Memory::new();
    memory.settled("b", &denied(), asked(2));
    let denial = Denial { tokens: 0, capacity: 5, wait: 500_000 };
    assert_eq!(memory.advise("b", asked(2)), Advice::Deny(denial));
    assert_eq!(memory.advise("b", asked(3)), Advice::Deny(Denial { wait: 1_500_000, ..denial }));
    assert_eq!(memory.advise("b", asked(1)), Advice::Settle, "fewer may be there");
    assert_eq!(memory.advise("b", asked(6)), Advice::Settle, "more than fits is for Redis to refuse");
    assert_eq!(memory.advise("b", Asked { sent: 500_000, ..asked(2) }), Advice::Settle);
    assert_eq!(memory.advise("b", Asked { epoch: 1, ..asked(2) }), Advice::Settle);
    memory.forget("b");
    assert_eq!(memory.advise("b", asked(2)), Advice::Settle);
}

#[test]
fn an_answer_that_a_later_one_has_overtaken_tells_nothing_of_now() {
    let memory = Memory::new();
    let allowed = Settled { verdict: Verdict::Allowed, tokens: 4, wait: 0, headroom: 1_000_000, ..denied() };
    memory.settled("b", &allowed, Asked { sent: 50, ..asked(1) });
    memory.taken("b", 0, Asked { sent: 10, ..asked(1) });
    let at = |sent| memory.advise("b", Asked { sent, ..asked(1) });
    assert_eq!(at(1_000_049), Advice::Decrement { capacity: 5 });
    assert_eq!(at(1_000_050), Advice::Settle, "it may be full again");
    memory.taken("b", 3, Asked { sent: 60, ..asked(1) });
    assert_eq!(at(2_000_000), Advice::Decrement { capacity: 5 }, "one token less, one second more");
}

#[test]
fn a_long_denial_is_asked_about_again() {
    let memory = Memory::new();
    memory.settled("b", &Settled { wait: 60_000_000, ..denied() }, asked(1));
    let at = |sent| memory.advise("b", Asked { sent, ..asked(1) });
    assert!(matches!(at(TRUST - 1), Advice::Deny(Denial { wait, .. }) if wait == 60_000_000 - TRUST + 1));
    assert_eq!(at(TRUST), Advice::Settle);
}

#[test]
fn no_more_buckets_are_remembered_than_said_and_no_fewer_whatever_their_keys_have_in_common() {
    for keys in [
        |i: usize| format!("topup:{{user:0}}:b:{i}"),
        |i| format!("{i}@example.com"),
        |i| format!("{i:08}/login"),
    ] {
        let memory = Memory::new();
        for i in 0..2 * MOST_BUCKETS {
            memory.settled(&keys(i), &denied(), asked(1));
        }
        let remembered: usize = memory.parts.iter().map(|part| part.lock().unwrap().len()).sum();
        assert_eq!(remembered, MOST_BUCKETS, "keys like {}", keys(1));
    }
}
