//! Mistakes in plans of keys, which the laws find.

use crate::clients::Planted;

/// A mistake to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPlanFault {
    /// One client never hears of assignments.
    NeverLooks,
    /// Assignments have no end.
    EndIgnored,
    /// A key's bucket under its new plan is as it is found: full.
    FilledByChange,
    /// Every client moves the tokens of a key.
    MovedByEach,
    /// An assignment is in force before clients can know it.
    AtOnce,
    /// A config is in force before clients can know it.
    ConfigAtOnce,
    /// Redis forgets the assignments before the last change.
    ChainForgotten,
    /// Redis forgets the tables before the last change.
    TablesForgotten,
    /// The mark does not tell where the tokens are.
    MarkStays,
    /// Debt stays in the bucket of the plan before.
    DebtLeft,
    /// A change leaves no tokens.
    NoneMoved,
    /// The bucket of a key's new plan keeps the part of a token that it had.
    PartKept,
    /// Redis forgets assignments that tell where an exempt key's tokens are.
    ForgottenEarly,
}

// === impl KeyPlanFault ===

impl KeyPlanFault {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::NeverLooks,
        Self::EndIgnored,
        Self::FilledByChange,
        Self::MovedByEach,
        Self::AtOnce,
        Self::ConfigAtOnce,
        Self::ChainForgotten,
        Self::TablesForgotten,
        Self::MarkStays,
        Self::DebtLeft,
        Self::NoneMoved,
        Self::PartKept,
        Self::ForgottenEarly,
    ];

    pub(super) const fn planted(self) -> Planted {
        match self {
            Self::NeverLooks => Planted::Unheard("topup:{topup}:assigned"),
            Self::EndIgnored => Planted::Script("ends ~= '' and '~' .. ends or ''", "''"),
            Self::FilledByChange => Planted::Script("elseif goal < own then", "elseif false then"),
            Self::MovedByEach => Planted::Script("redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])", ""),
            Self::AtOnce => Planted::Script("at, shape = now + PLANS_AHEAD", "at, shape = now"),
            Self::ConfigAtOnce => {
                Planted::Script("'plans_at', whole(now + PLANS_AHEAD)", "'plans_at', whole(now)")
            }
            Self::ChainForgotten => Planted::Script("past_of(held[i])", "''"),
            Self::TablesForgotten => Planted::Script("'plans_past', table.concat(past)", "'plans_past', ''"),
            Self::MarkStays => Planted::Script("KEYS[1], ARGV[3], 'PX'", "KEYS[1], '1 user', 'PX'"),
            Self::DebtLeft => Planted::Script("if goal < math.min(0, own) then", "if false then"),
            Self::PartKept => Planted::Script("if own >= 0 and in_parts then", "if false then"),
            Self::ForgottenEarly => {
                Planted::Script("since = now - tonumber(ARGV[5])", "since = now - tonumber(ARGV[5]) / 2")
            }
            Self::NoneMoved => Planted::Script("local goal =", "tokens = math.min(0, tokens) local goal ="),
        }
    }
}
