//! `topupd run --embedded`: a Redis of the daemon's own.

use std::os::unix::fs::PermissionsExt;

use rustix::process::{Pid, test_kill_process};
use topup_tests::{Cli, Launch, SOON, Signal, eventually};

use super::GONE;

const LIMIT: &str = "[limit.api]\ncapacity = 2\nrate = \"1/h\"\n";

#[tokio::test]
async fn its_redis_serves_others_by_its_url() {
    let mut daemon = Launch::new(LIMIT).arg("--embedded").run();
    let url = daemon.embedded_url(SOON).await;
    for code in [0, 0, 1] {
        let told = Cli::new(&["take", "api", "--redis", &url]).run().await;
        assert_eq!(told.code, Some(code), "{told:?}");
    }
}

#[tokio::test]
async fn its_redis_ends_with_it() {
    for signal in [Signal::TERM, Signal::KILL] {
        let mut daemon = Launch::new(LIMIT).arg("--embedded").run();
        let client = redis::Client::open(daemon.embedded_url(SOON).await).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let info: String =
            redis::Cmd::new().arg("INFO").arg("server").query_async(&mut connection).await.unwrap();
        let pid =
            info.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap().trim().parse().unwrap();
        daemon.signal(signal);
        daemon.wait_exit(GONE).await;
        eventually(SOON, async || has_ended(pid)).await;
    }
}

/// Gone, or a zombie that waits for whoever adopted it.
fn has_ended(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    test_kill_process(Pid::from_raw(pid).unwrap()).is_err() || !stat.is_ok_and(|stat| !stat.contains(") Z"))
}

#[tokio::test]
async fn without_redis_server_it_says_so_in_one_line() {
    let nothing = tempfile::tempdir().unwrap();
    let mut daemon = Launch::new(LIMIT).arg("--embedded").env("PATH", nothing.path()).run();
    let status = daemon.wait_exit(SOON).await;
    daemon.wait_for_line("redis-server", SOON).await;
    assert_eq!(status.code(), Some(2));
    assert_eq!(daemon.lines().len(), 1, "{:?}", daemon.lines());
}

#[tokio::test]
async fn a_redis_server_that_does_not_start_is_shown_with_its_own_words() {
    let broken = program("#!/bin/sh\necho 'no room for a Redis here'\nexit 3\n");
    let mut daemon = Launch::new(LIMIT).arg("--embedded").env("PATH", path_with(&broken)).run();
    assert_eq!(daemon.wait_exit(SOON).await.code(), Some(2));
    daemon.wait_for_line("no room for a Redis here", SOON).await;
}

/// The first TERM counts from the beginning.
#[tokio::test]
async fn term_ends_it_while_its_redis_starts() {
    let folder = tempfile::tempdir().unwrap();
    let [gate, begun] = ["gate", "begun"].map(|name| folder.path().join(name));
    let slow = program(&format!(
        "#!/bin/sh\nmkfifo {0}\ntouch {1}\nread -r go < {0}\nPATH=${{PATH#*:}} exec redis-server \"$@\"\n",
        gate.display(),
        begun.display()
    ));
    let mut daemon = Launch::new(LIMIT).arg("--embedded").env("PATH", path_with(&slow)).run();
    eventually(SOON, async || begun.exists()).await;
    daemon.signal(Signal::TERM);
    std::fs::write(gate, "go\n").unwrap();
    assert!(daemon.wait_exit(SOON).await.success());
}

/// A folder with this as its `redis-server`.
fn program(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redis-server");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn path_with(folder: &tempfile::TempDir) -> String {
    format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap())
}
