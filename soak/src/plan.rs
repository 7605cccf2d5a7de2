//! A plan: the limits, the processes and the faults of one run. A pure function of the seed.

mod fault;

use std::{fmt, time::Duration};

use topup_lab::Random;

pub use self::fault::{Fault, Kind, Network, Target};
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
