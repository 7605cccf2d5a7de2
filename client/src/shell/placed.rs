//! The bucket of a key's takes, where keys have plans.

use std::sync::Arc;

use topup_wire::limit::Assigned;

use super::BucketEntry;
use crate::machine::Micros;

/// The bucket that the takes of a key are for.
#[derive(Clone, Debug, Default)]
pub(crate) enum Place {
    /// This one.
    #[default]
    Here,
    /// The bucket of the key's plan.
    Plan(Arc<BucketEntry>),
    /// None: all takes are allowed.
    Exempt,
    /// None: all takes are denied, until this instant of Redis `TIME` in µs if it is known.
    Denied(Option<u64>),
}

/// The place of a key's takes, and what it rests on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placed {
    /// `Handle::plan_stamp` when it was found.
    pub(crate) stamp: u64,
    /// The instant at which the key may get another place.
    pub(crate) valid_until: Micros,
    pub(crate) place: Place,
    /// The assignments by hand and by the source; `None` if there are none.
    pub(crate) assigned: Option<Arc<[Option<Assigned>; 2]>>,
    /// The version of all assignments as of which they were known; 0 if they were never asked for.
    pub(crate) as_of: u64,
    /// The instant of the last change of the key's plan that has been made.
    pub(crate) moved: u64,
}

// === impl Place ===

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Here, Self::Here) | (Self::Exempt, Self::Exempt) => true,
            (Self::Plan(one), Self::Plan(other)) => Arc::ptr_eq(one, other),
            (Self::Denied(one), Self::Denied(other)) => one == other,
            _ => false,
        }
    }
}
