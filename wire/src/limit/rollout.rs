//! The rollout of a limit: for all keys, for some, or in shadow only.

use super::words::words;
use crate::fnv::fnv_1a;

/// The effect of a limit's denials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A denial holds.
    #[default]
    Enforce,
    /// Tokens are taken as usual, and a denial stops no take.
    Shadow,
    /// All takes are allowed, and no bucket is used.
    Off,
}

words!(Mode: Enforce = "enforce", Shadow = "shadow", Off = "off");

/// A share of all keys in percent, 0 to 100. A larger share has all keys of a smaller one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(u8);

/// A number that is no share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a share is 0 to 100 percent, not {0}")]
pub struct PercentError(pub u64);

/// The mode of a limit, and the keys for which it is enforced. The default is all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rollout {
    /// The mode.
    pub mode: Mode,
    /// The keys for which `Enforce` holds. The others are in `Shadow`.
    pub enforced: Percent,
}

// === impl Percent ===

impl Percent {
    /// No key.
    pub const NONE: Self = Self(0);
    /// Every key.
    pub const ALL: Self = Self(100);

    /// A share of `percent`.
    ///
    /// # Errors
    /// When `percent` is above 100.
    pub fn new(percent: u64) -> Result<Self, PercentError> {
        match u8::try_from(percent) {
            Ok(percent @ 0..=100) => Ok(Self(percent)),
            _ => Err(PercentError(percent)),
        }
    }

    /// The share in percent.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Whether `key` is in the share. The same for every worker, at any time.
    pub fn has(self, key: &str) -> bool {
        let hash = fnv_1a(key);
        // The lower bits find the shard. Without the upper ones, all keys of a shard could be in the share, or none.
        (hash ^ hash >> 32) % 100 < u64::from(self.0)
    }
}

impl Default for Percent {
    fn default() -> Self {
        Self::ALL
    }
}

// === impl Rollout ===

impl Rollout {
    /// The mode for `key`; `None` for the one bucket of an unkeyed limit.
    pub fn mode_for(&self, key: Option<&str>) -> Mode {
        match self.mode {
            Mode::Enforce if key.is_some_and(|key| !self.enforced.has(key)) => Mode::Shadow,
            mode => mode,
        }
    }

    /// Whether the limit is enforced for all keys, as by default.
    pub fn is_whole(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_keys_is_about_as_large_as_it_says() {
        for keys in [
            |i: u32| i.to_string(),
            |i| format!("{i}@example.com"),
            |i| format!("10.0.{}.{}", i / 256, i % 256),
        ] {
            for percent in [1, 10, 50, 99] {
                let share = Percent::new(percent).unwrap();
                let inside = (0..20_000).filter(|i| share.has(&keys(*i))).count() as f64 / 200.0;
                assert!(
                    (inside - percent as f64).abs() < 2.0,
                    "{inside} of keys like {} at {percent}",
                    keys(1)
                );
            }
        }
    }

    #[test]
    fn a_larger_share_has_all_keys_of_a_smaller_one() {
        for key in (0..1_000).map(|i| i.to_string()) {
            let inside: Vec<bool> =
                (0..=100).map(|percent| Percent::new(percent).unwrap().has(&key)).collect();
            assert!(inside.is_sorted() && !inside[0] && inside[100], "{key}");
        }
    }

    #[test]
    fn keys_outside_of_the_share_are_in_shadow() {
        let rollout = Rollout { mode: Mode::Enforce, enforced: Percent::NONE };
        assert_eq!((rollout.mode_for(Some("a")), rollout.mode_for(None)), (Mode::Shadow, Mode::Enforce));
        let off = Rollout { mode: Mode::Off, ..rollout };
        assert_eq!(off.mode_for(Some("a")), Mode::Off);
    }

    #[test]
    fn there_is_no_share_above_all() {
        assert_eq!(Percent::new(101), Err(PercentError(101)));
        assert_eq!(Percent::new(256), Err(PercentError(256)));
    }
}
