//! A worker that takes as the client does. It takes a full bucket by a first take, a bucket that is surely below full
//! by bare commands, and any other by a settle.

use topup_wire::{
    bucket::{Operation, Pace},
    reply::{Settled, Verdict},
    scripts::{self, InDoubt, can_take_first},
};

use super::scene::Scene;

/// An estimate is trusted for so many µs after its reply.
const TRUST: u64 = 1_000_000;

/// The estimate of one bucket.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    /// Whether bare commands are possible: otherwise the bucket is at rest, or nothing is known of it.
    counting: bool,
    /// The instant at which the bucket is full, at the earliest.
    below_full_until: u64,
    /// When the bucket last answered, in µs.
    answered: u64,
    tokens: u64,
    denied_count: u64,
    trusted_until: u64,
    /// Tokens taken by bare commands whose answers came after the bucket could have been full.
    doubt: u64,
    /// The longest by which a bare `DECR` came after the bucket could have been full, in µs.
    pub(crate) late: u64,
}

/// The result of a take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Allowed, between these two instants.
    Admitted(u64, u64),
    /// Denied at an instant, until another.
    Denied(u64, u64),
    /// Denied from memory, until then.
    Remembered(u64),
}

// === impl Worker ===

impl Worker {
    /// Takes `count` tokens of `member`; a command is `on_its_way` for so many µs.
    pub(crate) async fn take(
        &mut self,
        scene: &mut Scene,
        member: &str,
        count: u64,
        on_its_way: u64,
    ) -> Answer {
        let sent = scene.now().await;
        if sent < self.trusted_until && count >= self.denied_count {
            return Answer::Remembered(self.trusted_until);
        }
        let surely = self.below_full_until.min(self.answered + TRUST);
        let bare = count == 1 && self.counting && self.tokens > 0 && sent < surely;
        let full = !self.counting && sent >= self.below_full_until;
        if on_its_way > 0 {
            scene.pass(on_its_way).await;
        }
        let (capacity, (n, p)) = (scene.limit.terms.capacity.get(), scene.pace());
        if bare {
            let (from, left, to) = decrement(scene, member).await;
            self.late = self.late.max(to.saturating_sub(surely));
            if let Some(tokens) = left.and_then(|left| u64::try_from(left).ok()) {
                self.doubt += u64::from(to > surely);
                (self.tokens, self.answered) = (tokens, sent);
                self.below_full_until += p / n;
                return Answer::Admitted(from, to);
            }
        } else if full && scene.limit.catch_up && can_take_first(capacity, Pace { n, p }, count) {
            let (from, taken, to) = scene.first_take(member, count).await;
            if taken {
                self.below_full_until = from + count * p / n;
                return Answer::Admitted(from, to);
            }
        }
        let sent = scene.now().await;
        let settled = scene
            .settle_in_doubt(member, Operation::Take(count), InDoubt { tokens: self.doubt, full_at: 0 })
            .await;
        self.learn(&settled, sent, count);
        match settled.verdict {
            Verdict::Allowed => Answer::Admitted(settled.now, settled.now),
            _ => Answer::Denied(settled.now, settled.now + settled.wait),
        }
    }

    /// Gives the taken tokens back.
    pub(crate) async fn refund(&mut self, scene: &mut Scene, member: &str, count: u64) {
        let sent = scene.now().await;
        let settled = scene.settle(member, Operation::Refund(count)).await;
        self.learn(&settled, sent, 1);
    }

    fn learn(&mut self, settled: &Settled, sent: u64, count: u64) {
        let below_full_until = sent.saturating_add(settled.headroom);
        let (counting, tokens) = (settled.counting, settled.tokens);
        let (answered, late) = (sent, self.late);
        *self = Self { counting, below_full_until, answered, tokens, late, ..Self::default() };
        if settled.verdict == Verdict::Denied {
            self.denied_count = count;
            self.trusted_until = (sent + settled.wait).min(sent + TRUST);
        }
    }
}

/// The bare `DECR`, and the instants right before and after it; none of a bucket at rest.
async fn decrement(scene: &mut Scene, member: &str) -> (u64, Option<i64>, u64) {
    let from = scene.now().await;
    let left = scripts::decrement(&mut scene.redis.connection, &scene.keys.counter(member), 1).await;
    let left = match left {
        Err(error) if scripts::is_not_a_counter(&error) => None,
        left => Some(left.unwrap()),
    };
    (from, left, scene.now().await)
}
