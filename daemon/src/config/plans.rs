//! Plans of a limit, and the keys that it assigns to them.

use topup_wire::limit::{Algorithm, Assignment, Key, MOST_CONFIG_KEYS, PlanName, Plans, Target};

use super::{
    candidate::{self, Candidate, OwnTerms},
    keys,
    raw_table::{Located, RawTable},
};

/// A plan: its name, and the terms in which it differs from its limit.
pub type PlanConfig = (PlanName, Candidate);

/// Reads `plan` of a limit's `table`.
pub(super) fn read_plans(table: &RawTable<'_>, algorithm: Algorithm, own: &OwnTerms) -> Vec<PlanConfig> {
    let has_refill = table.has("refill");
    let plans = table.children::<PlanName>("plan", keys::OTHER_TERMS).into_iter();
    let read = |(name, inner): (Option<PlanName>, RawTable<'_>)| {
        let terms = candidate::read_terms(&inner, "plan", has_refill, algorithm, own)?;
        Some((name?, terms.value))
    };
    plans.filter_map(read).collect()
}

/// Reads `keys` of a limit's `table`.
pub(super) fn read_keys(table: &RawTable<'_>) -> Vec<Located<(String, Assignment)>> {
    let mut assigned = Vec::new();
    for (key, location, entry) in table.assigned("keys", keys::ASSIGNMENT) {
        if let Err(error) = Key::new(&key) {
            table.error(&location, error.to_string());
            continue;
        }
        let assignment = match entry {
            Ok(word) => word
                .parse::<Target>()
                .map(|target| Assignment { target, until: None })
                .map_err(|error| table.error(&location, error.to_string())),
            Err(inner) => {
                inner.require("plan", "");
                let target = inner.text::<Target>("plan").ok_or(());
                let until =
                    if inner.has("until") { inner.instant("until").map(Some).ok_or(()) } else { Ok(None) };
                target.and_then(|target| {
                    Ok(Assignment { target: target.value, until: until?.map(|until| until.value.0) })
                })
            }
        };
        if let Ok(assignment) = assignment {
            assigned.push(Located { value: (key, assignment), location });
        }
    }
    if let Some(location) = table.find("keys").filter(|_| assigned.len() > MOST_CONFIG_KEYS) {
        let problem = format!(
            "a config assigns {MOST_CONFIG_KEYS} keys of a limit at most: write a pattern, or import them by topupd import"
        );
        table.error(&location, problem);
    }
    assigned
}

/// Reports keys that are assigned to a plan that the limit does not have.
pub(super) fn check_keys(
    plans: &[PlanConfig],
    assigned: &[Located<(String, Assignment)>],
    table: &RawTable<'_>,
) {
    let known = Plans::new(plans.iter().map(|(name, _)| *name), []);
    for Located { value: (_, assignment), location } in assigned {
        if !known.knows(assignment.target) {
            let mut words: Vec<String> = known.names().map(|name| format!("{:?}", name.as_str())).collect();
            words.extend(["\"exempt\"", "\"deny\""].map(str::to_owned));
            let problem = format!(
                "the limit has no plan {:?}: write one of {}",
                assignment.target.as_str(),
                words.join(", ")
            );
            table.error(location, problem);
        }
    }
}
