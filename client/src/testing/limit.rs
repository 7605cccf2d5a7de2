//! Limits, as a test writes them.

use std::time::Duration;

use topup_wire::limit::{
    Algorithm, Capacity, Holds, Lease, MOST_PERMITS, Mode, OnAbandon, OnChange, OnOutage, Parts, Percent,
    PermitTtl, Rate, Windows,
};

use super::spec::{Filling, Spec, text};

/// A limit of a test: what `[limit.name]` says in the config of the daemon.
///
/// Rates and windows are written as there: `10/s`, `500/min`, `7/3h`. A wrong value is an error of
/// [`Start::start`](super::Start::start).
#[derive(Clone, Debug)]
#[must_use = "a limit limits nothing until it is given to a Topup"]
pub struct Limit(Result<Spec, String>);

// === impl Limit ===

impl Limit {
    /// A bucket of `capacity` tokens that come at `rate`.
    pub fn token_bucket(capacity: u64, rate: &str) -> Self {
        Self::rated(Algorithm::TokenBucket, capacity, rate)
    }

    /// The same as a token bucket, without a daemon.
    pub fn lazy_token_bucket(capacity: u64, rate: &str) -> Self {
        Self::rated(Algorithm::LazyTokenBucket, capacity, rate)
    }

    /// The same as a token bucket, as one instant.
    pub fn gcra(capacity: u64, rate: &str) -> Self {
        let limit = Self::rated(Algorithm::Gcra, capacity, rate);
        limit.checked(|spec| match spec.supply {
            Filling::Rate(rate) if !rate.pace().can_rest(spec.capacity.get()) => {
                Err("gcra wants at most 1000000 tokens a second, and a bucket that fills within 50 years"
                    .to_owned())
            }
            _ => Ok(()),
        })
    }

    /// A bucket that holds `capacity` taken tokens and leaks at `rate`. Tells reservations when to proceed.
    pub fn leaky_bucket(capacity: u64, rate: &str) -> Self {
        Self::rated(Algorithm::LeakyBucket, capacity, rate)
    }

    /// A number of tokens within a window that begins with its first take: `100/min`.
    pub fn fixed_window(rule: &str) -> Self {
        Self::windowed(Algorithm::FixedWindow, &[rule], false)
    }

    /// A number of tokens within a window that begins at a multiple of its length.
    pub fn aligned_window(rule: &str) -> Self {
        Self::windowed(Algorithm::FixedWindow, &[rule], true)
    }

    /// Numbers of tokens within any time as long as their windows: `["10/s", "100/min"]`.
    pub fn sliding_window<'r>(rules: impl AsRef<[&'r str]>) -> Self {
        Self::windowed(Algorithm::SlidingWindow, rules.as_ref(), false)
    }

    /// About a number of tokens within any time as long as a window.
    pub fn sliding_counter(rule: &str) -> Self {
        Self::windowed(Algorithm::SlidingCounter, &[rule], false)
    }

    /// At most `limit` permits that are held at once, each good for `ttl` after a renewal.
    pub fn concurrency(limit: u64, ttl: Duration) -> Self {
        let ttl = PermitTtl::new(ttl).map_err(text).and_then(|ttl| match limit {
            0..=MOST_PERMITS => Ok(ttl),
            _ => Err(format!("a limit is of 1 to {MOST_PERMITS} permits, not {limit}")),
        });
        Self(ttl.and_then(|ttl| Spec::new(Algorithm::Concurrency, limit, Filling::Permits(ttl))))
    }

    /// Tokens that are divided by weight among keys, each of which borrows what others leave: `[("acme", 3), ("*", 1)]`.
    /// `*` is all keys without a weight of their own. Keyed.
    pub fn fair_shares<'p>(
        capacity: u64,
        rate: &str,
        weights: impl IntoIterator<Item = (&'p str, u64)>,
    ) -> Self {
        let parts = Parts::new(weights.into_iter().map(|(name, weight)| (name.to_owned(), weight)));
        Self::rated(Algorithm::FairShares, capacity, rate).and_then(|mut spec| {
            spec.parts = parts.map_err(text)?;
            spec.keyed = true;
            if let Filling::Rate(rate) = spec.supply {
                spec.parts.under(spec.capacity, rate.pace()).map_err(text)?;
            }
            Ok(spec)
        })
    }

    /// A token bucket that is filled to `capacity` at the start and `every` so long after it.
    pub fn quota(capacity: u64, every: Duration) -> Self {
        let whole = u64::try_from(every.as_micros()).ok().filter(|every| *every >= 1_000);
        let every = whole.ok_or_else(|| format!("a quota is filled every 1ms or more, not every {every:?}"));
        let new = |every| Spec::new(Algorithm::TokenBucket, capacity, Filling::Quota(every));
        Self(every.and_then(new))
    }

    /// With charges that may leave a debt of up to `tokens`.
    pub fn max_debt(self, tokens: u64) -> Self {
        let holds = Holds::new(tokens, OnAbandon::Charge, Holds::DEFAULT_TTL).map_err(text);
        self.and_then(|mut spec| {
            spec.holds = holds?;
            match matches!(spec.supply, Filling::Rate(_)) && spec.catch_up {
                true => Ok(spec),
                false => Err("only a limit with a rate and catch-up has max_debt".to_owned()),
            }
        })
    }

    /// With a bucket for each key.
    pub fn keyed(self) -> Self {
        self.with(|spec| spec.keyed = true)
    }

    /// As `catch_up = false`: tokens come with ticks alone, of the daemon. For token buckets with a rate.
    pub fn without_catch_up(self, tick: Duration) -> Self {
        let limit = self.with(|spec| (spec.catch_up, spec.tick) = (false, tick));
        limit.checked(|spec| {
            spec.check_rated("catch_up = false")?;
            match spec.tick {
                tick if tick < Duration::from_millis(1) => {
                    Err(format!("a tick lasts 1ms or more, not {tick:?}"))
                }
                _ => Ok(()),
            }
        })
    }

    /// The effect of a change of the capacity on the tokens in a bucket.
    pub fn on_change(self, on_change: OnChange) -> Self {
        self.with(|spec| spec.on_change = on_change)
    }

    /// Clients take up to `max` tokens ahead, and keep them for `ttl` at most. For token buckets with a rate.
    pub fn lease(self, max: u64, ttl: Duration) -> Self {
        let lease = Lease::new(max, ttl).map_err(text);
        self.and_then(|mut spec| {
            spec.lease = Some(lease?);
            spec.check_rated("a lease")?;
            match max > spec.capacity.get() {
                true => Err(format!("the bucket holds {} tokens at most: lease no more", spec.capacity)),
                false => Ok(spec),
            }
        })
    }

    /// Whether denials hold.
    pub fn mode(self, mode: Mode) -> Self {
        self.with(|spec| spec.rollout.mode = mode)
    }

    /// The share of keys for which denials hold, in percent. For keyed limits.
    pub fn enforce_percent(self, percent: u64) -> Self {
        let percent = Percent::new(percent).map_err(text);
        self.and_then(|mut spec| {
            spec.rollout.enforced = percent?;
            Ok(spec)
        })
    }

    /// The outage policy.
    pub fn on_outage(self, on_outage: OnOutage) -> Self {
        self.with(|spec| spec.on_outage = Some(on_outage))
    }

    /// Other terms from the time `after` the start on. For limits with a rate; changes come in the order of their times,
    /// six of them at most.
    pub fn scheduled(self, after: Duration, capacity: u64, rate: &str) -> Self {
        self.and_then(|mut spec| {
            let at = u64::try_from(after.as_micros()).map_err(text)?;
            let change = (at, Capacity::new(capacity).map_err(text)?, rate.parse::<Rate>().map_err(text)?);
            if !matches!(spec.supply, Filling::Rate(_)) || !spec.catch_up || !spec.parts.is_empty() {
                return Err("only a limit with a rate and catch-up, and without parts, has a schedule here"
                    .to_owned());
            }
            if spec.schedule.last().map_or(0, |last| last.0) >= at || spec.schedule.len() >= 6 {
                return Err("a schedule has six changes at most, each later than the one before".to_owned());
            }
            spec.schedule.push(change);
            Ok(spec)
        })
    }

    /// The limit, or what is wrong with it.
    pub(super) fn into_spec(self) -> Result<Spec, String> {
        let spec = self.0?;
        match spec.rollout.enforced == Percent::default() || spec.keyed {
            true => Ok(spec),
            false => Err("only a keyed limit has keys to choose from: write .keyed()".to_owned()),
        }
    }

    fn rated(algorithm: Algorithm, capacity: u64, rate: &str) -> Self {
        let rate = rate.parse::<Rate>().map_err(text);
        Self(rate.and_then(|rate| Spec::new(algorithm, capacity, Filling::Rate(rate))))
    }

    fn windowed(algorithm: Algorithm, rules: &[&str], aligned: bool) -> Self {
        let windows = Windows::written(rules, aligned);
        Self(
            windows.and_then(|windows| {
                Spec::new(algorithm, windows.capacity().get(), Filling::Windows(windows))
            }),
        )
    }

    fn with(self, set: impl FnOnce(&mut Spec)) -> Self {
        self.and_then(|mut spec| {
            set(&mut spec);
            Ok(spec)
        })
    }

    fn checked(self, check: impl FnOnce(&Spec) -> Result<(), String>) -> Self {
        self.and_then(|spec| check(&spec).map(|()| spec))
    }

    fn and_then(self, next: impl FnOnce(Spec) -> Result<Spec, String>) -> Self {
        Self(self.0.and_then(next))
    }
}
