//! The metrics of the sources of assignments.

use std::fmt;

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
    registry::Unit,
};

use super::scrape::Scrape;
use crate::report::SourceRow;

// === impl Scrape ===

impl Scrape {
    /// The sources of assignments.
    pub(super) fn encode_sources(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let seconds = |micros: Option<u64>| micros.map_or(0.0, |micros| micros as f64 / 1e6);
        let read =
            "Last look at the source of assignments without a mistake, in Unix time; 0 if there is none";
        let failed = "Since when the source cannot be used, in Unix time; 0 if it can";
        type Value = fn(&SourceRow) -> Option<u64>;
        for (name, help, value) in [
            ("topup_source_read_timestamp", read, (|row| row.read_at) as Value),
            ("topup_source_failed_since_timestamp", failed, |row| row.failed_at),
        ] {
            let mut family = out.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Gauge)?;
            for row in &self.report.sources {
                let labels = [("limit", row.limit.as_str())];
                ConstGauge::new(seconds(value(row))).encode(family.encode_family(&labels)?)?;
            }
        }
        let unit = Unit::Other("rows".to_owned());
        let help = "Rows of the source at that look";
        let mut family = out.encode_descriptor("topup_source", help, Some(&unit), MetricType::Gauge)?;
        for row in &self.report.sources {
            let labels = [("limit", row.limit.as_str())];
            ConstGauge::new(row.rows as f64).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
