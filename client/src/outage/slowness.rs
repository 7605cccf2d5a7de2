//! Notices that Redis is slow, though not away.

use crate::machine::Micros;

/// Polls in a row that begin or end a slow time: those of a second.
const IN_A_ROW: u32 = 4;

/// Whether replies to control polls are slow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slowness {
    is_slow: bool,
    /// Polls in a row that say otherwise.
    otherwise: u32,
}

// === impl Slowness ===

impl Slowness {
    /// Records a reply that took `took` µs, where more than `bound` is slow. Returns whether Redis is slow, if that has
    /// just changed.
    pub(crate) fn note(&mut self, took: Micros, bound: Micros) -> Option<bool> {
        if (took > bound) == self.is_slow {
            self.otherwise = 0;
            return None;
        }
        self.otherwise += 1;
        if self.otherwise < IN_A_ROW {
            return None;
        }
        *self = Self { is_slow: !self.is_slow, otherwise: 0 };
        Some(self.is_slow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_time_begins_and_ends_with_a_second_of_polls() {
        let mut slowness = Slowness::default();
        let mut note = |took| slowness.note(took, 50);
        assert_eq!([60, 60, 60, 10, 60, 60, 60].map(&mut note), [None; 7], "one fast reply among them");
        assert_eq!([60, 60, 10, 10, 10, 60, 10, 10, 10].map(&mut note), {
            let mut told = [None; 9];
            told[0] = Some(true);
            told
        });
        assert_eq!(note(50), Some(false));
    }
}
