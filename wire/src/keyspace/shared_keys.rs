//! The keys that all limits share.

use crate::{assignments::Shape, limit::LimitName, namespace::Namespace};

/// Gives [`Namespace`] the keys that all limits share, each under its own name.
macro_rules! shared_keys {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        impl Namespace {
            $($(#[$doc])* pub fn $name(self) -> String { self.shared(stringify!($name)) })+
        }
    };
}

// === impl Namespace ===

shared_keys! {
    /// Published limits and their shards.
    limits,
    /// Counts publications; workers compare it.
    generation,
    /// Daemons alive.
    daemons,
    /// The [schema](crate::schema) of all these keys.
    schema,
    /// Claims of configs to limits.
    claims,
    /// Last heartbeats of configs.
    owners,
    /// Workers alive that may decide by themselves while Redis is away.
    workers,
    /// Paused limits and keys.
    pauses,
    /// The limits that have changed lately.
    changes,
    /// Owners of the limits that code has defined.
    defined,
    /// The ends of these definitions.
    ends,
    /// The version of all assignments, and the arrangement of each limit's.
    assigned,
    /// The news that daemons tell of the sources of limits.
    sources,
}

impl Namespace {
    /// The last changes of assignments.
    pub(crate) fn assignment_log(self) -> String {
        self.shared("assignments")
    }

    /// One hash of the assignments of the limit `name`.
    pub(crate) fn assignment_hash(self, name: &LimitName, shape: &Shape, hash: u64) -> String {
        self.shared(&format!("assigned:{name}:{}:{hash}", shape.number))
    }

    /// The keys of the limit `name` that may be assigned.
    pub(crate) fn assignment_filter(self, name: &LimitName, shape: &Shape) -> String {
        self.shared(&format!("assigned:{name}:{}:filter", shape.number))
    }

    /// The last move of a key's tokens to another plan: its instant, and the limit or plan whose bucket has them since.
    pub(crate) fn plan_mark(self, name: &LimitName, key: &str) -> String {
        self.shared(&format!("moved:{name}:{key}"))
    }

    /// Whether a worker is moving a key's tokens to another plan, in steps. No limit has such a name.
    pub(crate) fn plan_turn(self, name: &LimitName, key: &str) -> String {
        self.shared(&format!("moved:!{name}:{key}"))
    }

    /// Details of the daemon `id`.
    pub fn daemon_details(self, id: &str) -> String {
        self.shared(&format!("daemon:{id}"))
    }

    fn shared(self, what: &str) -> String {
        format!("{self}:{{{self}}}:{what}")
    }
}
