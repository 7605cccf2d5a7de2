//! The figures of all runs of a soak.

use topup_lab::{clock::seconds, count, short};

use crate::judge::Judgement;

/// Figures of all runs.
#[derive(Debug, Default)]
pub struct Totals {
    runs: usize,
    void: usize,
    faults: usize,
    calls: usize,
    admitted: u64,
    undecided: usize,
    worst: Option<Judgement>,
}

// === impl Totals ===

impl Totals {
    /// Adds a run.
    pub fn add(&mut self, run: &Judgement) {
        self.runs += 1;
        self.void += usize::from(run.is_void);
        self.faults += run.faults;
        self.calls += run.calls;
        self.admitted += run.admitted;
        self.undecided += run.undecided;
        let worst =
            self.worst.get_or_insert_with(|| Judgement { slowest: i64::MIN, recovery: 0, ..run.clone() });
        if !run.is_void {
            worst.slowest = worst.slowest.max(run.slowest);
            worst.recovery = worst.recovery.max(run.recovery);
        }
        worst.off_ledger = worst.off_ledger.max(run.off_ledger);
        if let (Some(worst), Some(excess)) = (&mut worst.excess, run.excess) {
            *worst = (worst.0.max(excess.0), worst.1.max(excess.1));
        }
    }

    /// All of them in words.
    pub fn summary(&self) -> String {
        let Some(worst) = &self.worst else { return "no runs".to_owned() };
        let excess = worst.excess.unwrap_or_default();
        format!(
            "{} runs ({} without a judgement of times), {} faults, {} calls, {} tokens admitted, {} calls undecided\n\
             fullest window: {} tokens against law 1, {} against the bounds for faults\n\
             ledgers: {} tokens beyond what calls explain\n\
             slowest call: {} ms against its deadline; longest time without a decision after the faults: {} ms\n",
            self.runs,
            self.void,
            self.faults,
            count(self.calls as f64),
            count(self.admitted as f64),
            count(self.undecided as f64),
            short(excess.0),
            short(excess.1),
            short(worst.off_ledger),
            if worst.slowest == i64::MIN { "–".to_owned() } else { short(worst.slowest as f64 / 1e3) },
            short(seconds(worst.recovery) * 1e3),
        )
        .trim_end()
        .to_owned()
    }
}
