//! Tokens on their way back: refunds, resets, and prefetched tokens.

use std::time::Duration;

use topup::machine::{Event, PutBack};
use topup_wire::scripts::PutIn;

use crate::{
    fault::Fault,
    in_flight::SentPutIn,
    oracle::Note,
    put_in::Put,
    worker::DEADLINE,
    world::{Happening, World},
};

// === impl World ===

impl World {
    /// A caller gives tokens back, or fills the bucket.
    pub(crate) fn puts(&mut self, worker: usize, bucket: usize, tokens: Option<u64>) {
        let Some(published) = self.workers[worker].published.clone() else { return };
        let outcome =
            self.step(worker, bucket, Event::PutsBack(tokens.unwrap_or(u64::MAX)), &published, None);
        let nothing = PutBack { tokens: 0, full_at: None, or_lost: false };
        let PutBack { tokens: in_hand, full_at, .. } = outcome.put_back.unwrap_or(nothing);
        let in_hand_for = self.in_hand_for();
        let request =
            PutIn { tokens: tokens.map(|tokens| tokens + in_hand), full_at, or_lost: false, in_hand_for };
        self.tell(bucket, || match tokens {
            Some(tokens) => format!("worker {worker} refunds {tokens}, and {in_hand} that it has in hand"),
            None => format!("worker {worker} resets the bucket"),
        });
        let until = self.now + DEADLINE + in_hand_for.as_micros() as u64;
        let untold = self.workers[worker].entries[bucket].take_untold(in_hand);
        self.put(SentPutIn { worker, bucket, request, untold, is_call: true, until, connection: 0 });
    }

    /// A machine puts tokens back.
    pub(crate) fn returns(&mut self, worker: usize, bucket: usize, put_back: PutBack) {
        let PutBack { tokens, full_at, or_lost } = put_back;
        let untold = self.workers[worker].entries[bucket].take_untold(tokens);
        if or_lost && full_at.is_none() {
            self.tell(bucket, || format!("worker {worker} lets go of {tokens}: others may have taken since"));
            return;
        }
        self.tell(bucket, || format!("worker {worker} puts {tokens} back"));
        let in_hand_for = self.in_hand_for();
        let request = PutIn { tokens: Some(tokens), full_at, or_lost, in_hand_for };
        let until = self.now + DEADLINE;
        self.put(SentPutIn { worker, bucket, request, untold, is_call: false, until, connection: 0 });
    }

    fn put(&mut self, putting: SentPutIn) {
        let trip = self.long_trip();
        let connection = self.connection;
        self.push(self.now + trip, Happening::PutsIn(Box::new(SentPutIn { connection, ..putting })));
    }

    /// The longest that a worker has tokens in hand.
    fn in_hand_for(&self) -> Duration {
        self.plan.terms.limit(self.plan.lease, self.plan.on_change).in_hand_for()
    }

    /// Tokens reach Redis.
    pub(crate) fn puts_in(&mut self, putting: SentPutIn) {
        let SentPutIn { worker, bucket, request, until, .. } = putting;
        let untold: u64 = putting.untold.iter().map(|(.., tokens)| tokens).sum();
        let lost = self.delays.chance(self.plan.network.lost, 10_000);
        if self.now > until || putting.connection != self.connection || lost && self.delays.chance(1, 2) {
            return self.push(self.now.max(until), Happening::PutInEnds(Box::new(putting)));
        }
        self.see(bucket);
        self.counts.put_ins += 1;
        let before = self.tokens_now(bucket);
        let forgets = self.fault == Some(Fault::LostReturn);
        let empty = PutIn { tokens: Some(0), ..request };
        let mut put = self.server.put_in(bucket, if forgets { empty } else { request }, self.now);
        if lost && self.fault == Some(Fault::PutInAgain) && put == Put::Given {
            put = self.server.put_in(bucket, request, self.now);
        }
        let after = self.tokens_now(bucket);
        self.tell(bucket, || {
            format!(
                "REDIS puts in {:?} of worker {worker}: {put:?} (held {before}, holds {after})",
                request.tokens
            )
        });
        match put {
            Put::Given => {
                self.books[bucket].returned += untold;
                // Tokens that no caller was told of were taken, and are as good as refunded.
                for &(at, order, tokens) in &putting.untold {
                    self.books[bucket].notes.push((at, order, Note::Admitted(tokens)));
                }
                self.note(bucket, request.tokens.map_or(Note::Filled, Note::Given));
            }
            Put::Ended(wait) => {
                let trips = self.trip() + self.trip();
                return self.push(self.now + wait + trips, Happening::PutsIn(Box::new(putting)));
            }
            Put::Lost | Put::Unknown => {}
        }
        let trip = self.trip();
        self.push(self.now + trip, Happening::PutInEnds(Box::new(putting)));
    }

    fn tokens_now(&self, bucket: usize) -> u64 {
        self.server.tokens(bucket, self.server.time(self.now))
    }

    /// Ends the wait for a put-in.
    pub(crate) fn put_in_ends(&mut self, putting: &SentPutIn) {
        let &SentPutIn { worker, bucket, is_call, .. } = putting;
        if is_call && let Some(published) = self.workers[worker].published.clone() {
            self.step(worker, bucket, Event::Changed, &published, None);
        }
    }
}
