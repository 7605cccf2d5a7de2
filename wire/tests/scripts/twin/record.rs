//! A published limit, twice.

use std::collections::BTreeMap;

use topup_twin::{EarlierTerms, Record};
use topup_wire::{
    bucket::Pace,
    keyspace::ShardKeys,
    limit::{Algorithm, Limit, Schedule, Supply, Terms},
    namespace::Namespace,
    reply::PublishReply,
    scripts::rests_as_number,
};

use crate::server::{Content, Redis, publish};

/// A limit as published, and its record as the twin has it.
pub(crate) struct Twin {
    pub(crate) keys: ShardKeys,
    pub(crate) limit: Limit,
    pub(crate) record: Record,
    /// Whether the record says that there are buckets to be migrated.
    pub(crate) has_previous: bool,
    generation: u64,
    /// When it was published last.
    pub(crate) published: u64,
}

// === impl Twin ===

impl Twin {
    /// Publishes `limit` on an emptied Redis.
    pub(crate) async fn new(redis: &mut Redis, limit: Limit) -> Self {
        redis.ask::<()>(&["FLUSHALL"]).await;
        let keys = ShardKeys::new(Namespace::default(), &limit.name, 0);
        let published = publish(&mut redis.connection, &keys, &limit, None).await.unwrap();
        assert_eq!(published, PublishReply::Created);
        let since = redis.ask(&["HGET", &keys.record, "since"]).await;
        let record = Record::new(&limit, since);
        Self { record, keys, limit, has_previous: false, generation: 1, published: since }
    }

    /// Publishes `limit` from `at` on, `waiting` when buckets are still to be migrated: whether its terms changed.
    pub(crate) async fn publish(
        &mut self,
        redis: &mut Redis,
        limit: Limit,
        at: Option<u64>,
        waiting: bool,
    ) -> bool {
        let earliest = redis.time().await;
        let reply = publish(&mut redis.connection, &self.keys, &limit, at).await.unwrap();
        let terms = |limit: &Limit| match limit.terms.supply {
            Supply::Windows(windows) => (windows.as_pairs(), (windows.aligned().into(), 0)),
            supply => (limit.terms.capacity.to_string(), supply.lowest_terms()),
        };
        let changed = terms(&limit) != terms(&self.limit);
        // As written: 60/min equals 1/s, and reads otherwise.
        let same = format!("{limit:?}") == format!("{:?}", self.limit);
        let expected = match (same, changed && waiting) {
            (true, _) => PublishReply::Unchanged,
            (_, true) => PublishReply::Busy,
            _ => PublishReply::Changed,
        };
        assert_eq!(reply, expected, "{limit:?} after {:?}", self.limit);
        if reply != PublishReply::Changed {
            return false;
        }
        self.generation += 1;
        let packed = redis.keyspace().await.remove(&self.keys.record);
        if let Some(Content::Fields(fields)) = packed {
            let instant = fields["packed"].rsplit(' ').next().and_then(|last| last.parse().ok());
            self.published = instant.unwrap_or_default();
        }
        self.limit = limit;
        let since = redis.ask(&["HGET", &self.keys.record, "since"]).await;
        match at {
            _ if !changed => assert_eq!(since, self.record.since),
            Some(at) if at > self.record.since && at <= earliest => assert_eq!(since, at),
            _ => assert!(since >= earliest),
        }
        self.record = self.record.changed(&self.limit, since);
        changed
    }

    /// Publishes the changes of the schedule that are overdue, as a late daemon does. The buckets have to be migrated after
    /// each change. Returns whether there are buckets to migrate.
    pub(crate) async fn catch_up_with_schedule(&mut self, redis: &mut Redis, active: bool) -> bool {
        let now = redis.time().await;
        let due: Vec<_> = self.record.schedule.changes().take_while(|change| change.at <= now).collect();
        let Some(last) = due.last() else { return false };
        let mut limit = self.limit.clone();
        limit.terms = Terms { capacity: last.capacity, supply: Supply::Rate(last.rate) };
        let left = self.record.schedule.changes().filter(|change| change.at > now);
        limit.schedule = Schedule::new(left);
        let reply = publish(&mut redis.connection, &self.keys, &limit, Some(last.at)).await.unwrap();
        let mut made = 0;
        for change in due.iter().take(if active { 1 } else { due.len() }) {
            self.record = self.record.changed_by(*change);
            made += 1;
        }
        self.has_previous = active;
        if self.record.schedule == limit.schedule {
            assert_eq!(reply, PublishReply::Changed);
            self.limit = limit;
            self.generation += 1;
        } else {
            assert_eq!(reply, PublishReply::Busy);
            let terms = self.record;
            let made = self.limit.schedule.changes().nth(made - 1).unwrap();
            self.limit.terms = Terms { capacity: made.capacity, supply: Supply::Rate(made.rate) };
            self.limit.schedule = terms.schedule;
            redis.ask::<()>(&["HSET", &self.keys.record, "frozen", "0"]).await;
        }
        true
    }

    /// An absent bucket that has grown to a raised capacity by `now` is full for good, once a script has seen it.
    pub(crate) async fn grow(&mut self, redis: &mut Redis, now: u64) {
        if self.record.anchor < self.record.capacity {
            let anchor: u64 = redis.ask(&["HGET", &self.keys.record, "anchor"]).await;
            assert!(anchor == self.record.anchor || self.record.absent_full() <= now, "{:?}", self.record);
            self.record.anchor = anchor;
        }
    }

    /// The record, as it should be in Redis.
    pub(crate) fn content(&self) -> (String, Content) {
        let Self { limit, record, .. } = self;
        let rate = match limit.terms.supply {
            Supply::Rate(rate) => rate.to_string(),
            Supply::Period(_) | Supply::Windows(_) | Supply::Permits(_) => String::new(),
        };
        let windows = record.windows;
        let mut fields = BTreeMap::from([
            ("packed", self.packed()),
            ("algorithm", limit.algorithm.to_string()),
            ("keyed", u8::from(limit.keyed).to_string()),
            ("shards", limit.shards.get().to_string()),
            ("rate", rate),
            ("rules", windows.map(|windows| windows.as_pairs()).unwrap_or_default()),
            ("aligned", u8::from(windows.is_some_and(|windows| windows.aligned())).to_string()),
            ("capacity", record.capacity.to_string()),
            ("n", record.pace.n.to_string()),
            ("p", record.pace.p.to_string()),
            ("catch_up", u8::from(record.catch_up).to_string()),
            ("tick", record.tick.to_string()),
            ("on_change", record.on_change.as_str().to_owned()),
            ("filled", record.filled.to_string()),
            ("fills", record.fills.to_string()),
            ("since", record.since.to_string()),
            ("terms", record.terms_id.to_string()),
            ("lease", "0".to_owned()),
            ("lease_ttl", "0".to_owned()),
            ("mode", "enforce".to_owned()),
            ("enforce_percent", "100".to_owned()),
            ("on_outage", String::new()),
            ("candidate", "0".to_owned()),
            ("compare_percent", "0".to_owned()),
            ("schedule", record.schedule.to_string()),
            ("top_keys", "0".to_owned()),
            ("hash_top_keys", "0".to_owned()),
            ("plans", String::new()),
            ("plans_fill", "0".to_owned()),
            ("penalty", String::new()),
            ("max_debt", "0".to_owned()),
            ("on_abandon", "charge".to_owned()),
            ("hold_ttl", "600000000".to_owned()),
            ("permit_ttl", "0".to_owned()),
            ("parts", String::new()),
            ("anchor", record.anchor.to_string()),
            ("anchored", record.anchored.to_string()),
            ("former", u8::from(self.has_previous).to_string()),
            ("frozen", "0".to_owned()),
            ("generation", self.generation.to_string()),
        ]);
        if let Some(before) = record.previous {
            fields.insert("was_capacity", before.capacity.to_string());
            fields.insert("was_n", before.pace.n.to_string());
            fields.insert("was_p", before.pace.p.to_string());
            fields.insert("was_filled", before.filled.to_string());
            fields.insert("change", before.on_change.as_str().to_owned());
            let row = |(i, one): (u64, &EarlierTerms)| {
                let (before, count) = (one.terms, record.terms_id - 2 - i);
                let (Pace { n, p }, change) = (before.pace, before.on_change.as_str());
                format!("{count} {} {} {n} {p} {} {change}", one.ended, before.capacity, before.filled)
            };
            let rows: Vec<String> = (0..).zip(record.earlier.iter().flatten()).map(row).collect();
            fields.insert("earlier", rows.join(","));
        }
        let fields = fields.into_iter().map(|(field, value)| (field.to_owned(), value)).collect();
        (self.keys.record.clone(), Content::Fields(fields))
    }

    /// The packed terms, as text: empty where the scripts for packed terms would not be exact.
    fn packed(&self) -> String {
        let Record { capacity, pace: Pace { n, p }, anchor, since, windows, terms_id: terms, .. } =
            self.record;
        let one = windows.filter(|windows| windows.rules().len() == 1);
        let (length, aligned) = one.map_or((0, 0), |one| (one.longest(), one.aligned().into()));
        let exact = n > 0
            && self.record.schedule.is_empty()
            && (n <= p || p == 1)
            && u128::from(n) * u128::from(p) < 1 << 53;
        let plain = exact && anchor >= capacity;
        let period = self.record.period();
        let near = 5.0 * (period as f64 * n as f64 / p as f64).ceil();
        let (near, period, kind) = match self.limit.algorithm {
            Algorithm::LazyTokenBucket if plain => return format!("108 {capacity} {n} {p} {since}"),
            Algorithm::LeakyBucket if exact => return format!("107 {capacity} {n} {p} {since}"),
            Algorithm::FixedWindow => return format!("102 {capacity} {length} {aligned} 0"),
            Algorithm::SlidingCounter => return format!("99 {capacity} {length} 0 0"),
            Algorithm::SlidingWindow if one.is_some() => {
                return format!("115 {capacity} {length} 0 {}", self.published);
            }
            Algorithm::Gcra if plain => (0, 0, 2),
            Algorithm::TokenBucket if plain && !self.has_previous && !self.limit.catch_up => {
                (1_u64 << 53, period, 0)
            }
            Algorithm::TokenBucket if plain && !self.has_previous && near < 2_f64.powi(53) => {
                (near as u64, period, 4)
            }
            _ => return String::new(),
        };
        let as_number = kind == 4 && rests_as_number(capacity, Pace { n, p });
        let form = if as_number { '-' } else { 'r' };
        format!("{capacity} {n} {p} {kind} {form}{:04} {near} {period}", terms % 10_000)
    }
}
