//! What the show looks like while it runs.

use crate::{
    clock::{Micros, SECOND, seconds},
    cost::Cost,
    plan::{Limit, WORKERS},
    screen::Looks,
    tally::Lately,
};

/// Columns of a full bar: all that is asked.
const BAR: usize = 16;

/// A moment of the show.
#[derive(Debug)]
pub(crate) struct View<'a> {
    /// How long the workers have asked, and will in all.
    pub(crate) elapsed: Micros,
    pub(crate) length: Micros,
    pub(crate) limits: Vec<(&'a Limit, Lately)>,
    pub(crate) redis: Redis,
    /// What has happened so far.
    pub(crate) events: &'a [String],
}

/// What the show costs Redis.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Redis {
    /// Between the last two looks, and how far apart they were.
    pub(crate) lately: Cost,
    pub(crate) span: Micros,
    /// Since the workers began, and what they were told since.
    pub(crate) total: Cost,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) remembered: u64,
}

// === impl View ===

impl View<'_> {
    /// The lines of a frame.
    pub(crate) fn frame(&self, looks: Looks) -> Vec<String> {
        let title = format!("topup: {WORKERS} workers ask for more than they may");
        let time = format!("{:.1} of {} s", seconds(self.elapsed), self.length / SECOND);
        let head = ["limit", "rate", "tokens", "asked/s", "allowed/s", "denied/s", "memory"];
        let mut lines =
            vec![looks.bold(&format!("{title:60}{time:>18}")), String::new(), looks.dim(&columns(head))];
        for (limit, lately) in &self.limits {
            let Lately { allowed, denied, remembered, .. } = *lately;
            let tokens = lately.tokens.map_or_else(|| "-".into(), |tokens| tokens.to_string());
            let row = columns([
                limit.name,
                &rate(limit),
                &format!("{tokens} of {}", limit.capacity * limit.buckets().len() as u64),
                &(allowed + denied).to_string(),
                &allowed.to_string(),
                &denied.to_string(),
                &if denied == 0 { String::new() } else { format!("{:.0} %", percent(remembered, denied)) },
            ]);
            lines.push(format!("{row}  {}", bar(allowed, denied, looks)));
        }
        lines.push(String::new());
        lines.extend(self.redis.lines());
        lines.push(String::new());
        lines.extend(self.events.iter().cloned());
        lines
    }

    /// All of it in one line, for where nothing is redrawn.
    pub(crate) fn line(&self) -> String {
        let limits = self.limits.iter().map(|(limit, lately)| {
            format!("{} {}: +{} -{}", limit.name, rate(limit), lately.allowed, lately.denied)
        });
        let Redis { lately, span, .. } = self.redis;
        let commands = per_second(lately.commands, span);
        let limits: Vec<_> = limits.collect();
        format!("{:5.1} s  {}  |  redis {commands:.0}/s", seconds(self.elapsed), limits.join("  "))
    }
}

// === impl Redis ===

impl Redis {
    fn lines(&self) -> [String; 3] {
        let Self { lately, span, total, allowed, denied, remembered } = *self;
        let each = |count: u64| count as f64 / allowed.max(1) as f64;
        let cpu = if span == 0 { 0.0 } else { 100.0 * lately.cpu / seconds(span) };
        let commands = per_second(lately.commands, span);
        [
            format!("Redis   {commands:.0} commands/s, those inside scripts included; {cpu:.1} % of a CPU"),
            format!(
                "Takes   {:.2} DECR and {:.2} scripts for each one allowed, the daemon's included",
                each(total.decrs.count),
                each(total.scripts.count)
            ),
            format!("Denials {:.0} % from the workers' memory, Redis not asked", percent(remembered, denied)),
        ]
    }
}

/// A limit's rate, for people.
pub(crate) fn rate(limit: &Limit) -> String {
    match limit.keys.len() {
        0 | 1 => format!("{}/s", limit.rate),
        keys => format!("{keys} x {}/s", limit.rate),
    }
}

fn columns([limit, rate, tokens, asked, allowed, denied, memory]: [&str; 7]) -> String {
    format!("{limit:5} {rate:>8} {tokens:>11} {asked:>7} {allowed:>9} {denied:>8} {memory:>6}")
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn per_second(count: u64, span: Micros) -> f64 {
    if span == 0 { 0.0 } else { count as f64 / seconds(span) }
}

/// What was allowed of what was asked.
fn bar(allowed: u64, denied: u64, looks: Looks) -> String {
    let asked = allowed + denied;
    if asked == 0 {
        return String::new();
    }
    let full = (BAR as u64 * allowed).div_ceil(asked) as usize;
    let (yes, no) = if looks.blocks { ("█", "░") } else { ("#", ".") };
    looks.green(&yes.repeat(full)) + &looks.dim(&no.repeat(BAR - full))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::LIMITS;

    const PLAIN: Looks = Looks { colours: false, blocks: false };

    fn view(events: &[String]) -> View<'_> {
        let lately = Lately { allowed: 50, denied: 100, remembered: 25, tokens: Some(3) };
        View {
            elapsed: 6_200_000,
            length: 20 * SECOND,
            limits: LIMITS.iter().map(|limit| (limit, lately)).collect(),
            redis: Redis::default(),
            events,
        }
    }

    #[test]
    fn a_frame_shows_every_limit_and_event() {
        let events = ["10.0 s  something".to_owned()];
        let frame = view(&events).frame(PLAIN);
        assert!(frame[0].ends_with("6.2 of 20 s"), "{frame:#?}");
        assert_eq!(
            frame[3],
            "api       50/s    3 of 100     150        50      100   25 %  ######.........."
        );
        assert!(frame[5].contains("4 x 5/s     3 of 40"), "{frame:#?}");
        assert_eq!(frame.last(), events.last());
        // What screen.rs allows for: there is one more event to come than here.
        assert!(frame.len() <= 15 && frame.iter().all(|line| line.len() < 80), "{frame:#?}");
    }

    #[test]
    fn a_line_says_it_all_without_colours_or_movement() {
        let line = view(&[]).line();
        assert!(
            line.starts_with("  6.2 s  api 50/s: +50 -100  mail 100/s: +50 -100  user 4 x 5/s: +50"),
            "{line}"
        );
        assert!(line.ends_with("|  redis 0/s"), "{line}");
    }

    #[test]
    fn a_bar_is_as_long_as_what_was_asked() {
        for (allowed, denied, drawn) in
            [(0, 0, 0), (0, 5, BAR), (5, 0, BAR), (1, 1_000, BAR), (1_000, 1, BAR)]
        {
            assert_eq!(bar(allowed, denied, PLAIN).len(), drawn, "{allowed} and {denied}");
        }
        assert!(bar(1, 1_000, PLAIN).starts_with("#."));
    }
}
