//! Output that nobody reads: `topupd status | head -0`.

use topup_tests::{Cli, Redis};

use super::LIMITS;
use crate::daemon::ready;

/// The exit code of a panic.
const PANICKED: Option<i32> = Some(101);

/// A pipe that nobody reads.
fn closed() -> std::io::PipeWriter {
    std::io::pipe().unwrap().1
}

#[tokio::test]
async fn a_closed_stdout_is_no_panic() {
    let redis = Redis::start().await;
    let _daemon = ready(LIMITS, &redis).await;
    for args in [
        &["status"][..],
        &["status", "--json"],
        &["peek", "api"],
        &["take", "api"],
        &["reset", "api"],
        &["--help"],
    ] {
        let told = Cli::new(args).redis(&redis).stdout(closed()).run().await;
        assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""), "{args:?}");
    }
    let told = Cli::new(&["check"]).config(LIMITS).stdout(closed()).run().await;
    assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""));
}

#[tokio::test]
async fn a_closed_stderr_is_no_panic() {
    let bad = "[redis]\nurl = \"http://there\"\n[limit.api]\ncapacity = 0\n";
    for args in [&["check"][..], &["run"], &["take", "api"], &["take"], &["fetch"]] {
        let told = Cli::new(args).config(bad).stderr(closed()).run().await;
        assert_ne!(told.code, PANICKED, "{args:?}");
    }
    // A warning, and a complaint about something else than the config.
    let told = Cli::new(&["check"]).config("").stderr(closed()).run().await;
    assert_eq!(told.code, Some(0));
    let told = Cli::new(&["take", "api", "--redis", "unix:///nowhere"]).stderr(closed()).run().await;
    assert_eq!(told.code, Some(2));
}
