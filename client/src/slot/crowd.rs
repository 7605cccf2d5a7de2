//! Tokens taken ahead for a crowd.
//!
//! When very many tasks ask for one bucket at once, each command brings some more tokens than are asked for by then: who
//! has been served and asks again need not wait for the next. They are in hand for the time of a few commands, and so few
//! that nobody else is the worse for it ([`Known::in_hand`](crate::known::Known::in_hand)); what nobody comes for goes
//! back. No limit has to ask for that, and none says so: unlike a lease, it changes no answer.

use std::time::Duration;

use super::{Slot, State, appetite::Prospect, flight::CROWD};
use crate::{
    client::Client,
    clock::{Micros, micros},
    known::Asked,
};

/// Tokens are put back when nobody has come for them for so long, beside the time of a command.
const KEEP: Duration = Duration::from_millis(2);
/// More at once than are spent during a command that takes a millisecond are of no use.
const MOST: u64 = 4_096;
/// Who wants to know exactly what a bucket holds waits for what is under way: so long, at most so often.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
const MOST_LOOKS: u32 = 20;

/// Waits until nothing `is_busy`, or it has been for long: whether anything was. Where takes go on, something always is.
pub(crate) async fn outlast(is_busy: impl Fn() -> bool) -> bool {
    let mut looks = 0;
    while is_busy() && looks < MOST_LOOKS {
        tokio::time::sleep(LOOK_AGAIN).await;
        looks += 1;
    }
    looks > 0
}

// === impl Slot ===

impl Slot {
    /// How many tokens to have in hand for a crowd, and for how long, if there is one.
    pub(super) fn for_a_crowd(&self, state: &State, hungry: bool, asked: Asked) -> Option<Prospect> {
        let crowded = hungry || state.takers.len() >= CROWD;
        let counted = state.place.as_ref().is_some_and(|place| place.published.is_counted());
        if !crowded || !counted || !state.waiters.is_empty() {
            return None;
        }
        let most = state.known.in_hand(asked.terms).min(MOST);
        (most > 0).then_some(Prospect::Crowded { good_for: micros(KEEP), max: most })
    }

    /// Keeps what is in hand for a crowd, and what has just come for it: until when.
    pub(super) fn keep_for_a_crowd(&self, asked: Asked, client: &Client) -> Micros {
        let now = client.shared().clock.now();
        // The next command takes as long as this one.
        let until = now.saturating_add(micros(KEEP)).saturating_add(now.saturating_sub(asked.sent));
        self.lease.extend(until);
        until
    }

    /// Waits until what was taken for a crowd has been spent or put back: whether there was any. Of a crowd that goes on and
    /// on there always is some.
    pub(crate) async fn rest(&self) -> bool {
        let is_busy = || {
            let state = self.lock();
            let ahead = state.flights.iter().filter_map(|flight| flight.sent).any(|sent| sent.ahead > 0);
            (state.reclaimed || ahead) && state.is_unleased()
        };
        outlast(is_busy).await
    }

    /// Forgets what is in hand for a crowd: the bucket is full without it.
    pub(crate) fn disperse(&self) {
        if self.lock().is_unleased() {
            self.lease.empty();
        }
    }
}

// === impl State ===

impl State {
    /// Whether what is taken ahead is for a crowd.
    fn is_unleased(&self) -> bool {
        self.place.as_ref().is_some_and(|place| place.published.limit.lease.is_none())
    }
}
