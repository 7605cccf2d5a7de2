//! Takes of a fixed window by native commands, which count them.
//!
//! The count is that of the window under way when Redis carries the command out. Its reply is therefore right however late
//! the command is. docs/design/exactness.md says more.

use topup_wire::scripts::{InDoubt, WindowEnd};

use super::{
    Command, Context, Kind, Micros, Reply, WindowTerms, busy::Busy, estimate::Estimate, queue::Waiter,
    rest::Rest,
};

/// A window ends at a whole ms, and begins with the ms of its first take.
const MS: Micros = 1_000;
/// A window may end so many µs after the earliest instant.
const ENDS_WITHIN: Micros = 10_000;
/// A window that another worker has begun is taken to go on for its length divided by this.
const GOES_ON: Micros = 16;

// === impl Context ===

impl Context<'_> {
    /// The windows of the limit, if takes are counted there by native commands.
    pub(super) const fn window(&self) -> Option<WindowTerms> {
        if let Kind::Window(window) = self.terms.kind { Some(window) } else { None }
    }

    /// The take of `count` tokens in a window. It begins one, if none may be under way.
    pub(super) fn take_in_window(&self, window: WindowTerms, count: u64, rest: &Rest) -> Command {
        let begins = if self.now < rest.until {
            None
        } else if window.aligned {
            let end = window.end(self.redis.earliest(self.now));
            let last = window.end(self.redis.latest(self.now).saturating_add(MS));
            // Otherwise it may be one or the other of two windows: a script finds out.
            (end == last).then_some(WindowEnd::At(end))
        } else {
            Some(WindowEnd::After(window.length))
        };
        Command::TakeInWindow { count, begins }
    }

    /// Until when the window certainly goes on that a take sent at `sent` has found or begun. `None` if it says nothing new.
    pub(super) fn window_until(
        &self,
        command: Command,
        reply: Option<Reply>,
        sent: Micros,
        rest: &Rest,
    ) -> Option<Micros> {
        let (
            Some(window),
            Command::TakeInWindow { begins: Some(_), .. },
            Some(Reply::InWindow { was_set, .. }),
        ) = (self.window(), command, reply)
        else {
            return None;
        };
        if window.aligned {
            Some(self.redis.earliest_local(window.end(self.redis.earliest(sent))))
        } else if was_set {
            Some(sent.saturating_add(window.length).saturating_sub(MS))
        } else {
            // Otherwise it may be the window before, which is about to end: the next take looks again.
            let is_next = sent >= rest.until.saturating_add(ENDS_WITHIN);
            is_next.then(|| self.now.saturating_add(window.length / GOES_ON))
        }
    }
}

// === impl Busy ===

impl<W: Waiter> Busy<W> {
    /// The windows of the limit, if the next command may count takes of one token there.
    pub(super) fn window_to_count_in(&self, cx: &Context<'_>) -> Option<WindowTerms> {
        let may_count = self.is_certain() && cx.is_trusted();
        cx.window().filter(|window| may_count && (!window.aligned || cx.redis.is_known()))
    }

    /// Whether a window has begun without an end. The script of a take does not see that. That of a put-back does, also of 0
    /// tokens.
    pub(super) fn must_end_window(&self, cx: &Context<'_>) -> bool {
        cx.window().is_some() && self.must_settle && !self.is_in_doubt()
    }

    /// Learns from the reply to a take of `count` tokens in a window.
    pub(super) fn learn_in_window(
        &mut self,
        (count, begins): (u64, Option<WindowEnd>),
        (left, was_set): (i64, bool),
        cx: &Context<'_>,
    ) {
        let has_begun = left.saturating_add_unsigned(count) == cx.terms.capacity as i64;
        // The `SET` of an aligned window that has ended leaves nothing, and that in its last ms need not.
        let latest = cx.redis.latest(cx.now).saturating_add(MS);
        let is_over = matches!(begins, Some(WindowEnd::At(end)) if latest >= end);
        // A script gives the key the expiry of the window that is under way then.
        self.must_settle |= has_begun && (!was_set || is_over);
        self.estimate = Estimate::default();
        if left < 0 {
            // A script takes them off, denies the others, and says for how long.
            self.doubt(InDoubt { tokens: left.unsigned_abs().min(count), full_at: 0 }, cx);
            self.must_settle = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use topup_wire::bucket::{Operation, Pace};

    use super::*;
    use crate::machine::{
        Event,
        one_bucket::{Caller, OneBucket, SECOND},
    };

    const CAPACITY: u64 = 10;

    /// A bucket of windows of one second.
    fn windows(aligned: bool) -> OneBucket {
        OneBucket::new(Kind::Window(WindowTerms { length: SECOND, aligned }), Pace { n: 0, p: 1 }, CAPACITY)
    }

    impl OneBucket {
        /// A take at `sent`, whose reply at `now` has counted `number` tokens. Returns when it begins a window, and whether a
        /// script has to follow.
        fn counts(
            &mut self,
            sent: Micros,
            number: u64,
            was_set: bool,
            now: Micros,
        ) -> (Option<WindowEnd>, bool) {
            let take = self.take(sent);
            let Command::TakeInWindow { begins, .. } = take.0 else { panic!("{take:?}") };
            let reply = Reply::InWindow { left: CAPACITY as i64 - number as i64, was_set };
            let follows = self.follows(take, sent, reply, now);
            assert!(matches!(follows, None | Some(Command::Settle { operation: Operation::Refund(0), .. })));
            (begins, follows.is_some())
        }
    }

    #[test]
    fn a_take_begins_a_window_where_none_may_be_under_way() {
        let begins = Some(WindowEnd::After(SECOND));
        let mut own = windows(false);
        assert_eq!(own.counts(0, 1, true, 500), (begins, false));
        assert_eq!(own.counts(SECOND - 1_001, 2, false, SECOND), (None, false));
        // The ms in which it ends. The window is still there, so the next take looks again.
        assert_eq!(own.counts(SECOND - 1_000, 3, false, SECOND), (begins, false));
        assert_eq!(own.counts(SECOND + 1, 1, true, SECOND + 500), (begins, false));
        assert_eq!(own.counts(SECOND + 600, 2, false, SECOND + 900), (None, false));

        // Another worker has begun it.
        let mut others = windows(false);
        assert_eq!(others.counts(SECOND, 3, false, SECOND + 500), (begins, false));
        assert_eq!(others.counts(SECOND + 501, 4, false, SECOND + 900), (None, false));
        let later = SECOND + 500 + SECOND / GOES_ON;
        assert_eq!(others.counts(later, 5, false, later), (begins, false));
    }

    #[test]
    fn an_aligned_window_begins_if_it_is_certain_which_one() {
        let at = |end| Some(WindowEnd::At(end * SECOND));
        let mut aligned = windows(true);
        assert_eq!(aligned.counts(SECOND / 2, 4, false, SECOND / 2 + 300), (at(1), false));
        assert_eq!(aligned.counts(SECOND - 101, 5, false, SECOND), (None, false));
        // In the last ms, it may be one or the other.
        assert_eq!(aligned.counts(SECOND - 50, 6, false, SECOND), (None, false));
        assert_eq!(aligned.counts(SECOND, 1, true, SECOND + 300), (at(2), false));
    }

    #[test]
    fn a_window_without_an_end_gets_one_by_a_script() {
        // The window ended before the command came.
        let mut own = windows(false);
        assert_eq!(own.counts(0, 1, true, 500), (Some(WindowEnd::After(SECOND)), false));
        assert_eq!(own.counts(SECOND / 2, 1, false, SECOND + 900), (None, true));
        // It ended between the two commands.
        let mut own = windows(false);
        assert_eq!(own.counts(0, 1, false, 500), (Some(WindowEnd::After(SECOND)), true));
        // Other takes wait for that script.
        let mut busy = windows(false);
        busy.counts(0, 1, true, 500);
        let take = busy.take(SECOND / 2);
        busy.step(Event::Take { waiter: Caller::default(), count: 1, until: SECOND / 2 }, SECOND / 2);
        let reply = Reply::InWindow { left: CAPACITY as i64 - 1, was_set: false };
        let follows = busy.follows(take, SECOND / 2, reply, SECOND);
        assert!(matches!(follows, Some(Command::Settle { operation: Operation::Refund(0), .. })));
        // The `SET` may have come after the end that it named, or in the ms before.
        for (now, follows) in [(SECOND - 100, true), (SECOND - MS - 50, true), (SECOND - MS - 150, false)] {
            let mut aligned = windows(true);
            assert_eq!(aligned.counts(SECOND / 2, 1, true, now), (Some(WindowEnd::At(SECOND)), follows));
        }
    }
}
