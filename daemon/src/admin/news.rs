//! The events that pages show.
//!
//! The first event of a page has all limits. The next ones have those that differ from the news before.

use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use serde::Serialize;
use serde_json::Value;

use crate::report::{LimitRow, StatusReport};

/// The report whose limits are told; none before the first one.
pub(super) type Rows = Option<Arc<StatusReport>>;

/// The news of one instant.
#[derive(Debug, Default)]
pub(super) struct News {
    /// One more than that of the news before.
    number: u64,
    /// All but the limits.
    head: Value,
    rows: Rows,
    /// The event for pages that have had the news before.
    changes: Bytes,
    /// The event for all other pages, once one has asked.
    whole: OnceLock<Bytes>,
}

/// The data of an event.
#[derive(Serialize)]
struct Data<'n> {
    #[serde(flatten)]
    head: &'n Value,
    /// Whether `limits` are all limits, in place of those that were told before.
    whole: bool,
    limits: Vec<&'n LimitRow>,
    /// Names of limits that are no longer there.
    gone: Vec<&'n str>,
}

// === impl News ===

impl News {
    /// The news after these.
    pub(super) fn next(&self, head: Value, rows: Rows) -> Self {
        let (before, after) = (limits_of(&self.rows), limits_of(&rows));
        let (mut limits, mut gone) = (Vec::new(), Vec::new());
        let is_same =
            self.rows.as_ref().zip(rows.as_ref()).is_some_and(|(one, other)| Arc::ptr_eq(one, other));
        if !is_same {
            let find = |rows: &'_ [LimitRow], name: &str| {
                rows.binary_search_by(|row| row.name.as_str().cmp(name)).ok()
            };
            limits.extend(
                after.iter().filter(|row| find(before, &row.name).map(|at| &before[at]) != Some(row)),
            );
            gone.extend(
                before.iter().map(|row| row.name.as_str()).filter(|name| find(after, name).is_none()),
            );
        }
        let changes = data(&Data { head: &head, whole: false, limits, gone });
        Self { number: self.number + 1, head, rows, changes, whole: OnceLock::new() }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The event for a page whose last news had the number `seen`.
    pub(super) fn event_after(&self, seen: Option<u64>) -> Bytes {
        if seen.is_some_and(|seen| seen + 1 == self.number) {
            return self.changes.clone();
        }
        let limits = || limits_of(&self.rows).iter().collect();
        let whole = || data(&Data { head: &self.head, whole: true, limits: limits(), gone: Vec::new() });
        self.whole.get_or_init(whole).clone()
    }
}

/// The limits of a report, in order of names.
fn limits_of(rows: &Rows) -> &[LimitRow] {
    rows.as_ref().map_or(&[], |report| &report.limits)
}

fn data(data: &Data<'_>) -> Bytes {
    // Only a map with keys that are no text could fail.
    event("news", &serde_json::to_string(data).unwrap_or_default())
}

/// A server-sent event. JSON has no line breaks.
pub(super) fn event(name: &str, data: &str) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rows(limits: &[(&str, u64)]) -> Rows {
        let row = |(name, capacity): &(&str, u64)| LimitRow {
            name: (*name).to_owned(),
            capacity: *capacity,
            ..LimitRow::default()
        };
        Some(Arc::new(StatusReport { limits: limits.iter().map(row).collect(), ..StatusReport::default() }))
    }

    /// An event as `whole`, its limits with their capacities, and those that are gone.
    fn told(event: &Bytes) -> (bool, Vec<(String, u64)>, Value) {
        let text = std::str::from_utf8(event).unwrap();
        let data = text.strip_prefix("event: news\ndata: ").unwrap().strip_suffix("\n\n").unwrap();
        let mut data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["may_act"], true, "{data}");
        let limits = data["limits"].as_array().unwrap().iter();
        let limits =
            limits.map(|row| (row["name"].as_str().unwrap().to_owned(), row["capacity"].as_u64().unwrap()));
        (data["whole"].as_bool().unwrap(), limits.collect(), data["gone"].take())
    }

    #[test]
    fn a_page_that_has_seen_all_gets_changes_and_any_other_gets_all() {
        let head = || json!({ "may_act": true });
        let named = |limits: &[(&str, u64)]| -> Vec<(String, u64)> {
            limits.iter().map(|(name, capacity)| ((*name).to_owned(), *capacity)).collect()
        };
        let [first, second] = [[("a", 1), ("b", 2), ("d", 4)], [("a", 1), ("b", 3), ("c", 5)]];
        let empty = News::default().next(head(), None);
        assert_eq!(told(&empty.event_after(None)), (true, Vec::new(), json!([])));
        let one = empty.next(head(), rows(&first));
        assert_eq!(told(&one.event_after(Some(empty.number()))), (false, named(&first), json!([])));
        let two = one.next(head(), rows(&second));
        assert_eq!(told(&two.event_after(Some(one.number()))), (false, named(&second[1..]), json!(["d"])));
        // A new page, one that was slow, and one that saw the same before.
        for seen in [None, Some(empty.number()), Some(two.number())] {
            assert_eq!(told(&two.event_after(seen)), (true, named(&second), json!([])), "{seen:?}");
        }
        // A report that is told again, and one without limits.
        let same = two.next(head(), two.rows.clone());
        assert_eq!(told(&same.event_after(Some(two.number()))), (false, Vec::new(), json!([])));
        assert_eq!(told(&same.event_after(Some(one.number()))), (true, named(&second), json!([])));
        let none = same.next(head(), None);
        assert_eq!(told(&none.event_after(Some(same.number()))), (false, Vec::new(), json!(["a", "b", "c"])));
    }
}
