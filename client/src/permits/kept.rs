//! A permit that a shard's task keeps alive.

use std::time::Duration;

use tokio::sync::watch;
use topup_wire::scripts::PermitState;

use crate::{
    machine::{Micros, PermitAnswer, PermitLease},
    shell::clock::micros,
};

/// A waiter gives up when no poll was answered for so long. Redis takes its turn away after twice the time.
const UNHEARD: Duration = Duration::from_secs(1);

/// A permit that is held or waited for.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) member: String,
    pub(super) id: String,
    pub(super) lease: watch::Sender<PermitLease>,
    /// An attempt to renew has failed: no further one before.
    pub(super) not_before: Micros,
}

// === impl Kept ===

impl Kept {
    /// When Redis is asked for it next. Ends a lease whose time is over.
    pub(super) fn due_at(&self, poll_at: Micros, now: Micros) -> Micros {
        let lease = *self.lease.borrow();
        let present = lease.at(now);
        let present = match present {
            PermitLease::Waiting { heard_at } if now > heard_at.saturating_add(micros(UNHEARD)) => {
                PermitLease::Unheard
            }
            other => other,
        };
        if present != lease {
            self.lease.send_replace(present);
        }
        match present {
            PermitLease::Waiting { .. } => poll_at,
            PermitLease::Held { renew_at, until } => renew_at.min(until),
            PermitLease::Forgotten | PermitLease::Unheard | PermitLease::Lost => Micros::MAX,
        }
    }

    /// Takes an answer to a renewal over.
    pub(super) fn note(&mut self, state: PermitState, ttl: Micros, sent: Micros, now: Micros) {
        let answer = match state {
            PermitState::Held => PermitAnswer::Held { ttl },
            PermitState::Waiting => PermitAnswer::Waiting,
            PermitState::Absent | PermitState::ExceedsLimit => PermitAnswer::Absent,
        };
        let lease = *self.lease.borrow();
        self.lease.send_replace(lease.answered(answer, sent, now));
    }
}
