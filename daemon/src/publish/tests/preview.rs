//! The preview of a reload against the reload itself.

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use topup_wire::{
    claims::Owner,
    keyspace::ShardKeys,
    limit::{Limit, LimitName},
    namespace::InNamespace,
    scripts,
};

use super::Fixture;
use crate::{
    config::Config,
    publish::{
        Effect, FrozenShards, LoadedConfig, Note, Preview, PublishOptions, claim, desired_limits,
        fingerprint, preview, publish, release,
    },
};

const EDITS: u64 = 60;
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// The limit that another config holds.
const FOREIGN: &str = "f";
const FOREIGN_TABLE: &str = "[limit.f]\ncapacity = 5\nrate = \"1/s\"\n";

/// One of `choices`.
fn one<'c>(random: &mut StdRng, choices: &[&'c str]) -> &'c str {
    choices[random.random_range(0..choices.len())]
}

/// The table of a limit, of any kind.
fn table(random: &mut StdRng, name: &str) -> String {
    let keyed = one(random, &["", "keyed = true\n"]);
    let shards =
        if keyed.is_empty() { "" } else { one(random, &["", "shards = 2\n", "enforce_percent = 5\n"]) };
    let any = [
        one(random, &["", "mode = \"shadow\"\n"]),
        one(random, &["", "on_outage = \"deny\"\n"]),
        keyed,
        shards,
    ];
    let steady = format!(
        "capacity = {}\nrate = \"{}\"\n{}",
        one(random, &["5", "10"]),
        one(random, &["1/s", "60/min", "7/s"]),
        one(random, &["", "on_change = \"reset\"\n", "on_change = \"proportional\"\n"]),
    );
    let schedule = format!(
        "[[limit.{name}.schedule]]\ncron = \"{}\"\nrate = \"9/s\"\n[[limit.{name}.schedule]]\ncron = \"0 0 6 * * *\"\n\
         capacity = 7\n",
        one(random, &["0 0 22 * * *", "0 0 22 */1 * *", "0 0 22 1 * *"]),
    );
    let (own, tables) = match random.random_range(0..6) {
        0 => (format!("{steady}catch_up = false\n"), String::new()),
        1 => (format!("{steady}lease = {{ max = 5 }}\ncandidate = {{ rate = \"2/s\" }}\n"), String::new()),
        2 => (format!("{steady}compare_percent = 10\n"), schedule),
        3 => (format!("{steady}algorithm = \"{}\"\n", one(random, &["gcra", "lazy-token-bucket"])), schedule),
        4 => {
            let kind = one(random, &["fixed-window", "sliding-window", "sliding-counter"]);
            let window = one(random, &["1s", "60s", "1min"]);
            (format!("algorithm = \"{kind}\"\nlimit = 5\nwindow = \"{window}\"\n"), String::new())
        }
        _ => {
            let cron = one(random, &["0 0 0 1 * *", "0 0 0 1 1 *"]);
            (format!("capacity = 5\nrefill = {{ cron = \"{cron}\" }}\n"), String::new())
        }
    };
    format!("[limit.{name}]\n{own}{}{tables}", any.concat())
}

/// `before` with some of its tables removed, added or changed.
fn edited(random: &mut StdRng, before: &BTreeMap<&'static str, String>) -> BTreeMap<&'static str, String> {
    let mut tables = before.clone();
    for name in NAMES {
        match random.random_range(0..6) {
            0 => drop(tables.remove(name)),
            1 if name == FOREIGN => drop(tables.insert(name, FOREIGN_TABLE.to_owned())),
            1 | 2 => drop(tables.insert(name, table(random, name))),
            // The same instants in other words.
            3 => {
                tables.entry(name).and_modify(|table| *table = table.replace("22 * * *", "22 */1 * *"));
            }
            _ => {}
        }
    }
    tables
}

fn parsed(tables: &BTreeMap<&'static str, String>, tick: u64) -> Config {
    let text = format!("[daemon]\ntick = \"{tick}ms\"\n{}", tables.values().cloned().collect::<String>());
    Config::parse(&text, "config.toml").unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

// === impl Fixture ===

impl Fixture {
    /// Publishes `config` as a daemon of `owner` does after a reload.
    async fn reload(&self, owner: &Owner, config: &Config) {
        let now = scripts::now(&mut self.connection.clone()).await.unwrap();
        let limits =
            config.limits.iter().map(|(name, limit)| (*name, fingerprint(limit, config.tick))).collect();
        let loaded = LoadedConfig {
            daemon: format!("daemon of {owner}"),
            owner: owner.clone(),
            loaded: now,
            limits,
            ..LoadedConfig::default()
        };
        let mut known = FrozenShards::new();
        // The second round makes the changes that the first has announced.
        for _ in 0..2 {
            let plan = claim(&self.connection, &loaded).await.unwrap();
            let mut desired = desired_limits(config, now, |_| true);
            desired.iter_mut().for_each(|desired| desired.since = None);
            desired.retain(|desired| plan.publish.contains(&desired.limit.name.live()));
            let options = PublishOptions { plan: Some(&plan), known: &known, announce: false };
            let outcome = publish(&self.connection, &desired, options).await.unwrap();
            release(&self.connection, &loaded, &plan).await.unwrap();
            for (name, shard) in outcome.frozen.keys() {
                // As if the freeze had begun long ago.
                let keys = ShardKeys::new(self.connection.namespace(), name, *shard);
                self.ask::<u64>(&["HINCRBY", &keys.record, "frozen", "-2000000"]).await;
            }
            known = outcome.frozen;
        }
    }

    async fn preview(&self, owner: &Owner, config: &Config) -> Preview {
        let seen = scripts::ownership(&mut self.connection.clone()).await.unwrap();
        preview(&self.connection, &seen, owner, config).await.unwrap()
    }

    async fn published(&self) -> BTreeMap<LimitName, Limit> {
        let connection = &mut self.connection.clone();
        let mut published = BTreeMap::new();
        for name in scripts::published_limits(connection).await.unwrap().into_keys() {
            let limit = scripts::read_limit(connection, &name).await.unwrap().unwrap();
            published.insert(name, limit.limit);
        }
        published
    }

    /// Every key with its content.
    async fn dump(&self) -> BTreeMap<String, Vec<u8>> {
        let mut dump = BTreeMap::new();
        for key in self.ask::<Vec<String>>(&["KEYS", "*"]).await {
            let content = self.ask::<Vec<u8>>(&["DUMP", &key]).await;
            dump.insert(key, content);
        }
        dump
    }
}

/// A random edit does what its preview tells, and nothing else; the preview itself does nothing.
#[tokio::test]
async fn a_reload_does_what_its_preview_tells() {
    let fixture = Fixture::start();
    let (own, other): (Owner, Owner) = ("own".parse().unwrap(), "other".parse().unwrap());
    let foreign =
        parsed(&[(FOREIGN, format!("[limit.{FOREIGN}]\ncapacity = 5\nrate = \"1/s\"\n"))].into(), 100);
    fixture.reload(&other, &foreign).await;
    let mut tables = BTreeMap::new();
    let (mut told, mut refused) = (BTreeSet::new(), 0);
    for seed in 0..EDITS {
        let random = &mut StdRng::seed_from_u64(seed);
        tables = edited(random, &tables);
        let config = parsed(&tables, [100, 100, 50][random.random_range(0..3)]);
        let (keys, before) = (fixture.dump().await, fixture.published().await);
        let preview = fixture.preview(&own, &config).await;
        assert_eq!(fixture.dump().await, keys, "seed {seed}: the preview has changed something");
        fixture.reload(&own, &config).await;
        let after = fixture.published().await;
        let names: BTreeSet<&LimitName> = before.keys().chain(after.keys()).collect();
        for name in names {
            let expected = match (before.get(name), after.get(name)) {
                (None, Some(limit)) => Some(Effect::Added(limit.clone().into())),
                (Some(limit), None) => Some(Effect::Removed(Some(limit.clone().into()))),
                (Some(from), Some(to)) if from != to => {
                    Some(Effect::Altered { from: from.clone().into(), to: to.clone().into() })
                }
                _ => None,
            };
            let found = preview
                .effects
                .get(name)
                .filter(|effect| !matches!(effect, Effect::Released | Effect::Shared | Effect::Rewritten));
            assert_eq!(found, expected.as_ref(), "seed {seed}: limit {name}");
            if let Some(Effect::Altered { .. }) = found {
                assert!(!found.unwrap().differences().is_empty() || name.live() != *name, "{found:?}");
            }
        }
        for effect in preview.effects.values() {
            told.insert(format!("{effect:?}").split(['(', ' ', '{']).next().unwrap().to_owned());
        }
        let is_refused = preview.notes.iter().any(Note::is_refusal);
        assert!(!is_refused || after.get(FOREIGN) == before.get(FOREIGN), "seed {seed}");
        refused += u32::from(is_refused);
        let again = fixture.preview(&own, &config).await;
        assert_eq!((again.effects.len(), again.is_empty()), (0, !is_refused), "seed {seed}: {again:?}");
    }
    let all = ["Added", "Altered", "Removed", "Released", "Rewritten", "Shared"];
    assert!(all.iter().all(|effect| told.contains(*effect)) && refused > 0, "{told:?}, {refused}");
}
