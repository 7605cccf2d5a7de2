//! The surroundings of workers: the network, the daemons, and mishaps.

use super::promise::Promise;

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
