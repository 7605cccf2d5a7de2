//! Takes of several tokens each, as where a request costs what it asks for, and takes of several limits.

use std::time::Duration;

use anyhow::Context;
use topup_lab::{Table, output::tell};

use super::{
    against_raw::{HEADER, add_row},
    bench::{Bench, KEYS},
    medians::BesideRaw,
};
use crate::{
    limiter::kind::Limiter,
    measurement::{Found, Measurement},
    rules::Rule,
};

pub(super) const TITLES: [&str; 2] = ["Takes of several tokens", "A limit of each user, and one of all"];
const TOKENS: u64 = 10;
/// Limiters, and their rule.
const LIMITERS: [(Limiter, Rule); 5] = [
    (Limiter::Raw, Rule::Draining),
    (Limiter::Topup, Rule::Draining),
    (Limiter::TopupLeasedMore, Rule::Draining),
    (Limiter::RedisCell, Rule::Under),
    (Limiter::LuaGcra, Rule::Draining),
];
/// Keys of each, 0 for one.
const SHAPES: [(usize, &str); 2] = [(0, "one key"), (KEYS, "10,000 keys")];

const BOTH: [(Limiter, Rule); 4] = [
    (Limiter::Raw, Rule::Draining),
    (Limiter::Topup, Rule::Draining),
    (Limiter::TopupLeasedMore, Rule::Draining),
    (Limiter::LuaGcra, Rule::Draining),
];

pub(super) async fn tables(bench: &mut Bench<'_>) -> anyhow::Result<Vec<Table>> {
    let note =
        "256 tasks take 10 tokens at a time without a pause. All are allowed. *Raw* is `DECRBY key 10`.";
    let mut of_tokens = Table::new(TITLES[0], HEADER).note(note);
    for (keys, load) in SHAPES {
        let one = |limiter, rule| {
            let one = Measurement::new(limiter, rule, keys, Duration::ZERO);
            Measurement { tokens: TOKENS, ..one }
        };
        add_rows(bench, &mut of_tokens, &LIMITERS, load, one).await?;
    }
    let note = "256 tasks take one token of one of 10,000 users and one of a bucket for all, both or none, without a \
                pause. All are allowed. The lease is of the bucket for all. *Raw* is one `DECR` for each user.";
    let mut of_limits = Table::new(TITLES[1], HEADER).note(note);
    let both = |limiter, rule| {
        let one = Measurement::new(limiter, rule, KEYS, Duration::ZERO);
        Measurement { and_all: limiter != Limiter::Raw, ..one }
    };
    add_rows(bench, &mut of_limits, &BOTH, "10,000 users", both).await?;
    Ok(vec![of_tokens, of_limits])
}

/// Measures `limiters` under `load`, each in turn, and adds their rows.
async fn add_rows(
    bench: &mut Bench<'_>,
    table: &mut Table,
    limiters: &[(Limiter, Rule)],
    load: &str,
    measurement: impl Fn(Limiter, Rule) -> Measurement,
) -> anyhow::Result<()> {
    let mut found: Vec<Vec<BesideRaw>> = vec![Vec::new(); limiters.len()];
    for round in 1..=bench.choices.rounds() {
        tell(&format!("takes of several, {load}, round {round}"));
        let mut raw = None;
        for ((limiter, rule), found) in limiters.iter().zip(&mut found) {
            if !bench.has(*limiter) {
                continue;
            }
            let time = bench.choices.time();
            let measured = bench.measure(&Measurement { time, ..measurement(*limiter, *rule) }).await;
            if *limiter == Limiter::Raw {
                raw = measured.as_ref().map(Found::rate);
            }
            let raw = raw.context("raw cannot be measured")?;
            found.extend(measured.map(|found| (found, raw)));
        }
    }
    for ((limiter, _), found) in limiters.iter().zip(&found) {
        add_row(table, format!("{}, {load}", limiter.label()), found);
    }
    Ok(())
}
