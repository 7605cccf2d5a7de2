//! Random limits, and the seeds that they come from.

use std::{ops::Range, time::Duration};

use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use topup_twin::Record;
use topup_wire::{
    bucket::{Operation, Pace, Reservation},
    limit::{Algorithm, Capacity, Limit, MAX_TOKENS, OnChange, Period, Rate, Rule, Supply, Terms, Windows},
    scripts::rests_as_number,
};

/// Rates that do not divide evenly, come faster than the clock, or hardly at all.
const NASTY: [&str; 16] = [
    "1/366d",
    "1/7d",
    "999999/d",
    "1000/h",
    "7/min",
    "60/min",
    "1/s",
    "3/s",
    "997/s",
    "999983/s",
    "1000003/s",
    "7919/3ms",
    "999/ms",
    "1001/ms",
    "9007199254740991/s",
    "9007199254740992/ms",
];

/// Rates of whole tokens for each µs, which `settle_packed.lua` computes with, too.
const WHOLE: [&str; 4] = ["1000/ms", "2000/ms", "1000000000/s", "9000000000000000/ms"];

/// Rates whose tokens come one by one, and no two within 2 ms.
const AS_NUMBERS: [&str; 13] = [
    "1/366d", "1/7d", "1000/h", "60/min", "10/s", "100/s", "200/s", "500/s", "7/d", "3/s", "30/s", "47/s",
    "300/s",
];

/// 25 years, in µs: instants moved by no more stay instants.
pub(crate) const FARTHEST: i64 = 25 * 366 * 86_400_000_000;

/// Says which seed it was when a test fails.
pub(crate) struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay with TOPUP_TEST_SEED={}", self.0);
        }
    }
}

/// The seeds to run: `count` of them, unless TOPUP_TEST_SEED names one or a range.
pub(crate) fn seeds(count: u64) -> impl Iterator<Item = (Seed, StdRng)> {
    let range = std::env::var("TOPUP_TEST_SEED").map_or(0..count, |text| range(&text));
    range.map(|seed| (Seed(seed), StdRng::seed_from_u64(seed)))
}

fn range(text: &str) -> Range<u64> {
    let number = |text: &str| text.parse::<u64>().unwrap();
    text.split_once("..")
        .map_or_else(|| number(text)..number(text) + 1, |(from, to)| number(from)..number(to))
}

/// A token bucket: `capacity` tokens, `rate`.
pub(crate) fn limit(capacity: u64, rate: &str) -> Limit {
    let capacity = Capacity::new(capacity).unwrap();
    let terms = Terms { capacity, supply: Supply::Rate(rate.parse().unwrap()) };
    Limit::plain("mail".parse().unwrap(), Algorithm::TokenBucket, terms)
}

/// A limit under `algorithm` of whose buckets `capacity` tokens can be taken at once, and then none for long.
pub(crate) fn limit_of(algorithm: Algorithm, capacity: u64) -> Limit {
    let limit = Limit { algorithm, ..limit(capacity, "1/d") };
    if !algorithm.has_windows() {
        return limit;
    }
    let rule = Rule::new(capacity, Duration::from_secs(86_400)).unwrap();
    let supply = Supply::Windows(Windows::new(&[rule], false).unwrap());
    Limit { terms: Terms { supply, ..limit.terms }, ..limit }
}

/// A whole number of any size up to `most`: the small as likely as the large.
pub(crate) fn any_size(rng: &mut StdRng, most: u64) -> u64 {
    let bits = rng.random_range(0..=63 - most.leading_zeros().min(63));
    rng.random_range(0..=(2_u64 << bits) - 1).min(most)
}

pub(crate) fn capacity(rng: &mut StdRng) -> Capacity {
    let tokens = if rng.random_bool(0.1) { MAX_TOKENS } else { any_size(rng, MAX_TOKENS).max(1) };
    Capacity::new(tokens).unwrap()
}

/// A rate, often one that `settle_packed.lua` has a case for.
pub(crate) fn packed_rate(rng: &mut StdRng) -> Rate {
    if rng.random_bool(0.2) { WHOLE.choose(rng).unwrap().parse().unwrap() } else { rate(rng) }
}

pub(crate) fn rate(rng: &mut StdRng) -> Rate {
    if rng.random_bool(0.6) {
        return NASTY.choose(rng).unwrap().parse().unwrap();
    }
    let micros = any_size(rng, 366 * 86_400_000_000).max(1_000);
    Rate::new(any_size(rng, MAX_TOKENS).max(1), Duration::from_micros(micros)).unwrap()
}

/// A calendar quota around `now`; now and then one that no daemon has kept up to date.
pub(crate) fn period(rng: &mut StdRng, now: u64) -> Period {
    let (past, future) = (any_size(rng, 1 << 45), any_size(rng, 1 << 45).max(1));
    let next = match rng.random_range(0..10) {
        0 => 1 << 53,
        1 => now.saturating_sub(any_size(rng, past.max(1))),
        _ => now + future,
    };
    Period { since: if rng.random_bool(0.1) { 0 } else { now - past }, next }
}

/// Terms under which a bucket at rest is one integer.
pub(crate) fn terms_of_numbers(rng: &mut StdRng) -> Terms {
    loop {
        let rate: Rate = AS_NUMBERS.choose(rng).unwrap().parse().unwrap();
        let (n, p) = rate.lowest_terms();
        let capacity = any_size(rng, 100_000).max(3);
        if rests_as_number(capacity, Pace { n, p }) {
            return Terms { capacity: Capacity::new(capacity).unwrap(), supply: Supply::Rate(rate) };
        }
    }
}

pub(crate) fn terms(rng: &mut StdRng, now: u64) -> Terms {
    if rng.random_bool(0.4) {
        return terms_of_numbers(rng);
    }
    let supply =
        if rng.random_bool(0.2) { Supply::Period(period(rng, now)) } else { Supply::Rate(packed_rate(rng)) };
    Terms { capacity: capacity(rng), supply }
}

pub(crate) fn on_change(rng: &mut StdRng) -> OnChange {
    *OnChange::ALL.choose(rng).unwrap()
}

/// A number of tokens: any, about the capacity, or none.
pub(crate) fn count(record: &Record, rng: &mut StdRng) -> u64 {
    let capacity = record.capacity;
    match rng.random_range(0..10) {
        0 => 0,
        1 => (capacity + rng.random_range(0..2)).min(MAX_TOKENS),
        2 => any_size(rng, MAX_TOKENS),
        _ => any_size(rng, capacity),
    }
}

/// A charge, often into debt.
pub(crate) fn charge(record: &Record, rng: &mut StdRng) -> Operation {
    let most_debt = match rng.random_range(0..4) {
        0 => 0,
        1 => any_size(rng, MAX_TOKENS),
        _ => any_size(rng, record.capacity),
    };
    Operation::Charge { count: count(record, rng), most_debt }
}

/// A charge or a reservation.
pub(crate) fn ahead(record: &Record, rng: &mut StdRng) -> Operation {
    if rng.random_bool(0.5) {
        return charge(record, rng);
    }
    Operation::Reserve(Reservation {
        count: count(record, rng),
        longest: some_time(record, rng).unsigned_abs(),
        in_hand_for: any_size(rng, 60_000_000),
        forfeit: if rng.random_bool(0.5) { 0 } else { any_size(rng, 100_000) },
    })
}

/// Some µs: next to none, about a token's time, about the time until full, or any.
pub(crate) fn some_time(record: &Record, rng: &mut StdRng) -> i64 {
    let (n, p) = (u128::from(record.pace.n.max(1)), u128::from(record.pace.p));
    let tokens = match rng.random_range(0..4) {
        0 => return rng.random_range(0..5),
        1 => return any_size(rng, FARTHEST as u64) as i64,
        2 => u128::from(rng.random_range(1..4_u64)),
        _ => u128::from(any_size(rng, record.capacity)),
    };
    let by = i64::try_from(tokens * p / n).unwrap_or(FARTHEST).min(FARTHEST);
    by + rng.random_range(-2..3).max(-by)
}
