//! The last lines of the demo: five figures and the verdict.

use topup_lab::{
    SentCommands,
    clock::{Micros, seconds},
    count, short,
};

use crate::{
    change::Change,
    plan::RAISED,
    record::Record,
    screen::Looks,
    verdict::{Verdict, broken},
};

/// The results of a run.
#[derive(Debug)]
pub(crate) struct Figures<'a> {
    pub(crate) verdicts: &'a [Verdict],
    pub(crate) record: &'a Record,
    pub(crate) change: Option<&'a Change>,
    /// Commands of the whole run.
    pub(crate) sent: SentCommands,
    /// Length of the run.
    pub(crate) length: Micros,
}

// === impl Figures ===

impl Figures<'_> {
    /// The lines.
    pub(crate) fn lines(&self, looks: Looks) -> Vec<String> {
        let Record { allowed, denied, failures, .. } = self.record;
        let (all, no) = (count((allowed + denied) as f64), count(*denied as f64));
        let title = format!("{all} decisions in {:.0} s, {no} of them denials", seconds(self.length));
        let mut lines = vec![String::new(), looks.bold(&title)];
        lines.extend(self.five().map(|(figure, label)| format!("{figure:>9}  {label}")));
        if let Some(why) = failures.last() {
            lines
                .push(looks.red(&format!("{} takes got no answer, the last because: {why}", failures.len())));
        }
        let broken = broken(self.verdicts);
        lines.push(match broken.is_empty() {
            true => looks.green("The laws held"),
            false => looks.red(&format!("A law did not hold: {}", broken.join(", "))),
        });
        lines
    }

    fn five(&self) -> [(String, String); 5] {
        let Record { allowed, denied, from_memory, .. } = self.record;
        let raised = self.verdicts.iter().find(|verdict| verdict.limit.name == RAISED.name);
        let phase = raised.and_then(|verdict| verdict.phases.get(1));
        let per_second = phase.map_or(f64::NAN, |phase| phase.allowed as f64 / seconds(phase.lasted));
        let worst = self.verdicts.iter().map(|verdict| verdict.excess).fold(0.0, f64::max);
        let each = |sent: u64| short(sent as f64 / (allowed + denied).max(1) as f64);
        let change = self.change.and_then(Change::reached_workers_after);
        let percent = 100.0 * *from_memory as f64 / (*denied).max(1) as f64;
        let (native, scripts) = (each(self.sent.native), each(self.sent.scripts));
        [
            (
                short(per_second),
                format!("takes allowed a second where the limit is {}/s ({})", RAISED.rate, RAISED.name),
            ),
            (format!("{worst:.2}"), "tokens above capacity + rate x time, in the worst window".to_owned()),
            (native, format!("native commands for each decision, beside {scripts} scripts")),
            (
                change.map_or_else(|| "–".to_owned(), |micros| format!("{} ms", micros / 1_000)),
                "from an edit of the config until all workers apply it".to_owned(),
            ),
            (format!("{percent:.0} %"), "of all denials answered without asking Redis".to_owned()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::{Times, judge};

    #[test]
    fn five_figures_and_a_verdict_end_the_demo() {
        let record = Record::new();
        let verdicts = judge(&record, Times { begun: 0, ended: 9_000_000, raised: None });
        let sent = SentCommands { native: 5, scripts: 7 };
        let figures = Figures { verdicts: &verdicts, record: &record, change: None, sent, length: 9_000_000 };
        let lines = figures.lines(Looks(false));
        assert_eq!((lines.len(), lines[1].as_str()), (8, "0 decisions in 9 s, 0 of them denials"));
        assert_eq!(lines[3], "     0.00  tokens above capacity + rate x time, in the worst window");
        assert_eq!(lines[7], "A law did not hold: never starved (api, mail, user, login)");
    }
}
