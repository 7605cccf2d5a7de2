//! Plans of runs: terms, workers, traffic, delays and mishaps.

mod promise;
mod stream;
mod surroundings;

use topup_wire::limit::OnChange;

pub use self::{
    promise::Promise,
    stream::{Ask, Stream},
    surroundings::{Daemons, Mishap, Network},
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
    /// The most debt after a charge.
    pub max_debt: u64,
    /// Whether callers leave before they are answered.
    pub restless: bool,
    /// Whether one bucket is asked above its rate all the time and nothing disturbs: then law 2 is held.
    pub steady: bool,
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
            max_debt: 0,
            restless: false,
            steady: false,
        }
    }

    /// The longest wait of its callers, in µs.
    pub(crate) fn patience(&self) -> u64 {
        self.traffic.iter().map(Stream::patience).max().unwrap_or(0)
    }

    /// The longest time from a reservation to its tokens, in µs; 0 if no caller waits.
    pub(crate) fn longest_delay(&self) -> u64 {
        if self.patience() == 0 {
            return 0;
        }
        self.promises().map(Promise::longest_delay).max().unwrap_or(0)
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
