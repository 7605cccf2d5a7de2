//! A private Redis, tried on a real `redis-server`.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

mod faults;
mod options;
mod parent;
mod start;

use std::time::{Duration, Instant};

use redis::{Connection, RedisResult};

/// Generous: a bound for a machine that is busy, not an expectation.
const DEADLINE: Duration = Duration::from_secs(10);

fn connect(url: &str) -> Connection {
    redis::Client::open(url).and_then(|client| client.get_connection()).unwrap()
}

fn ping(connection: &mut Connection) -> RedisResult<String> {
    redis::Cmd::new().arg("PING").query(connection)
}

#[track_caller]
#[allow(clippy::disallowed_methods, reason = "the tests' one deadline")]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        // Between two looks: the deadline and the look decide.
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn is_running(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        // A zombie has ended, and waits for whoever adopted it to notice.
        .is_ok_and(|stat| !stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')))
}
