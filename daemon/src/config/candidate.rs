//! Other terms that a limit tries beside its own.

use std::time::Duration;

use topup_wire::limit::{Algorithm, Capacity, GCRA_BOUNDS, Rate, Rule, Supply, Terms, Windows};

use super::{
    keys,
    raw_table::{Located, RawTable},
    times,
};

/// The terms that a candidate changes. It has all others from its limit.
#[derive(Clone, Debug, PartialEq)]
pub enum Candidate {
    /// A candidate of a limit whose tokens come with time.
    Steady {
        /// The most tokens in a bucket.
        capacity: Option<Capacity>,
        /// The speed at which the bucket fills.
        rate: Option<Rate>,
    },
    /// A candidate of a limit that counts the takes within a window.
    Windows(Windows),
}

/// The limit's own terms, as far as they can be read.
#[derive(Debug)]
pub(super) struct OwnTerms {
    pub(super) capacity: Option<Capacity>,
    pub(super) rate: Option<Rate>,
    pub(super) windows: Option<Windows>,
}

// === impl Candidate ===

impl Candidate {
    /// The candidate's terms beside the limit's `own`.
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

/// Reads `candidate` of a limit's `table`.
pub(super) fn read(table: &RawTable<'_>, algorithm: Algorithm, own: &OwnTerms) -> Option<Located<Candidate>> {
    let inner = table.table("candidate", keys::OTHER_TERMS)?;
    read_terms(&inner, "candidate", table.has("refill"), algorithm, own)
}

/// Reads the terms in which `what` differs from its limit, a candidate or a plan. `has_refill` says that the limit is a
/// calendar quota.
pub(super) fn read_terms(
    inner: &RawTable<'_>,
    what: &str,
    has_refill: bool,
    algorithm: Algorithm,
    own: &OwnTerms,
) -> Option<Located<Candidate>> {
    let (steady, within) = (["capacity", "rate"], ["limit", "window"]);
    let (allowed, foreign) = if algorithm.has_windows() { (within, steady) } else { (steady, within) };
    let [one, other] = allowed;
    for (key, location) in foreign.iter().filter_map(|key| Some((key, inner.find(key)?))) {
        let problem = format!("{algorithm} has no {key}: write {one} or {other}, or remove it");
        inner.error(&location, problem);
    }
    if allowed.iter().all(|key| !inner.has(key)) {
        // A foreign or unknown key is reported already.
        if inner.is_empty() {
            let problem = format!("a {what} changes something: write {one} or {other}");
            inner.error(inner.location(), problem);
        }
        return None;
    }
    let value = if algorithm.has_windows() {
        Candidate::Windows(read_windows(inner, what, own.windows?)?)
    } else {
        read_steady(inner, has_refill, algorithm, own)
    };
    Some(Located { value, location: inner.location().clone() })
}

/// `capacity` and `rate`. `has_refill` says that the limit is a calendar quota, which has no rate.
fn read_steady(table: &RawTable<'_>, has_refill: bool, algorithm: Algorithm, own: &OwnTerms) -> Candidate {
    let (capacity, rate) = (table.whole("capacity", Capacity::new), table.text::<Rate>("rate"));
    if let Some(rate) = rate.as_ref().filter(|_| has_refill) {
        table.error(&rate.location, keys::REFILL_HAS_NO_RATE);
    }
    let (capacity, rate) = (capacity.map(|capacity| capacity.value), rate.map(|rate| rate.value));
    if let (Some(capacity), Some(rate)) = (capacity.or(own.capacity), rate.or(own.rate))
        && algorithm == Algorithm::Gcra
        && !rate.pace().can_rest(capacity.get())
    {
        table.error(table.location(), format!("{GCRA_BOUNDS}: write less"));
    }
    Candidate::Steady { capacity, rate }
}

/// One window. An absent `limit` or `window` is the limit's own.
fn read_windows(table: &RawTable<'_>, what: &str, own: Windows) -> Option<Windows> {
    let &[rule] = own.rules() else {
        table.error(
            table.location(),
            format!("a limit with several rules has no {what}: write limit and window for rules"),
        );
        return None;
    };
    let window = match table.find("window") {
        Some(_) => table.text_by("window", times::window)?.value,
        None => Duration::from_micros(rule.micros()),
    };
    let rule = match table.find("limit") {
        Some(_) => table.whole("limit", |tokens| Rule::new(tokens, window))?.value,
        None => Rule::new(rule.tokens().get(), window).ok()?,
    };
    let windows = Windows::new(&[rule], own.aligned());
    table.locate_value(table.location().clone(), windows).map(|windows| windows.value)
}
