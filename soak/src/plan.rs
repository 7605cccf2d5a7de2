//! A plan: the limits, the processes and the faults of one run. A pure function of the seed.

use std::{fmt, time::Duration};

use topup_lab::Random;

use crate::limits::{LIMITS, Limit};

/// Length of the time with faults, in ms.
const FAULTS: u64 = 4_000;
/// Time before the first fault, in ms.
const LEAD: u64 = 600;
/// Most faults of a run.
const MOST: usize = 9;

/// One run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The number that decides everything below.
    pub seed: u64,
    /// Daemon processes.
    pub daemons: usize,
    /// Workers. The first is a thread of this process, the others are processes.
    pub workers: usize,
    /// Whether Redis has all its data after a kill.
    pub keeps_data: bool,
    /// The limits, by their places in [`LIMITS`].
    pub limits: Vec<usize>,
    /// The faults, in order of their beginning.
    pub faults: Vec<Fault>,
    /// Length of the time with faults.
    pub length: Duration,
}

/// A fault, from `at` until `at + lasts`, in ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its beginning.
    pub at: u64,
    /// Its length. Some have none.
    pub lasts: u64,
    /// The fault.
    pub kind: Kind,
}

/// The effect of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The way between a process and Redis; that of all processes for [`Target::Redis`].
    Network(Target, Network),
    /// KILL, and a new start at the end.
    Kill(Target),
    /// TERM, and a new start at the end.
    Term(Target),
    /// STOP, and CONT at the end.
    Stop(Target),
    /// SCRIPT FLUSH.
    FlushScripts,
    /// A config with other terms, until the end.
    Reload,
    /// A config that does not parse, until the end.
    BadReload,
}

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A daemon, by its number.
    Daemon(usize),
    /// A worker, by its number.
    Worker(usize),
    /// The Redis.
    Redis,
}

/// A fault of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Everything comes so many ms later, either way.
    Delay(u64),
    /// Nothing comes through. It comes afterwards.
    Hang,
    /// Answers are lost. The connections are cut at the end.
    LoseAnswers,
    /// Connections stay open and are dead. They are cut at the end.
    HalfOpen,
    /// Connections are cut once.
    Cut,
    /// Connections are cut within every so manieth answer.
    TearAnswers(u64),
    /// Connections are cut within every so manieth piece of data.
    Tear(u64),
    /// Answers come in pieces of so many bytes, 1 ms apart.
    Drip(usize),
}

// === impl Plan ===

impl Plan {
    /// The plan of `seed`.
    pub fn of(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut plan = Self {
            seed,
            daemons: 1 + random.below(3),
            workers: 2 + random.below(2),
            keeps_data: random.below(4) > 0,
            limits: Vec::new(),
            faults: Vec::new(),
            length: Duration::from_millis(FAULTS),
        };
        // Some limits have a ledger of every token; three others, by turns.
        let ledgers = (0..LIMITS.len()).filter(|place| LIMITS[*place].has_ledger());
        let mut others: Vec<usize> = (0..LIMITS.len()).filter(|place| !LIMITS[*place].has_ledger()).collect();
        plan.limits = ledgers.collect();
        plan.limits.extend((0..3).map(|_| others.swap_remove(random.below(others.len()))));
        // Half of the plans have only faults that cost no token beyond law 1.
        let is_mild = random.below(2) == 0;
        for _ in 0..3 + random.below(MOST - 2) {
            let kind = plan.kind(&mut random, is_mild);
            let lasts = kind.length(&mut random);
            let at = LEAD + random.below((FAULTS - LEAD) as usize) as u64;
            let fault = Fault { at, lasts: lasts.min(FAULTS - at), kind };
            if !plan.faults.iter().any(|other| other.conflicts_with(&fault)) {
                plan.faults.push(fault);
            }
        }
        plan.faults.sort_by_key(|fault| fault.at);
        plan
    }

    /// Three daemons of which a random one is killed every `every`, and is back at the next kill.
    pub fn kills(seed: u64, length: Duration, every: Duration) -> Self {
        let mut random = Random::new(seed);
        let (length_ms, every) = (length.as_millis() as u64, every.as_millis() as u64);
        let kill = |at| {
            let kind = Kind::Kill(Target::Daemon(random.below(3)));
            Fault { at, lasts: every * 9 / 10, kind }
        };
        let faults = (LEAD..length_ms).step_by(every as usize).map(kill).collect();
        let limits = (0..LIMITS.len()).filter(|place| LIMITS[*place].has_ledger() || *place == 0).collect();
        Self { seed, daemons: 3, workers: 3, keeps_data: true, limits, faults, length }
    }

    /// The limits.
    pub fn limits(&self) -> impl Iterator<Item = &'static Limit> {
        self.limits.iter().map(|place| &LIMITS[*place])
    }

    /// Whether Redis loses its data.
    pub fn loses_data(&self) -> bool {
        !self.keeps_data && self.faults.iter().any(|fault| fault.kind == Kind::Kill(Target::Redis))
    }

    fn kind(&self, random: &mut Random, is_mild: bool) -> Kind {
        let daemon = Target::Daemon(random.below(self.daemons));
        let worker = Target::Worker(random.below(self.workers));
        let process = Target::Worker(1 + random.below(self.workers - 1));
        let network = match random.below(8) {
            0 => Network::Delay(5 + random.below(300) as u64),
            1 => Network::Hang,
            2 => Network::LoseAnswers,
            3 => Network::HalfOpen,
            4 => Network::Cut,
            5 => Network::TearAnswers(2 + random.below(10) as u64),
            6 => Network::Tear(2 + random.below(10) as u64),
            _ => Network::Drip(1 + random.below(20)),
        };
        match (random.below(15), is_mild) {
            (0..=1, _) => Kind::Kill(daemon),
            (2, _) => Kind::Term(daemon),
            (3, _) => Kind::Stop(daemon),
            (4..=5, _) => Kind::Network(daemon, network),
            (6, _) => Kind::FlushScripts,
            (7, _) => Kind::Reload,
            (8, _) => Kind::BadReload,
            (9, _) if self.keeps_data || !is_mild => Kind::Kill(Target::Redis),
            (_, true) => Kind::Network(worker, Network::Cut),
            (10, false) => Kind::Stop(Target::Redis),
            (11, false) => Kind::Kill(process),
            (12, false) => Kind::Stop(process),
            (13, false) => Kind::Network(Target::Redis, network),
            (_, false) => Kind::Network(worker, network),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, daemons, workers, keeps_data, .. } = self;
        let data = if *keeps_data { "keeps its data" } else { "forgets its data" };
        let limits: Vec<&str> = self.limits().map(|limit| limit.name).collect();
        writeln!(
            f,
            "seed {seed}: {daemons} daemons, {workers} workers, a Redis that {data}; {}",
            limits.join(", ")
        )?;
        for Fault { at, lasts, kind } in &self.faults {
            writeln!(f, "  {at:>5} ms, for {lasts:>4} ms: {kind:?}")?;
        }
        Ok(())
    }
}

// === impl Fault ===

impl Fault {
    fn conflicts_with(&self, other: &Self) -> bool {
        let overlaps = self.at <= other.at + other.lasts && other.at <= self.at + self.lasts;
        overlaps
            && match (self.kind, other.kind) {
                (Kind::Network(one, _), Kind::Network(two, _)) => {
                    one == two || one == Target::Redis || two == Target::Redis
                }
                (Kind::Network(..), _) | (_, Kind::Network(..)) => false,
                (one, two) => one.target() == two.target(),
            }
    }
}

// === impl Kind ===

impl Kind {
    /// The process that the fault hits; none for scripts and configs.
    pub fn target(self) -> Option<Target> {
        match self {
            Self::Network(target, _) | Self::Kill(target) | Self::Term(target) | Self::Stop(target) => {
                Some(target)
            }
            Self::FlushScripts | Self::Reload | Self::BadReload => None,
        }
    }

    /// The worker whose commands the fault may make late by more than 250 ms, `Some(None)` for all workers. `None` if it
    /// makes none late. `lasts`: its duration in ms.
    pub fn late_worker(self, lasts: u64) -> Option<Option<usize>> {
        use Network::{Delay, Hang};
        let is_long = lasts > 200;
        match self {
            Self::Kill(Target::Worker(number)) => Some(Some(number)),
            Self::Stop(Target::Worker(number)) if is_long => Some(Some(number)),
            Self::Network(Target::Worker(number), Hang) if is_long => Some(Some(number)),
            Self::Network(Target::Worker(number), Delay(_)) => Some(Some(number)),
            Self::Network(Target::Redis, Hang) | Self::Stop(Target::Redis) if is_long => Some(None),
            Self::Network(Target::Redis, Delay(_)) => Some(None),
            _ => None,
        }
    }

    fn length(self, random: &mut Random) -> u64 {
        match self {
            Self::FlushScripts | Self::Network(_, Network::Cut) => 0,
            Self::Reload => 1_000 + random.below(1_500) as u64,
            _ => 50 + random.below(1_400) as u64,
        }
    }
}
