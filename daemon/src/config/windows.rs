//! Limits that count the takes within a window: their keys, and the keys of all other limits.

use topup_wire::limit::{Algorithm, Rule, Windows};

use super::{
    keys,
    raw_table::{Located, RawTable},
    times,
};

/// Keys of limits whose tokens come with time.
pub(super) const STEADY: [&str; 7] =
    ["capacity", "rate", "refill", "catch_up", "on_change", "schedule", "max_debt"];
/// Keys of limits on permits that are held at once.
pub(super) const AT_ONCE: [&str; 2] = ["limit", "ttl"];
/// Keys of limits that count the takes within a window.
pub(super) const WITHIN: [&str; 4] = ["limit", "window", "rules", "aligned"];

/// The algorithm that fits the keys of `table`, for one whose name cannot be read.
pub(super) fn guess_algorithm(table: &RawTable<'_>) -> Algorithm {
    match () {
        () if table.has("ttl") => Algorithm::Concurrency,
        () if WITHIN.iter().any(|key| table.has(key)) => Algorithm::SlidingWindow,
        () => Algorithm::default(),
    }
}

/// Reports the keys of `table` that `algorithm` does not have.
pub(super) fn check_keys(table: &RawTable<'_>, algorithm: Algorithm) {
    let ((own, kind), instead) = match algorithm {
        Algorithm::Concurrency => ((AT_ONCE.as_slice(), "counts the permits that are held"), "token-bucket"),
        _ if algorithm.has_windows() => {
            ((WITHIN.as_slice(), "counts what is taken within a window"), "token-bucket")
        }
        _ => ((STEADY.as_slice(), "fills at a rate"), "fixed-window"),
    };
    for key in STEADY.iter().chain(&WITHIN).chain(&AT_ONCE[1..]).filter(|key| !own.contains(key)) {
        if let Some(location) = table.find(key) {
            let instead = match *key {
                "ttl" => "concurrency",
                key if algorithm.has_permits() && WITHIN.contains(&key) => "fixed-window",
                _ => instead,
            };
            let advice = format!("remove it, or write algorithm = \"{instead}\" and what that needs");
            table.error(&location, format!("{algorithm} {kind}, and has no {key}: {advice}"));
        }
    }
    for location in ["plan", "keys", "source"].iter().filter_map(|key| table.find(key)) {
        if algorithm.has_permits() {
            table
                .error(&location, "keys of a limit with permits have no plans: remove plan, keys and source");
        }
    }
    if !algorithm.has_windows() {
        return;
    }
    if let Some(location) = table.find("aligned").filter(|_| algorithm != Algorithm::FixedWindow) {
        let problem =
            "only a fixed window begins anywhere: remove aligned, or write algorithm = \"fixed-window\"";
        table.error(&location, problem);
    }
    if let Some(location) = table.find("rules").filter(|_| algorithm != Algorithm::SlidingWindow) {
        let problem = "only sliding-window has several rules: write limit and window, or algorithm = \"sliding-window\"";
        table.error(&location, problem);
    }
}

/// Reads the windows of a limit whose `algorithm` has them.
pub(super) fn read(table: &RawTable<'_>, algorithm: Algorithm) -> Option<Located<Windows>> {
    let may_have_rules = algorithm == Algorithm::SlidingWindow;
    let rules = table.find("rules").filter(|_| may_have_rules);
    let (location, rules) = match (rules, table.has("limit") || table.has("window")) {
        (Some(location), false) => {
            let tables = table.tables("rules", keys::RULE);
            // Reads every rule before it stops at a wrong one, so that all problems are reported.
            let rules: Vec<Option<Rule>> = tables.iter().map(|table| read_rule(table, "")).collect();
            (location, rules.into_iter().collect::<Option<_>>()?)
        }
        (Some(location), true) => {
            table.error(
                &location,
                "a limit has rules, or a limit and a window, never both: write these as one of the rules",
            );
            return None;
        }
        (None, _) => {
            let or = if may_have_rules {
                ", or rules = [{ limit = 10, window = \"1s\" }] for several"
            } else {
                ""
            };
            (table.location().clone(), vec![read_rule(table, or)?])
        }
    };
    let aligned = table.flag("aligned").is_some_and(|aligned| aligned.value);
    table.locate_value(location, Windows::new(&rules, aligned))
}

/// `limit` and `window` of a table; `or` is advice for a missing limit.
fn read_rule(table: &RawTable<'_>, or: &str) -> Option<Rule> {
    table.require("limit", or);
    table.require("window", "");
    let window = table.text_by("window", times::window);
    // With a wrong window, the limit is still checked.
    let length = window.as_ref().map_or(Rule::LONGEST, |window| window.value);
    let rule = table.whole("limit", |tokens| Rule::new(tokens, length));
    window.and(rule).map(|rule| rule.value)
}
