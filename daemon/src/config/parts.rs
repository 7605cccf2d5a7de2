//! Limits whose parts lend to each other: `share` and `parts`.

use topup_wire::limit::{Algorithm, MOST_WEIGHT, Parts, check_weight};

use super::{
    config_key::{ConfigKey, Kind, key},
    raw_table::{Located, RawTable},
};

/// The key that divides a limit.
pub(super) const SHARE: ConfigKey = key(
    "share",
    r#"share = "borrow""#,
    Kind::Words(|| WORDS.to_vec()),
    "Divides capacity and rate among `parts`. What some of them leave is lent to the others. For limits with a rate.",
);
/// The weights of the parts.
pub(super) const PARTS: ConfigKey = key(
    "parts",
    r#"parts = { acme = 3, beta = 1, "*" = 1 }"#,
    Kind::Weights(MOST_WEIGHT),
    "The weight of a key among all, or of the keys that match a pattern with a `*` at its end; `\"*\"` is for all other keys. Up to 100; for `share`.",
);

/// The words of `share`.
const WORDS: [&str; 1] = ["borrow"];

/// A word that `share` does not know.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not known here: write \"borrow\"")]
struct UnknownShare(String);

/// The algorithm of a limit: `written`, or that of its `share`. Reports a `share` beside another algorithm.
pub(super) fn algorithm(
    table: &RawTable<'_>,
    written: Option<Located<Algorithm>>,
) -> Option<Located<Algorithm>> {
    let shares = Algorithm::FairShares;
    let known = |word: &str| if WORDS.contains(&word) { Ok(()) } else { Err(UnknownShare(word.to_owned())) };
    let Some(location) = table.text_by("share", known).map(|share| share.location) else { return written };
    match written {
        None if !table.has("algorithm") => Some(Located { value: shares, location }),
        Some(written) if written.value != shares => {
            let problem = format!("{} has no parts that borrow: remove algorithm, or share", written.value);
            table.error(&location, problem);
            Some(written)
        }
        written => written,
    }
}

/// Reads `parts` of a limit with fair shares. Reports them for another algorithm.
pub(super) fn read(table: &RawTable<'_>, algorithm: Algorithm) -> Option<Located<Parts>> {
    if !algorithm.has_parts() {
        if let Some(location) = table.find("parts").filter(|_| !table.has("share")) {
            table.error(
                &location,
                "only a limit whose parts borrow has parts: write share = \"borrow\", or remove this",
            );
        }
        return None;
    }
    for (key, problem) in [
        ("plan", "keys of a limit with parts have no plans: remove plan, or share and parts"),
        ("keys", "keys of a limit with parts have no plans: remove keys, or share and parts"),
        ("source", "keys of a limit with parts have no plans: remove source, or share and parts"),
        ("candidate", "parts borrow from each other once, and have no candidate: remove it"),
        ("shards", "parts that borrow are in one place: remove shards"),
    ] {
        if let Some(location) = table.find(key) {
            table.error(&location, problem);
        }
    }
    table.require("parts", "");
    let location = table.find("parts")?;
    let weights = table.weights("parts", check_weight)?;
    table.locate_value(location, Parts::new(weights))
}
