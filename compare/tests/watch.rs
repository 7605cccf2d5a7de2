//! A limit is watched beside a lazy bucket while its workers take from it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails where it unwraps")]

use std::process::{Child, Command, Output};

use serde_json::Value;
use topup_embedded::{RedisServer, child_command};
use topup_lab::clock::{Micros, SECOND, now};

const PROGRAM: &str = env!("CARGO_BIN_EXE_topup-compare");
const SOON: Micros = 10 * SECOND;

/// A daemon, ended with the test.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Daemon {
    fn of(redis: &RedisServer, folder: &tempfile::TempDir) -> Self {
        let config = folder.path().join("config.toml");
        let limits = "[limit.api]\ncapacity = 5\nrate = \"1/h\"\ncompare_percent = 100\n\
                      [limit.plain]\ncapacity = 5\nrate = \"1/h\"\n";
        std::fs::write(&config, format!("[redis]\nurl = \"{}\"\n{limits}", redis.url())).unwrap();
        let mut daemon = child_command(PROGRAM);
        daemon.args(["daemon", "run", "--config"]).arg(&config);
        Self(daemon.spawn().unwrap())
    }
}

fn watch(redis: &str, more: &[&str]) -> Output {
    Command::new(PROGRAM).args(["watch", "--redis", redis]).args(more).output().unwrap()
}

/// Watches until that goes well.
#[track_caller]
fn seen(redis: &str, limit: &str, done: impl Fn(&Value) -> bool) -> Value {
    let begun = now();
    loop {
        let output = watch(redis, &[limit, "--json", "--times", "1"]);
        let seen = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        if output.status.success() && done(&seen) {
            return seen;
        }
        assert!(now() - begun < SOON, "{seen}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn every_take_of_a_compared_limit_is_held_against_a_lazy_bucket() {
    let (redis, folder) = (RedisServer::builder().start().unwrap(), tempfile::tempdir().unwrap());
    let _daemon = Daemon::of(&redis, &folder);
    seen(redis.url(), "api", |_| true);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let total = runtime.block_on(async {
        let topup = topup::Client::connect(redis.url()).await.unwrap();
        for _ in 0..7 {
            let _ = topup.limit("api").take(1).await.unwrap();
        }
        // Counts go out with the client's next poll.
        let url = redis.url().to_owned();
        let all = move |seen: &Value| seen["both_denied"] == 2;
        tokio::task::spawn_blocking(move || seen(&url, "api", all)).await.unwrap()
    });
    assert_eq!(
        (&total["both_allowed"], &total["only_ours"], &total["only_lazy"]),
        (&5.into(), &0.into(), &0.into())
    );
    assert_eq!((&total["difference"], &total["uncompared"]), (&0.into(), &0.into()));

    let table = watch(redis.url(), &["api", "--every", "10ms", "--times", "2"]);
    let text = String::from_utf8(table.stdout).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[1], ["so", "far", "5", "0", "0", "2", "0.00", "0", "0"], "{text}");
    assert_eq!(rows[2], ["since", "0", "0", "0", "0", "0.00", "0", "0"], "{text}");

    for (limit, why) in
        [("plain", "limit plain is not compared: write compare_percent"), ("none", "no limit none")]
    {
        let refused = watch(redis.url(), &[limit]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&refused.stderr).contains(why), "{refused:?}");
    }
}
