//! The metrics of limits.

use std::fmt;

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};
use topup_wire::counts::Count;

use super::scrape::Scrape;
use crate::report::LimitRow;

// === impl Scrape ===

impl Scrape {
    pub(super) fn encode_limits(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let tokens = |name: &str| Unit::Other(name.to_owned());
        let help = "Tokens that a bucket gets per second; none for windows and calendar quotas";
        self.gauges(out, "topup_limit_rate", help, &tokens("tokens_per_second"), |row| {
            row.tokens_per_second
        })?;
        let help = "Most tokens in a bucket";
        self.gauges(out, "topup_limit_capacity", help, &tokens("tokens"), |row| Some(row.capacity as f64))?;
        let help = "Buckets that have a counter, and keys with permits";
        self.gauges(out, "topup_limit_active", help, &tokens("buckets"), |row| row.active.map(|n| n as f64))?;
        let help = "Permits that are held, of at most 1000 keys a shard";
        self.gauges(out, "topup_limit_held", help, &tokens("permits"), |row| row.held.map(|n| n as f64))?;
        let help = "Waiters for permits, of at most 1000 keys a shard";
        self.gauges(out, "topup_limit", help, &tokens("waiters"), |row| row.waiting.map(|n| n as f64))?;
        let help = "Holds that nobody has settled yet; none unless on_abandon is refund";
        self.gauges(out, "topup_limit_open", help, &tokens("holds"), |row| row.open_holds.map(|n| n as f64))?;
        self.encode_parts(out)?;
        self.encode_sources(out)?;
        let help = "Takes by limit and decision, of all workers, since the limit last changed";
        let mut family = out.encode_descriptor("topup_takes", help, None, MetricType::Counter)?;
        for row in &self.report.limits {
            let Some(counts) = &row.counts else { continue };
            for count in Count::DECISIONS {
                let labels = [("limit", row.name.as_str()), ("decision", count.decision())];
                let value = counts.get(count.as_str()).copied().unwrap_or(0);
                ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    /// A gauge of each limit that has a value.
    fn gauges(
        &self,
        out: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        unit: &Unit,
        value: impl Fn(&LimitRow) -> Option<f64>,
    ) -> fmt::Result {
        let mut family = out.encode_descriptor(name, help, Some(unit), MetricType::Gauge)?;
        for row in &self.report.limits {
            if let Some(value) = value(row) {
                ConstGauge::new(value).encode(family.encode_family(&[("limit", row.name.as_str())])?)?;
            }
        }
        Ok(())
    }
}
