//! The config that is shipped runs as it is.

use topup_tests::{Cli, Redis};

use super::{complaints, ready};

const SHIPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../config.toml");

#[tokio::test]
async fn it_passes_the_check_without_a_warning() {
    let told = Cli::new(&["check", "--config", SHIPPED]).run().await;
    assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""));
    assert_eq!(told.stdout, format!("{SHIPPED}: 13 limits, no errors\n"));
}

#[tokio::test]
async fn the_daemon_runs_on_it() {
    let redis = Redis::start().await;
    let daemon = ready(&std::fs::read_to_string(SHIPPED).unwrap(), &redis).await;
    let told = Cli::new(&["take", "mail"]).redis(&redis).run().await;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert_eq!(complaints(&daemon), [""; 0]);
}
