//! Medians of what the rounds of a measurement came to.

use topup_lab::{Summary, short};

use crate::measurement::Found;

/// A measurement, and the decisions a second of raw beside it.
pub(super) type BesideRaw = (Found, f64);

/// Measurements of which medians are written.
pub(super) struct Medians<'f>(Vec<&'f Found>);

// === impl Medians ===

impl<'f> Medians<'f> {
    pub(super) fn of(found: impl IntoIterator<Item = &'f Found>) -> Self {
        Self(found.into_iter().collect())
    }

    /// The median of a figure; `None` where nothing was measured.
    pub(super) fn number(&self, of: impl Fn(&Found) -> f64) -> Option<f64> {
        Some(Summary::of(self.0.iter().map(|found| of(found)))?.median)
    }

    /// The same as text, which is empty where nothing was measured.
    pub(super) fn text(&self, of: impl Fn(&Found) -> f64, text: fn(f64) -> String) -> String {
        self.number(of).map_or_else(String::new, text)
    }

    /// The CPU µs of Redis and of the process that asks, the commands and the scripts of a decision.
    pub(super) fn costs(&self) -> [String; 4] {
        [Found::cpu, Found::client_cpu, Found::commands, Found::scripts].map(|of| self.text(of, short))
    }

    /// Allowed takes, ÷ all; `None` where nothing was measured.
    pub(super) fn allowed(&self) -> Option<f64> {
        self.number(|found| found.seen.allowed as f64 / found.seen.decisions.max(1) as f64)
    }
}

/// Decisions a second, ÷ raw's; `None` where nothing was measured.
pub(super) fn ratio_to_raw<'f>(found: impl IntoIterator<Item = &'f BesideRaw>) -> Option<Summary> {
    Summary::of(found.into_iter().map(|(found, raw)| found.rate() / raw))
}
