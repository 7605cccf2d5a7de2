//! Limiters that are built into another program than this library.

use std::pin::Pin;

use crate::{limiter::Limiter, worker::asker::Asker};

/// The end of the questions to a limiter.
type Asked = Pin<Box<dyn Future<Output = anyhow::Result<()>>>>;

/// Limiters that a program brings along. Nothing else of topup should build their dependencies.
#[derive(Clone, Copy, Debug)]
pub struct Rivals {
    /// The limiters that are built in.
    pub built: &'static [Limiter],
    /// Connects to one of them and [asks](Asker::ask) it.
    pub ask: fn(Limiter, Asker) -> Asked,
}
