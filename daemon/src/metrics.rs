//! The metrics of a daemon, in OpenMetrics. docs/metrics.md lists all of them.

mod classic;
mod limits;
mod parts;
mod scrape;
mod sources;

use std::{fmt, time::Duration};

use prometheus_client::{
    encoding::text,
    metrics::{
        counter::Counter,
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};
use topup_wire::connection::Cause;

pub(crate) use classic::to_classic;
pub(crate) use scrape::Scrape;

const APPLIED: &str = "applied";
const REFUSED: &str = "refused";

/// Metrics that the engine and the app write. Cheap to clone: clones share their values.
#[derive(Clone, Debug)]
pub struct Metrics {
    refill_lag: Histogram,
    refill_slice: Histogram,
    redis_errors: Family<[(&'static str, &'static str); 1], Counter>,
    reloads: Family<[(&'static str, &'static str); 1], Counter>,
}

// === impl Metrics ===

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            // 0.1 ms to 13 s.
            refill_lag: Histogram::new(exponential_buckets(0.000_1, 2.0, 18)),
            // 50 µs to 0.4 s.
            refill_slice: Histogram::new(exponential_buckets(0.000_05, 2.0, 14)),
            redis_errors: Family::default(),
            reloads: Family::default(),
        };
        for result in [APPLIED, REFUSED] {
            drop(metrics.reloads.get_or_create(&[("result", result)]));
        }
        metrics
    }
}

impl Metrics {
    /// Records by how much a pass over a shard was late.
    pub(crate) fn lagged(&self, lag: Duration) {
        self.refill_lag.observe(lag.as_secs_f64());
    }

    /// Records the time of a slice, from sending to reply.
    pub(crate) fn refilled(&self, slice: Duration) {
        self.refill_slice.observe(slice.as_secs_f64());
    }

    /// Records a failed request of the engine.
    pub(crate) fn failed(&self, cause: Cause) {
        self.redis_errors.get_or_create(&[("cause", cause.as_str())]).inc();
    }

    /// Records a reload.
    pub(crate) fn reloaded(&self, applied: bool) {
        self.reloads.get_or_create(&[("result", if applied { APPLIED } else { REFUSED })]).inc();
    }

    /// All metrics in OpenMetrics.
    pub(crate) fn encode(&self, scrape: Scrape) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        let seconds = Unit::Seconds;
        registry.register_with_unit(
            "topup_refill_lag",
            "Time by which passes over shards were late",
            seconds.clone(),
            self.refill_lag.clone(),
        );
        registry.register_with_unit(
            "topup_refill_slice",
            "Time of refill scripts, from sending to reply",
            seconds,
            self.refill_slice.clone(),
        );
        registry.register(
            "topup_redis_errors",
            "Failed heartbeats and passes by cause",
            self.redis_errors.clone(),
        );
        registry.register("topup_reloads", "Reloads of the config by result", self.reloads.clone());
        registry.register_collector(Box::new(scrape));
        let mut out = String::new();
        text::encode(&mut out, &registry)?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::{BTreeMap, BTreeSet},
        sync::Arc,
    };

    use super::*;
    use crate::{
        refill::EngineStatus,
        report::{LimitRow, PartRow, SourceRow, StatusReport},
    };

    const PAGE: &str = include_str!("../../docs/metrics.md");
    const ALERTS: &str = include_str!("../../packaging/prometheus/alerts.yml");
    const DASHBOARD: &str = include_str!("../../packaging/grafana/topup.json");

    fn encoded() -> String {
        let metrics = Metrics::default();
        metrics.failed(Cause::Refused);
        let row = LimitRow {
            name: "api".to_owned(),
            tokens_per_second: Some(0.5),
            active: Some(3),
            counts: Some(BTreeMap::from([("allowed", 5), ("would_deny", 2)])),
            open_holds: Some(4),
            parts: Some(vec![PartRow {
                part: "a \"b\" \\".to_owned(),
                weight: 2,
                capacity: 8,
                tokens_per_second: 0.25,
                tokens: 6,
                lent: 1,
            }]),
            ..LimitRow::default()
        };
        let source = SourceRow {
            limit: "api".to_owned(),
            rows: 3,
            failed_at: Some(7_000_000),
            ..SourceRow::default()
        };
        let report = StatusReport {
            limits: vec![row],
            sources: vec![source],
            latency_ms: Some(1.0),
            ..StatusReport::default()
        };
        metrics.encode(Scrape { status: EngineStatus::default(), report: Arc::new(report) }).unwrap()
    }

    /// Names and types in the classic format.
    fn types(classic: &str) -> BTreeSet<(String, String)> {
        let types = classic.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        types.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect()
    }

    #[test]
    fn the_page_lists_every_metric_with_its_type() {
        let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `topup_")?.split_once("` | "));
        let rows =
            rows.map(|(name, rest)| (format!("topup_{name}"), rest.split(' ').next().unwrap().to_owned()));
        let listed: BTreeSet<_> = rows.filter(|(name, _)| !name.starts_with("topup_client_")).collect();
        assert_eq!(listed, types(&to_classic(&encoded())));
    }

    #[test]
    fn alerts_and_dashboard_name_metrics_that_there_are() {
        let known = types(&to_classic(&encoded()));
        let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).unwrap();
        assert!(dashboard["panels"].as_array().unwrap().len() > 10);
        let of_name = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        let words = [ALERTS, DASHBOARD].into_iter().flat_map(|text| text.split(of_name));
        for name in words.filter(|word| word.starts_with("topup_")) {
            let family = name.trim_end_matches("_bucket").trim_end_matches("_count");
            assert!(known.iter().any(|(known, _)| known == family), "{name}");
        }
    }

    #[test]
    fn both_formats_have_the_same_samples() {
        let (openmetrics, classic) = (encoded(), to_classic(&encoded()));
        let samples =
            |text: &str| text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
        let both: [BTreeSet<String>; 2] = [samples(&openmetrics), samples(&classic)];
        assert_eq!(both[0], both[1]);
        assert!(both[0].contains("topup_takes_total{limit=\"api\",decision=\"allowed\"} 5"), "{openmetrics}");
        assert!(
            both[0].contains("topup_takes_total{limit=\"api\",decision=\"shadowed\"} 2"),
            "{openmetrics}"
        );
        // A part may be named by any key.
        for (name, value) in [
            ("rate_tokens_per_second", "0.25"),
            ("capacity_tokens", "8.0"),
            ("tokens", "6.0"),
            ("lent_tokens", "1.0"),
        ] {
            let sample = format!("topup_part_{name}{{limit=\"api\",part=\"a \\\"b\\\" \\\\\"}} {value}");
            assert!(both[0].contains(&sample), "{sample}\n{openmetrics}");
        }
        assert!(both[0].contains("topup_limit_open_holds{limit=\"api\"} 4.0"), "{openmetrics}");
        assert!(openmetrics.ends_with("# EOF\n") && !classic.contains("EOF"));
    }
}
