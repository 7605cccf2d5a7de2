//! How far a limit is in force: for all, for some, or only to see what it would do.

use std::str::FromStr;

use super::UnknownWord;
use crate::fnv::fnv_1a;

/// What a limit does to those who ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A denial holds.
    #[default]
    Enforce,
    /// Buckets are taken from as ever, and a denial stops nobody.
    Shadow,
    /// Nobody asks: all is allowed.
    Off,
}

/// A share of all keys, in hundredths: 0 to 100. A larger share has all the keys of a smaller one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(u8);

/// A share that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a share is 0 to 100 percent, not {0}")]
pub struct PercentError(pub u64);

/// For whom a limit is in force. Unless said otherwise, for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rollout {
    /// What it does to those for whom it is in force.
    pub mode: Mode,
    /// The keys for which `Enforce` is meant; for the others it is `Shadow`.
    pub enforced: Percent,
}

// === impl Mode ===

impl Mode {
    /// Every mode there is.
    pub const ALL: [Self; 3] = [Self::Enforce, Self::Shadow, Self::Off];

    /// The word in config, records and status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Shadow => "shadow",
            Self::Off => "off",
        }
    }
}

impl FromStr for Mode {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        let known = Self::ALL.into_iter().find(|mode| mode.as_str() == word);
        known.ok_or_else(|| UnknownWord::new(word, Self::ALL.map(Self::as_str)))
    }
}

// === impl Percent ===

impl Percent {
    /// No key.
    pub const NONE: Self = Self(0);
    /// Every key.
    pub const ALL: Self = Self(100);

    /// So many hundredths.
    ///
    /// # Errors
    /// When `percent` is above 100.
    pub fn new(percent: u64) -> Result<Self, PercentError> {
        match u8::try_from(percent) {
            Ok(percent @ 0..=100) => Ok(Self(percent)),
            _ => Err(PercentError(percent)),
        }
    }

    /// How many hundredths.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Whether `key` is among them: the same for every worker, at any time.
    pub fn has(self, key: &str) -> bool {
        let hash = fnv_1a(key);
        // Both halves: by the lower bits alone, all keys of a shard could be in or out.
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
    /// What the limit does to `key`; `None` is whoever asks a limit that has one bucket for all.
    pub fn mode_for(&self, key: Option<&str>) -> Mode {
        match self.mode {
            Mode::Enforce if key.is_some_and(|key| !self.enforced.has(key)) => Mode::Shadow,
            mode => mode,
        }
    }

    /// Whether it is in force for all, as a limit is that says nothing of it.
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
