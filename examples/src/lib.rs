//! What the examples have in common: where their Redis is.

use anyhow::{Context, Result};

/// A client of the Redis that `TOPUP_REDIS_URL` names.
///
/// # Errors
/// When it names none, or that does not answer.
pub async fn connect() -> Result<topup::Client> {
    let url = std::env::var("TOPUP_REDIS_URL")
        .context("set TOPUP_REDIS_URL to the Redis of topupd: with --embedded, its log names it")?;
    topup::Client::connect(&url).await.with_context(|| url)
}
