//! Takes at rest: native takes of a bucket at rest.
//!
//! A limit that [`rests_as_number`] keeps a bucket at rest as one negative integer, which tells the full instant.
//! `DECRBY` by the time of a token moves that instant later, so one native command is GCRA. Its reply tells the full
//! instant, and from that the worker knows whether there was a token.
//!
//! The integer counts hundredths of a µs. The time of a token, as at 3/s, is rounded up to a whole number of them. A take
//! so counts up to 5 millionths more time than the rate says. Readers round the full instant up to a µs.

use std::ops::Range;

use redis::RedisError;

use crate::{
    bucket::Pace,
    constants::{
        AT_REST_UNIT, DEBT_FORM, EXACT, HELD_FORM, NUMBER_BASE, NUMBER_EARLY_PART, NUMBER_LEAST_CAPACITY,
        NUMBER_LEAST_TOKEN_TIME, NUMBER_LONGEST_FILLING, NUMBER_MOST_CAPACITY, NUMBER_MOST_EARLY,
        NUMBER_MOST_PER_MICRO, NUMBER_MOST_TOKENS, NUMBER_TERMS, TAGS,
    },
    pipeline::{Expiry, RedisCommand},
};

/// Digits of a value of form h: a tag of four, two instants of 16.
const HELD_DIGITS: usize = 36;

/// The meaning of a value in the place of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtRestNumber {
    /// At rest under these terms. The bucket is full at this instant, in µs of Redis `TIME`.
    Full(u64),
    /// The same, since tokens were put back, or since it is in debt: no native command changes it for a while.
    Held(u64),
    /// At rest under other terms.
    OtherTerms,
    /// A counter, or a value without effect.
    NotAtRest,
}

/// Whether a token bucket with catch-up keeps buckets at rest as numbers.
pub fn rests_as_number(capacity: u64, pace: Pace) -> bool {
    let Pace { n, p } = pace;
    (1..=NUMBER_MOST_TOKENS).contains(&n)
        && p >= n * NUMBER_LEAST_TOKEN_TIME
        && (NUMBER_LEAST_CAPACITY..=NUMBER_MOST_CAPACITY).contains(&capacity)
        && capacity * n <= p.saturating_mul(NUMBER_MOST_PER_MICRO)
        && capacity.saturating_mul(p) <= n * NUMBER_LONGEST_FILLING
}

/// By how much a native take of one token moves the number of a bucket at rest.
pub const fn units_at_rest(pace: Pace) -> u64 {
    let Pace { n, p } = pace;
    if n <= 1 { p * AT_REST_UNIT } else { (p * AT_REST_UNIT).div_ceil(n) }
}

/// µs by which native takes of `count` tokens move the full instant of a bucket at rest, rounded up.
pub const fn time_at_rest(pace: Pace, count: u64) -> u64 {
    if pace.n <= 1 { count * pace.p } else { (count * units_at_rest(pace)).div_ceil(AT_REST_UNIT) }
}

/// µs by which a first take that writes a number may name an instant before its execution, and for which the key of a number
/// lives after the full instant. Takes within them count from the full instant.
pub fn early_at_rest(pace: Pace) -> u64 {
    (pace.p / (NUMBER_EARLY_PART * pace.n.max(1))).min(NUMBER_MOST_EARLY)
}

/// The instant by which the key of a bucket at rest is gone, if the bucket misses `tokens` at `now` and nothing more is taken.
/// Both are in µs of Redis `TIME`.
pub fn key_at_rest_until(pace: Pace, tokens: u64, now: u64) -> u64 {
    /// µs by which the key of a first take outlives its bucket, at most.
    const OUTLIVES: u64 = 4_000;
    now.saturating_add(pace.time_of(tokens)).saturating_add(OUTLIVES)
}

/// When the key of a number that is full at `full_at` expires, in ms since the Unix epoch. `full_at` is in µs of Redis `TIME`.
pub fn number_expires_at(pace: Pace, full_at: u64) -> u64 {
    (full_at + early_at_rest(pace)).div_ceil(1_000)
}

/// Whether takes may have moved the full instant of a bucket at rest by `micros`: whole tokens come in that time. A bucket
/// made anew begins at any µs. Scripts round to µs where the time of a token is no whole number of them.
pub fn are_whole_tokens(pace: Pace, micros: u64) -> bool {
    /// Two takes, by a script and by a native command, may differ by so many µs.
    const ROUNDING: u64 = 2;
    let units = units_at_rest(pace).max(1);
    let rest = micros.saturating_mul(AT_REST_UNIT) % units;
    rest.min(units - rest) <= if pace.n > 1 { ROUNDING * AT_REST_UNIT } else { 0 }
}

/// The number of a bucket at rest that is full at `full_at`. `terms_id` is the field `terms` of the record.
pub const fn number_at_rest(terms_id: u64, full_at: u64) -> i64 {
    -((terms_id % NUMBER_TERMS + 1) as i64 * NUMBER_BASE + (full_at * AT_REST_UNIT) as i64)
}

/// Reads a number at rest under the terms of `terms_id`.
pub const fn read_number_at_rest(number: i64, terms_id: u64) -> AtRestNumber {
    if !is_at_rest(number) {
        return AtRestNumber::NotAtRest;
    }
    let digits = number.unsigned_abs();
    if digits / NUMBER_BASE as u64 != terms_id % NUMBER_TERMS + 1 {
        return AtRestNumber::OtherTerms;
    }
    AtRestNumber::Full((digits % NUMBER_BASE as u64).div_ceil(AT_REST_UNIT))
}

/// Reads a text in the place of a bucket of a limit that [`rests_as_number`], under the terms of `terms_id`:
/// `h TAG full hold` or `d TAG at hold debt` of rest.lua.
pub fn read_text_at_rest(text: &[u8], terms_id: u64, capacity: u64, pace: Pace) -> AtRestNumber {
    let held = || {
        let (form, digits) = str::from_utf8(text).ok()?.split_at_checked(1)?;
        let number = |part: Range<usize>| digits.get(part).and_then(|digits| digits.parse::<u64>().ok());
        let (tag, instant) = (number(0..4)?, number(4..20)?);
        match form.as_bytes()[0] {
            HELD_FORM if digits.len() == HELD_DIGITS => Some((tag, instant)),
            DEBT_FORM if digits.len() > HELD_DIGITS => {
                let missing = capacity.checked_add(number(HELD_DIGITS..digits.len())?)?;
                Some((tag, pace.instant(instant, missing)))
            }
            _ => None,
        }
    };
    match held() {
        Some((tag, full_at)) if tag == terms_id % TAGS => AtRestNumber::Held(full_at),
        Some(_) => AtRestNumber::OtherTerms,
        None => AtRestNumber::NotAtRest,
    }
}

/// Whether `number` is a bucket at rest, under any terms.
pub const fn is_at_rest(number: i64) -> bool {
    number <= -NUMBER_BASE
}

/// Whether `number` is a counter that no take of a bucket at rest has met.
pub const fn is_clean_counter(number: i64, capacity: u64, pace: Pace) -> bool {
    let unit = units_at_rest(pace) as i64;
    number >= -unit / 2 && number <= capacity as i64
}

/// The tokens of a counter as scripts read it; `None` where it was below 0.
pub fn read_counter(number: i64, capacity: u64, pace: Pace) -> Option<u64> {
    // Scripts compute with doubles. Only very many takes move a counter out of their range.
    let is_exact = number.unsigned_abs() < EXACT;
    let left = if is_exact { read_left(number, capacity, pace) } else { None };
    left.and_then(|left| u64::try_from(left).ok())
}

/// The tokens that a bare `DECRBY` has left, if its reply is of a counter; takes of buckets at rest may have met it. Below 0,
/// the tokens that were missing.
pub fn read_left(number: i64, capacity: u64, pace: Pace) -> Option<i64> {
    if is_at_rest(number) {
        return None;
    }
    if !rests_as_number(capacity, pace) {
        return Some(number);
    }
    let unit = units_at_rest(pace) as i64;
    let above = number.rem_euclid(unit);
    let left = if above < unit / 2 { above } else { above - unit };
    (left <= capacity as i64).then_some(left)
}

/// Appends the commands of a take of `count` tokens at rest, of a limit that [`rests_as_number`]. Returns the number of
/// replies.
///
/// The last reply is a [`Number`](crate::pipeline::Reply::Number), or a
/// [`NumberAfterSet`](crate::pipeline::Reply::NumberAfterSet) if the bucket had no key. [`read_number_at_rest`] reads
/// the full instant after the take from it. The take is carried out whether there were tokens or not. If not, it must
/// be given back by [`encode_correction`]. An error for which [`is_not_a_counter`](super::is_not_a_counter) holds says
/// that nothing was done.
///
/// With `first_at` above 0, a bucket without a key counts as full at that instant, in µs of Redis `TIME`. It must not
/// be in the past by more than [`early_at_rest`]. With 0, the reply of such a bucket is no number at rest.
pub fn encode_take_at_rest(
    out: &mut Vec<u8>,
    state: &str,
    terms_id: u64,
    pace: Pace,
    count: u64,
    first_at: u64,
) -> usize {
    let key = state.as_bytes();
    if first_at > 0 {
        let value = number_at_rest(terms_id, first_at).to_string();
        let at = number_expires_at(pace, first_at + time_at_rest(pace, count));
        RedisCommand::SetIfAbsent { key, value: value.as_bytes(), expiry: Expiry::At(at) }.encode(out);
    }
    RedisCommand::Add { key, by: -((count * units_at_rest(pace)) as i64) }.encode(out);
    if first_at > 0 { 2 } else { 1 }
}

/// Appends the correction after a take at rest. Returns the number of replies.
///
/// `give` above 0 gives back so many tokens that the bucket did not have. `later` above 0 makes the bucket full later by
/// the time of so many tokens. `full_at` above 0 lets the key live for a bucket that is full at that instant, in µs of Redis
/// `TIME`, or longer.
/// The last reply is the value after it: a [`Number`](crate::pipeline::Reply::Number), which [`read_number_at_rest`] reads, a
/// [`Text`](crate::pipeline::Reply::Text), which [`read_text_at_rest`] reads, or
/// [`Nothing`](crate::pipeline::Reply::Nothing). After an error for which [`is_too_old`] holds, takes at rest are not
/// possible.
pub fn encode_correction(
    out: &mut Vec<u8>,
    state: &str,
    pace: Pace,
    give: u64,
    later: u64,
    full_at: u64,
) -> usize {
    let key = state.as_bytes();
    if give > 0 {
        RedisCommand::Add { key, by: (give * units_at_rest(pace)) as i64 }.encode(out);
    }
    if later > 0 {
        RedisCommand::Add { key, by: -((later * units_at_rest(pace)) as i64) }.encode(out);
    }
    if full_at > 0 {
        RedisCommand::Extend { key, at: number_expires_at(pace, full_at) }.encode(out);
        RedisCommand::Read { key }.encode(out);
    }
    usize::from(give > 0) + usize::from(later > 0) + if full_at > 0 { 2 } else { 0 }
}

/// Whether `error` says that there is no `PEXPIREAT … GT`: before Redis 7.0, where the command was renamed, or where the
/// user may not run it.
pub fn is_too_old(error: &RedisError) -> bool {
    let text = error.to_string();
    error.code() == Some("NOPERM")
        || text.contains("unknown command")
        || text.contains("wrong number of arguments")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace { n: 1, p: 100_000 };

    #[test]
    fn a_server_without_the_command_is_told_from_one_in_trouble() {
        let error = |code: &str, text: &str| redis::make_extension_error(code.into(), Some(text.into()));
        for (code, text, is_old) in [
            // Redis 6.2 and older.
            ("ERR", "wrong number of arguments for 'pexpireat' command", true),
            ("ERR", "unknown command 'PEXPIREAT', with args beginning with: 'a'", true),
            ("NOPERM", "User u has no permissions to run the 'pexpireat' command", true),
            ("ERR", "value is not an integer or out of range", false),
            ("OOM", "command not allowed when used memory > 'maxmemory'.", false),
            ("READONLY", "You can't write against a read only replica.", false),
        ] {
            assert_eq!(is_too_old(&error(code, text)), is_old, "{text}");
        }
    }

    #[test]
    fn a_take_moves_the_full_instant_and_says_it() {
        for terms_id in [0, 1, 7, 8, 9_999, 10_000] {
            let number = number_at_rest(terms_id, 1_795_343_957_754_481);
            assert_eq!(number.to_string().len(), 20);
            let taken = number - 3 * (PACE.p * AT_REST_UNIT) as i64;
            assert_eq!(read_number_at_rest(taken, terms_id), AtRestNumber::Full(1_795_343_958_054_481));
            assert_eq!(read_number_at_rest(taken - 99, terms_id), AtRestNumber::Full(1_795_343_958_054_482));
            assert_eq!(read_number_at_rest(taken, terms_id + 1), AtRestNumber::OtherTerms);
        }
    }

    #[test]
    fn a_token_of_a_fraction_of_a_microsecond_counts_a_little_more() {
        let pace = Pace { n: 3, p: 10_000 };
        assert_eq!(
            (units_at_rest(pace), time_at_rest(pace, 1), time_at_rest(pace, 3)),
            (333_334, 3_334, 10_001)
        );
        let number = number_at_rest(1, 1_795_343_957_754_481) - 3 * units_at_rest(pace) as i64;
        assert_eq!(read_number_at_rest(number, 1), AtRestNumber::Full(1_795_343_957_764_482));
    }

    #[test]
    fn a_bucket_to_which_tokens_were_put_back_tells_its_full_instant() {
        let read = |text: &str| read_text_at_rest(text.as_bytes(), 30_012, 5, PACE);
        assert_eq!(read("h001217953439577544811795343958754481"), AtRestNumber::Held(1_795_343_957_754_481));
        assert_eq!(read("h001317953439577544811795343958754481"), AtRestNumber::OtherTerms);
        for text in ["", "h0012", "r00121795343957754481", "h00121795343957754481179534395875448", "x"] {
            assert_eq!(read(text), AtRestNumber::NotAtRest, "{text}");
        }
        let debt = "d001217953439577544810000000000000000";
        assert_eq!(read(&format!("{debt}3")), AtRestNumber::Held(1_795_343_957_754_481 + 8 * PACE.p));
        assert_eq!(read(debt), AtRestNumber::NotAtRest);
        assert_eq!(read("h00é217953439577544811795343958754481"), AtRestNumber::NotAtRest);
    }

    #[test]
    fn takes_and_what_they_leave_to_do_are_asked_in_one_packet() {
        let words = |out: Vec<u8>| {
            let text = String::from_utf8(out).unwrap();
            let words = text.split("\r\n").filter(|word| !word.is_empty() && !word.starts_with(['$', '*']));
            words.collect::<Vec<_>>().join(" ")
        };
        let full_at = 1_795_343_957_754_481;
        let mut out = Vec::new();
        assert_eq!(encode_take_at_rest(&mut out, "k", 2, PACE, 3, 0), 1);
        assert_eq!(words(out), "DECRBY k 30000000");
        let mut out = Vec::new();
        assert_eq!(encode_take_at_rest(&mut out, "k", 2, PACE, 3, full_at), 2);
        assert_eq!(words(out), "SET k -3179534395775448100 PXAT 1795343958080 NX DECRBY k 30000000");
        let mut out = Vec::new();
        assert_eq!(encode_correction(&mut out, "k", PACE, 3, 0, 0), 1);
        assert_eq!(encode_correction(&mut out, "k", PACE, 0, 7, full_at), 3);
        assert_eq!(encode_correction(&mut out, "k", PACE, 0, 0, 0), 0);
        assert_eq!(words(out), "INCRBY k 30000000 DECRBY k 70000000 PEXPIREAT k 1795343957780 GT GET k");
        let mut out = Vec::new();
        super::super::encode_first_take(&mut out, "k", 2, PACE, 3, full_at);
        assert_eq!(words(out), "SET k -3179534395775448100 PXAT 1795343957780 NX");
    }

    #[test]
    fn a_counter_is_told_from_takes_that_met_it() {
        let unit = (PACE.p * AT_REST_UNIT) as i64;
        for taken in -2..=5 {
            assert_eq!(read_counter(7 - taken * unit, 10, PACE), Some(7));
            assert_eq!(read_number_at_rest(7 - taken * unit, 1), AtRestNumber::NotAtRest);
            assert_eq!(read_counter(-1 - taken * unit, 10, PACE), None);
            for left in [10, 1, 0, -1, -50] {
                assert_eq!(read_left(left - taken * unit, 10, PACE), Some(left), "{left}, {taken}");
            }
            assert_eq!(read_left(11 - taken * unit, 10, PACE), None);
        }
        assert_eq!(read_counter(7 - (1 << 30) * unit, 10, PACE), None);
    }
}
