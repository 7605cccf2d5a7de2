//! Hash slots of a cluster.

use crc16::{State, XMODEM};

/// Number of hash slots of a cluster.
pub const HASH_SLOTS: u16 = 16_384;

/// The hash slot of a key. Keys of one hash tag are in one hash slot, and a hash slot is on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HashSlot(u16);

// === impl HashSlot ===

impl HashSlot {
    /// The hash slot of `key`. The text between the first `{` and the next `}` decides, if there is any; else all of
    /// it.
    pub fn of(key: &[u8]) -> Self {
        let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
            let rest = &key[open + 1..];
            let length = rest.iter().position(|byte| *byte == b'}')?;
            (length > 0).then(|| &rest[..length])
        });
        Self(State::<XMODEM>::calculate(tag.unwrap_or(key)) % HASH_SLOTS)
    }

    /// The hash slot of this number; `None` if there is none.
    pub(crate) fn numbered(number: i64) -> Option<Self> {
        u16::try_from(number).ok().filter(|number| *number < HASH_SLOTS).map(Self)
    }

    /// Its number.
    pub const fn number(self) -> u16 {
        self.0
    }

    pub(crate) fn index(self) -> usize {
        self.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replies of `CLUSTER KEYSLOT`.
    const KNOWN: [(&str, u16); 8] = [
        ("", 0),
        ("123456789", 12_739),
        ("foo", 12_182),
        ("topup:{topup}:generation", 2_191),
        ("topup:{user:3}:b:alice", 2_648),
        ("{}foo", 9_500),
        ("foo{{bar}}zap", 4_015),
        ("foo{bar}{zap}", 5_061),
    ];

    #[test]
    fn slots_are_those_of_redis() {
        for (key, hash_slot) in KNOWN {
            assert_eq!(HashSlot::of(key.as_bytes()).number(), hash_slot, "{key:?}");
        }
    }
}
