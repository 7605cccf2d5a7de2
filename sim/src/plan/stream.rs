//! Callers of a run, and their requests.

/// Callers of one kind. Gaps are means, in µs.
#[derive(Clone, Copy, Debug)]
pub enum Stream {
    /// Takes of up to `most` tokens, one after the other, by any worker.
    Takes {
        /// Between two of them.
        gap: u64,
        /// Most tokens of one.
        most: u64,
    },
    /// Every worker takes one by one, all within `spread` µs.
    Bursts {
        /// Between two bursts.
        gap: u64,
        /// Takes of each worker.
        takes: u64,
        /// µs they are spread over.
        spread: u64,
    },
    /// Many tasks of one worker ask at one instant, and again and again for some ms.
    Crowds {
        /// Between two crowds.
        gap: u64,
        /// Tasks.
        size: u64,
        /// µs they stay.
        stays: u64,
    },
    /// Callers that wait for their tokens.
    Waiters {
        /// Between two of them.
        gap: u64,
        /// Most tokens of one.
        most: u64,
        /// The longest they wait, in µs.
        patience: u64,
    },
    /// Tokens are given back.
    Refunds {
        /// Between two refunds.
        gap: u64,
        /// Most tokens of one.
        most: u64,
    },
    /// Tokens are charged after their use.
    Charges {
        /// Between two charges.
        gap: u64,
        /// Most tokens of one.
        most: u64,
    },
    /// Buckets are filled.
    Resets {
        /// Between two resets.
        gap: u64,
    },
    /// One worker takes many, another gives most of them back, a third takes a few, and the first comes back.
    Comebacks {
        /// Between two of them.
        gap: u64,
        /// Most tokens that the first takes.
        most: u64,
    },
    /// One caller asks at one instant.
    Once {
        /// The instant.
        at: u64,
        /// The worker.
        worker: usize,
        /// The request.
        ask: Ask,
    },
}

/// A caller's request.
#[derive(Clone, Copy, Debug)]
pub enum Ask {
    /// A take: tokens, and the longest wait for them in µs.
    Take(u64, u64),
    /// To give back so many; all that are missing, where none are said.
    PutIn(Option<u64>),
    /// To charge so many.
    Charge(u64),
    /// To take one token after the other, and to wait as long as each denial tells. Whether it has just waited so.
    AsTold(bool),
}

// === impl Stream ===

impl Stream {
    /// The longest wait of its callers, in µs.
    pub(crate) fn patience(&self) -> u64 {
        match self {
            Self::Waiters { patience, .. } | Self::Once { ask: Ask::Take(_, patience), .. } => *patience,
            _ => 0,
        }
    }
}
