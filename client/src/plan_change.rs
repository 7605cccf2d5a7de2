//! The change of a key's plan: its tokens go from one bucket to the other.

use std::sync::Arc;

use topup_wire::{
    limit::{LimitName, Lost, PlanSpan, Target},
    scripts::{self, PlanMove},
};

use crate::{
    bucket::Bucket,
    error::Error,
    shell::{BucketEntry, Published},
};

// === impl Bucket ===

impl Bucket {
    /// Moves the tokens of the key over the changes of its plan in `spans`, which others may have made. Returns `false`
    /// if the instant of the last one has not come yet, or while another worker makes them.
    pub(crate) async fn make_change(
        &self,
        entry: &Arc<BucketEntry>,
        key: &str,
        target: Option<Target>,
        spans: &[PlanSpan],
    ) -> Result<bool, Error> {
        let (handle, shared) = (self.handle(), self.handle().shared());
        if spans.len() < 2 || spans.last().is_none_or(|last| last.target != Ok(target)) {
            return Ok(true);
        }
        let read = async |name: LimitName| {
            let limit = shared.limits.get(name);
            match limit.current(shared.control.epoch()) {
                Some(published) => Ok(published),
                None => handle.within_deadline(shared.read(&limit)).await,
            }
        };
        let mut known = Vec::new();
        for PlanSpan { from, target } in spans {
            let name = target.map(|target| entry.name().under(target));
            match name {
                Ok(Some(name)) => match read(name).await {
                    Ok(published) => known.push((*from, Ok(published))),
                    // A plan that is gone leaves no tokens.
                    Err(Error::UnknownLimit { .. }) => {}
                    Err(error) => return Err(error),
                },
                Ok(None) => {}
                Err(Lost) => known.push((*from, Err(Lost))),
            }
        }
        let Some(own) = entry.limit().last() else { return Ok(true) };
        let spans: Vec<_> = known
            .iter()
            .map(|(from, published)| {
                let published: Result<&Arc<Published>, _> = published.as_ref();
                let bucket = published.map(|published| (&published.limit, published.shard(entry.key_hash())));
                (*from, bucket.map_err(|lost| *lost))
            })
            .collect();
        let now = shared.control.stored_time().earliest(shared.clock.now());
        let change = PlanMove { limit: &own.limit, key, now, spans: &spans };
        let mut connection = shared.connection();
        let moved = scripts::move_tokens(&mut connection, change);
        handle.within_deadline(async { moved.await.map_err(Error::redis) }).await
    }
}
