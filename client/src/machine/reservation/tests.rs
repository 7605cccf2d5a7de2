//! A waiter whose tokens others take, until it gets those that it has reserved.

use std::{cell::Cell, rc::Rc};

use topup_wire::{
    bucket::Pace,
    constants::EXACT,
    reply::{Settled, Verdict},
};

use super::*;
use crate::machine::{
    Answer, Command, Event, FirstTakes, Kind, Reply,
    one_bucket::{Caller, OneBucket, SECOND},
};

const TOKEN: Micros = 5_000;
const CAPACITY: u64 = 10;
const LATER: Micros = 100 * TOKEN;
/// When a waiter for 4 tokens asks for the third time.
const TURN: Micros = 7 * TOKEN;
/// It yields for so long then, since it has waited for 7 token times.
const YIELDS: Micros = 2 * TOKEN * 16 / (16 + 7);
/// When it reserves.
const RESERVES: Micros = TURN + YIELDS;

const ASKED: Operation = asked(CAPACITY, 0);

/// The reservation of 4 tokens of a bucket.
const fn asked(capacity: u64, forfeit: Micros) -> Operation {
    let (longest, in_hand_for) = (capacity * TOKEN, 11_158);
    Operation::Reserve(Reservation { count: 4, longest, in_hand_for, forfeit })
}

/// A bucket whose first waiter wants 4 tokens, with the number of its command. Others have taken all tokens.
struct Waits {
    bucket: OneBucket,
    number: u32,
    /// The first waiter has left.
    left: Rc<Cell<bool>>,
}

impl Waits {
    fn new() -> Self {
        Self::of(Kind::TwoForms, CAPACITY)
    }

    fn of(kind: Kind, capacity: u64) -> Self {
        let mut bucket = OneBucket::new(kind, Pace { n: 1, p: TOKEN }, capacity);
        bucket.first_takes = FirstTakes::Unlikely;
        let mut waits = Self { bucket, number: 0, left: Rc::default() };
        waits.left = waits.asks(4, LATER, 0).2;
        assert_eq!(waits.replies(Operation::Take(4), 0, 4 * TOKEN, 0), (vec![], None));
        waits
    }

    /// The same once the waiter has lost its turn. It asks to reserve.
    fn reserving() -> Self {
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
    fn reserved() -> Self {
        let mut waits = Self::reserving();
        assert_eq!(waits.replies(ASKED, 4, 3 * TOKEN, RESERVES), (vec![], None));
        waits
    }

    /// What is told to waiters: whether they are allowed. And the operation that follows.
    fn outcome(&mut self, event: Event<Caller>, now: Micros) -> (Vec<bool>, Option<Operation>) {
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
    fn asks(
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
    fn replies(
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

#[test]
fn a_waiter_whose_tokens_others_took_reserves_and_gets_them_once_they_are_good() {
    let mut waits = Waits::reserved();
    let good = RESERVES + 3 * TOKEN + drift_of(3 * TOKEN);
    assert_eq!(waits.outcome(Event::Wake, good - 1), (vec![], None), "the clock may run fast");
    assert_eq!(waits.bucket.step(Event::Wake, good - 1).wake_at, Some(good));
    assert_eq!(waits.outcome(Event::Wake, good), (vec![true], None));
}

#[test]
fn tokens_are_forfeited_so_that_those_of_a_whole_bucket_stay_good() {
    let mut waits = Waits::of(Kind::TwoForms, 4);
    assert_eq!(waits.outcome(Event::Wake, TURN).1, Some(Operation::Take(4)));
    // Other workers have reserved more than the bucket holds.
    assert_eq!(waits.replies(Operation::Take(4), 0, 6 * TOKEN, TURN), (vec![], None));
    let reserves = RESERVES + 2 * TOKEN;
    assert_eq!(waits.outcome(Event::Wake, reserves - 1), (vec![], None));
    let asked = asked(4, GOOD_FOR + drift_of(3 * 4 * TOKEN));
    assert_eq!(waits.outcome(Event::Wake, reserves), (vec![], Some(asked)));
}

#[test]
fn a_part_of_the_largest_bucket_forfeits_nothing() {
    let mut waits = Waits::of(Kind::TwoForms, EXACT);
    assert_eq!(waits.outcome(Event::Wake, TURN).1, Some(Operation::Take(4)));
    assert_eq!(waits.replies(Operation::Take(4), 0, 3 * TOKEN, TURN), (vec![], None));
    let asked = waits.outcome(Event::Wake, RESERVES).1;
    assert!(matches!(asked, Some(Operation::Reserve(Reservation { forfeit: 0, .. }))), "{asked:?}");
}

#[test]
fn a_waiter_that_asks_before_its_turn_does_not_reserve() {
    let mut waits = Waits::new();
    // Another caller has put tokens in, and others have taken them.
    assert_eq!(waits.outcome(Event::Changed, TOKEN), (vec![], Some(Operation::Take(4))));
    assert_eq!(waits.replies(Operation::Take(4), 0, 4 * TOKEN, TOKEN), (vec![], None));
    assert_eq!(waits.outcome(Event::Wake, 5 * TOKEN - 1), (vec![], None));
    assert_eq!(waits.outcome(Event::Wake, 5 * TOKEN), (vec![], Some(Operation::Take(4))));
}

#[test]
fn a_waiter_that_cannot_reserve_yields_and_the_older_it_is_the_shorter() {
    let mut waits = Waits::of(Kind::Scripted, CAPACITY);
    let asks = 4 * TOKEN + LONGEST_YIELD;
    assert_eq!(waits.bucket.step(Event::Wake, 0).wake_at, Some(asks));
    assert_eq!(waits.outcome(Event::Wake, asks), (vec![], Some(Operation::Take(4))));
    assert_eq!(waits.replies(Operation::Take(4), 0, 4 * TOKEN, asks), (vec![], None));
    let later = waits.bucket.step(Event::Wake, asks).wake_at.unwrap() - asks;
    assert!(4 * TOKEN < later && later < 4 * TOKEN + LONGEST_YIELD, "{later}");
}

#[test]
fn a_waiter_yields_for_some_ms_however_slow_the_limit_is() {
    let mut waits = Waits::of(Kind::Scripted, CAPACITY);
    let pace = Pace { n: 1, p: u64::MAX / 2 };
    waits.bucket = OneBucket::new(Kind::Scripted, pace, CAPACITY);
    assert_eq!(waits.asks(4, Micros::MAX, 0).1, Some(Operation::Take(4)));
    assert_eq!(waits.replies(Operation::Take(4), 0, SECOND, 0), (vec![], None));
    assert!(waits.bucket.step(Event::Wake, 0).wake_at.is_some());
}

#[test]
fn a_reservation_that_finds_all_tokens_serves_at_once() {
    assert_eq!(Waits::reserving().replies(ASKED, 4, 0, RESERVES), (vec![true], None));
}

#[test]
fn a_refused_reservation_is_asked_for_again_once_there_is_room() {
    let mut waits = Waits::reserving();
    assert_eq!(waits.replies(ASKED, 0, 13 * TOKEN, RESERVES), (vec![], None));
    // An older waiter yields for a shorter time.
    let room = RESERVES + 3 * TOKEN;
    assert_eq!(waits.outcome(Event::Wake, room + YIELDS / 2), (vec![], None));
    assert_eq!(waits.outcome(Event::Wake, room + YIELDS), (vec![], Some(ASKED)));
}

#[test]
fn a_take_is_denied_while_tokens_are_reserved() {
    let mut waits = Waits::reserved();
    assert_eq!(waits.asks(1, 0, RESERVES + 1).0, [false]);
    // Whatever is known of the bucket.
    assert_eq!(waits.outcome(Event::Changed, RESERVES + 2), (vec![], None));
    assert_eq!(waits.asks(1, 0, RESERVES + 3).0, [false]);
}

#[test]
fn a_waiter_of_several_is_no_reason_to_prefetch_again_and_again() {
    let mut waits = Waits::new();
    assert_eq!(waits.outcome(Event::TakeAhead, TOKEN), (vec![], Some(Operation::Take(4))));
    assert_eq!(waits.replies(Operation::Take(4), 0, 3 * TOKEN, TOKEN), (vec![], None));
    let mut waits = Waits::reserved();
    assert_eq!(waits.outcome(Event::TakeAhead, RESERVES + 1), (vec![], None));
}

#[test]
fn reserved_tokens_are_of_the_next_waiter_if_the_first_leaves() {
    let mut waits = Waits::reserved();
    waits.left.set(true);
    assert_eq!(waits.asks(3, LATER, RESERVES + 1).0, [false; 0]);
    assert_eq!(waits.outcome(Event::Wake, RESERVES + 4 * TOKEN), (vec![true], None));
}

#[test]
fn reserved_tokens_are_lost_once_they_are_no_longer_good() {
    let mut waits = Waits::reserved();
    // The bucket with them would be full.
    let full = RESERVES + (CAPACITY + 3 - 4) * TOKEN;
    let (told, operation) = waits.outcome(Event::Wake, full);
    assert_eq!(told, [false; 0]);
    assert_eq!(operation, Some(ASKED), "it reserves anew");
}
