//! One bucket in Redis and some workers, in steps.

use std::collections::VecDeque;

use topup_wire::{
    bucket::{Bucket, Operation, Record, decrement, is_due, put_back, refill, settle},
    limit::{Algorithm, Capacity, Limit, OnChange, Rate, Shards, Supply, Terms as Wanted},
};

use crate::known::*;

/// Redis's clock, when those of the workers are at 0.
pub(super) const EPOCH: u64 = 1_790_000_000_000_000;
pub(super) const WORKERS: usize = 3;

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
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
    /// Or for a crowd of so many, with some taken ahead.
    Crowd(usize, u64),
    /// So many of a worker's crowd come for what was taken ahead.
    Spend(usize, u64),
    /// A worker puts back what its crowd has left.
    PutBack(usize),
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
    /// Those who wait for a token each, or the tokens of one take.
    tokens: u64,
    ahead: u64,
    way: Way,
    sent: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Bare,
    Script,
    /// Nothing is asked for: tokens are put back that were taken then; those of a lease if the bucket is full at the instant
    /// said.
    Back(u64, Option<u64>),
}

#[derive(Clone, Copy)]
enum Reply {
    /// Tokens left, and those taken ahead.
    Left(u64, u64),
    Settled(Settled),
}

/// Tokens in the hands of a worker, until then; they may be given back until `sound_until`, and the oldest of them were taken
/// at `since`.
#[derive(Clone, Copy, Debug, Default)]
struct InHand {
    tokens: u64,
    until: Micros,
    sound_until: Micros,
    since: u64,
}

/// One bucket in Redis and some workers.
#[derive(Clone)]
pub(super) struct World {
    record: Record,
    terms: Terms,
    bucket: Bucket,
    pub(super) stray: i64,
    pub(super) now: u64,
    workers: [Known; WORKERS],
    in_hand: [InHand; WORKERS],
    /// By how many parts of 1,000 the workers' clocks are fast.
    fast: i64,
    /// Tokens were put back, and have filled the bucket.
    returned: bool,
    filled: bool,
    /// What is taken ahead is leased, so many tokens, for so long; without, it is for a crowd.
    lease: Option<(u64, Micros)>,
    sent: VecDeque<Request>,
    replies: Vec<(Request, Reply)>,
    /// Decided by `DECR`, by memory, by script.
    pub(super) decided: [u32; 3],
    /// Tokens given, at which instant.
    admitted: Vec<(u64, u64)>,
    /// The longest way of a bare command, in µs.
    pub(super) late: u64,
    /// The most tokens on their way by bare commands at once.
    pub(super) together: u64,
}

// === impl World ===

impl World {
    pub(super) fn new(rate: Rate, capacity: u64, tick: u64, fast: i64) -> Self {
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
            in_hand: Default::default(),
            fast,
            returned: false,
            filled: false,
            lease: None,
            sent: VecDeque::new(),
            replies: Vec::new(),
            decided: [0; 3],
            admitted: Vec::new(),
            late: 0,
            together: 0,
        }
    }

    pub(super) fn leased(self, max: u64, ttl: Micros) -> Self {
        Self { lease: Some((max, ttl)), ..self }
    }

    pub(super) fn take(&mut self, step: Step) {
        match step {
            Step::Pass(thousandths) => self.now += 1 + self.terms.time_of(thousandths) / 1_000,
            Step::Wait(thousandths) => self.now += self.record.tick * thousandths / 1_000,
            Step::Refill => self.refill(),
            Step::Rival(count) => self.rival(count),
            Step::Ask(worker, count) => self.ask(worker, count, 1),
            Step::Together(worker, takes) => self.ask(worker, 1, takes),
            Step::Crowd(worker, takes) => self.crowd(worker, takes),
            Step::Spend(worker, takes) => self.spend(worker, takes),
            Step::PutBack(worker) => self.put_back(worker),
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
            // Who is denied asks again within a second, in case somebody puts tokens back.
            if self.fast == 0 && !self.returned {
                let truth = settle(&self.record, &mut self.bucket.clone(), Operation::Peek(count), self.now);
                assert_eq!(truth.verdict, Verdict::Denied, "{denial:?} for {count}, in truth {truth:?}");
            }
            self.decided[1] += 1;
            return;
        }
        let bare = count == 1 && known.below_full(takes, asked, false);
        self.send(worker, asked, count.max(takes), 0, bare);
    }

    fn crowd(&mut self, worker: usize, takes: u64) {
        let asked = Asked { count: 1, sent: self.clock(), terms: self.terms, epoch: 0 };
        let known = self.workers[worker];
        if known.denial(asked).is_none() {
            let most = self.lease.map_or_else(|| known.in_hand(self.terms), |(max, _)| max);
            let ahead = most.saturating_sub(self.in_hand[worker].tokens);
            let bare = known.below_full(takes + ahead, asked, ahead > 0);
            self.send(worker, asked, takes, ahead, bare);
        }
    }

    fn send(&mut self, worker: usize, asked: Asked, tokens: u64, ahead: u64, bare: bool) {
        self.decided[if bare { 0 } else { 2 }] += 1;
        let way = if bare { Way::Bare } else { Way::Script };
        self.sent.push_back(Request { worker, asked, tokens, ahead, way, sent: self.now });
        let bare = |request: &&Request| request.way == Way::Bare;
        let under_way = self.sent.iter().filter(bare).map(|request| request.tokens + request.ahead).sum();
        self.together = self.together.max(under_way);
    }

    fn spend(&mut self, worker: usize, takes: u64) {
        let (clock, hand) = (self.clock(), &mut self.in_hand[worker]);
        let spent = takes.min(hand.tokens);
        if spent > 0 && clock < hand.until {
            hand.tokens -= spent;
            if self.lease.is_none() {
                self.late = self.late.max(self.now - hand.since);
            }
            self.admitted.push((self.now, spent));
        }
    }

    fn put_back(&mut self, worker: usize) {
        let asked = Asked { count: 1, sent: self.clock(), terms: self.terms, epoch: 0 };
        let InHand { tokens, until, sound_until, since } = self.in_hand[worker];
        if tokens > 0 && asked.sent >= until {
            self.in_hand[worker].tokens = 0;
            let known = std::mem::take(&mut self.workers[worker]);
            let full_at = known.full_in_redis(self.terms);
            if self.lease.is_some() && (full_at.is_none() || asked.sent >= sound_until) {
                return;
            }
            let way = Way::Back(since, full_at.filter(|_| self.lease.is_some()));
            self.sent.push_back(Request { worker, asked, tokens, ahead: 0, way, sent: self.now });
        }
    }

    fn arrive(&mut self) {
        let Some(request) = self.sent.pop_front() else { return };
        let Request { asked, tokens, ahead, .. } = request;
        self.returned |= matches!(request.way, Way::Back(..));
        match request.way {
            Way::Back(_, Some(full_at)) => {
                let found = put_back(&self.record, &mut self.bucket, tokens, full_at, self.now);
                self.stray = 0;
                self.filled |= self.bucket.is_none() || found.headroom == 0;
            }
            Way::Back(since, None) => {
                self.late = self.late.max(self.now - since);
                self.settle(Operation::Refund(tokens));
                self.filled |= self.bucket.is_none();
            }
            Way::Script => {
                let share = Operation::Share(tokens + ahead);
                let settled = self.settle(if asked.count == 1 { share } else { Operation::Take(tokens) });
                self.admit(settled.granted.min(tokens));
                self.replies.push((Request { sent: self.now, ..request }, Reply::Settled(settled)));
            }
            Way::Bare => self.arrive_bare(request),
        }
    }

    fn arrive_bare(&mut self, request: Request) {
        let Request { asked, tokens, ahead, .. } = request;
        let late = self.now - request.sent;
        assert!(late > 0 || self.bucket.is_some() || self.filled, "a bare command finds its counter");
        self.late = self.late.max(late);
        let mut left = 0;
        for _ in 0..tokens + ahead {
            left = decrement(&mut self.bucket, &mut self.stray);
        }
        let missing = left.min(0).unsigned_abs().min(tokens + ahead);
        let granted = tokens + ahead - missing;
        self.admit(granted.min(tokens));
        if left >= 0 {
            self.replies.push((Request { sent: self.now, ..request }, Reply::Left(left as u64, ahead)));
            return;
        }
        // It was empty, or has become full on the way: the worker settles it.
        self.workers[request.worker] = Known::default();
        if granted < tokens {
            let asked = Asked { sent: self.clock(), ..asked };
            let (tokens, way) = (tokens - granted, Way::Script);
            self.sent.push_back(Request { asked, tokens, ahead: 0, way, ..request });
        } else {
            self.keep(request.worker, granted - tokens, asked.sent, self.now);
        }
    }

    /// Keeps what was taken ahead, at `since`, by what was asked at `sent`.
    fn keep(&mut self, worker: usize, ahead: u64, sent: Micros, since: u64) {
        let now = self.clock();
        let (hand, known) = (self.in_hand[worker], self.workers[worker]);
        if ahead == 0 {
            return;
        }
        let mut taken = match self.lease {
            Some((_, ttl)) => {
                let full = known.lent_until(ahead, self.terms);
                InHand { tokens: ahead, until: full.min(sent + ttl), sound_until: full, since }
            }
            None => InHand {
                tokens: ahead,
                until: now + 2_000 + now.saturating_sub(sent),
                sound_until: Micros::MAX,
                since,
            },
        };
        if hand.tokens > 0 {
            taken.tokens += hand.tokens;
            taken.since = hand.since.min(since);
            if self.lease.is_some() {
                taken.until = hand.until.min(taken.until);
                taken.sound_until = hand.sound_until.min(taken.sound_until);
            }
        }
        self.in_hand[worker] = taken;
    }

    fn learn(&mut self, which: usize) {
        let (request, reply) = self.replies.swap_remove(which);
        let (received, sent) = (self.clock(), request.asked.sent);
        let known = &mut self.workers[request.worker];
        match reply {
            Reply::Left(left, ahead) => {
                known.taken(left, request.tokens + ahead, request.asked, received);
                self.keep(request.worker, ahead, sent, request.sent);
            }
            Reply::Settled(settled) if settled.verdict != Verdict::ExceedsCapacity => {
                *known = Known::learned(&settled, request.asked, received);
                let ahead = settled.granted.saturating_sub(request.tokens);
                self.keep(request.worker, ahead, sent, request.sent);
            }
            Reply::Settled(_) => {}
        }
    }

    fn rival(&mut self, count: u64) {
        let settled = self.settle(Operation::Take(count));
        self.admit(settled.granted);
    }

    fn admit(&mut self, tokens: u64) {
        if tokens > 0 {
            self.admitted.push((self.now, tokens));
        }
    }

    fn settle(&mut self, operation: Operation) -> Settled {
        self.stray = 0;
        settle(&self.record, &mut self.bucket, operation, self.now)
    }

    pub(super) fn given(&self) -> u64 {
        self.admitted.iter().map(|(_, tokens)| tokens).sum()
    }

    /// Law 1: whatever window is looked at, it has no more than capacity, rate and a tick's credit allow, and what came
    /// while a command was late. `DECRBY` by several workers at once counts as late by what they take together.
    pub(super) fn assert_never_over(&self) {
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
