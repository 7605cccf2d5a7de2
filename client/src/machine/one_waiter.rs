//! A bucket with a waiter whose tokens others have taken, for tests of reservations.

use std::{cell::Cell, rc::Rc};

use topup_wire::{
    bucket::{Operation, Pace, Reservation},
    reply::{Settled, Verdict},
};

use super::{
    Answer, Command, Event, FirstTakes, Kind, Micros, Reply,
    one_bucket::{Caller, OneBucket},
};

pub(super) const TOKEN: Micros = 5_000;
pub(super) const CAPACITY: u64 = 10;
pub(super) const LATER: Micros = 100 * TOKEN;
/// When a waiter for 4 tokens asks for the third time.
pub(super) const TURN: Micros = 7 * TOKEN;
/// It yields for so long then, since it has waited for 7 token times.
pub(super) const YIELDS: Micros = 2 * TOKEN * 16 / (16 + 7);
/// When it reserves.
pub(super) const RESERVES: Micros = TURN + YIELDS;

pub(super) const ASKED: Operation = asked(CAPACITY, 0);

/// The reservation of 4 tokens of a bucket.
pub(super) const fn asked(capacity: u64, forfeit: Micros) -> Operation {
    let (longest, in_hand_for) = (capacity * TOKEN, 11_158);
    Operation::Reserve(Reservation { count: 4, longest, in_hand_for, forfeit })
}

/// A bucket whose first waiter wants 4 tokens, with the number of its command. Others have taken all tokens.
pub(super) struct Waits {
    pub(super) bucket: OneBucket,
    number: u32,
    /// The first waiter has left.
    pub(super) left: Rc<Cell<bool>>,
}

impl Waits {
    pub(super) fn new() -> Self {
        Self::of(Kind::TwoForms, CAPACITY)
    }

    pub(super) fn of(kind: Kind, capacity: u64) -> Self {
        let mut bucket = OneBucket::new(kind, Pace { n: 1, p: TOKEN }, capacity);
        bucket.first_takes = FirstTakes::Unlikely;
        let mut waits = Self { bucket, number: 0, left: Rc::default() };
        waits.left = waits.asks(4, LATER, 0).2;
        assert_eq!(waits.replies(Operation::Take(4), 0, 4 * TOKEN, 0), (vec![], None));
        waits
    }

    /// The same once the waiter has lost its turn. It asks to reserve.
    pub(super) fn reserving() -> Self {
        let mut waits = Self::new();
        for (turn, wait) in [(4 * TOKEN, 3 * TOKEN), (TURN, 3 * TOKEN)] {
            assert_eq!(waits.outcome(Event::Wake, turn - 1), (vec![], None));
            assert_eq!(waits.outcome(Event::Wake, turn), (vec![], Some(Operation::Take(4))));
            assert_eq!(waits.replies(Operation::Take(4), 0, wait, turn), (vec![], None));
        }
        assert_eq!(waits.outcome(Event::Wake, RESERVES - 1), (vec![], None));
        assert_eq!(waits.outcome(Event::Wake, RESERVES), (vec![], Some(ASKED)));
        waits
    }

    /// The same once its tokens are reserved. They are good 3 token times later.
    pub(super) fn reserved() -> Self {
        let mut waits = Self::reserving();
        assert_eq!(waits.replies(ASKED, 4, 3 * TOKEN, RESERVES), (vec![], None));
        waits
    }

    /// What is told to waiters: whether they are allowed. And the operation that follows.
    pub(super) fn outcome(&mut self, event: Event<Caller>, now: Micros) -> (Vec<bool>, Option<Operation>) {
        let mut out = self.bucket.step(event, now);
        let is_allowed = |answer| matches!(answer, Answer::Decided(decision) if decision.is_allowed());
        let told = out.answers().map(|(_, answer)| is_allowed(answer)).collect();
        self.number = out.dispatch.unwrap_or(self.number);
        let command = out.dispatch.and_then(|number| self.bucket.step(Event::Ready(number), now).command);
        let operation = command.map(|command| match command {
            Command::Settle { operation, .. } => operation,
            command => panic!("{command:?}"),
        });
        (told, operation)
    }

    /// The outcome for one more waiter until the instant `until`, and how to have it leave.
    pub(super) fn asks(
        &mut self,
        count: u64,
        until: Micros,
        now: Micros,
    ) -> (Vec<bool>, Option<Operation>, Rc<Cell<bool>>) {
        let waiter = Caller::default();
        let left = waiter.left.clone();
        let (told, operation) = self.outcome(Event::Take { waiter, count, until }, now);
        (told, operation, left)
    }

    /// The outcome of the reply to `operation`. A token or those reserved come in `wait`.
    pub(super) fn replies(
        &mut self,
        operation: Operation,
        granted: u64,
        wait: Micros,
        now: Micros,
    ) -> (Vec<bool>, Option<Operation>) {
        let headroom = if granted > 0 { CAPACITY * TOKEN + wait } else { CAPACITY * TOKEN };
        let settled = Settled {
            verdict: if granted > 0 { Verdict::Allowed } else { Verdict::Denied },
            tokens: 0,
            capacity: CAPACITY,
            wait,
            headroom,
            now,
            granted,
            counting: false,
        };
        let (number, reply) = (self.number, Some(Reply::Settled(settled)));
        let command = Command::Settle { operation, may_count: true, in_doubt: None };
        self.outcome(Event::Completed { number, command, sent: now, reply }, now)
    }
}
