//! The judge: an ideal bucket in whole numbers, which knows nothing of forms, scripts and estimates.
//!
//! A run notes events in the order in which Redis carries them out. The judge reads them when the run is over: only
//! then is it known which tokens a caller was told of.

use topup_wire::limit::OnChange;

use crate::plan::Promise;

/// Something that happened to a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Note {
    /// A caller was told that so many tokens are its own.
    Admitted(u64),
    /// Tokens were charged: their number, the most debt after it, and the tokens that were in hand or on their way then.
    /// These may be admitted before the debt is repaid.
    Charged(u64, u64, u64),
    /// Tokens were given back: their number.
    Given(u64),
    /// The bucket was filled.
    Filled,
    /// New terms are announced or to apply: until the change is made, the larger capacity and rate hold.
    Changing(Promise),
    /// The change is made.
    Changed(Promise, OnChange),
    /// A command that was carried out late took so many tokens of a bucket that had become full on the way. They are in
    /// doubt, under this number, until their worker settles.
    Doubtful(u64, u64),
    /// The worker has settled that doubt; the bucket had so many tokens too few to pay it.
    Paid(u64, u64),
    /// Redis has lost its knowledge of so many tokens: they may be admitted once more until the instant.
    Pardoned(u64, u64),
    /// The clock of Redis stepped forward by so many µs.
    Stepped(u64),
    /// Redis holds so many tokens, and so many are in no bucket: in hand, on their way, or lost.
    Seen(u64, u64),
}

/// A law that was broken, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which bucket.
    pub bucket: usize,
    /// The instant, in µs of the run.
    pub at: u64,
    /// Which law, and by how much.
    pub law: Law,
}

/// A law, and by how much it was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Law {
    /// Law 1: more was admitted than the capacity and the rate allow, by so many thousandths of a token.
    Over(u64),
    /// Law 2: in a window of a bucket asked above its rate, so many thousandths of a token fewer than the rate came.
    Starved(u64),
    /// Law 3: so many thousandths of a token are neither in the bucket nor anywhere else.
    Vanished(u64),
    /// Law 4: a bucket has a key though it has been full for seconds.
    KeyStays(String),
    /// A caller was not answered in time: after so many µs, or not at all.
    Unanswered(Option<u64>),
    /// The code panicked.
    Panicked(String),
}

/// A bucket of ideal precision.
struct Ideal {
    /// Units of a token: all rates bring whole numbers of them in a µs.
    token: i128,
    capacity: i128,
    /// Units in each µs.
    rate: i128,
    level: i128,
    /// Units below zero that charges have left in Redis. Only tokens that were in hand then are admitted meanwhile.
    debt: i128,
    at: u64,
    /// Until the change is made, no less than these.
    changing: Vec<(i128, i128)>,

    in_doubt: Vec<(u64, i128)>,
    pardon: i128,
    pardoned_until: u64,
    /// Units that doubts have left in the bucket, which Redis may have charged all the same.
    gifts: i128,
    most: i128,
}

// === impl Ideal ===

impl Ideal {
    fn new(promises: &[Promise]) -> Self {
        let mut intervals: Vec<u64> = promises.iter().map(|promise| promise.interval).collect();
        intervals.sort_unstable();
        intervals.dedup();
        let token = intervals.iter().map(|interval| i128::from(*interval)).product();
        let mut ideal = Self {
            token,
            capacity: 0,
            rate: 0,
            level: 0,
            debt: 0,
            at: 0,
            changing: Vec::new(),
            in_doubt: Vec::new(),
            pardon: 0,
            pardoned_until: 0,
            gifts: 0,
            most: 0,
        };
        (ideal.capacity, ideal.rate) = ideal.of(promises[0]);
        ideal.level = ideal.capacity;
        ideal
    }

    fn of(&self, promise: Promise) -> (i128, i128) {
        let rate = self.token / i128::from(promise.interval) * i128::from(promise.tokens);
        (self.tokens(promise.capacity), rate)
    }

    fn tokens(&self, count: u64) -> i128 {
        i128::from(count) * self.token
    }

    /// The effective capacity and rate: the larger ones during a change.
    fn effective(&self) -> (i128, i128) {
        let larger =
            |(capacity, rate): (i128, i128), other: &(i128, i128)| (capacity.max(other.0), rate.max(other.1));
        self.changing.iter().fold((self.capacity, self.rate), larger)
    }

    fn pass(&mut self, micros: u64) {
        let (capacity, rate) = self.effective();
        let come = i128::from(micros) * rate;
        self.level = (self.level + come).min(capacity);
        self.debt = (self.debt - come).max(0);
    }

    /// Units that may be missing, since they are in doubt or pardoned.
    fn forgiven(&mut self, at: u64) -> i128 {
        if at > self.pardoned_until {
            self.pardon = 0;
        }
        // A pardon is used up.
        let used = (-self.level).clamp(0, self.pardon);
        (self.level, self.pardon) = (self.level + used, self.pardon - used);
        self.in_doubt.iter().map(|(_, units)| units).sum()
    }

    /// Takes in `note`: the units by which the level is below zero.
    fn note(&mut self, at: u64, note: Note) -> i128 {
        self.pass(at - self.at);
        self.at = at;
        match note {
            Note::Admitted(count) => self.level -= self.tokens(count),
            Note::Charged(count, most, elsewhere) => {
                self.level -= self.tokens(count);
                let debt = self.tokens(elsewhere) - self.level;
                self.debt = self.debt.max(debt.min(self.tokens(most)));
            }
            Note::Given(count) => {
                self.level = (self.level + self.tokens(count)).min(self.effective().0);
                self.debt = (self.debt - self.tokens(count)).max(0);
            }
            Note::Filled => (self.level, self.debt) = (self.effective().0, 0),
            Note::Changing(promise) => {
                // No window may exceed the larger of the two. A raise that is made late counts from its instant on, and
                // takes by the previous terms since then are forgotten.
                let before = self.effective().0;
                self.changing.push(self.of(promise));
                self.level += self.effective().0 - before;
            }
            Note::Changed(promise, on_change) => {
                let before = self.capacity;
                (self.capacity, self.rate) = self.of(promise);
                let made = (self.capacity, self.rate);
                self.changing.retain(|changing| *changing != made);
                self.level = match on_change {
                    OnChange::Keep => self.level,
                    OnChange::Proportional if self.level < 0 => self.level,
                    OnChange::Proportional => {
                        (self.level / self.token + 1) * self.capacity / (before / self.token)
                    }
                    OnChange::Reset => self.capacity,
                };
                self.level = self.level.min(self.capacity);
            }
            Note::Doubtful(number, count) => {
                let units = self.tokens(count);
                self.in_doubt.push((number, units));
            }
            Note::Paid(number, unpaid) => {
                let paid = |(of, units): &(u64, i128)| if *of == number { *units } else { 0 };
                let doubtful = self.in_doubt.iter().map(paid).sum();
                self.in_doubt.retain(|(of, _)| *of != number);
                let unpaid = i128::from(unpaid).saturating_mul(self.token).min(doubtful);
                self.level = (self.level + unpaid).min(self.effective().0);
                self.gifts += unpaid;
            }
            Note::Pardoned(count, until) => {
                self.pardon = self.pardon.max(self.tokens(count));
                self.pardoned_until = self.pardoned_until.max(until);
            }
            Note::Stepped(micros) => self.pass(micros),
            Note::Seen(..) => {}
        }
        let forgiven = self.forgiven(at);
        let over = -self.level - forgiven;
        if matches!(note, Note::Admitted(_)) {
            self.most = self.most.max(-self.level);
        }
        over
    }
}

/// The first law that a bucket's notes break, and the worst excess over law 1 in thousandths of a token.
pub(crate) fn judge(
    bucket: usize,
    promises: &[Promise],
    notes: &[(u64, Note)],
    vanishing: bool,
) -> (Option<Broken>, u64) {
    let mut ideal = Ideal::new(promises);
    // Buckets that rest as numbers keep exact instants, with two exceptions. A key may live 2 ms too long. A first take may
    // name an instant that has passed by a quarter of a token.
    let exact = vanishing && promises.iter().all(|promise| promise.rests_as_number());
    let allowed = if exact { ideal.token * 3 / 5 } else { ideal.token };
    let mut broken = None;
    for &(at, note) in notes {
        let over = ideal.note(at, note);
        let law = match note {
            Note::Charged(_, debt, _) if over >= allowed + ideal.tokens(debt) => {
                Some(Law::Over(ideal.thousandths(over - ideal.tokens(debt))))
            }
            Note::Admitted(_) | Note::Paid(..) if over >= allowed + ideal.debt => {
                Some(Law::Over(ideal.thousandths(over)))
            }
            Note::Seen(tokens, elsewhere) if vanishing => {
                // A first take may be noted 1 ms late, and a token falls on a whole µs.
                let slack = ideal.token * 2 + ideal.rate * 1_010 + ideal.gifts;
                let vanished = ideal.level - ideal.tokens(tokens) - ideal.tokens(elsewhere) - slack;
                (vanished > 0).then(|| Law::Vanished(ideal.thousandths(vanished + slack)))
            }
            _ => None,
        };
        if let (Some(law), None) = (law, &broken) {
            broken = Some(Broken { bucket, at, law });
        }
    }
    let worst = ideal.thousandths(ideal.most.max(0));
    (broken, worst)
}

impl Ideal {
    fn thousandths(&self, units: i128) -> u64 {
        u64::try_from(units * 1_000 / self.token).unwrap_or(0)
    }
}

/// Law 2: by how many thousandths of a token the worst window from `from` on fell short of the rate.
pub(crate) fn short_of_rate(promise: Promise, notes: &[(u64, Note)], from: u64, to: u64) -> (u64, u64) {
    let (tokens, interval) = (i128::from(promise.tokens), i128::from(promise.interval));
    // Windows begin after an admission and end before another.
    let (mut admitted, mut least, mut worst, mut worst_at) = (0_i128, None::<i128>, 0, 0);
    let ends = notes.iter().filter_map(|&(at, note)| match note {
        Note::Admitted(count) if (from..to).contains(&at) => Some((at, count)),
        _ => None,
    });
    for (at, count) in ends {
        let due = i128::from(at - from) * tokens - admitted * interval;
        let short = due - least.unwrap_or(due);
        if short > worst {
            (worst, worst_at) = (short, at);
        }
        admitted += i128::from(count);
        let begins = i128::from(at - from) * tokens - admitted * interval;
        least = Some(least.map_or(begins, |least| least.min(begins)));
    }
    (u64::try_from(worst * 1_000 / interval).unwrap_or(0), worst_at)
}
