//! The circuit breaker of one node of Redis.
//!
//! A call without a reply asks for a probe, and the probe decides. Late replies under overload therefore open no breaker.

use crate::machine::Micros;

/// Time from one probe to the next, in µs.
pub(crate) const PROBE_EVERY: Micros = 100_000;

/// A circuit breaker. While it is open, calls fail at once, and one probe after the other asks Redis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Breaker {
    is_open: bool,
    is_probing: bool,
    /// No probe begins before.
    next_probe: Micros,
}

// === impl Breaker ===

impl Breaker {
    /// Whether calls fail at once.
    pub(crate) const fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether the last call or probe had no reply.
    pub(crate) const fn is_in_doubt(&self) -> bool {
        self.is_open || self.is_probing
    }

    /// Records a call that had no reply. Returns whether the caller begins to probe.
    pub(crate) fn failed(&mut self, now: Micros) -> bool {
        let begins = !self.is_probing && now >= self.next_probe;
        self.is_probing |= begins;
        begins
    }

    /// Records the end of a probe. Returns whether another one follows, at [`next_probe`](Self::next_probe).
    pub(crate) fn probed(&mut self, answered: bool, now: Micros) -> bool {
        *self =
            Self { is_open: !answered, is_probing: !answered, next_probe: now.saturating_add(PROBE_EVERY) };
        !answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Micros = PROBE_EVERY;

    #[test]
    fn a_call_and_a_probe_without_a_reply_open_it_and_an_answered_probe_closes_it() {
        let mut breaker = Breaker::default();
        assert!(breaker.failed(0) && !breaker.is_open() && breaker.is_in_doubt(), "the probe decides");
        assert!(breaker.probed(false, 10) && breaker.is_open());
        assert!(breaker.probed(false, EVERY + 10) && breaker.is_open());
        assert!(!breaker.probed(true, 2 * EVERY) && !breaker.is_open() && !breaker.is_in_doubt());
    }

    #[test]
    fn late_replies_under_load_open_nothing_and_cost_one_probe_at_a_time() {
        let mut breaker = Breaker::default();
        let mut probes = 0;
        for now in (0..10 * EVERY).step_by(100) {
            if breaker.failed(now) {
                probes += 1;
                assert!(!breaker.failed(now), "one at a time");
                assert!(!breaker.probed(true, now + 50));
            }
            assert!(!breaker.is_open());
        }
        assert!(probes <= 10, "{probes} probes in ten intervals");
    }

    #[test]
    fn failures_while_it_is_open_begin_no_second_probe() {
        let mut breaker = Breaker::default();
        assert!(breaker.failed(0));
        breaker.probed(false, 5);
        assert!((6..20 * EVERY).step_by(1_000).all(|now| !breaker.failed(now)));
    }
}
