//! The suites and the curves, by name.

use clap::ValueEnum;

/// A suite: tables that belong together, in the order of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Suite {
    Speed,
    Latency,
    Below,
    Algorithms,
    Leases,
    Several,
    Overload,
    Full,
    Accuracy,
    Refill,
    Watched,
}

/// A curve of growing costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Curve {
    Keys,
    Tasks,
    Processes,
    Buckets,
    Limits,
}

// === impl Suite ===

impl Suite {
    /// As given on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Whether it is measured only when it is named.
    pub(crate) const fn is_long(self) -> bool {
        matches!(self, Self::Below | Self::Full)
    }
}

// === impl Curve ===

impl Curve {
    /// As given on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Its section of the page.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Keys => "Keys",
            Self::Tasks => "Tasks",
            Self::Processes => "Processes",
            Self::Buckets => "Active buckets",
            Self::Limits => "Limits",
        }
    }
}
