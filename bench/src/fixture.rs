//! The fixture of all measurements: a private Redis on a CPU of its own, and the daemon.

use std::{path::Path, time::Duration};

use anyhow::Context;
use tokio::time::{sleep, timeout};
use topup::Client;
use topup_embedded::RedisServer;
use topup_lab::Fixture;

use crate::{cpu, rules};

/// A reload takes less than a second; this is for a machine that is busy with something else.
const CHANGED_WITHIN: Duration = Duration::from_secs(60);

/// Starts a Redis, with `module` loaded and its setting `hz`, and the daemon with the limits of all rules.
///
/// # Errors
/// When either does not start.
pub async fn start(topupd: &Path, module: Option<&Path>, hz: Option<u32>) -> anyhow::Result<Fixture> {
    let mut builder = RedisServer::builder().tcp();
    if let Some(module) = module {
        builder = builder.arg("--loadmodule", module);
    }
    if let Some(hz) = hz {
        builder = builder.arg("--hz", hz.to_string());
    }
    let mut fixture = Fixture::start(builder, topupd)?;
    cpu::pin_redis(fixture.redis().pid().context("Redis has ended")?)?;
    let config = rules::config(fixture.url());
    fixture.start_daemon(&config).await?;
    Ok(fixture)
}

/// Returns when the limit `name` holds `capacity`.
pub(crate) async fn has_capacity(fixture: &Fixture, name: &str, capacity: u64) -> anyhow::Result<()> {
    let bucket = Client::connect(fixture.url()).await?.limit(name);
    let looks = async {
        while bucket.peek().await?.capacity() != capacity {
            sleep(Duration::from_millis(1)).await;
        }
        anyhow::Ok(())
    };
    timeout(CHANGED_WITHIN, looks).await.with_context(|| format!("topupd does not change {name}"))?
}

/// Buckets credited so far, and the lag of the last refill in ms, as the daemon itself says.
pub(crate) async fn credited(fixture: &Fixture) -> anyhow::Result<(f64, f64)> {
    let status = fixture.daemon_status().await?;
    let number = |name: &str| status[name].as_f64().with_context(|| format!("topupd status has no {name}"));
    Ok((number("credited")?, number("lag_ms")?))
}
