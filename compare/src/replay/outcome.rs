//! The decisions of a perfect limiter about a trace.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::trace::Trace;
use crate::oracle::{Ideal, Oracle};

/// Keys named of those that are denied most.
const NAMED: usize = 5;

/// The decisions of a perfect limiter about a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The kind of perfect limiter.
    pub ideal: Ideal,
    /// Takes asked for.
    pub asked: u64,
    /// Takes it would have denied.
    pub denied: u64,
    /// Keys of which it would have denied any.
    pub keys_denied: usize,
    /// The keys denied most, each with its denials and takes.
    pub most_denied: Vec<(String, u64, u64)>,
}

/// The decisions of `oracle`.
pub fn outcome(trace: &Trace, oracle: &Oracle) -> Outcome {
    let mut of_key: Vec<Vec<(u64, u64)>> = vec![Vec::new(); trace.keys.len()];
    for entry in &trace.entries {
        of_key[entry.key as usize].push((entry.at, u64::from(entry.count)));
    }
    let mut denied: Vec<(u64, usize)> = of_key
        .iter()
        .enumerate()
        .map(|(key, asked)| {
            let path = oracle.path(asked.iter().copied());
            (path.into_iter().filter(|allowed| !allowed).count() as u64, key)
        })
        .filter(|(denied, _)| *denied > 0)
        .collect();
    denied.sort_by_key(|(denied, key)| (Reverse(*denied), *key));
    let named = denied.iter().take(NAMED);
    Outcome {
        ideal: oracle.ideal,
        asked: trace.entries.len() as u64,
        denied: denied.iter().map(|(denied, _)| denied).sum(),
        keys_denied: denied.len(),
        most_denied: named
            .map(|&(denied, key)| (trace.keys[key].clone(), denied, of_key[key].len() as u64))
            .collect(),
    }
}
