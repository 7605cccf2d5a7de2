//! The plans that a key had, back to the instant from which they may still matter for its tokens.

use super::{PlanSources, Plans, PlansError, Target};

/// A value that was in force until an instant, and after that of the entry behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past<T> {
    /// The instant of its end, in µs of Redis `TIME`.
    pub until: u64,
    /// The value; `None` if there were several, and they are not known any more.
    pub was: Option<T>,
}

/// It is not known any more: too many changes have come since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;

/// The terms of a key since an instant, until those behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanSpan {
    /// The instant of its beginning, in µs of Redis `TIME`; 0 for the first one.
    pub from: u64,
    /// The terms; `None` for the limit's own. Neither `exempt` nor `deny`.
    pub target: Result<Option<Target>, Lost>,
}

// === impl Past ===

impl<T> Past<T> {
    /// The value of `now` among `entries`, the newest first, of which each ends where the one before it begins. `None` if
    /// all have ended.
    pub(super) fn at(entries: &[Self], now: u64) -> Option<Result<&T, Lost>> {
        let entry = entries.iter().rfind(|entry| now < entry.until)?;
        Some(entry.was.as_ref().ok_or(Lost))
    }
}

impl Past<Plans> {
    /// Reads the tables of a record: of each `@UNTIL LENGTH`, then the table. The length of one that is lost is `?`.
    ///
    /// # Errors
    /// A text of another form.
    pub fn tables(mut text: &str) -> Result<Vec<Self>, PlansError> {
        let wrong = |text: &str| PlansError(text.chars().take(80).collect());
        let mut tables = Vec::new();
        while !text.is_empty() {
            let header = text.strip_prefix('@').and_then(|rest| rest.split_once('\n'));
            let (header, rest) = header.ok_or_else(|| wrong(text))?;
            let (until, length) = header.split_once(' ').ok_or_else(|| wrong(header))?;
            let until = until.parse().map_err(|_| wrong(header))?;
            let was = if length == "?" {
                text = rest;
                None
            } else {
                let length: usize = length.parse().map_err(|_| wrong(header))?;
                let (table, rest) = rest.split_at_checked(length).ok_or_else(|| wrong(header))?;
                text = rest.strip_prefix('\n').ok_or_else(|| wrong(header))?;
                Some(Plans::from_text(table)?)
            };
            tables.push(Self { until, was });
        }
        Ok(tables)
    }
}

// === impl PlanSources ===

impl PlanSources<'_> {
    /// The terms that the key has had from `since` to `now`, the oldest first. While it is exempt or denied, its bucket stays as
    /// it is: the span before goes on, and may have begun before `since`, by as much time as from then to `now`.
    pub fn history(&self, since: u64, now: u64) -> Vec<PlanSpan> {
        let mut instants: Vec<u64> = self.instants().filter(|at| *at <= now).collect();
        instants.sort_unstable();
        let (before, within) = instants.split_at(instants.partition_point(|at| *at <= since));
        let bucket_at = |at: u64| {
            let target = self.known_at(at).map(|(target, _)| target);
            (!matches!(target, Ok(Some(Target::Exempt | Target::Deny)))).then_some(target)
        };
        // Redis tells the changes of twice the time. A bucket that was left before that is full.
        let known = since.saturating_sub(now - since);
        let told = before.iter().rev().take_while(|at| **at > known).map(|at| *at - 1);
        let first = [since].into_iter().chain(told).find_map(bucket_at).map(|target| (0, target));
        let later = within.iter().filter_map(|at| Some((*at, bucket_at(*at)?)));
        let mut spans: Vec<PlanSpan> = Vec::new();
        for (from, target) in first.into_iter().chain(later) {
            if spans.last().is_none_or(|last| last.target != target) {
                let from = if spans.is_empty() { 0 } else { from };
                spans.push(PlanSpan { from, target });
            }
        }
        spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::{Assigned, Assignment};

    fn to(word: &str, until: Option<u64>) -> Option<Assignment> {
        Some(Assignment { target: word.parse().unwrap(), until })
    }

    fn words(spans: &[PlanSpan]) -> String {
        let word = |span: &PlanSpan| {
            let target = match span.target {
                Ok(None) => "own".to_owned(),
                Ok(Some(target)) => target.to_string(),
                Err(Lost) => "?".to_owned(),
            };
            format!("{target} {}", span.from)
        };
        spans.iter().map(word).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn the_changes_of_all_sources_are_one_history() {
        let [plans, before, first] = ["gold free\nacme gold", "gold free\n* free", "gold free"]
            .map(|text| Plans::from_text(text).unwrap());
        let hand = |until, was| Past { until, was };
        let mut sources = PlanSources {
            key: "acme",
            config: &plans,
            config_before: &before,
            config_at: 100,
            config_past: &[Past { until: 50, was: Some(first.clone()) }, Past { until: 20, was: None }],
            by_hand: None,
            by_source: None,
        };
        assert_eq!(words(&sources.history(1, 99)), "? 0, own 20, free 50");
        assert_eq!(words(&sources.history(30, 200)), "own 0, free 50, gold 100");
        assert_eq!(sources.period(60).changed, Some(50), "older than the table before");

        // By hand: silver is no plan, the raise ends at 130, and 150 is a change to nothing.
        sources.by_hand = Some(Assigned {
            assignment: None,
            before: to("gold", Some(130)),
            at: 150,
            past: vec![hand(120, Some(to("deny", None))), hand(110, Some(to("free", None))), hand(70, None)],
        });
        sources.config_at = 140;
        assert_eq!(words(&sources.history(1, 200)), "? 0, free 70, gold 120, free 130, gold 140");
        assert_eq!(
            words(&sources.history(110, 200)),
            "free 0, gold 120, free 130, gold 140",
            "denied at first"
        );
        assert_eq!(words(&sources.history(160, 200)), "gold 0");
    }

    #[test]
    fn what_an_exempt_key_had_is_not_guessed() {
        let plans = Plans::from_text("gold free").unwrap();
        let sources = PlanSources {
            key: "acme",
            config: &plans,
            config_before: &plans,
            config_at: 0,
            config_past: &[],
            by_hand: Some(Assigned {
                assignment: to("gold", None),
                before: None,
                at: 120,
                past: vec![Past { until: 100, was: Some(to("free", Some(5))) }],
            }),
            by_source: Some(Assigned {
                assignment: None,
                before: to("exempt", None),
                at: 130,
                past: vec![Past { until: 80, was: Some(None) }],
            }),
        };
        assert_eq!(words(&sources.history(90, 140)), "own 0, gold 120", "exempt from 80 to 120");
        // Changes before 80 are not told any more. The bucket of 3 was free's.
        assert_eq!(words(&sources.history(110, 140)), "gold 0");
    }

    #[test]
    fn tables_are_read_as_the_script_writes_them() {
        let tables = Past::tables("@9 ?\n@7 11\ngold\na gold\n@5 0\n\n").unwrap();
        let gold = Plans::from_text("gold\na gold").unwrap();
        let entry = |until, was| Past { until, was };
        assert_eq!(tables, [entry(9, None), entry(7, Some(gold)), entry(5, Some(Plans::default()))]);
        for wrong in ["x", "@", "@1 2", "@1 9\ngold\n", "@x 1\na\n", "@1 1\nab"] {
            assert!(Past::tables(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Past::tables("").unwrap(), []);
    }
}
