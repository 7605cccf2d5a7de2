//! The judgement of a run.

/// The outcome of a run.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    /// Broken laws and promises; none if all is well.
    pub broken: Vec<String>,
    /// Logs of daemons.
    pub logs: Vec<String>,
    /// Whether the machine stood still, so that promises of time cannot be judged.
    pub is_void: bool,
    /// Calls.
    pub calls: usize,
    /// Tokens admitted.
    pub admitted: u64,
    /// Calls that Redis did not decide.
    pub undecided: usize,
    /// Faults.
    pub faults: usize,
    /// The most tokens beyond law 1 without the bounds for faults, and with them.
    pub excess: Option<(f64, f64)>,
    /// The most µs by which a call outlived its deadline.
    pub slowest: i64,
    /// The longest time without a decision of a worker after all faults, in µs.
    pub recovery: u64,
    /// The most tokens in a ledger that are neither credited nor explained.
    pub off_ledger: f64,
}

// === impl Judgement ===

impl Judgement {
    /// The judgement of a run that could not be carried out.
    pub fn failed(why: String) -> Self {
        Self { broken: vec![why], ..Self::default() }
    }
}
