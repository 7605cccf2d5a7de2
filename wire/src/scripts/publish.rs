//! Publication of limits, and reading of published ones.

use std::{collections::HashMap, sync::LazyLock, time::Duration};

use redis::{Cmd, ParsingError, RedisResult, Script, aio::ConnectionLike};

use super::script;
use crate::{
    constants::FREEZE_MICROS,
    keyspace::ShardKeys,
    limit::{
        Algorithm, Capacity, Holds, Lease, Limit, LimitName, OnOutage, Parts, Percent, Period, PermitTtl,
        Plans, Rollout, Schedule, Shards, Supply, Terms, TopKeys, Windows,
    },
    namespace::InNamespace,
    reply::{PublishReply, PublishedLimit},
};

/// From the announcement of a change to the change. A worker trusts an estimate for 700 ms.
pub const FREEZE: Duration = Duration::from_micros(FREEZE_MICROS);

static PUBLISH: LazyLock<Script> = script!("packed_state.lua" "publish.lua");
static FREEZE_RECORD: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("freeze.lua")));

/// Publishes one shard of `limit`, from the instant `at` on (µs of Redis `TIME`; now, when `None`).
///
/// A change of the capacity or rate of a token bucket is [announced](PublishReply::Announced) first, and made once all
/// workers know. `announced` is the instant of that reply or of a later one.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn publish(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    limit: &Limit,
    at: Option<u64>,
    announced: Option<u64>,
) -> RedisResult<PublishReply> {
    publish_until(connection, keys, limit, at, announced, None).await
}

/// The same for a limit that code has defined, which ends at the instant `expires`, in µs of Redis `TIME`. A later end alone
/// is no change.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn publish_until(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    limit: &Limit,
    at: Option<u64>,
    announced: Option<u64>,
    expires: Option<u64>,
) -> RedisResult<PublishReply> {
    let mut call = PUBLISH.prepare_invoke();
    call.key(&keys.record).key(&keys.due).key(&keys.previous);
    call.arg(at.unwrap_or(0)).arg(announced.unwrap_or(0));
    for (field, value) in fields(limit) {
        call.arg(field).arg(value);
    }
    if let Some(expires) = expires {
        call.arg("expires").arg(expires);
    }
    call.invoke_async(connection).await
}

/// Freezes one shard before a change to `terms`. Returns the latest instant at which the freeze began, in µs of Redis
/// `TIME`; `None` where no freeze is needed.
///
/// # Errors
/// Errors of Redis. May be sent again without harm.
pub async fn freeze(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    terms: &Terms,
) -> RedisResult<Option<u64>> {
    let (n, p) = terms.supply.lowest_terms();
    let mut call = FREEZE_RECORD.key(&keys.record);
    let (frozen, now): (bool, u64) =
        call.arg(terms.capacity.get()).arg(n).arg(p).invoke_async(connection).await?;
    Ok(frozen.then_some(now))
}

/// The limit `name` as published; `None` if it is not.
///
/// # Errors
/// Errors of Redis, and a record this version cannot read.
pub async fn read_limit(
    connection: &mut impl InNamespace,
    name: &LimitName,
) -> RedisResult<Option<PublishedLimit>> {
    let record = ShardKeys::new(connection.namespace(), name, 0).record;
    let fields: HashMap<Vec<u8>, Vec<u8>> = Cmd::hgetall(record).query_async(connection).await?;
    if fields.is_empty() {
        return Ok(None);
    }
    let fields = text_fields(fields);
    let published = parse(name, &fields).map(|limit| {
        // A missing field means: the terms never changed, the record is not frozen, absent buckets are full.
        let number = |field: &str| fields.get(field).and_then(|text| text.parse::<u64>().ok());
        let text_of = |field: &str| fields.get(field).map(String::as_str);
        let pace = limit.terms.supply.pace();
        let missing = number("anchor").map_or(0, |anchor| limit.terms.capacity.get().saturating_sub(anchor));
        let grown = |anchored: u64| if missing == 0 { 0 } else { pace.instant(anchored, missing) };
        PublishedLimit {
            terms_id: number("terms").unwrap_or(1),
            frozen: number("frozen").is_some_and(|since| since > 0),
            absent_full_at: number("anchored").map_or(0, grown),
            plans_at: number("plans_at").unwrap_or(0),
            expires: number("expires"),
            plans_before: text_of("plans_before")
                .and_then(|text| Plans::from_text(text).ok())
                .unwrap_or_default(),
            limit,
        }
    });
    published.map(Some).map_err(|problem| ParsingError::from(problem).into())
}

/// The algorithm of one shard, by its own record. While a limit is being published, the shards may differ.
///
/// # Errors
/// Errors of Redis, and a record this version cannot read.
pub async fn algorithm_of(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
) -> RedisResult<Option<Algorithm>> {
    let word: Option<String> = Cmd::hget(&keys.record, "algorithm").query_async(connection).await?;
    let algorithm = word.map(|word| word.parse::<Algorithm>()).transpose();
    algorithm.map_err(|problem| ParsingError::from(problem.to_string()).into())
}

/// The fields of a record that are text. The packed terms are not, and only scripts read them.
pub(super) fn text_fields(fields: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) -> HashMap<String, String> {
    let text = |bytes| String::from_utf8(bytes).ok();
    fields.into_iter().filter_map(|(field, value)| Some((text(field)?, text(value)?))).collect()
}

/// A record's fields, as text. Scripts write the fields that only they use, such as the anchor and the previous terms.
pub(super) fn fields(limit: &Limit) -> [(&'static str, String); 31] {
    let flag = |set: bool| u8::from(set).to_string();
    let (n, p) = limit.terms.supply.lowest_terms();
    let rate = if let Supply::Rate(rate) = limit.terms.supply { rate.to_string() } else { String::new() };
    let (filled, fills) =
        if let Supply::Period(period) = limit.terms.supply { (period.since, period.next) } else { (0, 0) };
    let permit_ttl = if let Supply::Permits(ttl) = limit.terms.supply { ttl.micros() } else { 0 };
    let windows = if let Supply::Windows(windows) = limit.terms.supply { Some(windows) } else { None };
    let tick = u64::try_from(limit.tick.as_micros()).unwrap_or(u64::MAX);
    let parts = limit.parts.to_text(limit.terms.capacity, limit.terms.supply.pace(), tick);
    [
        // `publish.lua` writes them in this order, and takes read the first ones.
        ("algorithm", limit.algorithm.to_string()),
        ("capacity", limit.terms.capacity.to_string()),
        ("n", n.to_string()),
        ("p", p.to_string()),
        ("catch_up", flag(limit.catch_up)),
        ("tick", limit.tick.as_micros().to_string()),
        ("filled", filled.to_string()),
        ("fills", fills.to_string()),
        ("on_change", limit.on_change.as_str().to_owned()),
        ("keyed", flag(limit.keyed)),
        ("shards", limit.shards.get().to_string()),
        ("rate", rate),
        ("rules", windows.map(|windows| windows.as_pairs()).unwrap_or_default()),
        ("aligned", flag(windows.is_some_and(|windows| windows.aligned()))),
        ("lease", limit.lease.map_or(0, Lease::max).to_string()),
        ("lease_ttl", limit.lease.map_or(0, |lease| lease.ttl().as_micros()).to_string()),
        ("mode", limit.rollout.mode.as_str().to_owned()),
        ("enforce_percent", limit.rollout.enforced.get().to_string()),
        ("on_outage", limit.on_outage.map_or("", OnOutage::as_str).to_owned()),
        ("candidate", flag(limit.candidate)),
        ("compare_percent", limit.compared.get().to_string()),
        ("schedule", limit.schedule.to_string()),
        ("top_keys", limit.top_keys.get().to_string()),
        ("hash_top_keys", flag(limit.top_keys.is_hashed())),
        ("plans", limit.plans.to_string()),
        ("penalty", limit.penalty.map(|penalty| penalty.to_string()).unwrap_or_default()),
        ("max_debt", limit.holds.max_debt().to_string()),
        ("on_abandon", limit.holds.on_abandon().as_str().to_owned()),
        ("hold_ttl", limit.holds.ttl().as_micros().to_string()),
        ("permit_ttl", permit_ttl.to_string()),
        ("parts", parts),
    ]
}

pub(crate) fn parse(name: &LimitName, fields: &HashMap<String, String>) -> Result<Limit, String> {
    let text = |field: &str| {
        fields
            .get(field)
            .map(String::as_str)
            .ok_or_else(|| format!("the record of limit {name} has no {field}"))
    };
    let wrong = |field: &str, problem: &dyn std::fmt::Display| format!("limit {name}: {field}: {problem}");
    let number = |field: &str| text(field)?.parse::<u64>().map_err(|e| wrong(field, &e));
    // A record of an older version has no windows.
    let rules = fields.get("rules").map_or("", String::as_str);
    let permit_ttl = if fields.contains_key("permit_ttl") { number("permit_ttl")? } else { 0 };
    let supply = match (text("rate")?, rules) {
        ("", "") if permit_ttl > 0 => {
            let ttl = PermitTtl::new(Duration::from_micros(permit_ttl));
            Supply::Permits(ttl.map_err(|e| wrong("permit_ttl", &e))?)
        }
        ("", "") => Supply::Period(Period { since: number("filled")?, next: number("fills")? }),
        ("", rules) => {
            let windows = Windows::from_pairs(rules, number("aligned")? == 1);
            Supply::Windows(windows.map_err(|e| wrong("rules", &e))?)
        }
        (rate, _) => Supply::Rate(rate.parse().map_err(|e| wrong("rate", &e))?),
    };
    let lease = match number("lease")? {
        0 => None,
        max => {
            let ttl = Duration::from_micros(number("lease_ttl")?);
            Some(Lease::new(max, ttl).map_err(|e| wrong("lease", &e))?)
        }
    };
    // A record of an older version has no mode, and is enforced for all.
    let rollout = match fields.get("mode") {
        None => Rollout::default(),
        Some(mode) => Rollout {
            mode: mode.parse().map_err(|e| wrong("mode", &e))?,
            enforced: Percent::new(number("enforce_percent")?).map_err(|e| wrong("enforce_percent", &e))?,
        },
    };
    // Nor does it have an outage policy, or a trial.
    let on_outage = match fields.get("on_outage").map(String::as_str) {
        None | Some("") => None,
        Some(word) => Some(word.parse().map_err(|e| wrong("on_outage", &e))?),
    };
    let (candidate, compared) = match fields.get("candidate") {
        None => (false, Percent::NONE),
        Some(_) => {
            let compared = Percent::new(number("compare_percent")?);
            (number("candidate")? == 1, compared.map_err(|e| wrong("compare_percent", &e))?)
        }
    };
    // Nor a schedule.
    let schedule = Schedule::from_text(fields.get("schedule").map_or("", String::as_str));
    let schedule = schedule.map_err(|e| wrong("schedule", &e))?;
    // Nor keys that are told.
    let top_keys = match fields.get("top_keys") {
        None => TopKeys::NONE,
        Some(_) => TopKeys::new(number("top_keys")?).map_err(|e| wrong("top_keys", &e))?,
    };
    let top_keys = top_keys.hashed(fields.get("hash_top_keys").is_some_and(|flag| flag == "1"));
    // Nor plans.
    let plans = Plans::from_text(fields.get("plans").map_or("", String::as_str));
    let plans = plans.map_err(|e| wrong("plans", &e))?;
    // Nor a penalty.
    let penalty = match fields.get("penalty").map(String::as_str) {
        None | Some("") => None,
        Some(penalty) => Some(penalty.parse().map_err(|e| wrong("penalty", &e))?),
    };
    // Nor holds.
    let holds = match fields.get("on_abandon") {
        None => Holds::default(),
        Some(word) => {
            let on_abandon = word.parse().map_err(|e| wrong("on_abandon", &e))?;
            let ttl = Duration::from_micros(number("hold_ttl")?);
            Holds::new(number("max_debt")?, on_abandon, ttl).map_err(|e| wrong("holds", &e))?
        }
    };
    // Nor parts.
    let parts = Parts::from_text(fields.get("parts").map_or("", String::as_str));
    let parts = parts.map_err(|e| wrong("parts", &e))?;
    Ok(Limit {
        name: *name,
        keyed: number("keyed")? == 1,
        algorithm: text("algorithm")?.parse().map_err(|e| wrong("algorithm", &e))?,
        terms: Terms {
            capacity: Capacity::new(number("capacity")?).map_err(|e| wrong("capacity", &e))?,
            supply,
        },
        catch_up: number("catch_up")? == 1,
        on_change: text("on_change")?.parse().map_err(|e| wrong("on_change", &e))?,
        tick: Duration::from_micros(number("tick")?),
        shards: Shards::new(number("shards")?).map_err(|e| wrong("shards", &e))?,
        lease,
        rollout,
        on_outage,
        candidate,
        compared,
        schedule,
        top_keys,
        plans,
        penalty,
        holds,
        parts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::{Mode, Rule, ScheduledChange};

    #[test]
    fn a_limit_is_read_as_it_was_published() {
        let rules = [(10, 1), (100, 60)]
            .map(|(tokens, seconds)| Rule::new(tokens, Duration::from_secs(seconds)).unwrap());
        for supply in [
            Supply::Rate("7/3h".parse().unwrap()),
            Supply::Period(Period { since: 5, next: 9 }),
            Supply::Windows(Windows::new(&rules, true).unwrap()),
            Supply::Windows(Windows::new(&rules[1..], false).unwrap()),
            Supply::Permits(PermitTtl::DEFAULT),
        ] {
            let limit = Limit {
                name: "mail".parse().unwrap(),
                keyed: true,
                algorithm: crate::limit::Algorithm::TokenBucket,
                terms: Terms { capacity: Capacity::new(12).unwrap(), supply },
                catch_up: false,
                on_change: crate::limit::OnChange::Proportional,
                tick: Duration::from_millis(250),
                shards: Shards::new(8).unwrap(),
                lease: Some(Lease::new(100, Duration::from_millis(500)).unwrap()),
                rollout: Rollout { mode: Mode::Shadow, enforced: Percent::new(7).unwrap() },
                on_outage: Some(OnOutage::Local),
                candidate: true,
                compared: Percent::new(3).unwrap(),
                schedule: Schedule::new([ScheduledChange {
                    at: 9,
                    capacity: Capacity::new(3).unwrap(),
                    rate: "9/m".parse().unwrap(),
                }]),
                top_keys: TopKeys::new(20).unwrap().hashed(true),
                plans: Plans::from_text("gold\nacme gold 7").unwrap(),
                penalty: Some("5 60000000 600000000 2 86400000000".parse().unwrap()),
                holds: Holds::new(50, crate::limit::OnAbandon::Refund, Duration::from_secs(60)).unwrap(),
                parts: match supply {
                    Supply::Rate(_) => Parts::new([("a b".to_owned(), 3), ("*".to_owned(), 1)]).unwrap(),
                    _ => Parts::default(),
                },
            };
            let record = fields(&limit).map(|(field, value)| (field.to_owned(), value)).into();
            assert_eq!(parse(&limit.name, &record), Ok(limit));
        }
    }

    #[test]
    fn a_record_that_says_nothing_of_modes_is_in_force_for_all() {
        let terms =
            Terms { capacity: Capacity::new(12).unwrap(), supply: Supply::Rate("7/3h".parse().unwrap()) };
        let limit = Limit::plain("mail".parse().unwrap(), crate::limit::Algorithm::TokenBucket, terms);
        let record = fields(&limit).into_iter().filter(|(field, _)| {
            ![
                "mode",
                "enforce_percent",
                "on_outage",
                "candidate",
                "compare_percent",
                "schedule",
                "top_keys",
                "hash_top_keys",
                "plans",
                "penalty",
                "max_debt",
                "on_abandon",
                "hold_ttl",
                "parts",
            ]
            .contains(field)
        });
        let record = record.map(|(field, value)| (field.to_owned(), value)).collect();
        assert_eq!(parse(&limit.name, &record), Ok(limit));
    }

    #[test]
    fn a_broken_record_is_an_error_that_names_the_field() {
        let record = HashMap::from([("rate".to_owned(), "often".to_owned())]);
        let problem = parse(&"mail".parse().unwrap(), &record).unwrap_err();
        assert!(problem.contains("limit mail: rate"), "{problem}");
    }
}
