//! The sums of the replies to a trace.

use anyhow::bail;
use topup_lab::clock::SECOND;
use topup_wire::{
    limit::{Limit, Supply},
    reply::Verdict,
};

use super::{
    replies::Reply,
    simulated::{DeniedKey, PlanTakes, Simulated},
};
use crate::replay::Trace;

/// Most keys that are named.
const MOST_NAMED: usize = 10;

pub(super) fn summarize(
    limit: &Limit,
    trace: &Trace,
    replies: &[Reply],
    plans: Vec<PlanTakes>,
) -> anyhow::Result<Simulated> {
    let (mut by_key, mut longest) = (vec![(0, 0); trace.keys.len()], None);
    let (mut allowed, mut too_large) = (0, 0);
    for (entry, reply) in trace.entries.iter().zip(replies) {
        let (denied, takes) = &mut by_key[entry.key as usize];
        *takes += 1;
        match reply.verdict {
            Verdict::Allowed => {
                allowed += 1;
                continue;
            }
            Verdict::Denied => longest = longest.max(Some(reply.wait)),
            Verdict::ExceedsCapacity => too_large += 1,
            Verdict::Unknown => bail!("the model knows no such limit, which is a bug of topup"),
        }
        *denied += 1;
    }
    let named = by_key.into_iter().zip(&trace.keys).filter(|((denied, _), _)| *denied > 0);
    let mut most_denied: Vec<DeniedKey> =
        named.map(|((denied, takes), key)| DeniedKey { key: key.clone(), denied, takes }).collect();
    most_denied.sort_by(|a, b| b.denied.cmp(&a.denied).then_with(|| a.key.cmp(&b.key)));
    most_denied.truncate(MOST_NAMED);
    let rate = match &limit.terms.supply {
        Supply::Rate(rate) => rate.to_string(),
        Supply::Windows(windows) => windows.to_string(),
        Supply::Period(_) | Supply::Permits(_) => String::new(),
    };
    let takes = replies.len() as u64;
    Ok(Simulated {
        limit: limit.name.to_string(),
        algorithm: limit.algorithm.as_str(),
        capacity: limit.terms.capacity.get(),
        rate,
        takes,
        keys: trace.keys.len() as u64,
        seconds: trace.length() as f64 / SECOND as f64,
        allowed,
        denied: takes - allowed,
        too_large,
        blocked: limit.penalty.map(|_| replies.iter().filter(|reply| reply.is_blocked).count() as u64),
        longest_retry_after: longest.map(|wait| wait as f64 / SECOND as f64),
        most_denied,
        plans,
    })
}
