//! The outage policy of a limit.

use super::words::words;

/// The decision of a worker while Redis gives none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnOutage {
    /// Every take is denied.
    Deny,
    /// Every take is allowed.
    Allow,
    /// A bucket in the worker's memory decides. It has the worker's share of capacity and rate.
    Local,
}

words!(OnOutage: Deny = "deny", Allow = "allow", Local = "local");
