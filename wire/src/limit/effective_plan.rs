//! The plan of a key at an instant, from all that assigns one.

use super::{
    Assignment, Plans, Target,
    plan_history::{Lost, Past},
};

/// An assignment outside of the config: by hand, or by the limit's source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// The assignment from `at` on; `None` for none.
    pub assignment: Option<Assignment>,
    /// The assignment before, of the same origin; `None` for none.
    pub before: Option<Assignment>,
    /// The instant at which it takes force, in µs of Redis `TIME`.
    pub at: u64,
    /// The assignments before that one, the newest first, while they matter for the key's tokens.
    pub past: Vec<Past<Option<Assignment>>>,
}

/// All that assigns a plan to one key.
#[derive(Clone, Debug)]
pub struct PlanSources<'a> {
    /// The key.
    pub key: &'a str,
    /// The plans and assignments of the limit's config.
    pub config: &'a Plans,
    /// The plans and assignments before `config_at`.
    pub config_before: &'a Plans,
    /// The instant at which `config` takes force, in µs of Redis `TIME`.
    pub config_at: u64,
    /// The tables before that one, the newest first, while they matter for tokens.
    pub config_past: &'a [Past<Plans>],
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
    /// The instant of the last change.
    pub changed: Option<u64>,
    /// The next instant at which the terms may change.
    pub until: Option<u64>,
}

// === impl Assigned ===

impl Assigned {
    /// The assignment that holds at `now`, in µs of Redis `TIME`, if it is known.
    fn holding_at(&self, now: u64) -> Result<Option<Assignment>, Lost> {
        let latest = match Past::at(&self.past, now) {
            Some(past) => *past?,
            None if now < self.at => self.before,
            None => self.assignment,
        };
        Ok(latest.filter(|one| one.holds_at(now)))
    }

    fn instants(&self) -> impl Iterator<Item = u64> {
        let values =
            [self.assignment, self.before].into_iter().chain(self.past.iter().filter_map(|past| past.was));
        let ends = values.filter_map(|one| one?.until);
        ends.chain(self.past.iter().map(|past| past.until)).chain([self.at])
    }
}

// === impl PlanSources ===

impl<'a> PlanSources<'a> {
    /// The terms at `now`, in µs of Redis `TIME`, and their reason. Assignments by hand go before the source, the source
    /// before the config, and the config before the limit's own terms.
    pub fn at(&self, now: u64) -> (Option<Target>, PlanReason<'a>) {
        // All that is in force now is known.
        self.known_at(now).unwrap_or((None, PlanReason::Own))
    }

    /// The same at any instant, if it is known.
    pub(super) fn known_at(&self, now: u64) -> Result<(Option<Target>, PlanReason<'a>), Lost> {
        for (assigned, reason) in [(&self.by_hand, PlanReason::ByHand), (&self.by_source, PlanReason::Source)]
        {
            let Some(assigned) = assigned else { continue };
            let target = assigned.holding_at(now)?.map(|one| one.target);
            if let Some(target) = target.filter(|target| self.config.knows(*target)) {
                return Ok((Some(target), reason));
            }
        }
        let config = match Past::at(self.config_past, now) {
            Some(past) => past?,
            None if now < self.config_at => self.config_before,
            None => self.config,
        };
        Ok(match config.of(self.key, now) {
            // A plan that is gone has no limit any more.
            Some((by, assignment)) if self.config.knows(assignment.target) => {
                (Some(assignment.target), PlanReason::Config(by))
            }
            _ => (None, PlanReason::Own),
        })
    }

    /// The instants at which the terms may change.
    pub(super) fn instants(&self) -> impl Iterator<Item = u64> {
        let tables = self.config_past.iter().filter_map(|past| past.was.as_ref());
        let ends = [self.config, self.config_before]
            .into_iter()
            .chain(tables)
            .flat_map(|table| table.ends(self.key));
        let changes = self.config_past.iter().map(|past| past.until).chain([self.config_at]);
        let outside = self.by_hand.iter().chain(&self.by_source).flat_map(Assigned::instants);
        ends.chain(changes).chain(outside)
    }

    /// The terms at `now`, since when they are, and until when.
    pub fn period(&self, now: u64) -> PlanPeriod {
        let mut instants: Vec<u64> = self.instants().collect();
        instants.sort_unstable();
        let terms = |at: u64| self.known_at(at).map(|(target, _)| target);
        let past = instants.iter().rev().filter(|at| (1..=now).contains(*at));
        let changed = past.map(|at| (*at, terms(at - 1))).find(|(at, before)| terms(*at) != *before);
        PlanPeriod {
            target: self.at(now).0,
            changed: changed.map(|(at, _)| at),
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
        (target.map_or("own".to_owned(), |target| target.to_string()), changed, until)
    }

    #[test]
    fn by_hand_goes_before_the_config_and_each_has_its_instants() {
        let (config, before) = (plans("\nacme gold 500\na* free"), plans(""));
        let mut sources = PlanSources {
            key: "acme",
            config: &config,
            config_before: &before,
            config_at: 100,
            config_past: &[],
            by_hand: None,
            by_source: None,
        };
        assert_eq!(words(&sources, 99), ("own".to_owned(), None, Some(100)));
        assert_eq!(words(&sources, 100), ("gold".to_owned(), Some(100), Some(500)));
        assert_eq!(words(&sources, 500), ("free".to_owned(), Some(500), None));
        assert_eq!(sources.at(100).1, PlanReason::Config("acme"));
        assert_eq!(sources.at(500).1, PlanReason::Config("a*"));

        let assignment = Some(Assignment { target: target("deny"), until: Some(300) });
        sources.by_hand = Some(Assigned { assignment, before: None, at: 200, past: vec![] });
        assert_eq!(words(&sources, 150), ("gold".to_owned(), Some(100), Some(200)));
        assert_eq!(words(&sources, 200), ("deny".to_owned(), Some(200), Some(300)));
        assert_eq!(sources.at(200).1, PlanReason::ByHand);
        assert_eq!(words(&sources, 300), ("gold".to_owned(), Some(300), Some(500)));

        // Taken back: until then, as before.
        let free = Assignment { target: target("free"), until: None };
        sources.by_hand = Some(Assigned { assignment: None, before: Some(free), at: 400, past: vec![] });
        assert_eq!(words(&sources, 399).0, "free");
        assert_eq!(words(&sources, 400), ("gold".to_owned(), Some(400), Some(500)));
        // Or until its own end.
        let free = Assignment { until: Some(350), ..free };
        sources.by_hand = Some(Assigned { assignment: None, before: Some(free), at: 400, past: vec![] });
        assert_eq!(words(&sources, 349), ("free".to_owned(), None, Some(350)));
        assert_eq!(words(&sources, 350), ("gold".to_owned(), Some(350), Some(500)));
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
            config_past: &[],
            by_hand: Some(Assigned {
                assignment: to("deny", Some(300)),
                before: None,
                at: 200,
                past: vec![],
            }),
            by_source: Some(Assigned {
                assignment: to("free", Some(600)),
                before: None,
                at: 100,
                past: vec![],
            }),
        };
        let reasons = [99, 100, 200, 300, 600].map(|now| sources.at(now).1);
        let config = PlanReason::Config("acme");
        let (hand, source) = (PlanReason::ByHand, PlanReason::Source);
        assert_eq!(reasons, [config, source, hand, source, config]);
        assert_eq!(words(&sources, 250), ("deny".to_owned(), Some(200), Some(300)));
        assert_eq!(sources.period(400).changed, Some(300));
        assert_eq!(words(&sources, 600), ("gold".to_owned(), Some(600), None));
    }

    #[test]
    fn a_plan_that_the_limit_does_not_have_is_none() {
        let (config, before) = (plans(""), Plans::from_text("silver\nacme silver").unwrap());
        let assignment = Some(Assignment { target: target("silver"), until: None });
        let by_hand = Some(Assigned { assignment, before: None, at: 5, past: vec![] });
        let sources = PlanSources {
            key: "acme",
            config: &config,
            config_before: &before,
            config_at: 100,
            config_past: &[],
            by_hand: by_hand.clone(),
            by_source: by_hand,
        };
        assert_eq!((sources.at(50), sources.at(150)), ((None, PlanReason::Own), (None, PlanReason::Own)));
    }
}
