//! `limited`, the script for cron jobs.

use std::path::Path;

use topup_tests::Daemon;

use crate::fixture::{Fixture, lines, run};

const LIMITED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/limited");

#[tokio::test]
async fn a_command_runs_as_often_as_its_limit_allows_on_all_machines_together() {
    let fixture = Fixture::start().await;
    let beside = Daemon::program().parent().and_then(Path::to_str).unwrap();
    let path = format!("{beside}:{}", std::env::var("PATH").unwrap());
    let report = |limit: &str| {
        let mut command = fixture.command(LIMITED);
        command.args([limit, "echo", "reported"]).env("PATH", &path).env("WAIT", "10ms");
        command
    };
    for _ in 0..2 {
        let ended = run(report("report"), "").await;
        assert_eq!((ended.status.code(), lines(&ended.stdout)), (Some(0), vec!["reported".to_owned()]));
    }
    let denied = run(report("report"), "").await;
    assert_eq!((denied.status.code(), lines(&denied.stdout)), (Some(1), vec![]));
    let unknown = run(report("no-such-limit"), "").await;
    assert_eq!((unknown.status.code(), lines(&unknown.stdout)), (Some(2), vec![]), "{unknown:?}");
}
