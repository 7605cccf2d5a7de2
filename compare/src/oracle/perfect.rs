//! A perfect limiter, one bucket of it, with time as an argument.

use std::collections::VecDeque;
use topup_lab::clock::Micros;

use super::{Ideal, Oracle};
use crate::rule::Rule;

/// One bucket of a perfect limiter.
#[derive(Clone, Debug)]
pub struct Perfect {
    rule: Rule,
    offset: i64,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    /// The instant at which it is full, times the tokens of a span: so a remainder is never lost.
    Bucket { full: i128 },
    /// Takes allowed within the last window.
    Sliding { allowed: VecDeque<(Micros, u64)>, sum: u64 },
    /// The number of the window, and what was allowed in it.
    Fixed { window: i128, sum: u64 },
    /// When the window began, and what was allowed in it.
    FixedByFirst { since: Option<Micros>, sum: u64 },
}

// === impl Perfect ===

impl Perfect {
    /// A bucket nobody has asked yet. It takes nothing back.
    pub fn new(oracle: &Oracle) -> Self {
        let state = match oracle.ideal {
            Ideal::Bucket
            | Ideal::Settled
            | Ideal::Permits
            | Ideal::Shares
            | Ideal::Penalized
            | Ideal::Defined => State::Bucket { full: 0 },
            Ideal::Sliding => State::Sliding { allowed: VecDeque::new(), sum: 0 },
            Ideal::Fixed => State::Fixed { window: i128::MIN, sum: 0 },
            Ideal::FixedByFirst => State::FixedByFirst { since: None, sum: 0 },
        };
        Self { rule: oracle.rule, offset: oracle.offset, state }
    }

    /// Takes `count` tokens at `at`, all or nothing; instants never go back.
    pub fn take(&mut self, at: Micros, count: u64) -> bool {
        let Rule { capacity, tokens, micros } = self.rule;
        let window = self.rule.window();
        match &mut self.state {
            State::Bucket { full } => {
                let now = i128::from(at) * i128::from(tokens);
                let then = (*full).max(now) + i128::from(count) * i128::from(micros);
                let allowed = then <= now + i128::from(capacity) * i128::from(micros);
                if allowed {
                    *full = then;
                }
                allowed
            }
            State::Sliding { allowed, sum } => {
                while let Some(&(first, gone)) = allowed.front()
                    && first + window <= at
                {
                    *sum -= gone;
                    allowed.pop_front();
                }
                if *sum + count > capacity {
                    return false;
                }
                allowed.push_back((at, count));
                *sum += count;
                true
            }
            State::Fixed { window: current, sum } => {
                let number = (i128::from(at) + i128::from(self.offset)).div_euclid(i128::from(window));
                if number != *current {
                    (*current, *sum) = (number, 0);
                }
                fits(sum, count, capacity)
            }
            State::FixedByFirst { since, sum } => {
                if since.is_none_or(|since| since + window <= at) {
                    (*since, *sum) = (Some(at), 0);
                }
                fits(sum, count, capacity)
            }
        }
    }

    /// The first instant, from `at` on, at which a take of `count` would be allowed; for buckets only.
    pub fn again(&self, at: Micros, count: u64) -> Option<Micros> {
        let State::Bucket { full } = self.state else { return None };
        let Rule { capacity, tokens, micros } = self.rule;
        let short = full + i128::from(count) * i128::from(micros) - i128::from(capacity) * i128::from(micros);
        let (short, tokens) = (short.max(0).unsigned_abs(), u128::from(tokens));
        u64::try_from(short.div_ceil(tokens)).ok().map(|then| then.max(at))
    }
}

fn fits(sum: &mut u64, count: u64, capacity: u64) -> bool {
    let fits = *sum + count <= capacity;
    if fits {
        *sum += count;
    }
    fits
}
