//! Mistakes in penalties, which the laws find.

use crate::clients::Planted;

/// A mistake to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PenaltyFault {
    /// A block begins one denied take too early.
    TooEarly,
    /// Denied takes count without end.
    TimeIgnored,
    /// Denied takes within a block count for the next one.
    CountsBlocked,
    /// All blocks take as long as the first.
    NeverGrows,
    /// No key begins anew.
    NeverForgets,
    /// A block ends half a second too early.
    EndsEarly,
    /// One client never hears of blocks.
    NeverLooks,
    /// The end by hand of a block changes nothing.
    StaysBlocked,
    /// A block whose worker had no answer is lost.
    LostWithAnswer,
    /// Redis keeps its state of a key.
    StateStays,
}

// === impl PenaltyFault ===

impl PenaltyFault {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::TooEarly,
        Self::TimeIgnored,
        Self::CountsBlocked,
        Self::NeverGrows,
        Self::NeverForgets,
        Self::EndsEarly,
        Self::NeverLooks,
        Self::StaysBlocked,
        Self::LostWithAnswer,
        Self::StateStays,
    ];

    pub(super) const fn planted(self) -> Planted {
        match self {
            Self::TooEarly => Planted::Script("if denied >= after then", "if denied >= after - 1 then"),
            Self::TimeIgnored => Planted::Script("now - since >= within", "false"),
            Self::CountsBlocked => Planted::Script("if till <= now then", "if true then"),
            Self::NeverGrows => Planted::Script("first * factor ^ math.min(blocks, 60)", "first"),
            Self::NeverForgets => Planted::Script("if anew <= now then", "if false then"),
            Self::EndsEarly => Planted::Script("now + ARGV[3])", "now + ARGV[3] - 500000)"),
            Self::NeverLooks => Planted::Unheard("topup:{topup}:pauses"),
            Self::StaysBlocked => Planted::Script("ended = redis.call('ZREM', key, member)", "ended = 0"),
            Self::LostWithAnswer => Planted::Script("elseif open > now then", "elseif false then"),
            Self::StateStays => Planted::Script("redis.call('PEXPIRE', key, math.ceil(kept / 1000))", ""),
        }
    }
}
