//! TERM, INT, USR1.

use topup_tests::{Daemon, Launch, Redis, SOON, Signal};

use super::{GONE, left_alone, ready};

const LIMIT: &str = "[limit.api]\ncapacity = 10\nrate = \"5/s\"\n";

/// 128 and the number of TERM, as a shell has it.
const TERMINATED: i32 = 143;

#[tokio::test]
async fn term_and_int_end_it_and_its_heartbeat() {
    for signal in [Signal::TERM, Signal::INT] {
        let redis = Redis::start().await;
        let mut daemon = ready(LIMIT, &redis).await;
        assert_eq!(redis.ask::<u64>(&["ZCARD", "topup:{topup}:daemons"]).await, 1);
        daemon.signal(signal);
        assert!(daemon.wait_exit(GONE).await.success());
        assert_eq!(redis.ask::<Vec<String>>(&["KEYS", "topup:{topup}:daemon*"]).await, [""; 0]);
    }
}

#[tokio::test]
async fn term_ends_it_while_redis_hangs() {
    let redis = Redis::start().await;
    let mut daemon = ready(LIMIT, &redis).await;
    redis.server.pause().unwrap();
    assert!(daemon.end(Signal::TERM, GONE).await.success());
    daemon.wait_for_line("Redis did not answer in time", SOON).await;
}

#[tokio::test]
async fn term_ends_it_while_redis_is_away() {
    let (_redis, mut daemon) = left_alone(LIMIT).await;
    assert!(daemon.end(Signal::TERM, GONE).await.success());
}

#[tokio::test]
async fn term_ends_it_when_redis_never_was_there() {
    let nobody = tempfile::tempdir().unwrap();
    let url = format!("unix://{}", nobody.path().join("redis.sock").display());
    let mut daemon = Launch::new(LIMIT).env("TOPUP_REDIS_URL", url).run();
    daemon.wait_for_line("Redis is away", SOON).await;
    assert!(daemon.end(Signal::TERM, GONE).await.success());
}

#[tokio::test]
async fn term_ends_it_while_a_host_accepts_and_says_nothing() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let mut daemon = Launch::new(LIMIT).env("TOPUP_REDIS_URL", url).run();
    let _held = silent.accept().await.unwrap();
    assert!(daemon.end(Signal::TERM, GONE).await.success());
}

#[tokio::test]
async fn a_second_term_ends_it_at_once_while_redis_hangs() {
    let redis = Redis::start().await;
    let mut daemon = ready(LIMIT, &redis).await;
    redis.server.pause().unwrap();
    daemon.signal(Signal::TERM);
    daemon.wait_for_line("stopping", SOON).await;
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait_exit(GONE).await.code(), Some(TERMINATED));
}

#[tokio::test]
async fn usr1_says_in_one_line_how_it_is_going() {
    let redis = Redis::start().await;
    let mut daemon = ready(LIMIT, &redis).await;
    let before = daemon.lines().len();
    daemon.signal(Signal::USR1);
    let line = daemon.wait_for_line("generation", SOON).await;
    for part in ["connected, 1 limit, ", "generation 1", "lag "] {
        assert!(line.contains(part), "{part:?} in {line}");
    }
    assert_eq!(daemon.lines().len(), before + 1);
}

#[tokio::test]
async fn usr1_says_that_redis_is_away() {
    let mut redis = Redis::start().await;
    let mut daemon = ready(LIMIT, &redis).await;
    redis.server.kill().unwrap();
    // A line about broken connections may come first.
    daemon.wait_for_line("Redis is away: nothing listens at its address", SOON).await;
    daemon.signal(Signal::USR1);
    daemon.wait_for_line("Redis is away: nothing listens at its address, 1 limit", SOON).await;
}

/// Output that nobody reads any more is no reason to let buckets run dry.
#[tokio::test]
async fn a_closed_log_does_not_end_it() {
    let redis = Redis::start().await;
    let (reader, writer) = std::io::pipe().unwrap();
    let daemon = tokio::process::Command::new(Daemon::program())
        .args(["run", "--config", "/dev/stdin"])
        .env("TOPUP_REDIS_URL", redis.url())
        .env_remove("NOTIFY_SOCKET")
        .stdin(on_stdin(&format!("{LIMIT}[limit.user]\nkeyed = true\ncapacity = 10\nrate = \"5/s\"\n")))
        .stderr(writer)
        .kill_on_drop(true)
        .spawn();
    let mut daemon = daemon.unwrap();
    drop(reader);
    topup_tests::eventually(SOON, async || redis.command_calls("exists").await > 0).await;
    let pid = rustix::process::Pid::from_raw(daemon.id().unwrap().cast_signed()).unwrap();
    for signal in [Signal::USR1, Signal::USR1] {
        rustix::process::kill_process(pid, signal).unwrap();
        super::looked(&redis, 3).await;
    }
    assert_eq!(daemon.try_wait().unwrap(), None);
}

fn on_stdin(config: &str) -> std::process::Stdio {
    use std::io::{Seek, Write};
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(config.as_bytes()).unwrap();
    file.rewind().unwrap();
    file.into()
}
