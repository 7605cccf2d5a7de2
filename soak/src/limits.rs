//! The limits of a run, and the traffic on each.

use crate::oracle::Terms;

/// One limit, as its config says.
#[derive(Debug)]
pub struct Limit {
    /// Its name.
    pub name: &'static str,
    /// Its keys; none if it is not keyed.
    pub keys: &'static [&'static str],
    /// Capacity, or the most within a window.
    pub capacity: f64,
    /// Tokens a second.
    pub rate: f64,
    /// Further settings.
    settings: &'static str,
    /// The form of its buckets.
    pub form: Form,
}

/// The form of a bucket, which decides its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A token bucket that counts, or a script alone.
    Exact,
    /// A bucket that rests as a number.
    Resting,
    /// Tokens come at ticks.
    Ticking,
    /// Workers take tokens ahead.
    Leased,
    /// Other terms apply now and then.
    Changing,
    /// At most `capacity` in any second.
    Window,
}

/// The daemon's tick in s.
pub const TICK: f64 = 0.02;
/// Most tokens of a lease.
pub const LEASE: f64 = 10.0;
/// Capacity of a bucket that is never full, because its ledger holds every token.
const LARGE: f64 = 10_000.0;
/// Part of a token that may come before its time where a bucket rests as a number, see docs/design/exactness.md.
const EARLY: f64 = 0.6;
/// Capacity and rate of a changing limit while other terms apply.
const OTHER: (f64, f64) = (40.0, 50.0);

/// All limits. A plan has some of them.
pub const LIMITS: [Limit; 12] = [
    limit("counting", 20.0, 200.0, Form::Exact),
    Limit { keys: &["a", "b"], ..limit("resting", 5.0, 20.0, Form::Resting) },
    Limit { settings: "catch_up = false\n", ..limit("pure", 10.0, 100.0, Form::Ticking) },
    Limit {
        settings: "lease = { max = 10, ttl = \"200ms\" }\n",
        ..limit("leased", 50.0, 200.0, Form::Leased)
    },
    Limit { settings: "algorithm = \"gcra\"\n", ..limit("gcra", 10.0, 100.0, Form::Exact) },
    Limit { settings: "algorithm = \"lazy-token-bucket\"\n", ..limit("lazy", 10.0, 100.0, Form::Exact) },
    Limit { settings: "algorithm = \"leaky-bucket\"\n", ..limit("leaky", 10.0, 100.0, Form::Exact) },
    limit("changing", 20.0, 100.0, Form::Changing),
    limit("window", 50.0, 50.0, Form::Window),
    limit("counting-ledger", LARGE, 200.0, Form::Exact),
    limit("resting-ledger", LARGE, 50.0, Form::Resting),
    Limit { settings: "catch_up = false\n", ..limit("pure-ledger", LARGE, 100.0, Form::Ticking) },
];

const fn limit(name: &'static str, capacity: f64, rate: f64, form: Form) -> Limit {
    Limit { name, keys: &[], capacity, rate, settings: "", form }
}

/// The config with these limits. `is_changed` selects the other terms of a changing one.
pub fn config<'l>(limits: impl IntoIterator<Item = &'l Limit>, is_changed: bool) -> String {
    let head = format!("name = \"soak\"\n[daemon]\ntick = \"{}ms\"\n", TICK * 1e3);
    limits.into_iter().fold(head, |text, limit| text + &limit.config(is_changed))
}

// === impl Limit ===

impl Limit {
    /// Whether the bucket is never full, so that every token can be counted.
    pub fn has_ledger(&self) -> bool {
        self.capacity >= LARGE
    }

    /// The bound on admitted tokens.
    pub fn terms(&self) -> Terms {
        let Self { capacity, rate, .. } = *self;
        let terms = |capacity, rate| Terms { capacity, rate, longest: u64::MAX };
        match self.form {
            Form::Exact | Form::Leased => terms(capacity, rate),
            Form::Resting => terms(capacity + EARLY, rate),
            Form::Ticking => terms(capacity + rate * TICK, rate),
            Form::Changing => terms(capacity.max(OTHER.0), rate.max(OTHER.1)),
            Form::Window => Terms { capacity, rate: 0.0, longest: 999_999 },
        }
    }

    fn config(&self, is_changed: bool) -> String {
        let Self { name, capacity, rate, settings, .. } = self;
        let other = is_changed && self.form == Form::Changing;
        let (capacity, rate) = if other { OTHER } else { (*capacity, *rate) };
        let keyed = if self.keys.is_empty() { "" } else { "keyed = true\n" };
        let terms = match self.form {
            Form::Window => format!("algorithm = \"sliding-window\"\nlimit = {capacity}\nwindow = \"1s\""),
            _ => format!("capacity = {capacity}\nrate = \"{rate}/s\""),
        };
        format!("[limit.{name}]\n{terms}\n{keyed}{settings}")
    }
}
