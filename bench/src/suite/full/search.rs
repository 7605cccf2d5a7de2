//! A search for the largest load that is borne.

/// Takes a second of the first step.
pub(super) const FIRST: f64 = 10_000.0;
/// Each step asks for so many times as much as the one before ...
const STEP: f64 = 1.3;
/// ... until one fails. Then the best of so many steps between the last two.
const BETWEEN: u32 = 2;
/// Far beyond what one CPU of load generators asks for.
const MOST: f64 = 1_000_000.0;

/// Looks for the largest load that is borne.
#[derive(Clone, Debug)]
pub(super) struct Search {
    /// The next load to try.
    next: f64,
    borne: f64,
    /// The smallest load that was not.
    failed: Option<f64>,
    between: u32,
    /// Whether the next load has failed before: a hiccup of this machine is no failure of a limiter.
    again: bool,
    /// Whether load generators were late with a load that was not borne.
    pub(super) generators: bool,
}

// === impl Search ===

impl Search {
    pub(super) const fn new() -> Self {
        Self { next: FIRST, borne: 0.0, failed: None, between: 0, again: false, generators: false }
    }

    /// The load to try next, unless that is enough.
    pub(super) fn next(&self) -> Option<f64> {
        let more = if self.failed.is_some() { self.between < BETWEEN && self.borne > 0.0 } else { true };
        (more && self.next <= MOST).then_some(self.next)
    }

    /// Notes its result. A load that fails is tried once more.
    pub(super) fn note(&mut self, bears: bool, late: bool) {
        self.again = !bears && !self.again;
        if self.again {
            return;
        }
        self.between += u32::from(self.failed.is_some());
        if bears {
            self.borne = self.next;
        } else {
            self.failed = Some(self.next);
            self.generators = late;
        }
        self.next = match self.failed {
            Some(failed) => (self.borne * failed).sqrt(),
            None => self.borne * STEP,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(most: f64) -> (f64, u32) {
        let (mut search, mut steps) = (Search::new(), 0);
        while let Some(rate) = search.next() {
            search.note(rate <= most, false);
            steps += u32::from(!search.again);
        }
        (search.borne, steps)
    }

    #[test]
    fn a_load_fails_when_it_fails_twice() {
        let mut search = Search::new();
        search.note(false, false);
        assert_eq!(search.next(), Some(FIRST));
        search.note(true, false);
        assert_eq!((search.borne, search.next()), (FIRST, Some(FIRST * STEP)));
    }

    #[test]
    fn the_largest_load_is_found_to_a_tenth() {
        for most in [10_000.0, 40_000.0, 123_000.0] {
            let (borne, steps) = found(most);
            assert!(borne <= most && borne > most / STEP.powf(0.3), "{borne} of {most}");
            assert!(steps < 16, "{steps}");
        }
        assert_eq!(found(0.0), (0.0, 1));
        assert!(found(f64::INFINITY).0 > MOST / STEP);
    }
}
