//! Publishing a limit, and reading what is published.

use std::{collections::HashMap, sync::LazyLock, time::Duration};

use redis::{Cmd, ParsingError, RedisResult, Script, aio::ConnectionLike};

use super::script;
use crate::{
    keyspace::ShardKeys,
    limit::{Capacity, Lease, Limit, LimitName, Period, Shards, Supply, Terms},
    reply::Published,
};

static PUBLISH: LazyLock<Script> = script!("publish.lua");

/// Publishes one shard of `limit`, from the instant `at` on (µs of Redis `TIME`; now, when `None`).
///
/// # Errors
/// Those of Redis. May be sent again without harm.
pub async fn publish(
    connection: &mut impl ConnectionLike,
    keys: &ShardKeys,
    limit: &Limit,
    at: Option<u64>,
) -> RedisResult<Published> {
    let mut call = PUBLISH.prepare_invoke();
    call.key(&keys.record).key(&keys.due).key(&keys.former).arg(at.unwrap_or(0));
    for (field, value) in fields(limit) {
        call.arg(field).arg(value);
    }
    call.invoke_async(connection).await
}

/// The limit `name` as published; `None` when it is not.
///
/// # Errors
/// Those of Redis, and a record this version cannot read.
pub async fn read_limit(
    connection: &mut impl ConnectionLike,
    name: &LimitName,
) -> RedisResult<Option<Limit>> {
    let record = ShardKeys::new(name, 0).record;
    let fields: HashMap<String, String> = Cmd::hgetall(record).query_async(connection).await?;
    if fields.is_empty() {
        return Ok(None);
    }
    parse(name, &fields).map(Some).map_err(|problem| ParsingError::from(problem).into())
}

/// A record's fields, as text. What only the scripts compute with (the anchor, the former terms) is theirs to write.
fn fields(limit: &Limit) -> [(&'static str, String); 14] {
    let flag = |set: bool| u8::from(set).to_string();
    let (n, p) = limit.terms.supply.lowest_terms();
    let (rate, filled, fills) = match limit.terms.supply {
        Supply::Rate(rate) => (rate.to_string(), 0, 0),
        Supply::Period(period) => (String::new(), period.since, period.next),
    };
    [
        // The order matters to `publish.lua`.
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
        ("lease", limit.lease.map_or(0, Lease::max).to_string()),
        ("lease_ttl", limit.lease.map_or(0, |lease| lease.ttl().as_micros()).to_string()),
    ]
}

fn parse(name: &LimitName, fields: &HashMap<String, String>) -> Result<Limit, String> {
    let text = |field: &str| {
        fields
            .get(field)
            .map(String::as_str)
            .ok_or_else(|| format!("the record of limit {name} has no {field}"))
    };
    let wrong = |field: &str, problem: &dyn std::fmt::Display| format!("limit {name}: {field}: {problem}");
    let number = |field: &str| text(field)?.parse::<u64>().map_err(|e| wrong(field, &e));
    let supply = match text("rate")? {
        "" => Supply::Period(Period { since: number("filled")?, next: number("fills")? }),
        rate => Supply::Rate(rate.parse().map_err(|e| wrong("rate", &e))?),
    };
    let lease = match number("lease")? {
        0 => None,
        max => {
            let ttl = Duration::from_micros(number("lease_ttl")?);
            Some(Lease::new(max, ttl).map_err(|e| wrong("lease", &e))?)
        }
    };
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
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_read_as_it_was_published() {
        for supply in [Supply::Rate("7/3h".parse().unwrap()), Supply::Period(Period { since: 5, next: 9 })] {
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
            };
            let record = fields(&limit).map(|(field, value)| (field.to_owned(), value)).into();
            assert_eq!(parse(&limit.name, &record), Ok(limit));
        }
    }

    #[test]
    fn a_broken_record_is_an_error_that_names_the_field() {
        let record = HashMap::from([("rate".to_owned(), "often".to_owned())]);
        let problem = parse(&"mail".parse().unwrap(), &record).unwrap_err();
        assert!(problem.contains("limit mail: rate"), "{problem}");
    }
}
