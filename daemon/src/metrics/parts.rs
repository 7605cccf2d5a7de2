//! The metrics of the parts of limits with fair shares.

use std::fmt;

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
    registry::Unit,
};

use super::scrape::Scrape;
use crate::report::PartRow;

// === impl Scrape ===

impl Scrape {
    /// The parts of limits with fair shares.
    pub(super) fn encode_parts(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let unit = |name: &str| Unit::Other(name.to_owned());
        type Value = fn(&PartRow) -> f64;
        for (name, unit, help, value) in [
            (
                "topup_part_rate",
                unit("tokens_per_second"),
                "Tokens that a part gets per second of its own",
                { |part| part.tokens_per_second } as Value,
            ),
            ("topup_part_capacity", unit("tokens"), "Most tokens of a part's own", |part| {
                part.capacity as f64
            }),
            ("topup_part", unit("tokens"), "Tokens of a part's own", |part| part.tokens as f64),
            ("topup_part_lent", unit("tokens"), "Tokens that the other parts lend to it", |part| {
                part.lent as f64
            }),
        ] {
            let mut family = out.encode_descriptor(name, help, Some(&unit), MetricType::Gauge)?;
            for row in &self.report.limits {
                for part in row.parts.iter().flatten() {
                    let labels = [("limit", row.name.as_str()), ("part", part.part.as_str())];
                    ConstGauge::new(value(part)).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }
}
