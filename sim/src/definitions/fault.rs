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
    /// A change brings the end nearer that a renewal has brought meanwhile.
    Shortens,
    /// The record of a limit tells an end that is too late.
    EndsLate,
    /// A renewal does not move the end in the record.
    RenewalLost,
    /// A change is made after the end.
    MadeAfterEnd,
    /// A change fills buckets.
    FillsOnChange,
    /// There is room for one definition too many.
    OneTooMany,
}

// === impl DefinitionFault ===

impl DefinitionFault {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::TakesFromOwner,
        Self::TakesByConfig,
        Self::TakesFromConfig,
        Self::Shortens,
        Self::EndsLate,
        Self::RenewalLost,
        Self::MadeAfterEnd,
        Self::FillsOnChange,
        Self::OneTooMany,
    ];

    pub(super) const fn planted(self) -> Planted {
        match self {
            Self::TakesFromOwner => Planted::Script("if held and held ~= owner then", "if false then"),
            Self::TakesByConfig => Planted::Script("type(is_defined) == 'string'", "false"),
            Self::TakesFromConfig => Planted::Script("return {3, now,", "local _ = {3, now,"),
            Self::Shortens => Planted::Script(
                "math.max(is_sound(held, 0) and held or 0, tonumber(given.expires))",
                "tonumber(given.expires)",
            ),
            Self::EndsLate => Planted::Script("'expires', whole(ends))", "'expires', whole(ends + 5000000))"),
            Self::RenewalLost => Planted::Script(
                "elseif not (held < 2 ^ 53 and held >=",
                "elseif false and not (held < 2 ^ 53 and held >=",
            ),
            Self::MadeAfterEnd => Planted::Script("if until_ <= now then", "if false then"),
            Self::FillsOnChange => Planted::Script("if change == 'reset' then", "if true then"),
            Self::OneTooMany => Planted::Script(">= tonumber(ARGV[5]) then", "> tonumber(ARGV[5]) then"),
        }
    }
}
