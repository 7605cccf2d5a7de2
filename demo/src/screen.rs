//! Standard output: a terminal that is redrawn in place, or lines one after the other.

use std::{
    env,
    io::{IsTerminal, Write, stdout},
};

use anyhow::Context;
use rustix::termios::tcgetwinsize;

/// Rows of the tallest frame, and one for the cursor: a terminal with fewer cannot be redrawn in place.
const ROWS: u16 = 18;

/// Standard output.
#[derive(Debug)]
pub(crate) struct Screen {
    pub(crate) looks: Looks,
    /// Whether frames are redrawn in place.
    pub(crate) in_place: bool,
    /// Lines of the frame on the terminal.
    drawn: usize,
}

/// The looks of text: with colours or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Looks(pub(crate) bool);

// === impl Screen ===

impl Screen {
    /// Standard output as it is.
    pub(crate) fn of_stdout() -> Self {
        let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let terminal = stdout().is_terminal() && set("TERM").is_some_and(|term| term != "dumb");
        let rows = tcgetwinsize(stdout()).map_or(0, |size| size.ws_row);
        let looks = Looks(terminal && set("NO_COLOR").is_none());
        // Some terminals do not say how tall they are.
        Self { looks, in_place: terminal && (rows == 0 || rows >= ROWS), drawn: 0 }
    }

    /// Replaces the frame. The terminal cuts lines that are too long, so that each takes one row.
    pub(crate) fn draw(&mut self, frame: &[String]) -> anyhow::Result<()> {
        let lines: String = frame.iter().map(|line| format!("{line}\x1b[K\n")).collect();
        let text = format!("{}\x1b[?7l{lines}\x1b[?7h", self.back());
        self.drawn = frame.len();
        write(&text)
    }

    /// Writes a line that stays, below the frame.
    pub(crate) fn say(&mut self, line: &str) -> anyhow::Result<()> {
        self.drawn = 0;
        write(&format!("{line}\n"))
    }

    /// Moves to the beginning of the frame, and clears it.
    fn back(&self) -> String {
        if self.drawn == 0 { String::new() } else { format!("\x1b[{}A\x1b[J", self.drawn) }
    }
}

// === impl Looks ===

impl Looks {
    pub(crate) fn bold(self, text: &str) -> String {
        self.painted("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.painted("2", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.painted("32", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.painted("31", text)
    }

    fn painted(self, colour: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn write(text: &str) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("standard output is closed")
}
