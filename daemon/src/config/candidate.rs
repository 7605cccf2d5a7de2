//! Other terms to be tried beside a limit's own.

use topup_wire::limit::{Algorithm, Capacity, Rate, Rule, Supply, Terms, Windows};

use super::{
    keys,
    table::{Found, Table},
    times::Length,
};

/// What a candidate says; the rest is as the limit has it.
#[derive(Clone, Debug, PartialEq)]
pub enum Candidate {
    /// Of a limit whose tokens come with time.
    Steady {
        /// The most tokens a bucket would hold.
        capacity: Option<Capacity>,
        /// How fast they would come.
        rate: Option<Rate>,
    },
    /// Of a limit that counts what is taken within a window.
    Windows(Windows),
}

// === impl Candidate ===

impl Candidate {
    /// What it comes to beside `own`, which are in force.
    pub fn terms(&self, own: Terms) -> Terms {
        match *self {
            Self::Windows(windows) => {
                Terms { capacity: windows.capacity(), supply: Supply::Windows(windows) }
            }
            Self::Steady { capacity, rate } => Terms {
                capacity: capacity.unwrap_or(own.capacity),
                supply: rate.map_or(own.supply, Supply::Rate),
            },
        }
    }
}

/// The candidate that `table`, that of a limit, has.
pub(super) fn read(
    table: &Table<'_>,
    algorithm: Algorithm,
    own: (Option<Capacity>, Option<Rate>, Option<Windows>),
) -> Option<Found<Candidate>> {
    let inner = table.table("candidate", keys::CANDIDATE)?;
    let place = inner.place().clone();
    let has_windows = algorithm.has_windows();
    let (known, foreign) = (["capacity", "rate"], ["limit", "window"]);
    let (known, foreign) = if has_windows { (foreign, known) } else { (known, foreign) };
    for (key, place) in foreign.iter().filter_map(|key| Some((key, inner.given(key)?))) {
        let advice = format!("{algorithm} has no {key}: write {} or {}, or remove it", known[0], known[1]);
        inner.error(&place, advice);
    }
    if known.iter().all(|key| inner.given(key).is_none()) {
        // What is there is told already.
        if inner.is_empty() {
            let advice = format!("says nothing that the limit does not: write {} or {}", known[0], known[1]);
            inner.error(&place, advice);
        }
        return None;
    }
    let value = if has_windows {
        Candidate::Windows(windows(&inner, own.2?)?)
    } else {
        let (capacity, rate) = (inner.whole("capacity", Capacity::new), inner.text::<Rate>("rate"));
        if let Some(rate) = &rate
            && table.given("refill").is_some()
        {
            inner.error(
                &rate.place,
                "a limit with refill has no rate to change: remove this one, or write capacity = 400",
            );
        }
        let (capacity, rate) = (capacity.map(|found| found.value), rate.map(|found| found.value));
        if let (Some(capacity), Some(rate)) = (capacity.or(own.0), rate.or(own.1))
            && algorithm == Algorithm::Gcra
            && !rate.pace().can_rest(capacity.get())
        {
            inner.error(&place, "gcra counts at most 1000000 tokens a second, and no more of them than come in 50 years: write less");
        }
        Candidate::Steady { capacity, rate }
    };
    Some(Found { value, place })
}

/// One window, as long or as large as the limit's own where it does not say.
fn windows(table: &Table<'_>, own: Windows) -> Option<Windows> {
    let &[rule] = own.rules() else {
        table.error(
            table.place(),
            "a limit with several rules has no candidate: write limit and window for rules",
        );
        return None;
    };
    let window = match table.given("window") {
        Some(_) => table.text::<Length>("window")?.value.get(),
        None => std::time::Duration::from_micros(rule.micros()),
    };
    let rule = match table.given("limit") {
        Some(_) => table.whole("limit", |tokens| Rule::new(tokens, window))?.value,
        None => Rule::new(rule.tokens().get(), window).ok()?,
    };
    let windows = Windows::new(&[rule], own.aligned());
    windows.map_err(|error| table.error(table.place(), error.to_string())).ok()
}
