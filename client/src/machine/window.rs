//! Takes of a fixed window by one native command, which counts them.
//!
//! The count is that of the window under way when Redis carries the command out. Its reply is therefore right however late
//! the command is. docs/design/exactness.md says more.

use topup_wire::scripts::WindowEnd;

use super::{Actions, Context, Correction, Kind, Micros, busy::Busy, estimate::Estimate, queue::Waiter};

/// The windows of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowTerms {
    /// Their length, in µs.
    pub length: Micros,
    /// Whether they begin at multiples of their length. Otherwise they begin with a take.
    pub aligned: bool,
}

// === impl Context ===

impl Context<'_> {
    /// The windows of the limit, if takes are counted there by a native command.
    pub(super) const fn window(&self) -> Option<WindowTerms> {
        if let Kind::Window(window) = self.terms.kind { Some(window) } else { None }
    }

    /// When the window ends that a command sent at `sent` has begun. `None` if it may be one or the other of two aligned
    /// ones.
    fn end_of_window(&self, window: WindowTerms, sent: Micros) -> Option<WindowEnd> {
        if !window.aligned {
            return Some(WindowEnd::After(window.length));
        }
        let end = |instant: u64| (instant - instant % window.length).saturating_add(window.length);
        // Windows end at a whole ms.
        let (first, last) =
            (end(self.redis.earliest(sent)), end(self.redis.latest(self.now).saturating_add(1_000)));
        (first == last).then_some(WindowEnd::At(first))
    }
}

// === impl Busy ===

impl<W: Waiter> Busy<W> {
    /// Whether the next command may count takes of one token in a window. Its key gets an expiry by a command that servers
    /// without buckets at rest do not know.
    pub(super) fn may_count_in_window(&self, cx: &Context<'_>) -> bool {
        cx.window().is_some() && self.is_certain() && cx.is_trusted() && cx.redis.is_known()
    }

    /// Learns from the reply to a bare command that was sent at `sent`, took `count` tokens and left `left`.
    pub(super) fn learn_in_window(
        &mut self,
        window: WindowTerms,
        (count, left): (u64, i64),
        sent: Micros,
        cx: &Context<'_>,
        out: &mut Actions<W>,
    ) {
        if left.saturating_add_unsigned(count) == cx.terms.capacity as i64 {
            match cx.end_of_window(window, sent) {
                Some(end) => out.correction = Some(Correction::EndWindow(end)),
                // A script gives the key the expiry of the window that is under way then.
                None => self.must_settle = true,
            }
        }
        self.estimate = Estimate::default();
        if left < 0 {
            // A script takes them off, denies the others, and says for how long.
            self.in_doubt = self.in_doubt.saturating_add(left.unsigned_abs().min(count));
            self.must_settle = true;
        }
    }
}
