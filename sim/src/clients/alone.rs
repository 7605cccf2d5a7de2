//! Runs by themselves, whose errors are texts.

use std::fmt::Display;

/// Runs `world` by itself.
pub(crate) fn alone<T>(world: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(text)?;
    runtime.block_on(world)
}

pub(crate) fn text(error: impl Display) -> String {
    error.to_string()
}
