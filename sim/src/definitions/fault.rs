//! Mistakes in definitions, which the laws find.

use crate::clients::Planted;

/// A mistake to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionFault {
    /// Any owner changes any definition.
    TakesFromOwner,
    /// A config takes a limit that code has defined.
    TakesByConfig,
    /// Code takes a limit of a config.
    TakesFromConfig,
    /// The record of a limit tells an end that is too late.
    EndsLate,
    /// A renewal does not move the end in the record.
    RenewalLost,
    /// A change fills buckets.
    FillsOnChange,
    /// There is room for one definition too many.
    OneTooMany,
}

// === impl DefinitionFault ===

impl DefinitionFault {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::TakesFromOwner,
        Self::TakesByConfig,
        Self::TakesFromConfig,
        Self::EndsLate,
        Self::RenewalLost,
        Self::FillsOnChange,
        Self::OneTooMany,
    ];

    pub(super) const fn planted(self) -> Planted {
        match self {
            Self::TakesFromOwner => Planted::Script("if held and held ~= owner then", "if false then"),
            Self::TakesByConfig => Planted::Script("type(is_defined) == 'string'", "false"),
            Self::TakesFromConfig => Planted::Script("return {3, now,", "local _ = {3, now,"),
            Self::EndsLate => Planted::Script(
                "HSET', record, 'expires', ARGV[1])",
                "HSET', record, 'expires', ARGV[1] + 5000000)",
            ),
            Self::RenewalLost => Planted::Script(
                "if not (held < 2 ^ 53 and held >=",
                "if redis.call('PTTL', record) >= 0 and not (held < 2 ^ 53 and held >=",
            ),
            Self::FillsOnChange => Planted::Script("if change == 'reset' then", "if true then"),
            Self::OneTooMany => Planted::Script(">= tonumber(ARGV[5]) then", "> tonumber(ARGV[5]) then"),
        }
    }
}
