//! Reservations: a waiter that has waited too long takes its tokens ahead of time.
//!
//! Takes and waiters of other workers may get each token before it. A reservation leaves the bucket in debt. Its tokens are
//! those that repay the debt, and nobody else gets them.

use topup_wire::{
    bucket::{Operation, Reservation},
    constants::RESERVED_FOR,
    reply::Settled,
};

use super::{
    Actions, Context, Micros,
    busy::Busy,
    denial::Denial,
    queue::{Waiter, Waiting},
    redis_time::drift_of,
    reserved::{AGAIN, Reservations},
};

/// A new waiter yields to an old one for half of its tokens' time. Without reservations, it is for no longer than this, in µs.
const LONGEST_YIELD: Micros = 10_000;
/// Reserved tokens have to stay good for so long, in µs: a wake-up may be late.
const GOOD_FOR: Micros = 5_000;
/// Where the delay is long, it is the longest one divided by this.
const GOOD_FOR_PART: Micros = 128;

// === impl Busy ===

impl<W: Waiter> Busy<W> {
    /// Reserved tokens, good or not.
    pub(super) fn reserved(&self) -> u64 {
        self.reservation().map_or(0, |reserved| reserved.tokens)
    }

    /// µs until reserved tokens are good; `None` without a reservation.
    pub(super) fn reserved_in(&self, cx: &Context<'_>) -> Option<Micros> {
        Some(self.reservation()?.from.saturating_sub(cx.now))
    }

    /// The reservation, if there is one.
    fn reservation(&self) -> Option<&Reservations> {
        self.reservations.as_deref().filter(|reserved| reserved.tokens > 0)
    }

    /// Notes that the command for the first waiter brought none of its tokens. If others have taken them in its turn, it
    /// reserves.
    pub(super) fn note_denied(&mut self, cx: &Context<'_>) {
        let Some(first) = self.queue.first().filter(|first| !first.is_take()) else { return };
        // A little more than the time of its tokens. One behind a waiter that was just served does not reserve at its first try,
        // and leaves the room to older ones of other workers.
        let time = cx.terms.time_of(first.count);
        let turn = self.waits_since(first).saturating_add(time.saturating_add(time / 8));
        if !self.lost_its_turn && turn <= cx.now {
            let wait = self.estimate.denial(first.count, 0, cx).map_or(0, |denial| denial.wait);
            let room_in = wait.saturating_sub(longest_delay(first, cx));
            self.lost_its_turn = true;
            self.reserve_in(room_in, cx);
        }
    }

    /// Has the first waiter reserve once there is room, in `room_in` µs, and it has yielded to older ones.
    fn reserve_in(&mut self, room_in: Micros, cx: &Context<'_>) {
        let yields = self.queue.first().map_or(0, |first| self.yields(first, cx));
        self.reservations.get_or_insert_default().again_at =
            cx.now.saturating_add(room_in).saturating_add(yields);
    }

    /// Since when the `first` waiter is the first one.
    fn waits_since(&self, first: &Waiting<W>) -> Micros {
        self.reservations.as_ref().map_or(0, |reserved| reserved.served_at).max(first.since)
    }

    /// µs for which the first waiter lets those of other workers go ahead. They all know when there is room for a reservation,
    /// or a token, and the same one would be first each time.
    pub(super) fn yields(&self, first: &Waiting<W>, cx: &Context<'_>) -> Micros {
        let time = cx.terms.time_of(first.count);
        let longest = cx.terms.longest_delay();
        // One that has waited for as long yields for half as long.
        let old = time.min(longest).saturating_mul(4).max(1);
        let yields = (time / 2).min(if cx.terms.reserves { longest / 2 } else { LONGEST_YIELD });
        yields * old / old.saturating_add(cx.now.saturating_sub(self.waits_since(first)))
    }

    /// When the first waiter reserves its tokens; `None` if it does not.
    pub(super) fn reserves_at(&self, first: &Waiting<W>, cx: &Context<'_>) -> Option<Micros> {
        let may_reserve = self.lost_its_turn
            && cx.terms.reserves
            // A test's clock may stand still while others put tokens in.
            && cx.redis.width() > 0
            && !first.is_take()
            && self.reserved() == 0
            && !self.is_in_doubt()
            && cx.is_trusted()
            && cx.terms.time_of(first.count) <= cx.terms.longest_delay()
            && first.count <= cx.terms.capacity;
        may_reserve.then(|| self.reservations.as_ref().map_or(0, |reserved| reserved.again_at))
    }

    /// The reservation to ask for now.
    pub(super) fn reserve(&self, cx: &Context<'_>) -> Option<Operation> {
        let first = self.queue.first()?;
        let at = self.reserves_at(first, cx)?;
        let (count, capacity) = (first.count, cx.terms.capacity);
        let longest = longest_delay(first, cx);
        let unsure = drift_of(cx.terms.time_of(capacity).saturating_add(2 * longest));
        let good_for = GOOD_FOR.max(longest / GOOD_FOR_PART);
        let needed = good_for + 2 * cx.round_trip + unsure + cx.terms.time_of(cx.hot.prefetched());
        let forfeit = needed.saturating_sub(cx.terms.time_of(capacity - count));
        let in_hand_for = cx.terms.in_hand_for();
        (at <= cx.now).then_some(Operation::Reserve(Reservation { count, longest, in_hand_for, forfeit }))
    }

    /// Notes the reply to a reservation that was sent at `sent`. Returns the tokens that are good at once.
    pub(super) fn note_reserved(
        &mut self,
        reservation: Reservation,
        settled: &Settled,
        sent: Micros,
        cx: &Context<'_>,
    ) -> u64 {
        let &Settled { capacity, wait, headroom, granted, .. } = settled;
        if granted == 0 {
            // Others have reserved more, or have put tokens in.
            self.reserve_in(
                wait.saturating_sub(reservation.longest).min(cx.terms.longest_delay()).max(AGAIN),
                cx,
            );
        }
        let is_in_debt = headroom > cx.terms.time_of(capacity);
        if granted == 0 || !is_in_debt {
            return granted;
        }
        let until = match cx.hot.prefetched() {
            0 => sent + headroom.saturating_sub(drift_of(headroom) + cx.terms.time_of(granted) + 2),
            prefetched => self.below_full_until(granted.saturating_add(prefetched), cx),
        };
        let reserved = self.reservations.get_or_insert_default();
        reserved.tokens = granted;
        reserved.from = cx.now.saturating_add(wait).saturating_add(drift_of(wait));
        let put_in_after = wait.saturating_add(RESERVED_FOR);
        reserved.until = until.min(sent.saturating_add(put_in_after - drift_of(put_in_after)));
        reserved.terms = Some(cx.terms.identity());
        0
    }

    /// Serves waiters with reserved tokens once they are good. Tokens that are no longer good, or that nobody waits for, are
    /// lost.
    pub(super) fn settle_reserved(&mut self, cx: &Context<'_>, out: &mut Actions<W>) {
        let Some(reserved) = self.reservations.as_mut().filter(|reserved| reserved.tokens > 0) else {
            return;
        };
        let is_valid = reserved.terms == Some(cx.terms.identity()) && cx.now < reserved.until;
        // Without trust, the terms may have changed. They are about to be read again.
        if is_valid && (cx.now < reserved.from || cx.is_paused() || !cx.is_trusted()) {
            return;
        }
        let mut tokens = std::mem::take(&mut reserved.tokens);
        if is_valid {
            let (left, capacity) = (self.estimate.tokens(), self.estimate.capacity(cx.terms));
            self.serve(&mut tokens, left, capacity, cx.now, cx, out);
        }
    }

    /// The denial of `count` tokens behind a `pending` demand: nobody has tokens before those that are reserved.
    pub(super) fn denial(&self, count: u64, pending: u64, cx: &Context<'_>) -> Option<Denial> {
        self.estimate.denial(count, pending, cx).or_else(|| {
            let capacity = self.estimate.capacity(cx.terms);
            let later = cx.terms.time_of(count.saturating_add(pending));
            let wait = self.reserved_in(cx)?.saturating_add(later);
            Some(Denial { tokens: 0, capacity, wait })
        })
    }

    /// When reserved tokens begin or end to be good.
    pub(super) fn reserved_wake_at(&self, cx: &Context<'_>) -> Option<Micros> {
        let reserved = self.reservation()?;
        let at = if cx.now < reserved.from { reserved.from } else { reserved.until };
        self.in_flight.is_none().then_some(at)
    }
}

/// The longest delay that `first` reserves with, in µs.
fn longest_delay<W>(first: &Waiting<W>, cx: &Context<'_>) -> Micros {
    // A change of terms would move the instant of reserved tokens.
    let until = first.until.min(cx.terms.trusted_until(Micros::MAX, cx.redis));
    cx.terms.longest_delay().min(until.saturating_sub(cx.now))
}

#[cfg(test)]
mod tests {
    use topup_wire::{bucket::Pace, constants::EXACT};

    use super::*;
    use crate::machine::{
        Event, Kind,
        one_bucket::{OneBucket, SECOND},
        one_waiter::{ASKED, CAPACITY, LATER, RESERVES, TOKEN, TURN, Waits, YIELDS, asked},
    };

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
    fn a_publication_that_leaves_the_terms_leaves_reserved_tokens() {
        let good = RESERVES + 4 * TOKEN;
        let mut waits = Waits::reserved();
        (waits.bucket.epoch, waits.bucket.trusted_until) = (2, 0);
        assert_eq!(waits.outcome(Event::Wake, good).0, [false; 0], "the terms may have changed");
        assert_eq!(waits.bucket.step(Event::Wake, good).wake_at, Some(good + AGAIN));
        waits.bucket.trusted_until = Micros::MAX;
        assert_eq!(waits.outcome(Event::Wake, good + TOKEN).0, [true]);

        let mut waits = Waits::reserved();
        waits.bucket.terms.id = 2;
        assert_eq!(waits.outcome(Event::Wake, good), (vec![], Some(ASKED)), "it reserves anew");
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
}
