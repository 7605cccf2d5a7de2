//! The cost of takes after a change of terms, told by whole clients.

use topup_wire::{bucket::Operation, limit::Algorithm, scripts};

use crate::{
    clients::{Clients, Planted, Rule, alone, name, text},
    dice::Dice,
};

const KEY: &str = "acme";
/// µs between two takes.
const BETWEEN: u64 = 20_000;

/// µs until a bucket of 10 tokens is full, some time after its rate has changed from the first to the second a second. Up to
/// three clients, `takers` of them, have taken one token each since. The instant is the same for any number of takers.
///
/// # Errors
///
/// A take that was not allowed, or the error of a script, in words.
pub fn run_headroom(rates: [u64; 2], takers: usize) -> Result<u64, String> {
    alone(headroom(rates, takers))
}

async fn headroom(rates: [u64; 2], takers: usize) -> Result<u64, String> {
    let [before, after] = rates.map(|rate| Rule::new(10, rate));
    let name = name()?;
    let mut clients =
        Clients::start(&mut Dice::new(1), 4, 0, Planted::Nothing, &[before.limit(name)?]).await?;
    // The later ones learn that the bucket is far below full.
    for worker in [3, 3, 3, 0, 1, 2] {
        take(&mut clients, worker).await;
    }
    clients.publish(&after.limit(name)?).await?;
    clients.advance(400_000).await;
    for worker in 0..takers {
        take(&mut clients, worker).await;
    }
    clients.advance(BETWEEN * 3_usize.saturating_sub(takers) as u64).await;
    let calls = clients.calls_of(1).concat();
    if calls.len() != 6 + takers || calls.iter().any(|call| call.is_allowed != Some(true)) {
        return Err(format!("not all takes were allowed: {calls:?}"));
    }
    let keys = clients.keys(&name);
    let peek = Operation::Peek(1);
    let settled = scripts::settle(&mut clients.redis, Algorithm::TokenBucket, &keys, KEY, peek, false, None);
    Ok(settled.await.map_err(text)?.headroom)
}

async fn take(clients: &mut Clients, worker: usize) {
    let client = clients.all[worker].clone();
    clients.take(&client, (0, KEY), 1, None);
    clients.advance(BETWEEN).await;
}
