//! Bounds of the laws, computed in whole numbers from the instants and counts of admitted takes alone.

/// Law 1 and law 2 over one bucket's admissions, of n tokens every p µs.
///
/// Tokens are counted in shares of 1/p, so that a µs brings n of them and every number is whole.
#[derive(Debug)]
pub(crate) struct Oracle {
    n: i128,
    p: i128,
    capacity: i128,
    admitted: i128,
    /// The highest of `n * start - p * admitted before it`, of all windows that could begin.
    start: i128,
    /// The same of windows that begin with a denial; the lowest, so with signs changed.
    dry: Option<i128>,
    over: i128,
    under: i128,
    last_denied: u64,
}

// === impl Oracle ===

impl Oracle {
    pub(crate) fn new(capacity: u64, (n, p): (u64, u64)) -> Self {
        Self {
            n: n.into(),
            p: p.into(),
            capacity: capacity.into(),
            admitted: 0,
            start: i128::MIN,
            dry: None,
            over: i128::MIN,
            under: i128::MIN,
            last_denied: 0,
        }
    }

    /// `count` tokens were given at some instant from `from` to `to`.
    pub(crate) fn admitted(&mut self, from: u64, to: u64, count: u64) {
        self.start = self.start.max(self.n * i128::from(from) - self.p * self.admitted);
        self.admitted += i128::from(count);
        let ends = self.p * (self.admitted - self.capacity) - self.n * i128::from(to);
        self.over = self.over.max(ends + self.start);
    }

    /// `count` tokens were put back.
    pub(crate) fn put_back(&mut self, count: u64) {
        self.admitted -= i128::from(count);
    }

    /// A take of one was denied at `at`.
    pub(crate) fn denied(&mut self, at: u64) {
        let given = self.p * self.admitted - self.n * i128::from(at);
        // A bucket not asked for so long that it may have been full has given nothing away meanwhile.
        let seldom = self.n * i128::from(at - self.last_denied) >= self.p * (self.capacity - 1);
        let most = self.dry.filter(|_| !seldom).unwrap_or(given);
        self.under = self.under.max(most - given - self.p);
        self.dry = Some(most.max(given));
        self.last_denied = at;
    }

    /// The most by which any window had more than capacity and rate allow, in µs of the rate, rounded up.
    pub(crate) fn over(&self) -> i128 {
        // The division of a negative number rounds up by itself.
        (self.over + self.n - 1).div_euclid(self.n)
    }

    /// The most by which any window between two denials had less than the rate and one token less, in µs of the rate.
    pub(crate) fn under(&self) -> i128 {
        (self.under + self.n - 1).div_euclid(self.n)
    }

    /// µs of the rate as tokens, for a message.
    pub(crate) fn tokens(&self, micros: i128) -> f64 {
        (micros * self.n) as f64 / self.p as f64
    }
}

#[test]
fn the_oracle_knows_too_much_from_enough() {
    // 3 tokens at once, one a second.
    let second = 1_000_000;
    let mut oracle = Oracle::new(3, (1, second));
    for at in [0, 0, 0, second, 2 * second] {
        oracle.admitted(at, at, 1);
    }
    assert_eq!(oracle.over(), 0);
    oracle.admitted(2 * second + 400_000, 2 * second + 400_000, 1);
    assert_eq!(oracle.over(), 600_000);
}

#[test]
fn the_oracle_knows_too_little_from_enough() {
    let second = 1_000_000;
    let mut oracle = Oracle::new(3, (1, second));
    oracle.denied(0);
    oracle.denied(second + 999_999);
    assert_eq!(oracle.under(), 999_999);
    oracle.admitted(2 * second, 2 * second, 2);
    oracle.denied(2 * second);
    assert_eq!(oracle.under(), 999_999);
}
