//! The builder's choices, and what its errors say.

use std::time::Duration;

use topup_embedded::RedisServer;

use crate::{connect, ping};

#[test]
fn tcp_listens_on_a_loopback_port_and_on_the_socket() {
    let server = RedisServer::builder().tcp().start().unwrap();
    assert!(server.url().starts_with("redis://127.0.0.1:"), "{}", server.url());
    assert_eq!(ping(&mut connect(server.url())).unwrap(), "PONG");
    let socket = format!("unix://{}", server.socket().display());
    assert_eq!(ping(&mut connect(&socket)).unwrap(), "PONG");
}

#[test]
fn an_option_reaches_redis() {
    let server = RedisServer::builder().arg("--maxmemory", "64mb").start().unwrap();
    let found: (String, String) =
        redis::Cmd::new().arg(&["CONFIG", "GET", "maxmemory"]).query(&mut connect(server.url())).unwrap();
    assert_eq!(found.1, (64 << 20).to_string());
}

#[test]
fn a_server_that_asks_for_a_password_counts_as_started() {
    let server = RedisServer::builder().arg("--requirepass", "secret").start().unwrap();
    assert_eq!(ping(&mut connect(&format!("{}?pass=secret", server.url()))).unwrap(), "PONG");
}

#[test]
fn a_folder_with_a_space_and_a_percent_sign_makes_a_url_that_connects() {
    let parent = tempfile::tempdir().unwrap();
    let server = RedisServer::builder().dir(parent.path().join("a b%20c")).start().unwrap();
    assert_eq!(ping(&mut connect(server.url())).unwrap(), "PONG");
}

#[test]
fn a_missing_program_says_in_one_line_how_to_get_one() {
    let error = RedisServer::builder().program("no-such-redis").start().unwrap_err();
    assert!(error.is_not_installed());
    assert_eq!(
        error.to_string(),
        "`no-such-redis` is not on the PATH: install it (`apt-get install redis-server`), or give `redis.url` to \
         use a Redis that runs already"
    );
}

#[test]
fn a_wrong_option_is_an_error_with_the_last_words_of_redis() {
    let error = RedisServer::builder().arg("--no-such-option", "1").start().unwrap_err();
    assert!(!error.is_not_installed());
    let message = error.to_string();
    assert!(message.starts_with("`redis-server` ended while starting"), "{message}");
    assert!(message.contains("no-such-option"), "{message}");
}

#[test]
fn a_server_that_does_not_answer_is_given_up_and_removed() {
    let parent = tempfile::tempdir().unwrap();
    let elsewhere = parent.path().join("elsewhere.sock");
    let folders = parent.path().join("folders");
    let error = RedisServer::builder()
        .arg("--unixsocket", &elsewhere)
        .dir(&folders)
        .start_within(Duration::from_millis(500))
        .start()
        .unwrap_err();
    let message = error.to_string();
    assert!(message.contains("did not answer PING within 500ms"), "{message}");
    assert!(message.contains("elsewhere.sock"), "{message}");
    assert_eq!(folders.read_dir().unwrap().count(), 0);
}

#[test]
fn a_folder_too_deep_for_a_socket_says_so() {
    let parent = tempfile::tempdir().unwrap();
    let error = RedisServer::builder().dir(parent.path().join("d".repeat(100))).start().unwrap_err();
    assert!(error.to_string().contains("has room for 107"), "{error}");
}
