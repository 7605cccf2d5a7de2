//! Control polls, and the reading of the limit.

use crate::{
    fault::Fault,
    in_flight::{Poll, PollFate},
    read_limit::ReadLimit,
    worker::DEADLINE,
    world::{Happening, World},
};

/// Time between two polls, in µs.
const EVERY: u64 = 250_000;

// === impl World ===

impl World {
    /// A worker that has just started knows the limit.
    pub(crate) fn settled_in(&mut self, worker: usize) {
        let (now, redis) = (self.local(worker), self.server.time(self.now));
        let trip = self.plan.network.trip.1.min(now / 2);
        self.workers[worker].control.note(self.server.generation, true, redis - trip, now - 2 * trip, now);
        let epoch = self.workers[worker].control.epoch;
        self.workers[worker].published = self.limit(epoch).map(Into::into);
    }

    /// The limit as its record says it now.
    fn limit(&self, epoch: u64) -> Option<ReadLimit> {
        let record = self.server.record.as_ref()?;
        let mut limit = ReadLimit::new(record, self.server.frozen > 0, &self.plan, epoch);
        if self.fault == Some(Fault::ChangeAheadUnseen) {
            limit.terms.change = None;
        }
        Some(limit)
    }

    pub(crate) fn poll(&mut self, worker: usize) {
        if !self.polls() {
            return;
        }
        let fate = if self.delays.chance(self.plan.network.polls_lost, 100) {
            self.delays.pick(&[PollFate::Refused, PollFate::Silent])
        } else {
            PollFate::Answered
        };
        let (sent, at, connection) = (self.local(worker), self.now, self.connection);
        let trip = self.long_trip();
        let poll = Poll { worker, sent, at, fate, connection, told: None };
        self.push(at + trip, Happening::Polled(Box::new(poll)));
    }

    /// Redis is polled.
    pub(crate) fn polled(&mut self, mut poll: Box<Poll>) {
        let now = self.server.time(self.now);
        poll.told = Some((self.server.generation, self.server.beats > now, now));
        let back = self.now + self.long_trip();
        let deadline = self.workers[poll.worker].clock.run(poll.sent + DEADLINE);
        if poll.fate == PollFate::Silent || back > deadline {
            poll.fate = PollFate::Silent;
            self.push(deadline, Happening::PollEnds(poll));
        } else {
            self.push(back, Happening::PollEnds(poll));
        }
    }

    /// A poll has ended.
    pub(crate) fn poll_ends(&mut self, poll: &Poll) {
        let &Poll { worker, sent, at, fate, connection, told } = poll;
        let now = self.local(worker);
        let control = &mut self.workers[worker].control;
        match told {
            _ if fate == PollFate::Silent => control.lose_sight(now),
            Some((generation, alive, redis))
                if fate == PollFate::Answered && connection == self.connection =>
            {
                control.note(generation, alive, redis, sent, now);
            }
            _ => control.break_off(),
        }
        self.push((at + EVERY).max(self.now), Happening::Polls(worker));
    }

    /// A worker reads the limit, once for all waiting callers.
    pub(crate) fn read(&mut self, worker: usize) {
        if !std::mem::replace(&mut self.workers[worker].is_reading, true) {
            let trip = self.trip();
            let epoch = self.workers[worker].control.epoch;
            self.push(self.now + trip, Happening::Reads(worker, epoch));
        }
    }

    pub(crate) fn reads(&mut self, worker: usize, epoch: u64) {
        let published = self.limit(epoch);
        let trip = self.trip();
        self.push(self.now + trip, Happening::HasRead(worker, published.map(Box::new)));
    }

    pub(crate) fn has_read(&mut self, worker: usize, published: Option<Box<ReadLimit>>) {
        self.workers[worker].is_reading = false;
        let read = published.is_some();
        if let Some(published) = published {
            // Every second worker knows of earlier terms what the record tells, as one that has just started.
            let is_new = worker % 2 == 1;
            let (local, worker) = (self.local(worker), &mut self.workers[worker]);
            let (now, before) = (worker.control.redis.earliest(local), worker.published.as_deref());
            worker.published = Some(published.after(before.filter(|_| !is_new), now).into());
        }
        for call in std::mem::take(&mut self.workers[worker].reading) {
            if self.calls[call].is_over {
                continue;
            }
            if read {
                self.takes(call);
            } else {
                // Nothing is published.
                self.calls[call].is_over = true;
            }
        }
    }
}
