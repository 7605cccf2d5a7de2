//! Time zones by their IANA names.

use std::{fmt, str::FromStr};

use chrono_tz::{TZ_VARIANTS, Tz};

/// The least likeness (0 to 1) at which a known name is suggested for an unknown one.
const LIKENESS: f64 = 0.8;

/// A time zone of the IANA database; by default UTC.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Zone(Tz);

/// A text that names no time zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not an IANA time zone: {}", advice(*near))]
pub struct ZoneError {
    given: String,
    near: Option<&'static str>,
}

// === impl Zone ===

impl Zone {
    /// The IANA name.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    pub(super) const fn tz(self) -> Tz {
        self.0
    }
}

impl Default for Zone {
    fn default() -> Self {
        Self(Tz::UTC)
    }
}

impl FromStr for Zone {
    type Err = ZoneError;

    fn from_str(name: &str) -> Result<Self, ZoneError> {
        name.parse()
            .map(Self)
            .map_err(|_| ZoneError { given: name.chars().take(80).collect(), near: near(name) })
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Zone").field(&self.name()).finish()
    }
}

/// The known name most like `name`. A bare city such as `berlin` is like its zone.
fn near(name: &str) -> Option<&'static str> {
    let name = name.trim().replace(' ', "_").to_lowercase();
    let likeness = |known: &str| {
        let known = known.to_lowercase();
        let city = known.rsplit('/').next().unwrap_or_default();
        strsim::normalized_damerau_levenshtein(&known, &name)
            .max(strsim::normalized_damerau_levenshtein(city, &name))
    };
    let scored = TZ_VARIANTS.iter().map(|zone| (likeness(zone.name()), zone.name()));
    let best = scored.filter(|(score, _)| *score >= LIKENESS).max_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, known)| known)
}

/// The fix for an unknown name.
fn advice(near: Option<&str>) -> String {
    match near {
        Some(known) => format!("did you mean {known:?}?"),
        None => "write a name such as \"Europe/Berlin\", \"America/New_York\" or \"UTC\"".to_owned(),
    }
}
