//! Tokens on their way back: refunds, resets, and prefetched tokens.

use topup::machine::{Event, PutBack};
use topup_wire::{limit::Limit, scripts::PutIn};

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
        let put_back = outcome.put_back.unwrap_or_default();
        let spare = put_back.tokens + put_back.spare;
        let request = put_back.request(tokens, self.its_limit().in_hand_for());
        self.tell(bucket, || match tokens {
            Some(tokens) => format!("worker {worker} refunds {tokens}, and {spare} that it has in hand"),
            None => format!("worker {worker} resets the bucket"),
        });
        let until = self.puts_in_until();
        let untold = self.workers[worker].entries[bucket].take_untold(spare);
        let by_caller = Some(tokens.map_or(Note::Filled, Note::Given));
        self.put(&SentPutIn { worker, bucket, request, untold, by_caller, until, connection: 0 });
    }

    /// A machine puts tokens back.
    pub(crate) fn returns(&mut self, worker: usize, bucket: usize, put_back: PutBack) {
        let untold = self.workers[worker].entries[bucket].take_untold(put_back.tokens + put_back.spare);
        self.tell(bucket, || format!("worker {worker} puts {} back", put_back.tokens + put_back.spare));
        let request = put_back.request(Some(0), self.its_limit().in_hand_for());
        let until = self.puts_in_until();
        self.put(&SentPutIn { worker, bucket, request, untold, by_caller: None, until, connection: 0 });
    }

    fn put(&mut self, putting: &SentPutIn) {
        let trip = self.long_trip();
        let connection = self.connection;
        self.push(self.now + trip, Happening::PutsIn(Box::new(SentPutIn { connection, ..*putting })));
    }

    fn its_limit(&self) -> Limit {
        self.plan.terms.limit(self.plan.lease, self.plan.on_change)
    }

    /// The deadline of a put-in.
    fn puts_in_until(&self) -> u64 {
        self.now + DEADLINE + self.its_limit().puts_in_within().as_micros() as u64
    }

    /// Tokens reach Redis.
    pub(crate) fn puts_in(&mut self, putting: SentPutIn) {
        let SentPutIn { worker, bucket, request, until, .. } = putting;
        let lost = self.delays.chance(self.plan.network.lost, 10_000);
        if self.now > until || putting.connection != self.connection || lost && self.delays.chance(1, 2) {
            return self.push(self.now.max(until), Happening::PutInEnds(Box::new(putting)));
        }
        self.see(bucket);
        self.counts.put_ins += 1;
        let before = self.tokens_now(bucket);
        let forgets = self.fault == Some(Fault::LostReturn);
        let empty = PutIn { tokens: Some(0), unused: 0, spare: 0, ..request };
        let mut put = self.server.put_in(bucket, if forgets { empty } else { request }, self.now);
        if lost && self.fault == Some(Fault::PutInAgain) && put == Put::Given {
            put = self.server.put_in(bucket, request, self.now);
        }
        let after = self.tokens_now(bucket);
        self.tell(bucket, || {
            format!(
                "REDIS puts in {:?} of worker {worker}: {put:?} (held {before}, holds {after})",
                request.tokens.map(|tokens| tokens + request.unused)
            )
        });
        match put {
            Put::Given => {
                // Tokens that no caller was told of were never admitted: to have them back is no more than to keep them.
                if let Some(note) = putting.by_caller {
                    self.note(bucket, note);
                }
                let (given, untold) = (after.saturating_sub(before), putting.untold);
                let all = request.tokens.unwrap_or(0) + request.unused + request.spare;
                let refunded = all.saturating_sub(untold);
                self.books[bucket].returned += untold.min(given.saturating_sub(refunded));
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
        let &SentPutIn { worker, bucket, by_caller, .. } = putting;
        if by_caller.is_some()
            && let Some(published) = self.workers[worker].published.clone()
        {
            self.step(worker, bucket, Event::Changed, &published, None);
        }
    }
}
