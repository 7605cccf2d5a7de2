//! The terms of a key, from change to change, as assignments and configs have them.

use topup_wire::limit::Target;

use super::{KEYS, PLANS, World};

/// The terms of a key: those of the limit (0) or of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Bucket(usize),
    Exempt,
    Deny,
}

/// Terms of a key since an instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Period {
    pub(super) from: u64,
    pub(super) until: u64,
    pub(super) place: Place,
}

// === impl World ===

impl World {
    /// The place of a key at an instant: by hand, else by the source, else by the config.
    fn place(&self, key: usize, now: u64) -> Place {
        let said = self.said.iter().filter_map(|said| {
            let last = said[key].iter().rfind(|said| said.at <= now)?;
            last.assignment.filter(|one| one.until.is_none_or(|until| now < until))
        });
        let config = self.configs.iter().rfind(|(at, _)| *at <= now);
        let config = config.and_then(|(_, plans)| Some(plans.of(KEYS[key], now)?.1));
        match said.into_iter().next().or(config).map(|one| one.target) {
            None => Place::Bucket(0),
            Some(Target::Exempt) => Place::Exempt,
            Some(Target::Deny) => Place::Deny,
            Some(Target::Plan(plan)) => Place::Bucket(if plan.as_str() == PLANS[0] { 1 } else { 2 }),
        }
    }

    /// The terms of a key, one after the other.
    pub(super) fn periods(&self, key: usize) -> Vec<Period> {
        let said = self.said.iter().flat_map(|said| &said[key]);
        let mut instants: Vec<u64> = said
            .flat_map(|said| [Some(said.at), said.assignment.and_then(|one| one.until)])
            .flatten()
            .collect();
        for (at, plans) in &self.configs {
            instants.push(*at);
            instants.extend(plans.ends(KEYS[key]));
        }
        instants.sort_unstable();
        let mut periods: Vec<Period> = Vec::new();
        for at in instants {
            let place = self.place(key, at);
            match periods.last_mut() {
                Some(last) if last.place == place => continue,
                Some(last) => last.until = at,
                None => {}
            }
            periods.push(Period { from: at, until: u64::MAX, place });
        }
        periods
    }
}
