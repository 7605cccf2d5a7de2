//! Faults: their kinds, and the processes that they hit.

use topup_lab::Random;

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
    /// Stops a process by SIGSTOP, and continues it by SIGCONT at the end of the fault.
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

// === impl Fault ===

impl Fault {
    pub(super) fn conflicts_with(&self, other: &Self) -> bool {
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

    pub(super) fn length(self, random: &mut Random) -> u64 {
        match self {
            Self::FlushScripts | Self::Network(_, Network::Cut) => 0,
            Self::Reload => 1_000 + random.below(1_500) as u64,
            _ => 50 + random.below(1_400) as u64,
        }
    }
}
