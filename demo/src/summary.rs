//! What the show came to.

use crate::{
    change::Change,
    clock::{Micros, seconds},
    cost::Cost,
    plan::{LIMITS, RAISED, WORKERS},
    screen::Looks,
    tally::Tally,
    verdict::Verdict,
};

/// Everything the summary tells.
#[derive(Debug)]
pub(crate) struct Summary<'a> {
    pub(crate) verdicts: &'a [Verdict],
    pub(crate) tally: &'a Tally,
    pub(crate) change: Option<&'a Change>,
    pub(crate) cost: Cost,
    /// When the workers began.
    pub(crate) begun: Micros,
}

// === impl Summary ===

impl Summary<'_> {
    /// Whether every law held.
    pub(crate) fn laws_held(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.never_over() && verdict.never_starved())
    }

    /// Its lines.
    pub(crate) fn lines(&self, looks: Looks) -> Vec<String> {
        let mut lines =
            vec![String::new(), looks.bold("Allowed, and what a perfect limiter would have allowed")];
        lines.push(
            looks.dim(&format!("{:6}{:28}{:>10}{:>12}{:>10}", "limit", "", "allowed", "ideal", "ratio")),
        );
        lines.extend(self.phases());
        lines.push(String::new());
        lines.push(
            looks.bold("Never over: in any window of w s, at most capacity + rate x w + a tick's credit"),
        );
        let head = ["", "", "in the worst window", "allowed", "cap + rate x w", "+ tick"];
        lines.push(looks.dim(&columns(head)));
        lines.extend(self.verdicts.iter().map(|verdict| self.never_over(verdict, looks)));
        lines.push(String::new());
        lines.push(
            looks.bold("Never starved: at least 97 % of capacity + rate x time, less one token a bucket"),
        );
        lines.push(looks.dim(&columns(["", "", "", "allowed", "at least", ""])));
        lines.extend(self.verdicts.iter().map(|verdict| {
            let held = held(verdict.never_starved(), looks);
            let (allowed, least) = (verdict.allowed().to_string(), format!("{:.2}", verdict.least()));
            columns([verdict.limit.name, &held, "in all", &allowed, &least, ""])
        }));
        lines.push(String::new());
        lines.extend(self.change.and_then(told));
        lines.extend(self.costs());
        lines.extend(self.failures(looks));
        lines.push(String::new());
        lines.push(if self.laws_held() {
            looks.green("The laws held.")
        } else {
            looks.red(&format!("A law was broken: {}.", self.broken().join(", ")))
        });
        lines
    }

    fn phases(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for Verdict { limit, phases, .. } in self.verdicts {
            let keys = match limit.keys.len() {
                0 | 1 => String::new(),
                keys => format!(", {keys} keys"),
            };
            for (index, phase) in phases.iter().enumerate() {
                let name = if index == 0 { limit.name } else { "" };
                let what = format!("{:.2} s at {}/s{keys}", seconds(phase.lasted), phase.rate);
                let (allowed, ideal) = (phase.allowed, phase.ideal);
                lines.push(format!("{name:6}{what:28}{allowed:>10}{ideal:>12.1}{:>10.4}", phase.ratio()));
            }
        }
        lines
    }

    fn never_over(&self, verdict: &Verdict, looks: Looks) -> String {
        let held = held(verdict.never_over(), looks);
        let Some((bucket, worst)) = &verdict.worst else {
            return format!("{:6}{held}  nothing was allowed at all", verdict.limit.name);
        };
        let begin = seconds(worst.from.saturating_sub(self.begun));
        let whose = bucket.key.as_ref().map(|key| format!(", {key}")).unwrap_or_default();
        columns([
            verdict.limit.name,
            &held,
            &format!("{:.3} s from {begin:.2} s on{whose}", seconds(worst.until - worst.from)),
            &worst.allowed.to_string(),
            &format!("{:.2}", worst.allowed as f64 - worst.excess),
            &format!("+ {:.1}", worst.room),
        ])
    }

    fn costs(&self) -> [String; 3] {
        let Tally { decisions, denied, remembered, .. } = self.tally;
        let Cost { commands, cpu, decrs, scripts } = self.cost;
        let each = 1e6 * cpu / (*decisions).max(1) as f64;
        [
            format!(
                "Decisions: {decisions}, {denied} of them denials, {remembered} of these without asking Redis."
            ),
            format!("Redis: {commands} commands, {cpu:.2} s of CPU in all, {each:.1} us for each decision;"),
            format!(
                "       {} DECR of {:.1} us, {} scripts of {:.1} us, the daemon's included.",
                decrs.count,
                decrs.each(),
                scripts.count,
                scripts.each(),
            ),
        ]
    }

    fn failures(&self, looks: Looks) -> Option<String> {
        let reason = self.tally.last_failure.as_ref()?;
        Some(looks.red(&format!("{} takes got no answer, the last because: {reason}", self.tally.failures)))
    }

    fn broken(&self) -> Vec<String> {
        let broken = |law: &str, held: fn(&Verdict) -> bool| {
            let names: Vec<_> = self.verdicts.iter().filter(|verdict| !held(verdict)).collect();
            let names: Vec<_> = names.iter().map(|verdict| verdict.limit.name).collect();
            (!names.is_empty()).then(|| format!("{law} ({})", names.join(", ")))
        };
        let over = broken("never over", Verdict::never_over);
        over.into_iter().chain(broken("never starved", Verdict::never_starved)).collect()
    }
}

/// How the new rate reached the workers.
fn told(change: &Change) -> Option<String> {
    let published = change.published?;
    let after = |instant: Micros| instant.saturating_sub(change.told) as f64 / 1e3;
    let from = LIMITS.iter().find(|limit| limit.name == RAISED)?.rate;
    let last = match change.last_old {
        Some((last, worker)) if last > published.new_from => {
            format!(
                "the last answer by {from}/s came after {:.0} ms (worker {} of {WORKERS})",
                after(last),
                worker + 1
            )
        }
        _ => format!("none of the {WORKERS} workers answered by {from}/s after that"),
    };
    let published = after(published.new_from);
    Some(format!("New rate of {RAISED}: in force {published:.0} ms after HUP;\n{:10}{last}.", ""))
}

fn columns([limit, held, window, allowed, bound, tick]: [&str; 6]) -> String {
    // Colours have a width of their own in the eyes of a formatter.
    let held = if held.is_empty() { "      " } else { held };
    format!("{limit:6}{held}  {window:31}{allowed:>8}{bound:>16}{tick:>8}").trim_end().to_owned()
}

fn held(held: bool, looks: Looks) -> String {
    if held { looks.green("held  ") } else { looks.red("BROKEN") }
}
