//! A load, and the way to put it to any limiter.

use super::{closed, open};
use crate::limiter::decide::{Decide, Load};

/// Kind of a load, and its size.
#[derive(Clone, Copy, Debug)]
pub(super) enum Loop {
    Closed(closed::Closed),
    Open(open::Open),
}

/// A load, for the limiter that is to bear it.
#[derive(Clone, Debug)]
pub struct Asker {
    pub(super) load: Load,
    pub(super) kind: Loop,
}

// === impl Asker ===

impl Asker {
    /// The load.
    pub const fn load(&self) -> &Load {
        &self.load
    }

    /// Asks `limiter`, as often as the load wants, and writes what came of it.
    ///
    /// # Errors
    /// When the limiter fails where none may, or nobody reads.
    pub async fn ask(&self, limiter: impl Decide) -> anyhow::Result<()> {
        match self.kind {
            Loop::Closed(closed) => closed::drive(self.load.keys, closed, limiter).await,
            Loop::Open(open) => open::drive(self.load.keys, open, limiter).await,
        }
    }
}
