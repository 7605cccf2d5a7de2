//! The plan of a reload, as text and JSON.

use std::path::Path;

use serde::Serialize;
use topup_wire::limit::LimitName;

use crate::{
    config::{Config, Problem},
    publish::{Difference, Effect, PartChange, SourceChange, supply},
    text::{counted, grouped},
};

/// Most changed parts of a limit in the text. The JSON has all.
const MOST_PARTS: usize = 20;

/// The effects of a reload.
#[derive(Debug, Default, Serialize)]
pub(super) struct PlanReport {
    /// The config file.
    pub(super) file: String,
    /// The config that it is to replace.
    pub(super) config: String,
    /// The Redis.
    pub(super) redis: String,
    /// Why Redis tells nothing; absent if it does.
    pub(super) undecided: Option<String>,
    /// Daemons of the config that are alive.
    pub(super) alive: usize,
    /// Each limit that changes.
    pub(super) changes: Vec<ChangeRow>,
    /// Limits of the file that stay as they are.
    pub(super) unchanged: usize,
    /// Limits of the file that the reload refuses, and why.
    pub(super) refused: Vec<String>,
    /// Other findings on the claims of configs.
    pub(super) notes: Vec<String>,
    /// Settings that take a restart.
    pub(super) restart: Vec<String>,
    /// Keys of the file that are legal but probably not meant.
    pub(super) warnings: Vec<String>,
    /// While Redis does not answer: the file that this one is compared with, and the differences.
    pub(super) beside: Option<String>,
    pub(super) file_changes: Vec<String>,
    #[serde(skip)]
    limits: usize,
}

/// A limit that changes.
#[derive(Debug, Serialize)]
pub(super) struct ChangeRow {
    pub(super) limit: String,
    pub(super) effect: &'static str,
    /// The keys that differ, of an altered limit.
    pub(super) differences: Vec<Difference>,
    /// Parts whose share changes, of a limit with fair shares.
    pub(super) parts: Vec<PartChange>,
    /// The source of assignments, if it changes.
    pub(super) source: Option<SourceChange>,
    /// Buckets that a daemon tops up now; absent where only a scan would find them.
    pub(super) active: Option<u64>,
    /// The fate of its buckets; absent if it is the same as ever.
    pub(super) buckets: Option<&'static str>,
    /// From the reload to the change.
    pub(super) in_force_after_ms: u64,
    #[serde(skip)]
    text: String,
}

// === impl ChangeRow ===

impl ChangeRow {
    pub(super) fn of(
        name: &LimitName,
        effect: &Effect,
        active: Option<u64>,
        source: Option<SourceChange>,
    ) -> Self {
        let (differences, parts) = (effect.differences(), effect.part_changes());
        let (word, text) = match effect {
            Effect::Added(limit) => {
                let (key, value) = supply(limit);
                ("added", format!("new, capacity {}, {key} {value}", limit.terms.capacity))
            }
            Effect::Removed(_) => ("removed", "removed".to_owned()),
            Effect::Released => ("released", "given up; it stays, since another config has it".to_owned()),
            Effect::Shared => ("shared", "shared with another config, which has the same terms".to_owned()),
            Effect::Repaired => ("repaired", "its record cannot be read, and is written anew".to_owned()),
            Effect::Rewritten if source.is_some() => ("altered", "other assignments".to_owned()),
            Effect::Rewritten => ("rewritten", "written in another way; what applies now stays".to_owned()),
            Effect::Altered { .. } => {
                let arrow = |it: &Difference| match it.key {
                    // Lines of their own tell each.
                    "parts" => "other parts".to_owned(),
                    key => format!("{key} {:?} -> {:?}", it.from, it.to).replace('"', ""),
                };
                ("altered", differences.iter().map(arrow).collect::<Vec<_>>().join(", "))
            }
        };
        let in_force_after_ms = effect.delay().as_millis() as u64;
        let limit = name.to_string();
        let buckets = effect.fate();
        Self { limit, effect: word, differences, parts, source, active, buckets, in_force_after_ms, text }
    }

    /// The limit and its change, and below it its parts, its source, and the effect on buckets.
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("limit {}: {}", self.limit, self.text)];
        lines.extend(self.parts.iter().take(MOST_PARTS).map(|part| format!("  {part}")));
        let more = self.parts.len().saturating_sub(MOST_PARTS);
        lines.extend((more > 0).then(|| format!("  and {}", counted(more, "more part"))));
        lines.extend(self.source.as_ref().map(|source| format!("  {source}")));
        let buckets = self.buckets.map(|fate| match self.active {
            Some(1) => format!("buckets {fate}; 1 is active"),
            Some(active) => format!("buckets {fate}; {} are active", grouped(active)),
            None => format!("buckets {fate}"),
        });
        let delay = (self.in_force_after_ms > 0).then(|| {
            format!(
                "in force {} ms after the reload; until then the terms before apply",
                self.in_force_after_ms
            )
        });
        lines.extend(buckets.into_iter().chain(delay).map(|line| format!("  {line}")));
        lines
    }
}

// === impl PlanReport ===

impl PlanReport {
    pub(super) fn of(file: &Path, config: &Config) -> Self {
        Self {
            file: file.display().to_string(),
            limits: config.limits.len(),
            warnings: config.warnings.iter().map(Problem::to_string).collect(),
            ..Self::default()
        }
    }
}

/// The plan as text.
pub(super) fn render(report: &PlanReport) -> String {
    let PlanReport { file, config, redis, .. } = report;
    let mut lines = vec![format!("{file} as config {config} on {redis}")];
    if let Some(why) = &report.undecided {
        lines.push(format!(
            "{}, no errors; what is published cannot be told: {why}",
            counted(report.limits, "limit")
        ));
        let beside = report.beside.as_ref();
        lines.extend(
            beside.map(|path| format!("beside the file {path}, which may differ from what is published:")),
        );
        lines.extend(report.file_changes.iter().map(|change| format!("  {change}")));
        let is_same = beside.is_some() && report.file_changes.is_empty();
        lines.extend(is_same.then(|| "  no difference".to_owned()));
    } else if report.alive == 0 {
        lines.push("no daemon of this config is alive: a start would do the same".to_owned());
    }
    for warning in &report.warnings {
        lines.push(format!("warning: {warning}"));
    }
    lines.extend(report.changes.iter().flat_map(ChangeRow::lines));
    lines.extend(report.refused.iter().chain(&report.notes).cloned());
    lines.extend(report.restart.iter().cloned());
    if report.undecided.is_none() {
        let is_empty = report.changes.is_empty() && report.refused.is_empty();
        let nothing = if is_empty { "a reload changes no limit; " } else { "" };
        lines.push(format!("{nothing}unchanged: {}", counted(report.unchanged, "limit")));
    }
    lines.join("\n")
}
