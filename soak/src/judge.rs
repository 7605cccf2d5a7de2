//! The judgement of a run: every law, with the bounds that docs/reliability.md states for its faults.

use crate::{
    limits::{Form, LEASE, Limit, TICK},
    oracle::{Supply, Taken, fullest, ideal, seconds},
    plan::{Fault, Kind, Plan, Target},
    worker::{Answer, Call, DEADLINE, What},
    world::CALLERS,
};

/// A call may end so many µs after its deadline.
const LATE: u64 = 20_000;
/// A worker uses Redis again so many µs after its return.
const RECOVERY: u64 = 1_000_000;
/// After a loss of data, as many tokens once more may be admitted for so many µs.
const TWICE: u64 = 1_400_000;
/// A settle repays tokens in doubt within so many µs of a fault's end.
const REPAID: u64 = 2_000_000;
/// A machine that stands still for so many µs makes faults of its own.
const STANDS_STILL: u64 = 125_000;
/// Part of the tokens that a bucket may lose that rests as a number, while its workers wait long for replies.
const LOST_AT_REST: f64 = 0.05;
/// Most tokens of one take.
const MOST: f64 = 2.0;

/// The events of a run. Instants are µs of the machine's clock.
#[derive(Debug)]
pub struct Case<'c> {
    /// Its plan.
    pub plan: &'c Plan,
    /// Its buckets, by their numbers.
    pub buckets: &'c [(&'static Limit, Option<&'static str>)],
    /// All calls.
    pub calls: &'c [Call],
    /// Faults: from, until.
    pub happened: &'c [(u64, u64, Fault)],
    /// Ledgers; none if Redis loses its data.
    pub audits: &'c [Audit],
    /// The longest time for which the machine stood still, or kept a worker waiting for a CPU within one call.
    pub stalled: u64,
    /// The instant at which the workers began.
    pub begin: u64,
    /// The instant at which all faults were over.
    pub quiet: u64,
    /// The instant at which the workers were told to stop.
    pub tail_end: u64,
}

/// The ledger of a bucket that was emptied at `began`, and again at `ended`.
#[derive(Clone, Copy, Debug)]
pub struct Audit {
    /// The bucket.
    pub bucket: usize,
    /// Before and after the call that emptied it.
    pub began: (u64, u64),
    /// Before and after the denial that showed that it is nearly empty again.
    pub ended: (u64, u64),
    /// Tokens that were left, and taken then.
    pub drained: u64,
    /// More tokens than were left after that.
    pub left: u64,
}

/// The outcome of a run.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    /// Broken laws and promises; none if all is well.
    pub broken: Vec<String>,
    /// Logs of daemons.
    pub logs: Vec<String>,
    /// Whether the machine stood still, so that promises of time cannot be judged.
    pub is_void: bool,
    /// Calls.
    pub calls: usize,
    /// Tokens admitted.
    pub admitted: u64,
    /// Calls that Redis did not decide.
    pub undecided: usize,
    /// Faults.
    pub faults: usize,
    /// The most tokens beyond law 1 without the bounds for faults, and with them.
    pub excess: Option<(f64, f64)>,
    /// The most µs by which a call outlived its deadline.
    pub slowest: i64,
    /// The longest time without a decision of a worker after all faults, in µs.
    pub recovery: u64,
    /// The most tokens in a ledger that are neither credited nor explained.
    pub off_ledger: f64,
}

/// Judges a run.
pub fn judge(case: &Case<'_>) -> Judgement {
    let mut judgement = Judgement {
        calls: case.calls.len(),
        is_void: case.stalled >= STANDS_STILL,
        faults: case.happened.len(),
        slowest: i64::MIN,
        off_ledger: f64::NEG_INFINITY,
        ..Judgement::default()
    };
    for call in case.calls {
        case.look_at(call, &mut judgement);
    }
    for worker in 0..case.plan.workers {
        case.recovers(worker, &mut judgement);
    }
    for (bucket, (limit, _)) in case.buckets.iter().enumerate() {
        case.never_over(bucket, limit, &mut judgement);
        case.never_starved(bucket, limit, &mut judgement);
    }
    for audit in case.audits {
        case.credited_once(audit, &mut judgement);
    }
    judgement
}

// === impl Case ===

impl Case<'_> {
    fn calls_of(&self, bucket: usize) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(move |call| call.bucket == bucket)
    }

    fn name(&self, bucket: usize) -> String {
        let (limit, key) = self.buckets[bucket];
        key.map_or(limit.name.to_owned(), |key| format!("{} of {key}", limit.name))
    }

    /// An instant in ms of the run.
    fn ms(&self, at: u64) -> String {
        format!("{:.1} ms", (at as f64 - self.begin as f64) / 1e3)
    }

    /// One call: in time, and with no error but one that may pass.
    fn look_at(&self, call: &Call, judgement: &mut Judgement) {
        let was_stopped = self.happened.iter().any(|(from, until, fault)| {
            fault.kind == Kind::Stop(Target::Worker(call.worker))
                && call.sent <= *until
                && *from <= call.received
        });
        let is_leased = self.buckets[call.bucket].0.form == Form::Leased;
        let in_hand = if is_leased { 200_000 } else { 10_000 };
        let allowed = DEADLINE.as_micros() as u64 + if call.what == What::Refund { in_hand } else { 0 };
        let late = (call.received - call.sent) as i64 - (allowed + call.stalled) as i64;
        if !was_stopped {
            judgement.slowest = judgement.slowest.max(late);
            if late > LATE as i64 && !judgement.is_void {
                judgement
                    .broken
                    .push(format!("hung: {late} µs over its deadline at {}: {call:?}", self.ms(call.sent)));
            }
        }
        match &call.answer {
            Answer::Failed(error) => {
                judgement
                    .broken
                    .push(format!("an error that does not pass at {}: {error}", self.ms(call.sent)));
            }
            Answer::Transient(_) => judgement.undecided += 1,
            Answer::Done if call.what == What::Take => judgement.admitted += call.count,
            _ => {}
        }
    }

    /// After all faults, no worker is without a decision for longer than a second.
    fn recovers(&self, worker: usize, judgement: &mut Judgement) {
        let decided = |call: &&Call| matches!(call.answer, Answer::Done | Answer::Denied);
        let calls = self.calls.iter().filter(|call| call.worker == worker).filter(decided);
        let mut instants: Vec<u64> = calls.map(|call| call.received).filter(|at| *at > self.quiet).collect();
        instants.extend([self.quiet, self.tail_end.max(self.quiet)]);
        instants.sort_unstable();
        let gap = instants.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        judgement.recovery = judgement.recovery.max(gap);
        if gap > RECOVERY && !judgement.is_void {
            judgement.broken.push(format!("worker {worker} had no decision for {gap} µs after all faults"));
        }
    }

    /// Law 1.
    fn never_over(&self, bucket: usize, limit: &Limit, judgement: &mut Judgement) {
        let taken: Vec<Taken> = self.calls_of(bucket).filter_map(Call::taken).collect();
        let back =
            self.calls_of(bucket).filter(|call| call.what == What::Refund && call.answer != Answer::Denied);
        let back = back.map(|call| Supply {
            from: call.sent,
            // Without an answer, it may be carried out when the fault is over.
            until: if call.answer == Answer::Done { call.received } else { call.received + REPAID },
            tokens: call.count as f64,
        });
        let back: Vec<Supply> = back.collect();
        let raw = fullest(&taken, &back, limit.terms());
        let supplies: Vec<Supply> = back.into_iter().chain(self.pardons(limit)).collect();
        let found = fullest(&taken, &supplies, limit.terms());
        let before = judgement.excess.unwrap_or((f64::NEG_INFINITY, f64::NEG_INFINITY));
        judgement.excess = Some((before.0.max(raw.excess), before.1.max(found.excess)));
        // A µs of Redis's clock and one of ours end at different instants.
        if found.excess > 0.01 {
            judgement.broken.push(format!(
                "law 1: {:.2} tokens too many of {} from {} to {}",
                found.excess,
                self.name(bucket),
                self.ms(found.from),
                self.ms(found.until)
            ));
        }
    }

    /// Tokens that docs/reliability.md allows beyond law 1 for each fault.
    fn pardons(&self, limit: &Limit) -> Vec<Supply> {
        let lease = if limit.form == Form::Leased { LEASE } else { 0.0 };
        let in_flight = CALLERS as f64 * MOST + lease;
        let mut pardons = Vec::new();
        for &(from, until, fault) in self.happened {
            if fault.kind == Kind::Kill(Target::Redis) && !self.plan.keeps_data {
                pardons.push(Supply { from, until: until + TWICE, tokens: 2.0 * limit.capacity });
            }
            if let Some(worker) = fault.kind.late_worker((until - from) / 1_000) {
                let workers = if worker.is_some() { 1 } else { self.plan.workers };
                pardons.push(Supply { from, until: until + REPAID, tokens: workers as f64 * in_flight });
            }
        }
        if self.stalled >= STANDS_STILL {
            let tokens = self.plan.workers as f64 * in_flight;
            pardons.push(Supply { from: 0, until: u64::MAX, tokens });
        }
        pardons
    }

    /// Law 2, in the quiet tail: from its first token on, a bucket gives what a perfect one gives that is empty then.
    fn never_starved(&self, bucket: usize, limit: &Limit, judgement: &mut Judgement) {
        let is_changed = limit.form == Form::Changing
            && self.happened.iter().any(|(_, _, fault)| fault.kind == Kind::Reload);
        if is_changed || limit.form == Form::Window || judgement.is_void {
            return;
        }
        let tail =
            || self.calls_of(bucket).filter(|call| call.sent > self.quiet && call.received < self.tail_end);
        let Some(first) = tail().filter_map(Call::taken).map(|taken| taken.received).min() else {
            judgement.broken.push(format!("law 2: {} gives nothing after all faults", self.name(bucket)));
            return;
        };
        let wanted: Vec<Taken> = tail().filter(|call| call.what == What::Take).map(Call::all).collect();
        let ideal = ideal(&wanted, first, limit.terms()) as f64;
        let given: u64 = tail().filter_map(Call::taken).map(|taken| taken.count).sum();
        let lost = |call: &&Call| {
            call.answer != Answer::Done && call.answer != Answer::Denied || call.what == What::Refund
        };
        let lost: u64 = tail().filter(lost).map(|call| call.count).sum();
        // Leases that end lose what other workers have overtaken.
        let share = if limit.form == Form::Leased { 0.5 } else { 0.95 };
        let late =
            if limit.form == Form::Ticking { limit.rate * (TICK + seconds(self.stalled)) } else { 0.0 };
        let least = ideal * share - late - lost as f64 - 3.0;
        if (given as f64) < least {
            judgement.broken.push(format!(
                "law 2: {} gives {given} tokens after all faults, a perfect bucket {ideal}, at least {least:.0} are due",
                self.name(bucket)
            ));
        }
    }

    /// Law 3: the tokens admitted are those credited, up to those of calls without an answer.
    fn credited_once(&self, audit: &Audit, judgement: &mut Judgement) {
        let limit = self.buckets[audit.bucket].0;
        let admitted: u64 =
            self.calls_of(audit.bucket).filter_map(Call::taken).map(|taken| taken.count).sum();
        let admitted = (admitted + audit.drained) as f64;
        let unanswered = self
            .calls_of(audit.bucket)
            .filter(|call| call.answer != Answer::Denied && call.taken().is_none());
        let unanswered: u64 = unanswered.map(|call| call.count).sum();
        let killed = |(_, _, fault): &&(u64, u64, Fault)| matches!(fault.kind, Kind::Kill(Target::Worker(_)));
        let killed = self.happened.iter().filter(killed).count() as f64 * CALLERS as f64 * MOST;
        let is_ticking = limit.form == Form::Ticking;
        let least = limit.rate * seconds(audit.ended.0 - audit.began.1) - audit.left as f64;
        // A bucket that rests as a number loses parts of tokens while round trips are longer than a token time.
        let at_rest = if limit.form == Form::Resting { 2.0 + least * LOST_AT_REST } else { 0.0 };
        let slack = if is_ticking { limit.rate * (2.0 * TICK + seconds(self.stalled)) } else { 0.0 };
        let most = limit.rate * seconds(audit.ended.1 - audit.began.0) + 1.0 + limit.terms().capacity
            - limit.capacity;
        let missing = least - admitted - unanswered as f64 - killed - slack - at_rest;
        let spare = admitted - most;
        judgement.off_ledger = judgement.off_ledger.max(missing).max(spare);
        if missing > 0.0 || spare > 0.0 {
            judgement.broken.push(format!(
                "law 3: {admitted} tokens of {} were admitted, {least:.1} to {most:.1} were credited, and {unanswered} takes \
                 had no answer",
                self.name(audit.bucket)
            ));
        }
    }
}

// === impl Call ===

impl Call {
    /// The tokens, if it took some.
    fn taken(&self) -> Option<Taken> {
        (self.what == What::Take && self.answer == Answer::Done).then(|| self.all())
    }

    fn all(&self) -> Taken {
        Taken { sent: self.sent, received: self.received, count: self.count }
    }
}

// === impl Judgement ===

impl Judgement {
    /// The judgement of a run that could not be carried out.
    pub fn failed(why: String) -> Self {
        Self { broken: vec![why], ..Self::default() }
    }
}
