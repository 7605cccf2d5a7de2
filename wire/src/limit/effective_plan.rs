//! The plan of a key at an instant, from all that assigns one.

use super::{Assignment, Plans, Target};

/// An assignment outside of the config: by hand, or by the limit's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// The assignment from `at` on; `None` for none.
    pub assignment: Option<Assignment>,
    /// The terms before, of the same origin; `None` for none.
    pub before: Option<Target>,
    /// The instant at which it takes force, in µs of Redis `TIME`.
    pub at: u64,
}

/// All that assigns a plan to one key.
#[derive(Clone, Copy, Debug)]
pub struct PlanSources<'a> {
    /// The key.
    pub key: &'a str,
    /// The plans and assignments of the limit's config.
    pub config: &'a Plans,
    /// The plans and assignments before `config_at`.
    pub config_before: &'a Plans,
    /// The instant at which `config` takes force, in µs of Redis `TIME`.
    pub config_at: u64,
    /// The assignment by hand, if there is one.
    pub by_hand: Option<Assigned>,
    /// The assignment by the source of the limit, if there is one.
    pub by_source: Option<Assigned>,
}

/// The reason of a key's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanReason<'a> {
    /// It is assigned by hand.
    ByHand,
    /// The source of the limit assigns it.
    Source,
    /// The config assigns this key, or this pattern.
    Config(&'a str),
    /// Nothing assigns it: the limit's own terms.
    Own,
}

/// The terms of a key during a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanPeriod {
    /// The terms; `None` for the limit's own.
    pub target: Option<Target>,
    /// The instant of the last change, and the terms before it.
    pub changed: Option<(u64, Option<Target>)>,
    /// The next instant at which the terms may change.
    pub until: Option<u64>,
}

// === impl Assigned ===

impl Assigned {
    /// The terms at `now`, in µs of Redis `TIME`.
    pub fn target_at(&self, now: u64) -> Option<Target> {
        match now < self.at {
            true => self.before,
            false => self.assignment.filter(|one| one.holds_at(now)).map(|one| one.target),
        }
    }
}

// === impl PlanSources ===

impl<'a> PlanSources<'a> {
    /// The terms at `now`, in µs of Redis `TIME`, and their reason: by hand, else by the source, else by the config, else the
    /// limit's own.
    pub fn at(&self, now: u64) -> (Option<Target>, PlanReason<'a>) {
        for (assigned, reason) in [(self.by_hand, PlanReason::ByHand), (self.by_source, PlanReason::Source)] {
            let target = assigned.and_then(|assigned| assigned.target_at(now));
            if let Some(target) = target.filter(|target| self.config.knows(*target)) {
                return (Some(target), reason);
            }
        }
        let config = if now < self.config_at { self.config_before } else { self.config };
        match config.of(self.key, now) {
            // A plan that is gone has no limit any more.
            Some((by, assignment)) if self.config.knows(assignment.target) => {
                (Some(assignment.target), PlanReason::Config(by))
            }
            _ => (None, PlanReason::Own),
        }
    }

    /// The terms at `now`, since when they are, and until when.
    pub fn period(&self, now: u64) -> PlanPeriod {
        let ends = self.config.ends(self.key).chain(self.config_before.ends(self.key));
        let assigned = self.by_hand.into_iter().chain(self.by_source);
        let assigned = assigned.flat_map(|one| [Some(one.at), one.assignment.and_then(|one| one.until)]);
        let mut instants: Vec<u64> = ends.chain(assigned.flatten()).chain([self.config_at]).collect();
        instants.sort_unstable();
        let terms = |at: u64| self.at(at).0;
        let past = instants.iter().rev().filter(|at| (1..=now).contains(*at));
        let changed = past.map(|at| (*at, terms(at - 1))).find(|(at, before)| terms(*at) != *before);
        PlanPeriod {
            target: terms(now),
            changed,
            until: instants.into_iter().find(|at| *at > now && terms(*at) != terms(now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(word: &str) -> Target {
        word.parse().unwrap()
    }

    fn plans(keys: &str) -> Plans {
        Plans::from_text(&format!("gold free{keys}")).unwrap()
    }

    fn words(sources: &PlanSources<'_>, now: u64) -> (String, Option<u64>, Option<u64>) {
        let PlanPeriod { target, changed, until } = sources.period(now);
        (target.map_or("own".to_owned(), |target| target.to_string()), changed.map(|(at, _)| at), until)
    }

    #[test]
    fn by_hand_goes_before_the_config_and_each_has_its_instants() {
        let (config, before) = (plans("\nacme gold 500\na* free"), plans(""));
        let mut sources = PlanSources {
            key: "acme",
            config: &config,
            config_before: &before,
            config_at: 100,
            by_hand: None,
            by_source: None,
        };
        assert_eq!(words(&sources, 99), ("own".to_owned(), None, Some(100)));
        assert_eq!(words(&sources, 100), ("gold".to_owned(), Some(100), Some(500)));
        assert_eq!(words(&sources, 500), ("free".to_owned(), Some(500), None));
        assert_eq!(sources.period(500).changed, Some((500, Some(target("gold")))));
        assert_eq!(sources.at(100).1, PlanReason::Config("acme"));
        assert_eq!(sources.at(500).1, PlanReason::Config("a*"));

        let assignment = Some(Assignment { target: target("deny"), until: Some(300) });
        sources.by_hand = Some(Assigned { assignment, before: None, at: 200 });
        assert_eq!(words(&sources, 150), ("gold".to_owned(), Some(100), Some(200)));
        assert_eq!(words(&sources, 200), ("deny".to_owned(), Some(200), Some(300)));
        assert_eq!(sources.at(200).1, PlanReason::ByHand);
        assert_eq!(words(&sources, 300), ("gold".to_owned(), Some(300), Some(500)));

        // Taken back: until then, as before.
        sources.by_hand = Some(Assigned { assignment: None, before: Some(target("free")), at: 400 });
        assert_eq!(words(&sources, 399).0, "free");
        assert_eq!(words(&sources, 400), ("gold".to_owned(), Some(400), Some(500)));
    }

    #[test]
    fn the_source_stands_between_hand_and_config_and_comes_back_when_the_hand_lets_go() {
        let (config, before) = (plans("\nacme gold"), plans(""));
        let to = |word: &str, until| Some(Assignment { target: target(word), until });
        let sources = PlanSources {
            key: "acme",
            config: &config,
            config_before: &before,
            config_at: 0,
            by_hand: Some(Assigned { assignment: to("deny", Some(300)), before: None, at: 200 }),
            by_source: Some(Assigned { assignment: to("free", Some(600)), before: None, at: 100 }),
        };
        let reasons = [99, 100, 200, 300, 600].map(|now| sources.at(now).1);
        let config = PlanReason::Config("acme");
        let (hand, source) = (PlanReason::ByHand, PlanReason::Source);
        assert_eq!(reasons, [config, source, hand, source, config]);
        assert_eq!(words(&sources, 250), ("deny".to_owned(), Some(200), Some(300)));
        assert_eq!(sources.period(400).changed, Some((300, Some(target("deny")))));
        assert_eq!(words(&sources, 600), ("gold".to_owned(), Some(600), None));
    }

    #[test]
    fn a_plan_that_the_limit_does_not_have_is_none() {
        let (config, before) = (plans(""), Plans::from_text("silver\nacme silver").unwrap());
        let assignment = Some(Assignment { target: target("silver"), until: None });
        let by_hand = Some(Assigned { assignment, before: None, at: 5 });
        let sources = PlanSources {
            key: "acme",
            config: &config,
            config_before: &before,
            config_at: 100,
            by_hand,
            by_source: by_hand,
        };
        assert_eq!((sources.at(50), sources.at(150)), ((None, PlanReason::Own), (None, PlanReason::Own)));
    }
}
