//! Plans of runs: terms, workers, traffic, delays and mishaps.

use std::time::Duration;

use topup_wire::{
    bucket::Pace,
    limit::{
        Algorithm, Capacity, Lease, Limit, OnChange, Percent, Rate, Rollout, Schedule, Shards, Supply, Terms,
    },
};

/// µs of a second.
pub const SECOND: u64 = 1_000_000;

/// The events of one run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where every random number of the run comes from.
    pub seed: u64,
    /// Processes that take.
    pub workers: usize,
    /// Buckets of the limit.
    pub buckets: usize,
    /// The terms to begin with.
    pub terms: Promise,
    /// Lease of the limit: most tokens, and µs.
    pub lease: Option<(u64, u64)>,
    /// Effect of a change of terms on tokens.
    pub on_change: OnChange,
    /// µs of traffic.
    pub lasts: u64,
    /// The callers.
    pub traffic: Vec<Stream>,
    /// Delays and losses of commands.
    pub network: Network,
    /// Most error of workers' clocks, in parts per million either way.
    pub drift: u64,
    /// The daemons.
    pub daemons: Daemons,
    /// Mishaps and their instants.
    pub mishaps: Vec<(u64, Mishap)>,
    /// Changes of terms that the record tells ahead, and their instants in order.
    pub schedule: Vec<(u64, Promise)>,
    /// Whether callers leave before they are answered.
    pub restless: bool,
    /// Whether one bucket is asked above its rate all the time and nothing disturbs: then law 2 is held.
    pub steady: bool,
}

/// A capacity and a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Most tokens in a bucket.
    pub capacity: u64,
    /// Tokens in each interval.
    pub tokens: u64,
    /// The interval, in µs.
    pub interval: u64,
}

/// Callers of one kind. Gaps are means, in µs.
#[derive(Clone, Copy, Debug)]
pub enum Stream {
    /// Takes of up to `most` tokens, one after the other, by any worker.
    Takes {
        /// Between two of them.
        gap: u64,
        /// Most tokens of one.
        most: u64,
    },
    /// Every worker takes one by one, all within `spread` µs.
    Bursts {
        /// Between two bursts.
        gap: u64,
        /// Takes of each worker.
        takes: u64,
        /// µs they are spread over.
        spread: u64,
    },
    /// Many tasks of one worker ask at one instant, and again and again for some ms.
    Crowds {
        /// Between two crowds.
        gap: u64,
        /// Tasks.
        size: u64,
        /// µs they stay.
        stays: u64,
    },
    /// Callers that wait for their tokens.
    Waiters {
        /// Between two of them.
        gap: u64,
        /// Most tokens of one.
        most: u64,
        /// The longest they wait, in µs.
        patience: u64,
    },
    /// Tokens are given back.
    Refunds {
        /// Between two refunds.
        gap: u64,
        /// Most tokens of one.
        most: u64,
    },
    /// Buckets are filled.
    Resets {
        /// Between two resets.
        gap: u64,
    },
    /// One worker takes many, another gives most of them back, a third takes a few, and the first comes back.
    Comebacks {
        /// Between two of them.
        gap: u64,
        /// Most tokens that the first takes.
        most: u64,
    },
    /// One caller asks at one instant.
    Once {
        /// The instant.
        at: u64,
        /// The worker.
        worker: usize,
        /// The request.
        ask: Ask,
    },
}

/// A caller's request.
#[derive(Clone, Copy, Debug)]
pub enum Ask {
    /// A take: tokens, and the longest wait for them in µs.
    Take(u64, u64),
    /// To give back so many; all that are missing, where none are said.
    PutIn(Option<u64>),
}

/// The way between workers and Redis. Times in µs.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// From a dispatch to the writing of its command.
    pub pipeline: (u64, u64),
    /// One way.
    pub trip: (u64, u64),
    /// Late commands of 10,000.
    pub late: u64,
    /// Most lateness, in µs.
    pub late_by: u64,
    /// Commands of 10,000 that end without a reply, carried out or not.
    pub lost: u64,
    /// Control polls of 100 that get no reply.
    pub polls_lost: u64,
}

/// The daemons.
#[derive(Clone, Debug)]
pub struct Daemons {
    /// How many.
    pub many: u64,
    /// From one pass to the next, in µs.
    pub pass: (u64, u64),
    /// While it is dead, nothing is topped up: from and to, in µs.
    pub dead: Vec<(u64, u64)>,
}

/// Something that happens beside.
#[derive(Clone, Copy, Debug)]
pub enum Mishap {
    /// The clock of Redis steps, in µs.
    Step(i64),
    /// All keys are gone.
    Flush,
    /// A replica that has not heard of the last µs takes over.
    Failover(u64),
    /// New terms, and for how many µs they should have applied by then. 0: from their publication on.
    Change(Promise, u64),
}

// === impl Promise ===

impl Promise {
    /// A capacity, and a rate of `tokens` every `interval` µs.
    pub const fn new(capacity: u64, tokens: u64, interval: u64) -> Self {
        Self { capacity, tokens, interval }
    }

    /// µs in which so many tokens come.
    pub fn time_of(self, tokens: u64) -> u64 {
        let micros = u128::from(tokens) * u128::from(self.interval) / u128::from(self.tokens);
        u64::try_from(micros).unwrap_or(u64::MAX)
    }

    /// µs for each token, at least one.
    pub fn each(self) -> u64 {
        self.time_of(1).max(1)
    }

    /// Whether its buckets at rest are kept as numbers.
    #[allow(clippy::expect_used, reason = "plans are generated from terms that are right")]
    pub fn rests_as_number(self) -> bool {
        let rate = Rate::new(self.tokens, Duration::from_micros(self.interval)).expect("a rate");
        let (n, p) = rate.lowest_terms();
        topup_wire::scripts::rests_as_number(self.capacity, Pace { n, p })
    }

    /// The limit that promises this.
    ///
    /// # Panics
    /// When no limit can.
    #[allow(clippy::expect_used, reason = "plans are generated from terms that are right")]
    pub fn limit(self, lease: Option<(u64, u64)>, on_change: OnChange) -> Limit {
        let rate = Rate::new(self.tokens, Duration::from_micros(self.interval)).expect("a rate");
        let lease = lease.map(|(max, ttl)| Lease::new(max, Duration::from_micros(ttl)).expect("a lease"));
        Limit {
            name: "mail".parse().expect("a name"),
            keyed: true,
            algorithm: Algorithm::TokenBucket,
            terms: Terms {
                capacity: Capacity::new(self.capacity).expect("a capacity"),
                supply: Supply::Rate(rate),
            },
            catch_up: true,
            on_change,
            tick: Duration::from_millis(100),
            shards: Shards::ONE,
            lease,
            rollout: Rollout::default(),
            candidate: false,
            on_outage: None,
            compared: Percent::NONE,
            schedule: Schedule::NONE,
            top_keys: topup_wire::limit::TopKeys::NONE,
            plans: topup_wire::limit::Plans::default(),
            penalty: None,
        }
    }
}

// === impl Network ===

impl Network {
    /// A network that is fast and loses nothing.
    pub const CALM: Self =
        Self { pipeline: (0, 60), trip: (40, 300), late: 0, late_by: 0, lost: 0, polls_lost: 0 };
}

// === impl Daemons ===

impl Daemons {
    /// One that lives.
    pub const fn one() -> Self {
        Self { many: 1, pass: (50_000, 1_700_000), dead: Vec::new() }
    }

    /// Whether it is alive at an instant.
    pub fn alive(&self, at: u64) -> bool {
        self.many > 0 && !self.dead.iter().any(|(from, to)| (*from..*to).contains(&at))
    }
}

// === impl Plan ===

impl Plan {
    /// One bucket, workers on a calm network, and no traffic yet.
    pub fn calm(seed: u64, workers: usize, terms: Promise) -> Self {
        Self {
            seed,
            workers,
            buckets: 1,
            terms,
            lease: None,
            on_change: OnChange::Keep,
            lasts: 10 * SECOND,
            traffic: Vec::new(),
            network: Network::CALM,
            drift: 0,
            daemons: Daemons::one(),
            mishaps: Vec::new(),
            schedule: Vec::new(),
            restless: false,
            steady: false,
        }
    }

    /// All terms of the run, those to begin with first.
    pub fn promises(&self) -> impl Iterator<Item = Promise> + '_ {
        let changed = self.mishaps.iter().filter_map(|(_, mishap)| match mishap {
            Mishap::Change(terms, _) => Some(*terms),
            _ => None,
        });
        let scheduled = self.schedule.iter().map(|(_, terms)| *terms);
        std::iter::once(self.terms).chain(changed).chain(scheduled)
    }
}
