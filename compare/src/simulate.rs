//! A limit tried on a trace by the twin of topup's scripts, in virtual time.

use std::{collections::HashMap, fmt::Write};

use anyhow::{bail, ensure};
use serde::Serialize;
use topup_lab::clock::{Micros, SECOND};
use topup_twin::{
    Bucket, FairShares, FixedWindow, LazyBucket, LeakyBucket, Record, ShareTerms, SlidingCounter, SlidingLog,
    State,
};
use topup_wire::{
    bucket::Operation,
    limit::{Algorithm, Limit, Schedule, Supply},
    reply::{Settled, Verdict},
};

use crate::replay::Trace;

/// The instant of the first take, in µs: the beginning of a day, so that aligned windows begin with it.
pub const BEGIN: Micros = 20_000 * 86_400 * SECOND;
/// Most keys that are named.
const MOST_NAMED: usize = 10;

/// The decisions that a limit would have made.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Simulated {
    /// The limit.
    pub limit: String,
    /// Its algorithm.
    pub algorithm: &'static str,
    /// Most tokens of a bucket.
    pub capacity: u64,
    /// Tokens per interval, or per window.
    pub rate: String,
    /// Takes of the trace.
    pub takes: u64,
    /// Keys of the trace.
    pub keys: u64,
    /// The length of the trace, in seconds.
    pub seconds: f64,
    /// Takes that would have been allowed.
    pub allowed: u64,
    /// Takes that would have been denied.
    pub denied: u64,
    /// Denied takes of more tokens than a bucket ever holds.
    pub too_large: u64,
    /// The longest time that a denial would have named, in seconds; absent without one.
    pub longest_retry_after: Option<f64>,
    /// The keys that would have been denied most.
    pub most_denied: Vec<DeniedKey>,
}

/// A key that would have been denied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeniedKey {
    /// The key, as the trace names it.
    pub key: String,
    /// Its denied takes.
    pub denied: u64,
    /// All its takes.
    pub takes: u64,
}

/// Decides every take of `trace` under `limit`. Each bucket is full before its first take.
///
/// # Errors
/// For a limit whose tokens come by the calendar or by a daemon's ticks: the trace tells neither.
pub fn simulate(limit: &Limit, trace: &Trace) -> anyhow::Result<Simulated> {
    ensure!(
        !matches!(limit.terms.supply, Supply::Period(_)),
        "limit {} is filled by the calendar, and a simulation has none: see `replay`",
        limit.name
    );
    ensure!(
        limit.catch_up || limit.algorithm != Algorithm::TokenBucket,
        "tokens of limit {} come with the ticks of a daemon, and a simulation has none: see `replay`",
        limit.name
    );
    ensure!(
        !limit.algorithm.has_permits(),
        "limit {} has permits in place of tokens, and a trace tells no releases",
        limit.name
    );
    // Schedules name instants of the calendar, too: the terms are those in force at the beginning.
    let limit = Limit { schedule: Schedule::NONE, ..limit.clone() };
    let record = Record::new(&limit, BEGIN);
    let replies = match limit.algorithm {
        Algorithm::TokenBucket | Algorithm::Gcra => {
            let settle = |bucket: &mut Option<Bucket>, operation, now| {
                topup_twin::settle(&record, bucket.get_or_insert_default(), operation, false, 0, now)
            };
            decide(&limit, trace, settle)
        }
        Algorithm::LazyTokenBucket => scripted::<LazyBucket>(&limit, &record, trace),
        Algorithm::LeakyBucket => scripted::<LeakyBucket>(&limit, &record, trace),
        Algorithm::FixedWindow => scripted::<FixedWindow>(&limit, &record, trace),
        Algorithm::SlidingWindow => scripted::<SlidingLog>(&limit, &record, trace),
        Algorithm::SlidingCounter => scripted::<SlidingCounter>(&limit, &record, trace),
        Algorithm::FairShares => shared(&limit, record, trace),
        // Refused above.
        Algorithm::Concurrency => Vec::new(),
    };
    summarize(&limit, trace, &replies)
}

fn scripted<S: State>(limit: &Limit, record: &Record, trace: &Trace) -> Vec<Settled> {
    decide(limit, trace, |state: &mut Option<S>, operation, now| S::settle(record, state, operation, now))
}

/// The replies of a limit whose keys borrow from each other.
fn shared(limit: &Limit, record: Record, trace: &Trace) -> Vec<Settled> {
    let (terms, mut state) = (ShareTerms::new(limit, record), None);
    let mut take = |entry: &crate::replay::trace::Entry| {
        let (key, take) = (&trace.keys[entry.key as usize], Operation::Take(entry.count.into()));
        FairShares::settle(&terms, &mut state, key, take, BEGIN + entry.at, None)
    };
    trace.entries.iter().map(&mut take).collect()
}

/// The replies to all takes, in order.
fn decide<S>(
    limit: &Limit,
    trace: &Trace,
    settle: impl Fn(&mut Option<S>, Operation, u64) -> Settled,
) -> Vec<Settled> {
    let mut states: HashMap<u32, Option<S>> = HashMap::new();
    let take = |entry: &crate::replay::trace::Entry| {
        let key = if limit.keyed { entry.key } else { 0 };
        let state = states.entry(key).or_insert(None);
        settle(state, Operation::Take(entry.count.into()), BEGIN + entry.at)
    };
    trace.entries.iter().map(take).collect()
}

fn summarize(limit: &Limit, trace: &Trace, replies: &[Settled]) -> anyhow::Result<Simulated> {
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
        longest_retry_after: longest.map(|wait| wait as f64 / SECOND as f64),
        most_denied,
    })
}

// === impl Simulated ===

impl Simulated {
    /// The figures as lines.
    pub fn text(&self) -> String {
        let share = |takes: u64| takes as f64 * 100.0 / self.takes.max(1) as f64;
        let mut text = format!(
            "limit {}: {}, capacity {}, {}\n{} takes of {} keys in {:.1} s\n{} allowed ({:.1} %), {} denied ({:.1} %)",
            self.limit,
            self.algorithm,
            self.capacity,
            self.rate,
            self.takes,
            self.keys,
            self.seconds,
            self.allowed,
            share(self.allowed),
            self.denied,
            share(self.denied),
        );
        if self.too_large > 0 {
            let _ = write!(text, "\n{} of them ask for more than a bucket ever holds", self.too_large);
        }
        if let Some(longest) = self.longest_retry_after {
            let _ = write!(text, "\nlongest retry_after {longest:.3} s");
        }
        if !self.most_denied.is_empty() {
            text += "\nmost denied";
        }
        for DeniedKey { key, denied, takes } in &self.most_denied {
            let key: String = key.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
            let _ = write!(text, "\n  {key}  {denied} of {takes}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use topup_daemon::{config::Config, publish::desired_limits};

    use super::*;

    fn limits(text: &str) -> Vec<Limit> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let config = Config::load(file.path()).unwrap();
        desired_limits(&config, BEGIN, |_| true).into_iter().map(|desired| desired.limit).collect()
    }

    fn of(algorithm: &str, keyed: bool) -> Limit {
        let terms = match algorithm {
            "fixed-window" | "sliding-window" | "sliding-counter" => "limit = 5\nwindow = \"10s\"",
            _ => "capacity = 5\nrate = \"1/2s\"",
        };
        limits(&format!("[limit.x]\nkeyed = {keyed}\nalgorithm = \"{algorithm}\"\n{terms}\n")).remove(0)
    }

    /// Eight takes of "a" at once, one of "b", and one of each after four seconds and after twenty.
    const TRACE: &str = "0,a\n0,a\n0,a\n0,a\n0,a\n0,a\n0,a\n0,a\n0,b\n4,a\n4,b\n20,a\n20,b\n20,b,6\n";

    #[test]
    fn each_algorithm_decides_a_trace_as_its_script_does() {
        let trace = Trace::parse(TRACE, "trace").unwrap();
        // Windows of 10 s give nothing back after 4 s.
        for (algorithm, denied_of_a) in [
            ("token-bucket", 3),
            ("lazy-token-bucket", 3),
            ("gcra", 3),
            ("leaky-bucket", 3),
            ("fixed-window", 4),
            ("sliding-window", 4),
            ("sliding-counter", 4),
        ] {
            let told = simulate(&of(algorithm, true), &trace).unwrap();
            assert_eq!(
                (told.takes, told.keys, told.denied, told.too_large),
                (14, 2, denied_of_a + 1, 1),
                "{algorithm}"
            );
            let key = |key: &str, denied, takes| DeniedKey { key: key.to_owned(), denied, takes };
            assert_eq!(told.most_denied, [key("a", denied_of_a, 10), key("b", 1, 4)], "{algorithm}");
            assert!(told.longest_retry_after.is_some_and(|wait| wait >= 2.0), "{told:?}");
            // One bucket for all.
            let told = simulate(&of(algorithm, false), &trace).unwrap();
            assert!(told.denied > denied_of_a + 1, "{algorithm}: {told:?}");
        }
        let text = simulate(&of("token-bucket", true), &trace).unwrap().text();
        assert_eq!(
            text,
            "limit x: token-bucket, capacity 5, 1/2s\n14 takes of 2 keys in 20.0 s\n10 allowed (71.4 %), 4 denied \
             (28.6 %)\n1 of them ask for more than a bucket ever holds\nlongest retry_after 2.000 s\nmost denied\n  a  3 of \
             10\n  b  1 of 4"
        );
    }

    #[test]
    fn what_a_trace_cannot_tell_is_refused() {
        let trace = Trace::parse(TRACE, "trace").unwrap();
        let quota = "[limit.x]\ncapacity = 5\nrefill = { cron = \"0 0 0 1 * *\" }\n";
        let pure = "[limit.x]\ncapacity = 5\nrate = \"1/s\"\ncatch_up = false\n";
        for text in [quota, pure] {
            assert!(simulate(&limits(text)[0], &trace).unwrap_err().to_string().contains("see `replay`"));
        }
    }
}
