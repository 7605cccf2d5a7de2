//! The tenant table: a program edits it, and the limiter follows.

use topup_tests::{Launch, SOON, eventually};

use crate::fixture::{Fixture, lines, run};

const CONFIG: &str = include_str!("../../tenants.toml");

#[tokio::test]
async fn the_limiter_follows_the_table() {
    let dir = tempfile::tempdir().unwrap();
    let table = dir.path().join("tenants.db");
    let edit = async |words: &[&str]| {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_tenants"));
        command.args(words).env("TENANTS", &table).stdout(std::process::Stdio::piped());
        let ended = run(command, "").await;
        assert!(ended.status.success(), "{words:?}: {ended:?}");
        lines(&ended.stdout)
    };
    edit(&["set", "acme", "gold"]).await;
    edit(&["set", "small", "free"]).await;
    let fixture = Fixture::of(Launch::new(CONFIG).env("TENANTS", &table)).await;
    let capacity = async |tenant: &str| {
        let mut command = fixture.command(env!("CARGO_BIN_EXE_tenants"));
        command.args(["take", tenant]);
        let told = String::from_utf8(run(command, "").await.stdout).unwrap();
        told.trim().rsplit(' ').next().and_then(|capacity| capacity.parse::<u64>().ok())
    };
    eventually(SOON, async || capacity("acme").await == Some(50)).await;
    assert_eq!(capacity("small").await, Some(5));
    // An upgrade, a trial of an hour, and one that has ended.
    edit(&["set", "acme", "platinum"]).await;
    edit(&["trial", "small", "gold", "3600"]).await;
    edit(&["trial", "late", "gold", "-1"]).await;
    eventually(SOON, async || capacity("acme").await == Some(500) && capacity("small").await == Some(50))
        .await;
    assert_eq!(capacity("late").await, Some(5));
    assert_eq!(edit(&["list"]).await, ["acme platinum", "late gold", "small gold"]);
    edit(&["remove", "acme"]).await;
    eventually(SOON, async || capacity("acme").await == Some(5)).await;
}
