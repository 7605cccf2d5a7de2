//! The picture while the demo runs.

use topup_lab::{
    SentCommands,
    clock::{Micros, SECOND, seconds},
};

use crate::{
    plan::{Limit, WORKERS},
    record::LastSecond,
    screen::Looks,
};

/// Columns of a bar.
const BAR: usize = 16;

/// The present state of the demo.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    /// Time for which the workers have asked.
    pub(crate) elapsed: Micros,
    /// Time for which they will ask in all.
    pub(crate) length: Micros,
    pub(crate) limits: Vec<(&'a Limit, LastSecond)>,
    /// Commands so far.
    pub(crate) sent: SentCommands,
    /// Events so far.
    pub(crate) events: &'a [String],
}

// === impl Frame ===

impl Frame<'_> {
    /// Its lines.
    pub(crate) fn lines(&self, looks: Looks) -> Vec<String> {
        let title = format!("topup: {WORKERS} workers ask for more than they may");
        let time = format!("{:.1} of {} s", seconds(self.elapsed), self.length / SECOND);
        let head = ["limit", "rate", "capacity", "asked/s", "allowed/s", "denied/s"];
        let mut lines =
            vec![looks.bold(&format!("{title:60}{time:>18}")), String::new(), looks.dim(&columns(head))];
        for (limit, last) in &self.limits {
            let LastSecond { allowed, denied } = *last;
            let row = columns([
                limit.name,
                &limit.rate_text(),
                &limit.capacity.to_string(),
                &(allowed + denied).to_string(),
                &allowed.to_string(),
                &denied.to_string(),
            ]);
            lines.push(format!("{row}   {}", bar(allowed, denied, looks)));
        }
        let SentCommands { native, scripts } = self.sent;
        lines.extend([String::new(), format!("Redis so far: {native} native commands, {scripts} scripts")]);
        lines.push(String::new());
        lines.extend(self.events.iter().cloned());
        lines
    }

    /// All of it in one line, for outputs that are not redrawn.
    pub(crate) fn line(&self) -> String {
        let limits = self.limits.iter().map(|(limit, last)| {
            format!("{} {}: +{} -{}", limit.name, limit.rate_text(), last.allowed, last.denied)
        });
        let limits: Vec<_> = limits.collect();
        let commands = self.sent.native + self.sent.scripts;
        format!("{:5.1} s  {}  |  redis {commands}", seconds(self.elapsed), limits.join("  "))
    }
}

fn columns([limit, rate, capacity, asked, allowed, denied]: [&str; 6]) -> String {
    format!("{limit:6} {rate:>8} {capacity:>10} {asked:>8} {allowed:>10} {denied:>9}")
}

/// The allowed part of the answers.
fn bar(allowed: u64, denied: u64, looks: Looks) -> String {
    let asked = allowed + denied;
    if asked == 0 {
        return String::new();
    }
    let full = (BAR as u64 * allowed).div_ceil(asked) as usize;
    looks.green(&"█".repeat(full)) + &looks.dim(&"░".repeat(BAR - full))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::LIMITS;

    const PLAIN: Looks = Looks(false);

    fn frame(events: &[String]) -> Frame<'_> {
        let last = LastSecond { allowed: 50, denied: 100 };
        let limits = LIMITS.iter().map(|limit| (limit, last)).collect();
        let sent = SentCommands { native: 30, scripts: 12 };
        Frame { elapsed: 6_200_000, length: 20 * SECOND, limits, sent, events }
    }

    #[test]
    fn a_frame_shows_every_limit_and_event() {
        let events = ["10.0 s  something".to_owned()];
        let lines = frame(&events).lines(PLAIN);
        assert!(lines[0].ends_with("6.2 of 20 s"), "{lines:#?}");
        assert_eq!(lines[3], "api        50/s        100      150         50       100   ██████░░░░░░░░░░");
        assert!(lines[5].contains("4 x 5/s         10      150"), "{lines:#?}");
        assert_eq!(lines.last(), events.last());
        // `screen` leaves room for two more events.
        assert!(lines.len() <= 15 && lines.iter().all(|line| line.chars().count() < 80), "{lines:#?}");
    }

    #[test]
    fn a_line_says_it_all_without_colours_or_movement() {
        let line = frame(&[]).line();
        let start = "  6.2 s  api 50/s: +50 -100  mail 100/s: +50 -100  user 4 x 5/s: +50";
        assert!(line.starts_with(start) && line.ends_with("|  redis 42"), "{line}");
    }

    #[test]
    fn a_bar_shows_the_allowed_part() {
        for (allowed, denied, drawn) in
            [(0, 0, 0), (0, 5, BAR), (5, 0, BAR), (1, 1_000, BAR), (1_000, 1, BAR)]
        {
            assert_eq!(bar(allowed, denied, PLAIN).chars().count(), drawn, "{allowed} and {denied}");
        }
        assert!(bar(1, 1_000, PLAIN).starts_with("█░"));
    }
}
