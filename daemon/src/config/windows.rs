//! How much may be taken within a time; and which keys that leaves to which algorithms.

use topup_wire::limit::{Algorithm, Rule, Windows};

use super::{
    keys,
    table::{Found, Table},
    times::Length,
};

/// Keys of limits whose tokens come with time.
const STEADY: [&str; 6] = ["capacity", "rate", "refill", "catch_up", "on_change", "schedule"];
/// Keys of limits that say how much may be taken within a time.
const WITHIN: [&str; 4] = ["limit", "window", "rules", "aligned"];

/// What `table` seems to be about, when its algorithm cannot be read.
pub(super) fn guessed(table: &Table<'_>) -> Algorithm {
    let within = WITHIN.iter().any(|key| table.given(key).is_some());
    if within { Algorithm::SlidingWindow } else { Algorithm::default() }
}

/// Reports what of `table` `algorithm` has no use for.
pub(super) fn check_keys(table: &Table<'_>, algorithm: Algorithm) {
    let (foreign, has, instead) = if algorithm.has_windows() {
        (STEADY.as_slice(), "counts what is taken within a window", "token-bucket")
    } else {
        (WITHIN.as_slice(), "fills at a rate", "fixed-window")
    };
    for key in foreign {
        if let Some(place) = table.given(key) {
            let advice = format!(
                "{algorithm} {has}, and has no {key}: remove it, or write algorithm = \"{instead}\" and what that needs"
            );
            table.error(&place, advice);
        }
    }
    if let Some(aligned) = table.given("aligned")
        && algorithm.has_windows()
        && algorithm != Algorithm::FixedWindow
    {
        let advice =
            "only a fixed window begins anywhere: remove aligned, or write algorithm = \"fixed-window\"";
        table.error(&aligned, advice);
    }
    if let Some(rules) = table.given("rules")
        && algorithm.has_windows()
        && algorithm != Algorithm::SlidingWindow
    {
        let advice = "only sliding-window has several rules: write limit and window, or algorithm = \"sliding-window\"";
        table.error(&rules, advice);
    }
}

/// The windows that `table` says, of a limit that has them.
pub(super) fn read(table: &Table<'_>, algorithm: Algorithm) -> Option<Found<Windows>> {
    let several = algorithm == Algorithm::SlidingWindow;
    let rules = table.given("rules").filter(|_| several);
    let (place, rules) = match (rules, table.given("limit").or(table.given("window"))) {
        (Some(place), None) => {
            let tables = table.tables("rules", keys::RULE);
            // Each of them, so that all problems are reported.
            let rules: Vec<Option<Rule>> = tables.iter().map(|table| rule(table, "")).collect();
            (place, rules.into_iter().collect::<Option<_>>()?)
        }
        (Some(place), Some(_)) => {
            table.error(
                &place,
                "a limit has rules, or a limit and a window, never both: write these as one of the rules",
            );
            return None;
        }
        (None, _) => {
            let or = if several { ", or rules = [{ limit = 10, window = \"1s\" }] for several" } else { "" };
            (table.place().clone(), vec![rule(table, or)?])
        }
    };
    let aligned = table.flag("aligned").is_some_and(|aligned| aligned.value);
    let windows = Windows::new(&rules, aligned);
    windows.map_err(|error| table.error(&place, error.to_string())).ok().map(|value| Found { value, place })
}

/// `limit` and `window` of a table.
fn rule(table: &Table<'_>, or: &str) -> Option<Rule> {
    table.require("limit", or);
    table.require("window", "");
    let window = table.text::<Length>("window");
    // The limit may be wrong too.
    let shown = window.as_ref().map_or(Rule::LONGEST, |window| window.value.get());
    let rule = table.whole("limit", |tokens| Rule::new(tokens, shown));
    window.and(rule).map(|rule| rule.value)
}
