//! The record of a limit: its fields as Redis has them.

use std::{collections::HashMap, fmt::Display, str::FromStr, time::Duration};

use crate::limit::{
    Capacity, Holds, Lease, Limit, LimitName, OnOutage, Parts, Percent, Period, PermitTtl, Plans, Rollout,
    Schedule, Shards, Supply, Terms, TopKeys, Windows,
};

/// The fields of the record of a limit.
struct Fields<'f> {
    name: &'f LimitName,
    fields: &'f HashMap<String, String>,
}

/// The fields of a record that are text. The packed terms are not, and only scripts read them.
pub(super) fn text_fields(fields: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) -> HashMap<String, String> {
    let text = |bytes| String::from_utf8(bytes).ok();
    fields.into_iter().filter_map(|(field, value)| Some((text(field)?, text(value)?))).collect()
}

/// A record's fields, as text. Scripts write the fields that only they use, such as the anchor and the previous terms.
pub(super) fn fields(limit: &Limit) -> [(&'static str, String); 32] {
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
        ("plans_fill", limit.plans_fill.to_string()),
        ("penalty", limit.penalty.map(|penalty| penalty.to_string()).unwrap_or_default()),
        ("max_debt", limit.holds.max_debt().to_string()),
        ("on_abandon", limit.holds.on_abandon().as_str().to_owned()),
        ("hold_ttl", limit.holds.ttl().as_micros().to_string()),
        ("permit_ttl", permit_ttl.to_string()),
        ("parts", parts),
    ]
}

/// The limit `name` by the fields of its record. A record of an older version lacks some: such a limit has nothing of that.
pub(crate) fn parse(name: &LimitName, fields: &HashMap<String, String>) -> Result<Limit, String> {
    let record = Fields { name, fields };
    let permit_ttl = if record.has("permit_ttl") { record.number("permit_ttl")? } else { 0 };
    let supply = match (record.text("rate")?, record.or_empty("rules")) {
        ("", "") if permit_ttl > 0 => {
            Supply::Permits(record.read("permit_ttl", PermitTtl::new(Duration::from_micros(permit_ttl)))?)
        }
        ("", "") => Supply::Period(Period { since: record.number("filled")?, next: record.number("fills")? }),
        ("", rules) => {
            Supply::Windows(record.read("rules", Windows::from_pairs(rules, record.flag("aligned")?))?)
        }
        (rate, _) => Supply::Rate(record.read("rate", rate.parse())?),
    };
    let lease = match record.number("lease")? {
        0 => None,
        max => Some(record.read("lease", Lease::new(max, record.micros("lease_ttl")?))?),
    };
    let percent = |field| record.read(field, Percent::new(record.number(field)?));
    let rollout = match record.has("mode") {
        false => Rollout::default(),
        true => Rollout { mode: record.parsed("mode")?, enforced: percent("enforce_percent")? },
    };
    let (candidate, compared) = match record.has("candidate") {
        false => (false, Percent::NONE),
        true => (record.flag("candidate")?, percent("compare_percent")?),
    };
    let top_keys = match record.has("top_keys") {
        false => TopKeys::NONE,
        true => record.read("top_keys", TopKeys::new(record.number("top_keys")?))?,
    };
    let holds = match record.has("on_abandon") {
        false => Holds::default(),
        true => {
            let (max_debt, ttl) = (record.number("max_debt")?, record.micros("hold_ttl")?);
            record.read("holds", Holds::new(max_debt, record.parsed("on_abandon")?, ttl))?
        }
    };
    let capacity = record.read("capacity", Capacity::new(record.number("capacity")?))?;
    Ok(Limit {
        name: *name,
        keyed: record.flag("keyed")?,
        algorithm: record.parsed("algorithm")?,
        terms: Terms { capacity, supply },
        catch_up: record.flag("catch_up")?,
        on_change: record.parsed("on_change")?,
        tick: record.micros("tick")?,
        shards: record.read("shards", Shards::new(record.number("shards")?))?,
        lease,
        rollout,
        on_outage: record.parsed_unless_empty("on_outage")?,
        candidate,
        compared,
        schedule: record.read("schedule", Schedule::from_text(record.or_empty("schedule")))?,
        top_keys: top_keys.hashed(record.or_empty("hash_top_keys") == "1"),
        plans: record.read("plans", Plans::from_text(record.or_empty("plans")))?,
        plans_fill: if record.has("plans_fill") { record.number("plans_fill")? } else { 0 },
        penalty: record.parsed_unless_empty("penalty")?,
        holds,
        parts: record.read("parts", Parts::from_text(record.or_empty("parts")))?,
    })
}

// === impl Fields ===

impl<'f> Fields<'f> {
    fn has(&self, field: &str) -> bool {
        self.fields.contains_key(field)
    }

    fn or_empty(&self, field: &str) -> &'f str {
        self.fields.get(field).map_or("", String::as_str)
    }

    fn text(&self, field: &str) -> Result<&'f str, String> {
        let text = self.fields.get(field).map(String::as_str);
        text.ok_or_else(|| format!("the record of limit {} has no {field}", self.name))
    }

    fn number(&self, field: &str) -> Result<u64, String> {
        self.parsed(field)
    }

    fn flag(&self, field: &str) -> Result<bool, String> {
        Ok(self.number(field)? == 1)
    }

    fn micros(&self, field: &str) -> Result<Duration, String> {
        self.number(field).map(Duration::from_micros)
    }

    fn parsed<T: FromStr<Err: Display>>(&self, field: &str) -> Result<T, String> {
        self.read(field, self.text(field)?.parse())
    }

    fn parsed_unless_empty<T: FromStr<Err: Display>>(&self, field: &str) -> Result<Option<T>, String> {
        let text = Some(self.or_empty(field)).filter(|text| !text.is_empty());
        text.map(|text| self.read(field, text.parse())).transpose()
    }

    /// The value of the field, or its problem with the names of limit and field.
    fn read<T>(&self, field: &str, read: Result<T, impl Display>) -> Result<T, String> {
        read.map_err(|problem| format!("limit {}: {field}: {problem}", self.name))
    }
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
                plans_fill: 77,
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
                "plans_fill",
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
