//! Pauses: until their end no tokens are taken, takes are denied and waiters wait.

use super::{
    Actions, Context, Micros,
    busy::{Busy, denied},
    denial::Denial,
    queue::Waiter,
};

/// A waiter of a paused bucket is checked again after this, in µs: the pause may end early.
pub(super) const LOOK_AGAIN: Micros = 50_000;

// === impl Context ===

impl Context<'_> {
    /// Whether the bucket is paused.
    pub(super) const fn is_paused(&self) -> bool {
        self.paused_until > self.now
    }

    /// The denial of a take: that of the pause, unless `denial` lasts longer.
    pub(super) fn or_paused(&self, denial: Option<Denial>) -> Option<Denial> {
        if !self.is_paused() {
            return denial;
        }
        let wait = self.paused_until - self.now;
        let longer = denial.filter(|denial| denial.wait >= wait);
        longer.or(Some(Denial { tokens: 0, capacity: self.terms.capacity, wait }))
    }
}

// === impl Busy ===

impl<W: Waiter> Busy<W> {
    /// Denies takes of a paused bucket, and waiters whose patience ends before the pause.
    pub(super) fn hold(&mut self, cx: &Context<'_>, out: &mut Actions<W>) {
        if cx.is_paused()
            && let Some(denial) = cx.or_paused(None)
        {
            let gone = self.queue.extract(|waiting| waiting.until < cx.paused_until);
            out.answer_all(gone, denied(denial));
        }
    }
}
