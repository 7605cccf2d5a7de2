//! The judge of tokens. It knows the laws and the instants of calls, and nothing of topup.

/// The terms of a limit, for law 1.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Most tokens at once.
    pub capacity: f64,
    /// Tokens a second.
    pub rate: f64,
    /// The longest window that the terms bound, in µs.
    pub longest: u64,
}

/// Tokens of one call, which were taken at some instant from `sent` to `received`, in µs.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// The instant before the call.
    pub sent: u64,
    /// The instant after it.
    pub received: u64,
    /// Tokens.
    pub count: u64,
}

/// Tokens that a window may hold beyond the terms, if it meets the time from `from` to `until`.
#[derive(Clone, Copy, Debug)]
pub struct Supply {
    /// The earliest instant.
    pub from: u64,
    /// The latest instant.
    pub until: u64,
    /// Tokens.
    pub tokens: f64,
}

/// The window that is fullest against its bound.
#[derive(Clone, Copy, Debug)]
pub struct Fullest {
    /// Tokens beyond the bound; below 0 within it.
    pub excess: f64,
    /// Its first instant.
    pub from: u64,
    /// Its last instant.
    pub until: u64,
}

/// Law 1 in every window that begins with a call and ends with another. A token counts where its whole call lies within
/// the window: only then it was surely taken there.
pub fn fullest(taken: &[Taken], supplies: &[Supply], terms: Terms) -> Fullest {
    let (mut by_sending, mut by_answer) = (taken.to_vec(), taken.to_vec());
    by_sending.sort_by_key(|call| call.sent);
    by_answer.sort_by_key(|call| call.received);
    let mut supplies = supplies.to_vec();
    supplies.sort_by_key(|supply| supply.from);
    let mut fullest = Fullest { excess: f64::NEG_INFINITY, from: 0, until: 0 };
    let mut first = 0;
    for Taken { sent: from, .. } in by_sending {
        while by_answer[first].received < from {
            first += 1;
        }
        let (mut count, mut bound) = (0, terms.capacity);
        let mut later = supplies.iter().filter(|supply| supply.until >= from).peekable();
        for call in by_answer[first..].iter().filter(|call| call.sent >= from) {
            if call.received - from > terms.longest {
                break;
            }
            while let Some(supply) = later.next_if(|supply| supply.from <= call.received) {
                bound += supply.tokens;
            }
            count += call.count;
            let excess = count as f64 - bound - seconds(call.received - from) * terms.rate;
            if excess > fullest.excess {
                fullest = Fullest { excess, from, until: call.received };
            }
        }
    }
    fullest
}

/// Tokens that a perfect bucket, empty at `at`, gives to these calls at the instants of their answers.
pub fn ideal(calls: &[Taken], mut at: u64, terms: Terms) -> u64 {
    let mut calls: Vec<&Taken> = calls.iter().filter(|call| call.received >= at).collect();
    calls.sort_by_key(|call| call.received);
    let (mut level, mut given) = (0.0_f64, 0);
    for call in calls {
        level = (level + seconds(call.received - at) * terms.rate).min(terms.capacity);
        at = call.received;
        if level >= call.count as f64 {
            level -= call.count as f64;
            given += call.count;
        }
    }
    given
}

/// µs in seconds.
pub fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms = Terms { capacity: 2.0, rate: 10.0, longest: u64::MAX };

    fn taken(millis: impl IntoIterator<Item = u64>) -> Vec<Taken> {
        let at = |ms: u64| Taken { sent: ms * 1_000, received: ms * 1_000 + 10, count: 1 };
        millis.into_iter().map(at).collect()
    }

    #[test]
    fn the_fullest_window_is_found() {
        let full = taken([0, 1, 500, 2_000, 2_001, 2_002, 3_000]);
        let Fullest { excess, from, until } = fullest(&full, &[], TERMS);
        assert_eq!((from, until), (2_000_000, 2_002_010));
        assert!((excess - 0.98).abs() < 0.01, "{excess}");
        let all = taken((0..50).map(|i| i * 100));
        assert!(fullest(&all, &[], TERMS).excess < 0.0);
        let short = Terms { rate: 0.0, longest: 99_000, ..TERMS };
        assert!(fullest(&all, &[], short).excess <= -1.0);
    }

    #[test]
    fn what_is_put_back_may_be_taken_again_and_only_where_it_was() {
        let full = taken([0, 1, 500, 2_000, 2_001, 2_002, 3_000]);
        let back = |from, until| Supply { from, until, tokens: 1.0 };
        assert!(fullest(&full, &[back(2_001_500, 2_001_600)], TERMS).excess < 0.0);
        assert!(fullest(&full, &[back(1_000_000, 1_900_000)], TERMS).excess > 0.9);
        assert!(fullest(&full, &[back(2_100_000, 9_000_000)], TERMS).excess > 0.9);
    }

    #[test]
    fn a_perfect_bucket_gives_what_came() {
        assert_eq!(ideal(&taken((0..21).map(|i| i * 100)), 0, TERMS), 20);
        assert_eq!(ideal(&taken([10_000, 10_001, 10_002]), 0, TERMS), 2);
    }
}
