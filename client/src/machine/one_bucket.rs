//! A bucket of one worker, for tests of the machine.

use std::{cell::Cell, rc::Rc};

use topup_wire::bucket::Pace;

use super::{
    Actions, BucketState, Command, Context, Event, FirstTakes, Hot, HotCell, Kind, Micros, RedisTime, Reply,
    Terms, queue::Waiter,
};

pub(super) const SECOND: Micros = 1_000_000;

/// A caller that waits, until it leaves.
#[derive(Debug, Default)]
pub(super) struct Caller {
    pub(super) left: Rc<Cell<bool>>,
}

/// A bucket whose worker knows Redis `TIME` to 100 µs, and has a deadline of 250 ms.
pub(super) struct OneBucket {
    pub(super) terms: Terms,
    /// The publication that the worker knows.
    pub(super) epoch: u64,
    /// The end of its trust.
    pub(super) trusted_until: Micros,
    state: BucketState<Caller>,
    hot: HotCell<[Hot; 0]>,
    /// The mean time of a round trip.
    pub(super) round_trip: Micros,
    pub(super) first_takes: FirstTakes,
}

// === impl Caller ===

impl Waiter for Caller {
    fn has_left(&self) -> bool {
        self.left.get()
    }
}

// === impl OneBucket ===

impl OneBucket {
    pub(super) fn new(kind: Kind, pace: Pace, capacity: u64) -> Self {
        let terms = Terms {
            id: 1,
            pace,
            capacity,
            kind,
            foreseen: true,
            reserves: kind == Kind::TwoForms,
            lease: None,
            change: None,
            earlier_until: 0,
        };
        let first_takes = FirstTakes::Sure;
        let (state, hot) = (BucketState::default(), HotCell::default());
        Self { terms, epoch: 1, trusted_until: Micros::MAX, state, hot, round_trip: 0, first_takes }
    }

    pub(super) fn step(&mut self, event: Event<Caller>, now: Micros) -> Actions<Caller> {
        let cx = Context {
            now,
            terms: &self.terms,
            epoch: self.epoch,
            trusted_until: self.trusted_until,
            deadline: SECOND / 4,
            round_trip: self.round_trip,
            daemon_alive: true,
            first_takes: self.first_takes,
            redis: RedisTime::from([0, 100, now]),
            enforced: true,
            paused_until: 0,
            hot: &self.hot,
        };
        let mut out = Actions::default();
        self.state.step(event, &cx, &mut out);
        out
    }

    /// The command for a take of one token at `now`, and its number.
    pub(super) fn take(&mut self, now: Micros) -> (Command, u32) {
        self.take_together(1, now)
    }

    /// The command for so many takes of one token at `now`, and its number.
    pub(super) fn take_together(&mut self, takes: u64, now: Micros) -> (Command, u32) {
        let take =
            |_| self.step(Event::Take { waiter: Caller::default(), count: 1, until: now }, now).dispatch;
        let number = (0..takes).filter_map(take).last().unwrap();
        (self.step(Event::Ready(number), now).command.unwrap(), number)
    }

    /// The command that follows the reply at `now` to one that was sent at `sent`.
    pub(super) fn follows(
        &mut self,
        (command, number): (Command, u32),
        sent: Micros,
        reply: Reply,
        now: Micros,
    ) -> Option<Command> {
        let out = self.step(Event::Completed { number, command, sent, reply: Some(reply) }, now);
        out.dispatch.and_then(|number| self.step(Event::Ready(number), now).command)
    }
}
