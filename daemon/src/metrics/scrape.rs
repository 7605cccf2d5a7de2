//! The state of a daemon and of Redis at a scrape, as metrics.

use std::{fmt, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};

use crate::{refill::EngineStatus, report::StatusReport};

/// The state of a daemon and of Redis at a scrape.
#[derive(Debug)]
pub(crate) struct Scrape {
    pub(crate) status: EngineStatus,
    pub(crate) report: Arc<StatusReport>,
}

// === impl Scrape ===

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let out = &mut encoder;
        let Self { status, report } = self;
        let gauge = |out: &mut DescriptorEncoder<'_>, name, help, unit: Option<Unit>, value: f64| {
            let encoder = out.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
            ConstGauge::new(value).encode(encoder)
        };
        let counter = |out: &mut DescriptorEncoder<'_>, name, help, unit: Option<Unit>, value: u64| {
            let encoder = out.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
            ConstCounter::new(value).encode(encoder)
        };
        let up = |yes: bool| if yes { 1.0 } else { 0.0 };
        let version: &[(&str, &str)] = &[("version", env!("CARGO_PKG_VERSION"))];
        let help = "1, with the version of the daemon";
        let mut build = out.encode_descriptor("topup_build_info", help, None, MetricType::Gauge)?;
        ConstGauge::new(1_u64).encode(build.encode_family(&version)?)?;
        let help = "Whether the engine has refilled every shard once";
        gauge(out, "topup_ready", help, None, up(status.ready))?;
        let help = "Whether Redis answered the last heartbeat";
        gauge(out, "topup_redis_up", help, None, up(status.connected))?;
        let help = "Number of the last publication that this daemon knows";
        gauge(out, "topup_generation", help, None, status.generation as f64)?;
        gauge(out, "topup_refill_shards", "Shards that are refilled", None, status.shards as f64)?;
        counter(out, "topup_refill_credits", "Buckets credited", None, status.credited)?;
        counter(out, "topup_healed_keys", "Corrupt keys repaired", None, status.repaired)?;
        let help = "Since when the config on disk is refused, in Unix time; 0 if it is not";
        let since = status.refused_since.map_or(0.0, |micros| micros as f64 / 1e6);
        gauge(out, "topup_config_refused_since_timestamp", help, Some(Unit::Seconds), since)?;
        if report.latency_ms.is_some() {
            gauge(out, "topup_daemons_alive", "Daemons alive", None, report.daemons.len() as f64)?;
            let help = "Limits of live daemons that are refused, since another config holds them";
            gauge(out, "topup_conflicts", help, None, report.conflicts.len() as f64)?;
        }
        self.encode_limits(out)
    }
}
