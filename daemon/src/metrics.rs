//! The metrics of a daemon, in OpenMetrics. docs/metrics.md lists all of them.

use std::{fmt, sync::Arc, time::Duration};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, text},
    metrics::{
        MetricType,
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::ConstGauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};
use topup_wire::{connection::Cause, counts::Count};

use crate::{
    refill::EngineStatus,
    report::{LimitRow, PartRow, SourceRow, StatusReport},
};

/// Metrics that the engine and the app write. Cheap to clone: clones share their values.
#[derive(Clone, Debug)]
pub struct Metrics {
    refill_lag: Histogram,
    refill_slice: Histogram,
    redis_errors: Family<[(&'static str, &'static str); 1], Counter>,
    reloads: Family<[(&'static str, &'static str); 1], Counter>,
}

/// The state of a daemon and of Redis at a scrape.
#[derive(Debug)]
pub(crate) struct Scrape {
    pub(crate) status: EngineStatus,
    pub(crate) report: Arc<StatusReport>,
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

const APPLIED: &str = "applied";
const REFUSED: &str = "refused";

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

impl Scrape {
    fn encode_limits(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
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

    /// The parts of limits with fair shares.
    fn encode_parts(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
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

    /// The sources of assignments.
    fn encode_sources(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
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

/// `openmetrics` in the older text format of Prometheus, in which the name of a counter ends in `_total` everywhere.
pub(crate) fn to_classic(openmetrics: &str) -> String {
    let mut out = String::with_capacity(openmetrics.len());
    let mut help: Option<(&str, &str)> = None;
    for line in openmetrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let total = if kind == "counter" { "_total" } else { "" };
            if let Some((_, help)) = help.take() {
                out += &format!("# HELP {name}{total} {help}\n");
            }
            out += &format!("# TYPE {name}{total} {kind}\n");
        } else if !line.starts_with('#') {
            out += line;
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

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
