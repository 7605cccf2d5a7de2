//! Stop, kill, restart, pause: what fault tests do to a Redis.

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use topup_embedded::RedisServer;

use crate::{connect, is_running, ping};

#[test]
fn a_restart_serves_the_same_url_with_a_new_empty_process() {
    let mut server = RedisServer::start().unwrap();
    let (url, pid) = (server.url().to_owned(), server.pid().unwrap());
    redis::Cmd::new().arg(&["SET", "key", "1"]).exec(&mut connect(&url)).unwrap();

    server.restart().unwrap();

    assert_eq!(server.url(), url);
    assert_ne!(server.pid().unwrap(), pid);
    assert!(!is_running(pid));
    let keys: u32 = redis::Cmd::new().arg("DBSIZE").query(&mut connect(&url)).unwrap();
    assert_eq!(keys, 0);
}

#[test]
fn its_port_refuses_while_it_is_down_and_cannot_be_taken() {
    let mut server = RedisServer::builder().tcp().start().unwrap();
    let address = server.url().trim_start_matches("redis://").trim_end_matches('/').to_owned();

    server.kill().unwrap();

    assert_eq!(server.pid(), None);
    assert_eq!(TcpStream::connect(&address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    // More than enough to be given that port, were it free for the kernel to give.
    let others: Vec<_> = (0..200).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    assert!(others.iter().all(|other| other.local_addr().unwrap().to_string() != address));
    server.restart().unwrap();
    assert_eq!(ping(&mut connect(server.url())).unwrap(), "PONG");
}

#[test]
fn a_stop_happens_once_and_a_killed_server_can_be_stopped() {
    let mut server = RedisServer::start().unwrap();
    let pid = server.pid().unwrap();
    server.kill().unwrap();
    server.stop().unwrap();
    server.kill().unwrap();
    assert!(!is_running(pid));
    assert!(server.pause().unwrap_err().is_not_running());
}

#[test]
fn a_server_that_crashed_is_stopped_and_restarted_like_another() {
    let mut server = RedisServer::start().unwrap();
    let crash = redis::Cmd::new().arg(&["SHUTDOWN", "NOSAVE"]).exec(&mut connect(server.url()));
    assert!(crash.is_err());
    server.restart().unwrap();
    assert_eq!(ping(&mut connect(server.url())).unwrap(), "PONG");
}

#[test]
fn a_paused_server_is_silent_until_resumed() {
    let server = RedisServer::start().unwrap();
    let mut connection = connect(server.url());
    connection.set_read_timeout(Some(Duration::from_millis(50))).unwrap();

    server.pause().unwrap();
    assert!(ping(&mut connection).unwrap_err().is_timeout());

    server.resume().unwrap();
    assert_eq!(ping(&mut connect(server.url())).unwrap(), "PONG");
}

#[test]
fn a_paused_server_stops_too() {
    let mut server = RedisServer::start().unwrap();
    let pid = server.pid().unwrap();
    server.pause().unwrap();
    server.stop().unwrap();
    assert!(!is_running(pid));
}
