//! Constants that scripts and Rust share. Instants and times are µs of Redis `TIME` unless a name says otherwise.
//!
//! Each is written once, here. A script's text begins with one line that makes locals of those that it uses, see
//! [`preamble`].

use std::fmt::Write as _;

/// Declares constants, and lists them for [`preamble`].
macro_rules! constants {
    ($($(#[$doc:meta])* pub const $name:ident: $type:ty = $value:expr;)*) => {
        $($(#[$doc])* pub const $name: $type = $value;)*

        /// Name and value of every constant.
        pub const ALL: &[(&str, i64)] = &[$((stringify!($name), $name as i64)),*];
    };
}

constants! {
    /// Doubles hold every whole number up to here exactly: the most tokens, and an instant that never comes.
    pub const EXACT: u64 = 1 << 53;
    /// Most µs between the end of fullness and the score that says it: a token falls on a whole µs.
    pub const LATEST_START: u64 = 2;

    /// A bucket at rest becomes a counter when it misses so many tokens: then bare commands will pay.
    pub const COUNT_FROM: u64 = 2;
    /// The same bucket must also stay below full for so long.
    pub const LEAST_AHEAD: u64 = 5_000;

    /// A bucket that tokens were put into does not count for so long. Workers take by bare commands for a second after
    /// their last answer, and do not learn of a put-back meanwhile.
    pub const HOLD: u64 = 1_250_000;
    /// A reservation is good for so long after its delay. Tokens that others put in wait for that.
    pub const RESERVED_FOR: u64 = 100_000;
    /// A waiter for a permit that does not ask for this time loses its turn.
    pub const WAITER_LEASE: u64 = 2_000_000;
    /// Most waiters for permits of one key.
    pub const MOST_WAITERS: u64 = 1_000;

    /// The longest hold. Leases are shorter, so a longer one comes of a clock that stepped back.
    pub const LONGEST_HOLD: u64 = 62_000_000;
    /// A hold exceeds the time for which workers have tokens in hand by so much.
    pub const HOLD_MARGIN: u64 = 250_000;
    /// A settled hold is remembered for so many ms, so that it is not settled again.
    pub const HOLD_MARK: u64 = 60_000;
    /// Open holds that no daemon looks after are forgotten so many ms after the last one is over.
    pub const HOLDS_LEFT: u64 = 86_400_000;
    /// Takes of a bucket at rest that found no token are given back within this. A script that forgets them writes no
    /// number at rest meanwhile, so that nothing can be given back.
    pub const GIVING_BACK: u64 = 250_000;
    /// Most tokens of a take at rest. So many may be missing beyond the capacity, and are about to be given back. More are
    /// missing since the clock stepped back.
    pub const MOST_TAKEN_AT_REST: u64 = 3;
    /// The full instant of a bucket may differ by so much for having been computed token by token.
    pub const FULL_AT_SLACK: u64 = 5;

    /// With catch-up, takers credit what they need. No daemon has to credit a bucket sooner than after this.
    pub const UNHURRIED: u64 = 1_600_000;
    /// The wait for a calendar quota whose next filling no daemon has announced yet.
    pub const QUOTA_RETRY: u64 = 1_000_000;
    /// A pass looks again after this at a shard whose scheduled change no daemon has made yet.
    pub const OVERDUE_RETRY: u64 = 250_000;
    /// Most changes in a record's schedule: numbers at rest tell them, the record's own terms and the previous ones apart.
    pub const MOST_CHANGES: u64 = NUMBER_TERMS - 2;
    /// Most terms that a record tells from before the previous ones: numbers at rest tell so many apart.
    pub const MOST_EARLIER: u64 = NUMBER_TERMS - 2;
    /// Most bytes of such a list.
    pub const MOST_EARLIER_BYTES: u64 = 1_000;
    /// The shortest wait for tokens that only a daemon's tick brings.
    pub const SHORTEST_TICK_WAIT: u64 = 1_000;
    /// The longest wait for a tick that is overdue.
    pub const LONGEST_TICK_WAIT: u64 = 250_000;

    /// The window in which takes are counted for a rate.
    pub const COUNT_WINDOW: u64 = 10_000_000;

    /// The length of a slice of the most denied keys.
    pub const TOP_SLICE: u64 = 60_000_000;

    /// Distance between backoff bands in the due index. It is beyond all instants until 2065.
    pub const BAND_WIDTH: i64 = 3_000_000_000_000_000;
    /// All scores in the due index are from minus this to below this: the bands stand three times their width to each side.
    pub const LAST_BAND_OFFSET: i64 = 9_000_000_000_000_000;
    /// A bucket is credited so many times less often with each band.
    pub const BAND_STRIDE: u64 = 4;
    /// The last band.
    pub const LAST_BAND: u32 = 5;

    /// Most bytes of a bucket's key.
    pub const MOST_KEY_BYTES: u64 = 256;
    /// Most shards of a limit.
    pub const MOST_SHARDS: u64 = 1_024;

    /// From the announcement of a change to the change. A worker trusts an estimate for 700 ms.
    pub const FREEZE_MICROS: u64 = 750_000;

    /// A new record of a limit that code has defined ends so much later, unless its caller still has the definition. It is
    /// the shortest time for which a limit is defined.
    pub const UNCONFIRMED_MICROS: u64 = 1_000_000;

    /// From the announcement of a key's change to another plan to the change. A worker trusts what it knows for 700 ms, and
    /// a command is under way for 250 ms.
    pub const PLANS_AHEAD: u64 = 1_250_000;
    /// Most assignments of a key, and most tables of a config, that are known besides the last two. They matter only while
    /// nobody has taken since.
    pub const MOST_PAST: u64 = 6;
    /// Most bytes of such tables of a limit.
    pub const MOST_PAST_BYTES: u64 = 65_536;

    /// Values at rest and first takes name the remainder of the record's field `terms`.
    pub const TAGS: u64 = 10_000;
    /// First byte of a first take: `f`.
    pub const FIRST_TAKE_FORM: u8 = b'f';
    /// First byte of a bucket at rest as a text: `r`.
    pub const FULL_AT_FORM: u8 = b'r';
    /// First byte of a bucket at rest that must not count yet: `h`.
    pub const HELD_FORM: u8 = b'h';
    /// First byte of a bucket in debt: `d`.
    pub const DEBT_FORM: u8 = b'd';
    /// First byte of a number at rest: `-`.
    pub const NUMBER_FORM: u8 = b'-';
    /// Length of a number at rest, its sign included.
    pub const NUMBER_LENGTH: u64 = 20;
    /// Units of a number at rest in each µs. A bare `DECR` that comes late moves the full instant by one of them. The time of
    /// a token is rounded up to a whole unit.
    pub const AT_REST_UNIT: u64 = 100;
    /// Every number at rest is at most minus this.
    pub const NUMBER_BASE: i64 = 1_000_000_000_000_000_000;
    /// Numbers at rest name the remainder of the record's field `terms`, plus 1.
    pub const NUMBER_TERMS: u64 = 8;
    /// Least time of a token where buckets rest as numbers. Workers know Redis `TIME` to a part of a ms, and need it to a
    /// quarter of a token. A key may outlive a bucket by 2 ms, which has to be less than a token.
    pub const NUMBER_LEAST_TOKEN_TIME: u64 = 3_333;
    /// Least capacity where buckets rest as numbers.
    pub const NUMBER_LEAST_CAPACITY: u64 = 2;
    /// Largest capacity where buckets rest as numbers. A token's number is larger, so a counter and a take of a bucket
    /// at rest never look alike.
    pub const NUMBER_MOST_CAPACITY: u64 = 100_000;
    /// Largest capacity for each µs of a token's time, where buckets rest as numbers. A counter is then not read as one with
    /// tokens before it is 9 capacities below 0.
    pub const NUMBER_MOST_PER_MICRO: u64 = 10;
    /// Most tokens of a rate in lowest terms, where buckets rest as numbers.
    pub const NUMBER_MOST_TOKENS: u64 = 50;
    /// Longest time until an empty bucket is full, where buckets rest as numbers.
    pub const NUMBER_LONGEST_FILLING: u64 = 100_000_000_000_000;
    /// A first take that writes a number may name an instant before its execution: by the time of a token divided by this,
    /// at most. A number's key lives for as long after the full instant, so that such takes do not add up.
    pub const NUMBER_EARLY_PART: u64 = 4;
    /// And by so many µs, at most.
    pub const NUMBER_MOST_EARLY: u64 = 1_000_000;

    /// A first take at a rate of several tokens in a span may be noted so much late.
    pub const FIRST_TAKE_LATE: u64 = 3;
    /// The key of a first take outlives its bucket by so many ms, and by less than one more.
    pub const FIRST_TAKE_EXTRA_MS: u64 = 2;

    /// Bytes of packed terms of a token bucket or of GCRA.
    pub const PACKED_LENGTH: u64 = 53;
    /// Bytes of packed terms of the other algorithms.
    pub const PACKED_STATE_LENGTH: u64 = 40;
    /// Kind of packed terms: a token bucket with catch-up. A kind is the number of keys that `settle.lua` takes.
    pub const TOKEN_BUCKET_KIND: u64 = 4;
    /// Kind of packed terms: GCRA.
    pub const GCRA_KIND: u64 = 2;
    /// Kind of packed terms: a token bucket without catch-up, for `refill.lua` only.
    pub const NO_CATCH_UP_KIND: u64 = 0;

    /// Letter of a lazy token bucket in the key of a state: `l`.
    pub const LAZY_LETTER: u8 = b'l';
    /// Letter of a leaky bucket in the key of a state: `k`.
    pub const LEAKY_LETTER: u8 = b'k';
    /// Letter of a fixed window in the key of a state: `f`.
    pub const FIXED_WINDOW_LETTER: u8 = b'f';
    /// Letter of a sliding window in the key of a state: `s`.
    pub const SLIDING_WINDOW_LETTER: u8 = b's';
    /// Letter of a sliding counter in the key of a state: `c`.
    pub const SLIDING_COUNTER_LETTER: u8 = b'c';

    /// A reply of one number tells a headroom below this.
    pub const LONGEST_SHORT_HEADROOM: u64 = 1 << 52;
    /// The totals of a sliding window's log are kept modulo this.
    pub const LOG_TOTALS: u64 = 1 << 52;
    /// Most entries of a log that one refund takes back, or that are trimmed at once.
    pub const LOG_BATCH: u64 = 1_000;
    /// The key of a log lives longer than its entries count, by up to the longest window divided by this.
    pub const LOG_KEPT_LONGER: u64 = 8;
}

/// One line of Lua that makes a local of every constant that `source` uses; empty where there is none.
pub fn preamble(source: &str) -> String {
    let is_word = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let uses = |name: &str| {
        source.match_indices(name).any(|(at, _)| {
            let before = at.checked_sub(1).and_then(|at| source.as_bytes().get(at));
            !is_word(before) && !is_word(source.as_bytes().get(at + name.len()))
        })
    };
    let used: Vec<&(&str, i64)> = ALL.iter().filter(|(name, _)| uses(name)).collect();
    let mut line = String::new();
    for (i, (name, _)) in used.iter().enumerate() {
        // A string takes all that is written to it.
        let _ = write!(line, "{}{name}", if i == 0 { "local " } else { ", " });
    }
    for (i, (_, value)) in used.iter().enumerate() {
        let _ = write!(line, "{}{value}", if i == 0 { " = " } else { ", " });
    }
    if !used.is_empty() {
        line.push('\n');
    }
    line
}

/// The text of a script as Redis gets it: constants first.
pub fn with_constants(source: &str) -> String {
    preamble(source) + source
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_gets_the_constants_that_it_uses() {
        assert_eq!(preamble("return COUNT_FROM + HOLD"), "local COUNT_FROM, HOLD = 2, 1250000\n");
        assert_eq!(preamble("return LONGEST_HOLD"), "local LONGEST_HOLD = 62000000\n");
        assert_eq!(preamble("return MY_HOLD + HOLDER"), "");
        assert_eq!(with_constants("return 1"), "return 1");
    }

    #[test]
    fn docs_tell_every_constant_that_a_script_needs() {
        let page = include_str!("../../docs/wire.md");
        for (name, value) in ALL {
            let row = format!("| `{name}` | {value} |");
            assert!(page.contains(&row), "docs/wire.md has no row {row}");
        }
    }
}
