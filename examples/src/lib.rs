//! The connection to Redis, for all examples.

use anyhow::{Context, Result};

/// Connects to the Redis at the URL in `TOPUP_REDIS_URL`.
///
/// # Errors
/// The variable is not set, or Redis does not answer.
pub async fn connect() -> Result<topup::Client> {
    let url = std::env::var("TOPUP_REDIS_URL")
        .context("set TOPUP_REDIS_URL to the Redis of topupd: with --embedded, its log names it")?;
    topup::Client::connect(&url).await.with_context(|| url)
}
