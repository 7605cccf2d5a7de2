//! Traffic from a file: CSV with time, key and count, or the access log of a web server.

use std::collections::HashMap;

use anyhow::{Context, anyhow, bail, ensure};
use chrono::DateTime;

use topup_lab::clock::{Micros, SECOND};

/// A take of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When, since the first.
    pub at: Micros,
    /// Whose bucket, as a number: its place in [`Trace::keys`].
    pub key: u32,
    /// Tokens.
    pub count: u32,
}

/// Takes in order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// All takes.
    pub entries: Vec<Entry>,
    /// The keys, as the file names them.
    pub keys: Vec<String>,
}

/// A line of a file, read.
struct Line {
    at: Micros,
    key: String,
    count: u32,
}

// === impl Trace ===

impl Trace {
    /// The trace that `text` holds; `file` is its name in errors.
    ///
    /// Lines are `time,key,count`, or those of a combined access log, whose keys are the addresses of clients. A time is
    /// in seconds since any instant, with decimals, or as in RFC 3339. The count may be left out, and so may a line of
    /// headings.
    ///
    /// # Errors
    /// When a line is neither, with its number.
    pub fn parse(text: &str, file: &str) -> anyhow::Result<Self> {
        let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let lines = if is_log(first) { log(text, file)? } else { csv(text, file)? };
        Ok(Self::of(lines))
    }

    /// Its length.
    pub fn length(&self) -> Micros {
        self.entries.last().map_or(0, |entry| entry.at)
    }

    fn of(mut lines: Vec<Line>) -> Self {
        // Logs are written when answers are, not when requests come.
        lines.sort_by_key(|line| line.at);
        let first = lines.first().map_or(0, |line| line.at);
        let (mut numbers, mut trace) = (HashMap::new(), Self::default());
        for line in lines {
            let keys = &mut trace.keys;
            let key = *numbers.entry(line.key).or_insert_with_key(|key| {
                keys.push(key.clone());
                keys.len() as u32 - 1
            });
            trace.entries.push(Entry { at: line.at - first, key, count: line.count });
        }
        trace
    }
}

fn csv(text: &str, file: &str) -> anyhow::Result<Vec<Line>> {
    let mut reader = ::csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(::csv::Trim::All)
        .from_reader(text.as_bytes());
    let mut lines = Vec::new();
    for (index, record) in reader.records().enumerate() {
        let record = record.with_context(|| file.to_owned())?;
        let number = record.position().map_or(index as u64 + 1, ::csv::Position::line);
        let read = || -> anyhow::Result<Line> {
            let field = |index: usize| record.get(index).filter(|field| !field.is_empty());
            let at = instant(field(0).context("a line is time,key,count")?)?;
            let key = field(1).context("a line is time,key,count: there is no key")?.to_owned();
            let count = field(2).map_or(Ok(1), str::parse).ok().filter(|count| *count > 0);
            Ok(Line { at, key, count: count.context("a count is a whole number of tokens, at least 1")? })
        };
        match read() {
            Ok(line) => lines.push(line),
            // Headings.
            Err(_) if index == 0 => {}
            Err(error) => return Err(error.context(format!("{file}:{number}"))),
        }
    }
    Ok(lines)
}

/// Seconds, or a date and time.
fn instant(text: &str) -> anyhow::Result<Micros> {
    if let Ok(seconds) = text.parse::<f64>() {
        // Beyond, doubles are no longer whole µs.
        ensure!((0.0..9e9).contains(&seconds), "{text:?} is not a time: seconds are 0 to 9,000,000,000");
        return Ok((seconds * SECOND as f64).round() as Micros);
    }
    let advice = || {
        anyhow!("{text:?} is not a time: write seconds, such as 1700000000.25, or 2026-11-21T12:00:00.25Z")
    };
    let at = DateTime::parse_from_rfc3339(text).map_err(|_| advice())?.timestamp_micros();
    u64::try_from(at).map_err(|_| advice())
}

/// Whether a line looks like one of a combined access log.
fn is_log(line: &str) -> bool {
    line.contains(" [") && line.contains("] \"")
}

fn log(text: &str, file: &str) -> anyhow::Result<Vec<Line>> {
    let mut lines: Vec<Line> = Vec::new();
    let numbered = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    for (index, line) in numbered {
        match log_line(line) {
            Some(line) => lines.push(line),
            None => bail!(
                "{file}:{}: not a line of a combined access log, such as \
                 192.0.2.1 - - [21/Nov/2026:12:00:00 +0000] \"GET / HTTP/1.1\" 200 512",
                index + 1
            ),
        }
    }
    spread(&mut lines);
    Ok(lines)
}

fn log_line(line: &str) -> Option<Line> {
    let (before, rest) = line.split_once(" [")?;
    let (time, _) = rest.split_once("] ")?;
    let at = DateTime::parse_from_str(time, "%d/%b/%Y:%H:%M:%S %z").ok()?.timestamp_micros();
    Some(Line { at: at.try_into().ok()?, key: before.split_whitespace().next()?.to_owned(), count: 1 })
}

/// A log knows whole seconds only: what came in one is spread evenly over it, in order.
fn spread(lines: &mut [Line]) {
    lines.sort_by_key(|line| line.at);
    for second in lines.chunk_by_mut(|a, b| a.at == b.at) {
        let count = second.len() as Micros;
        for (index, line) in second.iter_mut().enumerate() {
            line.at += index as Micros * SECOND / count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        oracle::{Ideal, Oracle},
        replay::outcome,
        rule::Rule,
    };

    fn entries(text: &str) -> Vec<(Micros, u32, u32)> {
        let trace = Trace::parse(text, "t.csv").unwrap();
        trace.entries.iter().map(|entry| (entry.at, entry.key, entry.count)).collect()
    }

    #[test]
    fn lines_are_read_as_written_and_put_in_order() {
        let expected = [(0, 0, 1), (250_000, 1, 3), (1_000_000, 0, 1)];
        assert_eq!(entries("time,key,count\n10.25,\"b,c\",3\n10,a\n11,a,1\n"), expected);
        assert_eq!(entries("1700000000.5,a\n1700000000.75,b,3\n1700000001.5,a"), expected);
        let dates = "2026-11-21T12:00:00Z,a\n2026-11-21T13:00:00.25+01:00,b,3\n2026-11-21T12:00:01Z,a";
        assert_eq!(entries(dates), expected);
    }

    #[test]
    fn requests_of_one_second_of_a_log_are_spread_over_it() {
        let line = |who: &str, second: u32| {
            format!("{who} - - [21/Nov/2026:12:00:0{second} +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"x\"\n")
        };
        let text = [line("192.0.2.1", 1), line("192.0.2.2", 0), line("192.0.2.1", 0)].concat();
        assert_eq!(entries(&text), [(0, 0, 1), (500_000, 1, 1), (1_000_000, 1, 1)]);
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, message) in [
            ("1,a\nsoon,b", "t.csv:2: \"soon\" is not a time: write seconds"),
            ("1,a\n2", "t.csv:2: a line is time,key,count: there is no key"),
            ("1,a\n2,b,0", "t.csv:2: a count is a whole number of tokens, at least 1"),
            ("1,a\n-2,b", "t.csv:2: \"-2\" is not a time"),
            (
                "h - - [21/Nov/2026:12:00:00 +0000] \"GET\"\nh - - [yesterday] \"GET\"",
                "t.csv:2: not a line of a",
            ),
        ] {
            let error = format!("{:#}", Trace::parse(text, "t.csv").unwrap_err());
            assert!(error.starts_with(message), "{error}");
        }
    }

    #[test]
    fn the_outcome_names_who_is_denied_most() {
        let burst: String = (0..30)
            .map(|turn| format!("{}.0,{}\n", turn / 10, if turn % 10 == 0 { "calm" } else { "loud" }))
            .collect();
        let trace = Trace::parse(&burst, "t.csv").unwrap();
        let outcome = outcome(
            &trace,
            &Oracle { ideal: Ideal::Bucket, rule: Rule::per_second(5, 1), offset: 0, change: None },
        );
        // 5 at once, and one for each second that passes.
        assert_eq!((outcome.asked, outcome.denied, outcome.keys_denied), (30, 20, 1));
        assert_eq!(outcome.most_denied, [("loud".to_owned(), 20, 27)]);
    }
}
