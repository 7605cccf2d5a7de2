//! One timer for all who wait for one bucket.

use std::{sync::Arc, time::Duration};

use super::{Slot, State};
use crate::{client::Client, clock::Micros};

/// The longest that nobody looks: a change of the limit, or a refund by someone else, may end a long denial early.
const LONGEST: Micros = 500_000;

// === impl Slot ===

impl Slot {
    /// Looks at those who wait again after `wait`.
    pub(super) fn set_alarm(self: &Arc<Self>, state: &mut State, client: &Client, wait: Micros) {
        if state.alarm || !state.flights.is_empty() || state.waiters.is_empty() {
            return;
        }
        state.alarm = true;
        let (slot, client, runtime) = (self.clone(), client.clone(), &client.shared().runtime);
        runtime.spawn(async move {
            tokio::time::sleep(Duration::from_micros(wait.min(LONGEST))).await;
            let mut state = slot.lock();
            state.alarm = false;
            state.waiters.close_up();
            // Whoever waits for long is told if nobody has to any more.
            if !state.waiters.is_empty() && state.placed(client.shared().watch.epoch()).is_none() {
                slot.search(&mut state, &client);
            }
            // Not only what is known, which may be out of date: Redis is asked.
            slot.launch(&mut state, &client);
        });
    }
}
