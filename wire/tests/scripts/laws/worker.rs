//! A worker that takes as the client does where the law leaves no leeway: see `known.rs` there.

use topup_wire::{
    bucket::Operation,
    reply::{Settled, Verdict},
};

use super::scene::Scene;
use crate::server::instant;

/// A denial is asked about again after this, in µs.
const TRUST: u64 = 1_000_000;

/// What one worker remembers of one bucket.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    below_full_until: u64,
    empty_until_full: u64,
    denied_until: u64,
    denied_count: u64,
    trusted_until: u64,
    tokens: u64,
    /// The longest by which a bare `DECR` came after the bucket could have been full, in µs.
    pub(crate) late: u64,
}

/// What came of a take.
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
        let bare = count == 1 && self.tokens > 0 && sent < self.below_full_until;
        if on_its_way > 0 {
            scene.pass(on_its_way).await;
        }
        if bare {
            let (from, left, to) = decrement(scene, member).await;
            self.late = self.late.max(to.saturating_sub(self.below_full_until));
            if let Ok(tokens) = u64::try_from(left) {
                self.tokens = tokens;
                let until = self.empty_until_full.saturating_sub(time_of(tokens, scene.pace()));
                self.below_full_until = self.below_full_until.max(until);
                return Answer::Admitted(from, to);
            }
        }
        let sent = scene.now().await;
        let settled = scene.settle(member, Operation::Take(count)).await;
        self.learn(&settled, sent, count, scene.pace());
        match settled.verdict {
            Verdict::Allowed => Answer::Admitted(settled.now, settled.now),
            _ => Answer::Denied(settled.now, settled.now + settled.wait),
        }
    }

    fn learn(&mut self, settled: &Settled, sent: u64, count: u64, pace: (u64, u64)) {
        let below_full_until = sent.saturating_add(settled.headroom);
        *self = Self {
            below_full_until,
            empty_until_full: below_full_until.saturating_add(time_of(settled.tokens, pace)),
            tokens: settled.tokens,
            late: self.late,
            ..Self::default()
        };
        if settled.verdict == Verdict::Denied {
            self.denied_until = sent + settled.wait;
            self.denied_count = count;
            self.trusted_until = self.denied_until.min(sent + TRUST);
        }
    }
}

/// The bare `DECR`, and the instants right before and after it.
async fn decrement(scene: &mut Scene, member: &str) -> (u64, i64, u64) {
    let mut all = redis::pipe();
    all.atomic().cmd("TIME").cmd("DECR").arg(scene.keys.counter(member)).cmd("TIME");
    let (before, left, after) = all.query_async(&mut scene.redis.connection).await.unwrap();
    (scene.instant(instant(before)), left, scene.instant(instant(after)))
}

fn time_of(tokens: u64, (n, p): (u64, u64)) -> u64 {
    u64::try_from(u128::from(tokens) * u128::from(p) / u128::from(n)).unwrap_or(u64::MAX)
}
