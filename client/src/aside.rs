//! What is asked beside a take: the candidate of its limit, and the lazy bucket it is compared with. Always behind the
//! take's back: its answer is on its way already, and nothing that comes of this changes it.

use std::sync::Arc;

use topup_wire::{counts::Count, limit::LimitName};

use crate::{
    bucket::Bucket,
    decision::Decision,
    error::Error,
    shell::{BucketEntry, Published},
    tally::Tally,
};

/// Redis gave no answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Undecided;

// === impl Bucket ===

impl Bucket {
    /// Counts what came of a take of `count` tokens, if its limit is counted, and asks what is to be asked beside it.
    pub(crate) fn tried(
        &self,
        entry: &BucketEntry,
        published: &Published,
        count: u64,
        told: Result<Decision, Undecided>,
    ) {
        let Some(tally) = &published.tally else { return };
        let (limit, key) = (&published.limit, entry.key());
        tally.note(match told {
            Ok(Decision::Allowed { .. }) => Count::Allowed,
            Ok(Decision::Denied { .. }) => Count::Denied,
            Ok(Decision::Shadowed { .. }) => Count::WouldDeny,
            Err(Undecided) => Count::Undecided,
        });
        if limit.candidate {
            self.ask_aside(
                &limit.name.candidate(),
                key,
                count,
                tally,
                Count::CandidateUnasked,
                |tally, theirs| {
                    tally.note(if theirs.would_deny() {
                        Count::CandidateDenied
                    } else {
                        Count::CandidateAllowed
                    });
                },
            );
        }
        if let Ok(ours) = told
            && limit.is_compared(key)
        {
            self.ask_aside(&limit.name.lazy(), key, count, tally, Count::Uncompared, move |tally, lazy| {
                tally.note(match (ours.would_deny(), lazy.would_deny()) {
                    (false, false) => Count::BothAllowed,
                    (false, true) => Count::OnlyOurs,
                    (true, false) => Count::OnlyLazy,
                    (true, true) => Count::BothDenied,
                });
                tally.note_difference(ours.remaining().abs_diff(lazy.remaining()));
            });
        }
    }

    /// Takes `count` tokens of the bucket of `key` of the limit `name`, and has `heard` hear of it; counts `unasked` when
    /// there is nothing to hear.
    fn ask_aside(
        &self,
        name: &LimitName,
        key: Option<&str>,
        count: u64,
        tally: &Arc<Tally>,
        unasked: Count,
        heard: impl FnOnce(&Tally, Decision) + Send + 'static,
    ) {
        let handle = self.handle();
        let room = tally.aside();
        let shared = handle.shared();
        let found = shared.buckets.get(&shared.limits, &shared.limits.get(*name), key);
        let (Some(aside), Ok(entry)) = (room, found) else {
            return tally.note(unasked);
        };
        let bucket = Self::of(handle, &entry);
        handle.shared().runtime.spawn(async move {
            match bucket.take(count).await {
                Ok(told) => heard(aside.tally(), told),
                Err(Error::ExceedsCapacity { capacity, .. }) => {
                    heard(
                        aside.tally(),
                        Decision::Denied { remaining: 0, capacity, retry_after: std::time::Duration::MAX },
                    );
                }
                Err(_) => aside.tally().note(unasked),
            }
        });
    }
}
