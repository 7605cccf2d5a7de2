//! Starting, connecting, and going away.

use topup_embedded::RedisServer;

use crate::{connect, is_running, ping};

#[test]
fn answers_on_its_unix_socket_as_soon_as_it_is_started() {
    let server = RedisServer::start().unwrap();
    assert!(server.url().starts_with("redis+unix:///"), "{}", server.url());
    assert_eq!(ping(&mut connect(server.url())).unwrap(), "PONG");
}

#[test]
fn keeps_nothing_on_disk_and_listens_on_no_port() {
    let server = RedisServer::start().unwrap();
    let mut connection = connect(server.url());
    for (name, value) in [("save", ""), ("appendonly", "no"), ("port", "0"), ("bind", "127.0.0.1")] {
        let found: (String, String) =
            redis::Cmd::new().arg(&["CONFIG", "GET", name]).query(&mut connection).unwrap();
        assert_eq!(found, (name.into(), value.into()));
    }
}

#[test]
fn a_drop_ends_the_process_and_removes_the_folder() {
    let server = RedisServer::start().unwrap();
    let (pid, folder) = (server.pid().unwrap(), server.folder().to_owned());
    assert!(is_running(pid) && folder.exists());
    drop(server);
    assert!(!is_running(pid) && !folder.exists());
}

#[test]
fn outlives_the_thread_that_started_it() {
    let server = std::thread::spawn(RedisServer::start).join().unwrap().unwrap();
    assert_eq!(ping(&mut connect(server.url())).unwrap(), "PONG");
}

#[test]
fn is_in_a_process_group_of_its_own_so_that_ctrl_c_passes_it_by() {
    let server = RedisServer::start().unwrap();
    let pid = rustix::process::Pid::from_raw(server.pid().unwrap().cast_signed()).unwrap();
    assert_eq!(rustix::process::getpgid(Some(pid)).unwrap(), pid);
}

#[test]
fn many_start_at_once_in_one_folder() {
    let parent = tempfile::tempdir().unwrap();
    let start = || RedisServer::builder().dir(parent.path()).tcp().start();
    std::thread::scope(|scope| {
        let starts: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
        let servers: Vec<_> = starts.into_iter().map(|start| start.join().unwrap().unwrap()).collect();
        for server in &servers {
            assert_eq!(ping(&mut connect(server.url())).unwrap(), "PONG");
        }
    });
    assert_eq!(parent.path().read_dir().unwrap().count(), 0);
}
