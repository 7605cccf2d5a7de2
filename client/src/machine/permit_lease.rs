//! The lease of a permit, as its holder sees it. Pure: time is an argument.
//!
//! Redis counts a lease from the instant at which it carries a renewal out. The holder counts it from the sending of that
//! renewal, and a little less than its ttl, so the holder's lease ends first.

use super::{Micros, cautious};

/// Renewals within a ttl.
const RENEWALS: Micros = 3;

/// The state of a permit, as its holder or waiter knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitLease {
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

// === impl PermitLease ===

impl PermitLease {
    /// The lease after a command that was sent at `sent`, and whose answer says that the permit is held for `ttl`.
    pub const fn held(sent: Micros, ttl: Micros) -> Self {
        Self::Held {
            until: sent.saturating_add(cautious(ttl)),
            renew_at: sent.saturating_add(ttl / RENEWALS),
        }
    }

    /// The lease at `now`. A lost one is never found again.
    #[must_use]
    pub const fn at(self, now: Micros) -> Self {
        match self {
            Self::Held { until, .. } if now >= until => Self::Lost,
            other => other,
        }
    }

    /// The lease at `now` after the answer to a renewal or a poll that was sent at `sent`. `ttl` is that of a held permit.
    #[must_use]
    pub const fn answered(self, answer: PermitAnswer, sent: Micros, now: Micros) -> Self {
        match (self.at(now), answer) {
            (Self::Lost, _) => Self::Lost,
            (Self::Held { until, .. }, PermitAnswer::Held { ttl }) => match Self::held(sent, ttl) {
                // A lease that Redis has granted is never shortened.
                Self::Held { until: later, renew_at } if until > later => Self::Held { until, renew_at },
                renewed => renewed,
            },
            (Self::Held { .. }, PermitAnswer::Waiting | PermitAnswer::Absent) => Self::Lost,
            (_, PermitAnswer::Held { ttl }) => Self::held(sent, ttl).at(now),
            (_, PermitAnswer::Waiting) => Self::Waiting { heard_at: sent },
            (_, PermitAnswer::Absent) => Self::Forgotten,
        }
    }
}

/// The state of a permit in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitAnswer {
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
        let PermitLease::Held { until, renew_at } = PermitLease::held(1_000, TTL) else { panic!("not held") };
        assert!(until < 1_000 + TTL && until > 1_000 + TTL / 10 * 9, "{until}");
        assert!(renew_at + 2 * (renew_at - 1_000) <= 1_000 + TTL, "three renewals within a ttl");
    }

    #[test]
    fn a_lost_permit_is_never_found_again() {
        let held = PermitLease::held(0, TTL);
        assert_eq!(held.at(TTL), PermitLease::Lost);
        // The answer came too late: the holder may have been told.
        assert_eq!(held.answered(PermitAnswer::Held { ttl: TTL }, TTL - 2, TTL), PermitLease::Lost);
        assert_eq!(held.answered(PermitAnswer::Absent, 5, 9), PermitLease::Lost);
        assert_eq!(PermitLease::Lost.answered(PermitAnswer::Held { ttl: TTL }, 5, 9), PermitLease::Lost);
        assert_eq!(held.answered(PermitAnswer::Held { ttl: TTL }, 5, 9), PermitLease::held(5, TTL));
    }

    #[test]
    fn a_shorter_ttl_counts_from_the_next_renewal_on() {
        let (held, PermitLease::Held { until, .. }) = (PermitLease::held(0, TTL), PermitLease::held(0, TTL))
        else {
            panic!()
        };
        let renewed = held.answered(PermitAnswer::Held { ttl: TTL / 6 }, 1_000, 1_500);
        assert_eq!(renewed, PermitLease::Held { until, renew_at: 1_000 + TTL / 18 });
    }

    #[test]
    fn a_waiter_holds_from_the_poll_that_said_so() {
        let waiting = PermitLease::Waiting { heard_at: 0 };
        assert_eq!(waiting.answered(PermitAnswer::Waiting, 7, 9), PermitLease::Waiting { heard_at: 7 });
        assert_eq!(waiting.answered(PermitAnswer::Held { ttl: TTL }, 7, 9), PermitLease::held(7, TTL));
        assert_eq!(waiting.answered(PermitAnswer::Absent, 7, 9), PermitLease::Forgotten);
    }
}
