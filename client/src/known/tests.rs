//! What is known of a bucket is never wrong, however late, and in whatever order, it was learned.

use std::collections::VecDeque;

use proptest::prelude::*;
use topup_wire::{
    bucket::{Bucket, Operation, Record, decrement, is_due, refill, settle},
    limit::{Algorithm, Capacity, Limit, OnChange, Rate, Shards, Supply, Terms as Wanted},
};

use super::*;

/// Redis's clock, when those of the workers are at 0.
const EPOCH: u64 = 1_790_000_000_000_000;
const WORKERS: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Time passes: so many thousandths of a token's time.
    Pass(u64),
    /// Time passes: so many thousandths of a tick.
    Wait(u64),
    /// The daemon comes by.
    Refill,
    /// Somebody else takes.
    Rival(u64),
    /// A worker decides what to do for a take of so many tokens.
    Ask(usize, u64),
    /// Or for so many takes of one token.
    Together(usize, u64),
    /// What was sent first arrives at Redis.
    Arrive,
    /// An answer comes back; they may overtake each other.
    Learn(usize),
}

/// A question on its way: by whom, for how many, as one take or by a bare command.
#[derive(Clone, Copy, Debug)]
struct Request {
    worker: usize,
    asked: Asked,
    tokens: u64,
    bare: bool,
    sent: u64,
}

enum Reply {
    Left(u64),
    Settled(Settled),
}

/// One bucket in Redis and some workers.
struct World {
    record: Record,
    terms: Terms,
    bucket: Bucket,
    stray: i64,
    now: u64,
    workers: [Known; WORKERS],
    /// By how many parts of 1,000 the workers' clocks are fast.
    fast: i64,
    sent: VecDeque<Request>,
    replies: Vec<(Request, Reply)>,
    /// Decided by `DECR`, by memory, by script.
    decided: [u32; 3],
    /// Tokens given, at which instant.
    admitted: Vec<(u64, u64)>,
    /// The longest way of a bare command, in µs.
    late: u64,
    /// The most tokens on their way by bare commands at once.
    together: u64,
}

// === impl World ===

impl World {
    fn new(rate: Rate, capacity: u64, tick: u64, fast: i64) -> Self {
        let limit = Limit {
            name: "api".parse().unwrap(),
            keyed: false,
            algorithm: Algorithm::TokenBucket,
            terms: Wanted { capacity: Capacity::new(capacity).unwrap(), supply: Supply::Rate(rate) },
            catch_up: true,
            on_change: OnChange::Keep,
            tick: std::time::Duration::from_micros(tick),
            shards: Shards::ONE,
            lease: None,
            rollout: topup_wire::limit::Rollout::default(),
            candidate: false,
            compared: topup_wire::limit::Percent::NONE,
        };
        let record = Record::new(&limit, EPOCH);
        Self {
            record,
            terms: Terms {
                pace: record.pace,
                foreseen: true,
                tick,
                leeway: record.ease(),
                stay: record.stay(),
            },
            bucket: None,
            stray: 0,
            now: EPOCH,
            workers: Default::default(),
            fast,
            sent: VecDeque::new(),
            replies: Vec::new(),
            decided: [0; 3],
            admitted: Vec::new(),
            late: 0,
            together: 0,
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Pass(thousandths) => self.now += 1 + self.terms.time_of(thousandths) / 1_000,
            Step::Wait(thousandths) => self.now += self.record.tick * thousandths / 1_000,
            Step::Refill => self.refill(),
            Step::Rival(count) => drop(self.settle(Operation::Take(count))),
            Step::Ask(worker, count) => self.ask(worker, count, 1),
            Step::Together(worker, takes) => self.ask(worker, 1, takes),
            Step::Arrive => self.arrive(),
            Step::Learn(which) if !self.replies.is_empty() => self.learn(which % self.replies.len()),
            Step::Learn(_) => {}
        }
    }

    /// What a worker's clock shows.
    fn clock(&self) -> Micros {
        let passed = (self.now - EPOCH) as i64;
        (passed + passed / 1_000 * self.fast) as Micros
    }

    fn refill(&mut self) {
        if self.bucket.is_some_and(|held| is_due(&self.record, held, false, self.now)) {
            refill(&self.record, &mut self.bucket, self.now);
        }
    }

    fn ask(&mut self, worker: usize, count: u64, takes: u64) {
        let asked = Asked { count, sent: self.clock(), terms: self.terms, epoch: 0 };
        let known = self.workers[worker];
        if let Some(denial) = known.denial(asked) {
            if self.fast == 0 {
                let truth = settle(&self.record, &mut self.bucket.clone(), Operation::Peek(count), self.now);
                assert_eq!(truth.verdict, Verdict::Denied, "{denial:?} for {count}, in truth {truth:?}");
            }
            self.decided[1] += 1;
            return;
        }
        let bare = count == 1 && known.below_full(takes, asked, false);
        self.decided[if bare { 0 } else { 2 }] += 1;
        self.sent.push_back(Request { worker, asked, tokens: count.max(takes), bare, sent: self.now });
        let under_way = self.sent.iter().filter(|request| request.bare).map(|request| request.tokens).sum();
        self.together = self.together.max(under_way);
    }

    fn arrive(&mut self) {
        let Some(request) = self.sent.pop_front() else { return };
        let Request { asked, tokens, .. } = request;
        if !request.bare {
            let operation = if asked.count == 1 { Operation::Share(tokens) } else { Operation::Take(tokens) };
            let settled = self.settle(operation);
            self.replies.push((request, Reply::Settled(settled)));
            return;
        }
        let late = self.now - request.sent;
        assert!(late > 0 || self.bucket.is_some(), "a bare command finds its counter");
        self.late = self.late.max(late);
        let mut left = 0;
        for _ in 0..tokens {
            left = decrement(&mut self.bucket, &mut self.stray);
        }
        let missing = left.min(0).unsigned_abs().min(tokens);
        if missing < tokens {
            self.admitted.push((self.now, tokens - missing));
        }
        if missing == 0 {
            self.replies.push((request, Reply::Left(left as u64)));
        } else {
            // It was empty, or has become full on the way: the worker settles it.
            let asked = Asked { sent: self.clock(), ..asked };
            self.workers[request.worker] = Known::default();
            self.sent.push_back(Request { asked, tokens: missing, bare: false, ..request });
        }
    }

    fn learn(&mut self, which: usize) {
        let (request, reply) = self.replies.swap_remove(which);
        let received = self.clock();
        let known = &mut self.workers[request.worker];
        match reply {
            Reply::Left(left) => known.taken(left, request.asked),
            Reply::Settled(settled) if settled.verdict != Verdict::ExceedsCapacity => {
                *known = Known::learned(&settled, request.asked, received);
            }
            Reply::Settled(_) => {}
        }
    }

    fn settle(&mut self, operation: Operation) -> Settled {
        self.stray = 0;
        let settled = settle(&self.record, &mut self.bucket, operation, self.now);
        if settled.granted > 0 {
            self.admitted.push((self.now, settled.granted));
        }
        settled
    }

    /// Law 1: whatever window is looked at, it has no more than capacity, rate and a tick's credit allow, and what came
    /// while a command was late. `DECRBY` by several workers at once counts as late by what they take together.
    fn assert_never_over(&self) {
        let (n, p) = (i128::from(self.record.pace.n), i128::from(self.record.pace.p));
        let (mut given, mut start, mut over) = (0, i128::MIN, i128::MIN);
        for &(at, tokens) in &self.admitted {
            let at = n * i128::from(at - EPOCH);
            start = start.max(at - p * given);
            given += i128::from(tokens);
            over = over.max(p * (given - i128::from(self.record.capacity)) - at + start);
        }
        let allowed = n * i128::from(self.record.tick + self.late) + p * i128::from(self.together);
        assert!(over <= allowed, "{over} > {allowed}, late {} together {}", self.late, self.together);
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let time = prop_oneof![4 => 0..100_u64, 4 => 0..2_000_u64, 1 => 0..60_000_u64];
    let count = prop_oneof![8 => Just(1_u64), 1 => 2..8_u64];
    let step = prop_oneof![
        4 => time.prop_map(Step::Pass),
        2 => (0..1_200_u64).prop_map(Step::Wait),
        2 => Just(Step::Refill),
        1 => count.clone().prop_map(Step::Rival),
        6 => (0..WORKERS, count.clone()).prop_map(|(worker, count)| Step::Ask(worker, count)),
        4 => (0..WORKERS, 1..40_u64).prop_map(|(worker, takes)| Step::Together(worker, takes)),
        8 => Just(Step::Arrive),
        8 => (0..4_usize).prop_map(Step::Learn),
    ];
    prop::collection::vec(step, 1..400)
}

fn rates() -> impl Strategy<Value = Rate> {
    let texts =
        vec!["1/60s", "1/s", "100/s", "7/3s", "1000/s", "50_000/s", "999_983/s", "3_000_000/s", "5/1d"];
    prop::sample::select(texts).prop_map(|text| text.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_workers_know_keeps_the_laws(
        rate in rates(), capacity in prop_oneof![1..12_u64, 50..500_u64, Just(1_000_000)],
        tick in prop_oneof![Just(1_000_u64), Just(100_000)],
        fast in prop_oneof![Just(0_i64), Just(10), Just(-10)], steps in steps(),
    ) {
        let mut world = World::new(rate, capacity, tick, fast);
        steps.into_iter().for_each(|step| world.take(step));
        world.assert_never_over();
    }
}

/// Steps of workers that are never late: each asks, and has its answer at once.
fn prompt_steps() -> impl Strategy<Value = Vec<Step>> {
    let ask = |worker, takes| {
        vec![Step::Together(worker, takes), Step::Arrive, Step::Learn(0), Step::Arrive, Step::Learn(0)]
    };
    // Now and then, after a while near full, everything that can be had.
    let few = (0..WORKERS, 1..4_u64, 0..900_u64)
        .prop_map(move |(worker, takes, time)| [vec![Step::Wait(time)], ask(worker, takes)].concat());
    let all = (0..WORKERS).prop_map(move |worker| {
        [40, 80, 80, 400].map(|takes| ask((worker + takes) % WORKERS, takes as u64)).concat()
    });
    let pause = (0..6_000_u64).prop_map(|thousandths| vec![Step::Wait(thousandths)]);
    let step = prop_oneof![20 => few, 1 => all, 1 => pause, 1 => Just(vec![Step::Refill])];
    prop::collection::vec(step, 1..150).prop_map(|steps| steps.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Near full the law leaves a tick's credit, no more, with a daemon that comes seldom.
    #[test]
    fn without_delays_no_window_has_more_than_a_tick_above(
        rate in prop::sample::select(vec!["100/s", "1000/s", "7/3s", "20_000/s"]),
        capacity in 20..400_u64, fast in prop_oneof![Just(0_i64), Just(10), Just(-10)], steps in prompt_steps(),
    ) {
        let mut world = World::new(rate.parse().unwrap(), capacity, 100_000, fast);
        steps.into_iter().for_each(|step| world.take(step));
        world.together = 0;
        world.assert_never_over();
    }
}

/// Asks by one worker, once in `every` µs for `micros` in all, a daemon coming by each tick and a half.
fn alone(rate: &str, capacity: u64, every: u64, micros: u64) -> World {
    let mut world = World::new(rate.parse().unwrap(), capacity, 100_000, 0);
    let mut daemon = EPOCH;
    while world.now < EPOCH + micros {
        if world.now >= daemon {
            world.take(Step::Refill);
            daemon += 110_000;
        }
        [Step::Ask(0, 1), Step::Arrive, Step::Learn(0)].into_iter().for_each(|step| world.take(step));
        world.now += every;
    }
    world
}

/// Without this the property above could hold because nothing is ever known.
#[test]
fn a_worker_by_itself_decides_by_decr_and_by_memory() {
    let mut world = alone("10/s", 100, 1_000, 1_000_000);
    let [decr, memory, script] = world.decided;
    assert!(decr >= 98 && memory > 800 && script < 15, "{:?}", world.decided);
    world.assert_never_over();
    // Far below the rate, and so near full all the time.
    world = alone("1_000_000/s", 1_000_000, 16_000, 10_000_000);
    let [decr, memory, script] = world.decided;
    assert!(decr > 600 && memory == 0 && script < 10, "{:?}", world.decided);
    assert_eq!(world.stray, 0);
}

fn asked(count: u64) -> Asked {
    let terms =
        Terms { pace: Pace { n: 1, p: 1_000_000 }, foreseen: true, tick: 100_000, leeway: 0, stay: 100_000 };
    Asked { count, sent: 0, terms, epoch: 0 }
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
fn a_denial_ends_with_its_time_and_with_another_epoch() {
    let known = Known::learned(&denied(), asked(2), 9);
    // Promised for when the answer came and so much later.
    let denial = Denial { tokens: 0, capacity: 5, wait: 500_009 };
    assert_eq!(known.denial(asked(2)), Some(denial));
    assert_eq!(known.denial(asked(3)), Some(Denial { wait: 1_500_009, ..denial }));
    assert_eq!(known.denial(asked(1)), None, "fewer may be there");
    assert_eq!(known.denial(asked(6)), None, "more than fits is for Redis to refuse");
    assert_eq!(known.denial(Asked { sent: 500_000, ..asked(2) }), None);
    assert_eq!(known.denial(Asked { epoch: 1, ..asked(2) }), None);
}

#[test]
fn whoever_takes_the_last_token_knows_when_the_next_one_comes() {
    let last = Settled { verdict: Verdict::Allowed, granted: 3, ..denied() };
    let known = Known::learned(&last, asked(3), 9);
    assert_eq!(known.denial(asked(1)), Some(Denial { tokens: 0, capacity: 5, wait: 500_009 }));
}

#[test]
fn an_answer_that_a_later_one_has_overtaken_tells_nothing_of_now() {
    let allowed = Settled { verdict: Verdict::Allowed, tokens: 4, wait: 0, headroom: 1_000_000, ..denied() };
    let mut known = Known::learned(&allowed, Asked { sent: 50, ..asked(1) }, 90);
    known.taken(0, Asked { sent: 10, ..asked(1) });
    let bare = |known: Known, sent| known.below_full(1, Asked { sent, ..asked(1) }, false);
    assert!(bare(known, 984_000));
    assert!(!bare(known, 1_034_500), "half a tick later the law allows no more");
    known.taken(3, Asked { sent: 60, ..asked(1) });
    assert!(bare(known, 1_968_000), "one token less, one second more");
}

#[test]
fn a_long_denial_is_asked_about_again() {
    let known = Known::learned(&Settled { wait: 60_000_000, ..denied() }, asked(1), 9);
    let at = |sent| known.denial(Asked { sent, ..asked(1) });
    assert_eq!(at(TRUST - 1).map(|denial| denial.wait), Some(60_000_009 - TRUST + 1));
    assert_eq!(at(TRUST), None);
}
