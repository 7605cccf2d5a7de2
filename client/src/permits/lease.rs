//! The lease of a permit, as its holder sees it. Pure: time is an argument.
//!
//! Redis counts a lease from the instant at which it carries a renewal out. The holder counts it from the sending of that
//! renewal, and a little less than its ttl, so the holder's lease ends first.

use crate::machine::Micros;

/// The two clocks may drift apart by one part in this many.
const DRIFT: Micros = 64;
/// Renewals within a ttl.
const RENEWALS: Micros = 3;

/// The state of a permit, as its holder or waiter knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lease {
    /// It waits for a place. No answer has said otherwise since the sending of the last answered poll.
    Waiting {
        /// When the last answered poll was sent.
        heard_at: Micros,
    },
    /// Redis no longer knows the waiter, which was silent for too long: it asks anew.
    Forgotten,
    /// No poll of the waiter was answered for long.
    Unheard,
    /// It is held.
    Held {
        /// The end, unless a renewal is answered before.
        until: Micros,
        /// When it is renewed next.
        renew_at: Micros,
    },
    /// It was held, and may be another holder's by now.
    Lost,
}

// === impl Lease ===

impl Lease {
    /// The lease after a command that was sent at `sent`, and whose answer says that the permit is held for `ttl`.
    pub(super) const fn held(sent: Micros, ttl: Micros) -> Self {
        Self::Held {
            until: sent.saturating_add(ttl - ttl / DRIFT),
            renew_at: sent.saturating_add(ttl / RENEWALS),
        }
    }

    /// The lease at `now`. A lost one is never found again.
    #[must_use]
    pub(super) const fn at(self, now: Micros) -> Self {
        match self {
            Self::Held { until, .. } if now >= until => Self::Lost,
            other => other,
        }
    }

    /// The lease at `now` after the answer to a renewal or a poll that was sent at `sent`. `ttl` is that of a held permit.
    #[must_use]
    pub(super) const fn answered(self, answer: Answer, sent: Micros, now: Micros) -> Self {
        match (self.at(now), answer) {
            (Self::Lost, _) => Self::Lost,
            (Self::Held { until, .. }, Answer::Held { ttl }) => match Self::held(sent, ttl) {
                // A lease that Redis has granted is never shortened.
                Self::Held { until: later, renew_at } if until > later => Self::Held { until, renew_at },
                renewed => renewed,
            },
            (Self::Held { .. }, Answer::Waiting | Answer::Absent) => Self::Lost,
            (_, Answer::Held { ttl }) => Self::held(sent, ttl).at(now),
            (_, Answer::Waiting) => Self::Waiting { heard_at: sent },
            (_, Answer::Absent) => Self::Forgotten,
        }
    }
}

/// The state of a permit in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is held for `ttl` from the instant of the answer.
    Held {
        /// In µs.
        ttl: Micros,
    },
    /// It waits.
    Waiting,
    /// Redis does not know it.
    Absent,
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Micros = 3_000_000;

    #[test]
    fn a_holder_counts_from_the_sending_and_ends_before_redis_does() {
        let Lease::Held { until, renew_at } = Lease::held(1_000, TTL) else { panic!("not held") };
        assert!(until < 1_000 + TTL && until > 1_000 + TTL / 10 * 9, "{until}");
        assert!(renew_at + 2 * (renew_at - 1_000) <= 1_000 + TTL, "three renewals within a ttl");
    }

    #[test]
    fn a_lost_permit_is_never_found_again() {
        let held = Lease::held(0, TTL);
        assert_eq!(held.at(TTL), Lease::Lost);
        // The answer came too late: the holder may have been told.
        assert_eq!(held.answered(Answer::Held { ttl: TTL }, TTL - 2, TTL), Lease::Lost);
        assert_eq!(held.answered(Answer::Absent, 5, 9), Lease::Lost);
        assert_eq!(Lease::Lost.answered(Answer::Held { ttl: TTL }, 5, 9), Lease::Lost);
        assert_eq!(held.answered(Answer::Held { ttl: TTL }, 5, 9), Lease::held(5, TTL));
    }

    #[test]
    fn a_shorter_ttl_counts_from_the_next_renewal_on() {
        let (held, Lease::Held { until, .. }) = (Lease::held(0, TTL), Lease::held(0, TTL)) else { panic!() };
        let renewed = held.answered(Answer::Held { ttl: TTL / 6 }, 1_000, 1_500);
        assert_eq!(renewed, Lease::Held { until, renew_at: 1_000 + TTL / 18 });
    }

    #[test]
    fn a_waiter_holds_from_the_poll_that_said_so() {
        let waiting = Lease::Waiting { heard_at: 0 };
        assert_eq!(waiting.answered(Answer::Waiting, 7, 9), Lease::Waiting { heard_at: 7 });
        assert_eq!(waiting.answered(Answer::Held { ttl: TTL }, 7, 9), Lease::held(7, TTL));
        assert_eq!(waiting.answered(Answer::Absent, 7, 9), Lease::Forgotten);
    }
}
