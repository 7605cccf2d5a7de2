//! A daemon in a report.

use serde::Serialize;
use topup_wire::scripts::DaemonStatus;

use crate::text::utc;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct DaemonRow {
    pub(crate) id: String,
    /// The name of its config, and the hash of the limits in it.
    pub(crate) config: String,
    pub(crate) config_hash: String,
    pub(crate) version: String,
    pub(crate) lag_ms: f64,
    pub(crate) credited: u64,
    /// Corrupt keys that it has repaired.
    pub(crate) repaired: u64,
    /// The first problem of its config on disk, while it refuses that.
    pub(crate) config_refused: Option<String>,
    /// The instant since which it does.
    pub(crate) config_refused_since: Option<String>,
}

// === impl DaemonRow ===

impl From<DaemonStatus> for DaemonRow {
    fn from(DaemonStatus { id, health, .. }: DaemonStatus) -> Self {
        let (config_refused, since) = health.refused.unzip();
        Self {
            id,
            config: health.owner.to_string(),
            config_hash: health.config.to_string(),
            version: health.version,
            lag_ms: health.lag.as_secs_f64() * 1e3,
            credited: health.credited,
            repaired: health.repaired,
            config_refused,
            config_refused_since: since.map(utc),
        }
    }
}
