//! The decision on claims, as a pure function: a world of daemons without Redis.

use std::collections::BTreeMap;

use topup_wire::{
    claims::{Definition, Fingerprint, Owner, Ownership},
    limit::LimitName,
};

use crate::publish::{LoadedConfig, Note, Plan, decide};

/// Redis as the decisions see it, and the configs of live daemons.
#[derive(Default)]
struct World {
    seen: Ownership,
    daemons: BTreeMap<&'static str, LoadedConfig>,
    /// The terms of each published limit.
    published: BTreeMap<LimitName, Fingerprint>,
}

fn name(text: &str) -> LimitName {
    text.parse().unwrap()
}

fn owner(text: &str) -> Owner {
    text.parse().unwrap()
}

/// `a=1 b=2`: limits and their terms.
fn limits(text: &str) -> BTreeMap<LimitName, Fingerprint> {
    let pair = |word: &str| {
        let (limit, terms) = word.split_once('=').unwrap();
        (name(limit), Fingerprint::of(terms))
    };
    text.split_whitespace().map(pair).collect()
}

// === impl World ===

impl World {
    /// A daemon starts or reloads: `id` is the owner and a number, `a1`.
    fn load(&mut self, id: &'static str, text: &str) -> Plan {
        self.load_with(id, text, &[])
    }

    fn load_with(&mut self, id: &'static str, text: &str, take_over: &[&str]) -> Plan {
        self.seen.now += 1;
        let take_over = take_over.iter().map(|limit| name(limit)).collect();
        let config = LoadedConfig {
            daemon: id.to_owned(),
            owner: owner(&id[..1]),
            loaded: self.seen.now,
            limits: limits(text),
            take_over,
            ..LoadedConfig::default()
        };
        self.daemons.insert(id, config);
        let plan = self.act(id);
        self.settle();
        plan
    }

    /// A daemon ends, by a crash or in order: the others notice the same.
    fn end(&mut self, id: &str) {
        self.daemons.remove(id);
        self.seen.daemons.remove(id);
        self.seen.alive = self.daemons.values().map(|config| config.owner.clone()).collect();
        self.settle();
    }

    /// A daemon hangs. Its declaration is back with its next heartbeat, which `resume` is.
    fn suspend(&mut self, id: &'static str) -> impl FnOnce(&mut Self) + use<> {
        let (config, declared) = (self.daemons[id].clone(), self.seen.daemons[id].clone());
        self.end(id);
        move |world| {
            world.daemons.insert(id, config);
            world.seen.daemons.insert(id.to_owned(), declared);
            world.settle();
        }
    }

    /// All daemons look until none has anything to do.
    fn settle(&mut self) {
        for _ in 0..10 {
            let ids: Vec<_> = self.daemons.keys().copied().collect();
            let before = (self.seen.clone(), self.published.clone());
            for id in ids {
                self.act(id);
            }
            if before == (self.seen.clone(), self.published.clone()) {
                return;
            }
        }
        panic!("the daemons never agree: {:?}", self.seen);
    }

    /// One daemon decides and acts upon it.
    fn act(&mut self, id: &str) -> Plan {
        let config = &self.daemons[id];
        self.seen.alive.insert(config.owner.clone());
        let plan = decide(config, &self.seen);
        let own = plan.remove.iter().map(|limit| (*limit, config.owner.clone()));
        for (limit, owner) in plan.change.release.iter().cloned().chain(own) {
            self.seen.claims.entry(limit).or_default().remove(&owner);
        }
        self.seen.claims.retain(|_, claims| !claims.is_empty());
        for (limit, owner, claim) in plan.change.claim.clone() {
            self.seen.claims.entry(limit).or_default().insert(owner, claim);
        }
        if let Some((daemon, _, declared)) = plan.change.declare.clone() {
            self.seen.daemons.insert(daemon, declared);
        }
        for limit in &plan.remove {
            self.published.remove(limit);
            self.seen.registered.remove(limit);
        }
        for limit in &plan.publish {
            self.published.insert(*limit, config.limits[limit]);
            self.seen.registered.insert(*limit);
        }
        self.seen.last_alive.insert(config.owner.clone(), self.seen.now);
        self.seen.version = "1".to_owned();
        plan
    }

    #[track_caller]
    fn publishes(&self, text: &str) {
        assert_eq!(self.published, limits(text));
    }

    /// The notes of a daemon now, as their kinds and limits or daemons.
    fn notes(&self, id: &str) -> Vec<String> {
        let note = |note: &Note| match note {
            Note::Conflict { limit, daemon, .. } => format!("conflict {limit} {daemon}"),
            Note::Orphaned { limit, owner, .. } => format!("orphaned {limit} {owner}"),
            Note::Defined { limit, owner } => format!("defined {limit} {owner}"),
            Note::Contested { limit, daemon, .. } => format!("contested {limit} {daemon}"),
            Note::Outdated { limit, .. } => format!("outdated {limit}"),
            Note::Newer { daemon, .. } => format!("newer {daemon}"),
            Note::Lagging { daemon, .. } => format!("lagging {daemon}"),
            Note::Kept { limit, daemon } => format!("kept {limit} {daemon}"),
            Note::TakenOver { limit, owner } => format!("taken over {limit} {owner}"),
        };
        decide(&self.daemons[id], &self.seen).notes.iter().map(note).collect()
    }
}

#[test]
fn another_config_takes_no_limit_away() {
    let mut world = World::default();
    world.load("a1", "api=1 user=1");
    let plan = world.load("b1", "billing=1");
    world.publishes("api=1 user=1 billing=1");
    assert_eq!(plan.foreign, limits("api=1 user=1").into_keys().collect());
    world.end("b1");
    world.load("a1", "api=1 user=1");
    world.publishes("api=1 user=1 billing=1");
    world.load("b2", "");
    world.publishes("api=1 user=1");
}

#[test]
fn a_limit_that_code_has_defined_waits_for_its_end() {
    let mut world = World::default();
    let tenant = name("tenant");
    world.seen.defined.insert(tenant, Definition { owner: owner("billing"), until: 9 });
    world.seen.registered.insert(tenant);
    let plan = world.load("a1", "api=1 tenant=1");
    world.publishes("api=1");
    assert_eq!((world.notes("a1"), plan.foreign.len()), (vec!["defined tenant billing".into()], 0));
    // Nor does the config that drops it remove it.
    world.load("a1", "api=1");
    assert!(world.seen.registered.contains(&tenant));
    world.load("a1", "api=1 tenant=1");
    world.seen.defined.clear();
    world.seen.registered.remove(&tenant);
    world.settle();
    world.publishes("api=1 tenant=1");
    // A definition that comes at the same time as a claim takes nothing away.
    world.seen.defined.insert(tenant, Definition { owner: owner("billing"), until: 9 });
    world.load("a1", "api=2 tenant=2");
    world.publishes("api=2 tenant=2");
}

#[test]
fn the_first_of_two_terms_stays_and_both_say_so() {
    let mut world = World::default();
    world.load("a1", "api=1");
    world.load("b1", "api=2 own=1");
    world.publishes("api=1 own=1");
    assert_eq!(
        (world.notes("a1"), world.notes("b1")),
        (vec!["contested api b1".into()], vec!["conflict api a1".into()])
    );
    // The first may change its own terms.
    world.load("a1", "api=3");
    world.publishes("api=3 own=1");
    // It drops the limit: the other, which waits for it, has it at once.
    world.load("a1", "");
    world.publishes("api=2 own=1");
    world.load("a1", "api=3");
    world.publishes("api=2 own=1");
    assert_eq!(
        (world.notes("a1"), world.notes("b1")),
        (vec!["conflict api b1".into()], vec!["contested api a1".into()])
    );
}

#[test]
fn a_limit_of_two_configs_goes_when_both_have_dropped_it() {
    let mut world = World::default();
    world.load("a1", "api=1");
    world.load("b1", "api=1");
    assert_eq!((world.notes("a1").len(), world.notes("b1").len()), (0, 0));
    world.load("a1", "");
    world.publishes("api=1");
    world.load("b1", "");
    world.publishes("");
}

#[test]
fn two_configs_change_a_limit_one_after_the_other() {
    let mut world = World::default();
    world.load("a1", "api=1");
    world.load("b1", "api=1");
    world.load("a1", "api=2");
    world.publishes("api=1");
    assert_eq!(
        (world.notes("a1"), world.notes("b1")),
        (vec!["conflict api b1".into()], vec!["contested api a1".into()])
    );
    world.load("b1", "api=2");
    world.publishes("api=2");
    assert_eq!((world.notes("a1").len(), world.notes("b1").len()), (0, 0));
}

#[test]
fn a_limit_of_a_dead_config_is_taken_over_with_consent_only() {
    let mut world = World::default();
    world.load("a1", "api=1 other=1");
    world.end("a1");
    world.load("b1", "api=2");
    world.publishes("api=1 other=1");
    assert_eq!(world.notes("b1"), ["orphaned api a"]);
    let plan = world.load_with("b1", "api=2", &["api"]);
    assert!(plan.notes.contains(&Note::TakenOver { limit: name("api"), owner: owner("a") }));
    world.publishes("api=2 other=1");
    // The first config comes back, and is the later one now.
    world.load("a2", "api=1 other=1");
    world.publishes("api=2 other=1");
    assert_eq!(world.notes("a2"), ["conflict api b1"]);
}

#[test]
fn a_daemon_that_hung_during_a_take_over_gives_way() {
    let mut world = World::default();
    world.load("a1", "api=1");
    let resume = world.suspend("a1");
    world.load_with("b1", "api=2", &["api"]);
    world.publishes("api=2");
    resume(&mut world);
    world.publishes("api=2");
    assert_eq!(
        (world.notes("a1"), world.notes("b1")),
        (vec!["conflict api b1".into()], vec!["contested api a1".into()])
    );
}

#[test]
fn consent_takes_nothing_from_the_living() {
    let mut world = World::default();
    world.load("a1", "api=1");
    world.load_with("b1", "api=2", &["api"]);
    world.publishes("api=1");
    assert_eq!(world.notes("b1"), ["conflict api a1"]);
}

#[test]
fn a_rolling_edit_of_one_config_ends_with_the_newest() {
    let mut world = World::default();
    world.load("a1", "api=1 old=1");
    world.load("a2", "api=1 old=1");
    assert_eq!((world.notes("a1").len(), world.notes("a2").len()), (0, 0));
    world.load("a1", "api=2 new=1");
    world.publishes("api=2 new=1 old=1");
    assert_eq!(world.notes("a1"), ["lagging a2", "kept old a2"]);
    assert_eq!(world.notes("a2"), ["outdated api", "newer a1"]);
    world.load("a2", "api=2 new=1");
    world.publishes("api=2 new=1");
    assert_eq!((world.notes("a1").len(), world.notes("a2").len()), (0, 0));
}

#[test]
fn a_dropped_limit_goes_when_the_last_daemon_that_has_it_ends() {
    let mut world = World::default();
    world.load("a1", "api=1 old=1");
    world.load("a2", "api=1 old=1");
    world.load("a1", "api=1");
    world.publishes("api=1 old=1");
    world.end("a2");
    world.publishes("api=1");
}

#[test]
fn an_older_version_never_undoes_a_newer_one() {
    let mut world = World::default();
    world.load("a1", "api=1");
    world.load("a2", "api=2 new=1");
    world.end("a2");
    world.publishes("api=2 new=1");
    assert_eq!(world.notes("a1"), ["outdated api"]);
    // Loaded anew, it is the newest.
    world.load("a1", "api=1");
    world.publishes("api=1");
}

#[test]
fn claims_that_redis_has_lost_are_made_again_by_those_who_held_them() {
    let mut world = World::default();
    world.load("b1", "api=1");
    world.load("a1", "api=2");
    world.seen.claims.clear();
    // The refused daemon is the first to look.
    world.settle();
    world.publishes("api=1");
    assert_eq!(world.seen.claims[&name("api")].keys().collect::<Vec<_>>(), [&owner("b")]);
}

#[test]
fn a_limit_that_no_config_holds_is_adopted_and_never_removed() {
    let mut world = World::default();
    for (limit, terms) in limits("api=1 older=1") {
        world.published.insert(limit, terms);
        world.seen.registered.insert(limit);
    }
    world.load("a1", "api=2");
    world.publishes("api=2 older=1");
}

/// A limit is published while a live daemon has it in its config, and while a config has not dropped it.
#[test]
fn no_order_of_loads_and_ends_loses_a_limit() {
    let texts = ["api=1 own=1", "api=2", "api=1", ""];
    let ids = ["a1", "a2", "b1", "c1"];
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    for run in 0..500 {
        let mut world = World::default();
        let mut story = format!("run {run}:");
        for _ in 0..12 {
            let id = ids[next(ids.len())];
            if next(3) == 0 {
                story += &format!(" {id} ends;");
                world.end(id);
            } else {
                let text = texts[next(texts.len())];
                story += &format!(" {id} loads {text:?};");
                let consent = [["api"].as_slice(), &[]][next(2)];
                world.load_with(id, text, consent);
            }
            for (id, config) in &world.daemons {
                for limit in config.limits.keys() {
                    assert!(world.published.contains_key(limit), "{story} {id} has lost {limit}");
                    let refused = world.published[limit] != config.limits[limit];
                    let notes = decide(config, &world.seen).notes;
                    assert!(!refused || notes.iter().any(Note::is_refusal), "{story} {id} is silent");
                }
            }
            for (limit, claims) in &world.seen.claims {
                let claimed: Vec<_> = claims.values().map(|claim| claim.fingerprint).collect();
                let published = world.published.get(limit).copied();
                assert!(
                    claimed.iter().all(|claimed| published == Some(*claimed)),
                    "{story} {limit}: {claims:?}"
                );
            }
        }
    }
}
