//! A Redis whose parent is killed before it can clean up.

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use topup_embedded::RedisServer;

use crate::{eventually, is_running, ping};

/// Where the child that is to be killed makes its Redis; what tells it that it is that child.
const FOLDERS: &str = "TOPUP_EMBEDDED_FOLDERS";
const READY: &str = "redis at ";

/// Not a test by itself: the process that the tests below start and kill, run from this same binary.
#[test]
#[ignore = "run by the other tests here, as the parent to be killed"]
fn parent_to_be_killed() {
    let Some(folders) = env::var_os(FOLDERS) else { return };
    let server = RedisServer::builder().dir(folders).start().unwrap();
    println!("\n{READY}{} {}", server.pid().unwrap(), server.url());
    // Until killed, or until the other side is gone.
    let _ = std::io::stdin().read(&mut [0]);
}

/// Starts that process and waits for its Redis: the process, the pid of its Redis, and the URL.
fn parent(folders: &Path) -> (Child, u32, String) {
    let mut parent = Command::new(env::current_exe().unwrap())
        .args(["parent::parent_to_be_killed", "--exact", "--ignored", "--nocapture"])
        .env(FOLDERS, folders)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(parent.stdout.take().unwrap()).lines().map_while(Result::ok);
    let line = lines.into_iter().find_map(|line| line.strip_prefix(READY).map(str::to_owned));
    let line = line.unwrap();
    let (pid, url) = line.split_once(' ').unwrap();
    (parent, pid.parse().unwrap(), url.to_owned())
}

/// Kills the process, and waits until its Redis is gone.
fn redis_ends_with(mut parent: Child, redis: u32) {
    parent.kill().unwrap();
    parent.wait().unwrap();
    eventually("redis is gone", || !is_running(redis));
}

#[test]
fn redis_ends_with_a_parent_killed_by_sigkill() {
    let folders = tempfile::tempdir().unwrap();
    let (parent, redis, url) = parent(folders.path());
    assert_eq!(ping(&mut crate::connect(&url)).unwrap(), "PONG");

    redis_ends_with(parent, redis);
}

#[test]
fn a_paused_redis_ends_with_its_parent_too() {
    let folders = tempfile::tempdir().unwrap();
    let (parent, redis, _) = parent(folders.path());
    let pid = rustix::process::Pid::from_raw(redis.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();

    redis_ends_with(parent, redis);
}

#[test]
fn the_folder_of_a_killed_parent_goes_with_the_next_start() {
    let folders = tempfile::tempdir().unwrap();
    let (mut parent, _, _) = parent(folders.path());
    parent.kill().unwrap();
    parent.wait().unwrap();
    assert_eq!(folders.path().read_dir().unwrap().count(), 1, "nobody was left to remove it");

    let next = RedisServer::builder().dir(folders.path()).start().unwrap();

    let left: Vec<_> = folders.path().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [next.folder()]);
}
