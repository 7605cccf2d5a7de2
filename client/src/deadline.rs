//! The deadline of takes that are under way, kept by one task instead of a timer for each.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use crate::{
    client::{Client, Shared},
    clock::{Micros, micros},
    error::Error,
};

/// Gives up what has taken too long, until no client is left.
pub(crate) fn keep(shared: &Arc<Shared>) {
    let (weak, deadline) = (Arc::downgrade(shared), shared.deadline);
    tokio::spawn(async move {
        let mut next = deadline;
        loop {
            // Whatever is asked from now on is not late before then.
            tokio::time::sleep(next).await;
            let Some(shared) = Weak::upgrade(&weak) else { return };
            next = give_up(&Client::of(shared), deadline);
        }
    });
}

/// Gives up what has taken too long: how long until anything else can have.
fn give_up(client: &Client, deadline: Duration) -> Duration {
    let shared = client.shared();
    let (now, allowed) = (shared.clock.now(), micros(deadline));
    let mut late = Vec::new();
    let mut oldest = now;
    if let Some(overdue) = now.checked_sub(allowed) {
        shared.lanes.for_each_unanswered(|ticket| match ticket.overdue(overdue) {
            Some(flight) => late.push(flight),
            None => oldest = oldest.min(ticket.since()),
        });
        for (slot, flight) in late {
            slot.expire(flight, overdue, &Error::DeadlineExceeded { deadline }, client);
        }
    }
    Duration::from_micros(until(oldest, allowed, now))
}

fn until(since: Micros, allowed: Micros, now: Micros) -> Micros {
    since.saturating_add(allowed).saturating_sub(now).max(1)
}
