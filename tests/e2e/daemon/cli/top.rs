//! `topupd top` on a real terminal and in a pipe.

use serde_json::Value;
use topup_tests::{Cli, Redis, SOON, Signal, Terminal, eventually, terminal::signal};

use super::LIMITS;
use crate::daemon::ready;

/// Sequences that take the whole screen, and give it back.
const TAKES_SCREEN: &str = "\u{1b}[?1049h";
const GIVES_BACK: &str = "\u{1b}[?1049l";

async fn shows(terminal: &Terminal, text: &str) {
    eventually(SOON, async || terminal.seen().contains(text)).await;
}

#[tokio::test]
async fn the_screen_is_live_and_given_back_whatever_ends_it() {
    let redis = Redis::start().await;
    let mut daemon = ready(LIMITS, &redis).await;
    for end in ["q", "\u{3}", "TERM", "HUP"] {
        let mut terminal = Terminal::open();
        let (mut child, _folder) = Cli::new(&["top", "--every", "250ms"]).redis(&redis).start_on(&terminal);
        shows(&terminal, "lazy").await;
        assert!(terminal.seen().contains(TAKES_SCREEN) && !terminal.is_as_shells_want_it());
        // A pause that begins meanwhile is shown.
        assert_eq!(Cli::new(&["pause", "api", "--for", "1h"]).redis(&redis).run().await.code, Some(0));
        shows(&terminal, "paused").await;
        assert_eq!(Cli::new(&["resume", "api"]).redis(&redis).run().await.code, Some(0));
        terminal.press("?");
        shows(&terminal, "Ctrl-C").await;
        terminal.press(" /user\r");
        shows(&terminal, "only").await;
        match end {
            "TERM" => signal(&child, Signal::TERM),
            "HUP" => signal(&child, Signal::HUP),
            keys => terminal.press(keys),
        }
        let status = tokio::time::timeout(SOON, child.wait()).await.unwrap().unwrap();
        assert_eq!(status.code(), Some(0), "{end:?}: {}", terminal.seen());
        shows(&terminal, GIVES_BACK).await;
        assert!(terminal.is_as_shells_want_it(), "{end:?}");
    }
    // Without colours, and with a dead daemon: the problem stands on top.
    daemon.end(Signal::KILL, SOON).await;
    let mut terminal = Terminal::open();
    let (mut child, _folder) = Cli::new(&["top"]).env("NO_COLOR", "1").redis(&redis).start_on(&terminal);
    shows(&terminal, "alive").await;
    terminal.press("q");
    assert_eq!(tokio::time::timeout(SOON, child.wait()).await.unwrap().unwrap().code(), Some(0));
    assert!(!terminal.seen().contains("\u{1b}[33m") && !terminal.seen().contains("\u{1b}[38;5;3m"));
}

#[tokio::test]
async fn a_pipe_gets_one_table_or_json_and_its_exit_code_is_that_of_status() {
    let redis = Redis::start().await;
    let daemon = ready(LIMITS, &redis).await;
    let told = Cli::new(&["top"]).redis(&redis).run().await;
    assert_eq!((told.code, told.stderr.as_str(), told.stdout.lines().count()), (Some(0), "", 4), "{told:?}");
    assert!(told.stdout.starts_with("limit  mode     rate  allowed/s"), "{told:?}");
    drop(daemon);
    let told = Cli::new(&["top", "--json"]).redis(&redis).run().await;
    let report: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(report["limits"].as_array().map(Vec::len), Some(3));
    let away = Cli::new(&["top", "--redis", "redis://127.0.0.1:1"]).run().await;
    assert_eq!(away.code, Some(2));
    assert!(away.stdout.starts_with("problem: Redis is away"), "{away:?}");
}
