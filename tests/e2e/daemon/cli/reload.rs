//! `topupd reload`: the daemons of this host read their config again, and the command tells what came of it.

use serde_json::Value;
use topup_tests::{Cli, Redis, SOON, Signal};

use crate::daemon::ready;

const CONFIG: &str = "[limit.api]\ncapacity = 3\nrate = \"1/h\"\n";

#[tokio::test]
async fn a_reload_is_told_as_applied_or_refused_with_all_problems() {
    let redis = Redis::start().await;
    let mut daemon = ready(CONFIG, &redis).await;
    let config = daemon.config().display().to_string();
    let reload = async |more: &[&str]| Cli::new(&[&["reload"], more].concat()).redis(&redis).run().await;
    let applied = format!(" applied config {config}\n");

    // Nothing has changed, and it is told all the same.
    for _ in 0..2 {
        let told = reload(&[]).await;
        assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""), "{told:?}");
        assert!(told.stdout.ends_with(&applied), "{told:?}");
    }
    daemon.rewrite_config(&CONFIG.replace('3', "5"));
    assert!(reload(&["--pid", &daemon.pid().to_string()]).await.stdout.ends_with(&applied));
    daemon.wait_for_line("reloaded: ", SOON).await;

    daemon.rewrite_config("[limit.api]\ncapacity = 0\nrate = \"fast\"\n");
    let told = reload(&[]).await;
    assert_eq!(told.code, Some(78), "{told:?}");
    assert!(told.stdout.contains(" refused config ") && told.stdout.lines().count() == 3, "{told:?}");
    let told = reload(&["--json"]).await;
    let told = &serde_json::from_str::<Value>(&told.stdout).unwrap()["daemons"][0];
    assert_eq!(
        (&told["applied"], told["problems"].as_array().map(Vec::len)),
        (&Value::Bool(false), Some(2)),
        "{told}"
    );
    daemon.rewrite_config(CONFIG);
    assert!(reload(&["--config", &config]).await.stdout.ends_with(&applied));

    // No such daemon, and none at all.
    for wrong in [&["--pid", "1"][..], &["--config", "/nowhere.toml"]] {
        let told = reload(wrong).await;
        assert_ne!(told.code, Some(0), "{wrong:?}");
        assert!(!told.stderr.is_empty());
    }
    daemon.end(Signal::TERM, SOON).await;
    let told = reload(&["--json"]).await;
    assert_eq!((told.code, told.stderr.as_str()), (Some(2), ""), "{told:?}");
    assert!(told.stdout.contains("is alive in this Redis"), "{told:?}");
}
