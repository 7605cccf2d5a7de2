//! Many limits at once.

use std::{pin::pin, time::Duration};

use redis::Cmd;
use tokio::time::timeout;

use super::{Stage, publish};
use crate::{config::Config, publish::Announced, wanted::wanted};

fn config(limits: usize) -> Config {
    let limit = |name| format!("[limit.l{name}]\nkeyed = true\ncapacity = 1\nrate = \"1/s\"\n");
    Config::parse(&(0..limits).map(limit).collect::<String>(), "config.toml").unwrap()
}

#[tokio::test]
async fn publishing_many_limits_keeps_nobody_else_waiting() {
    let Stage { _server, connection } = Stage::set();
    let (limits, none) = (wanted(&config(500), 1, |_| true), Announced::new());
    let mut publishing = pin!(publish(&connection, &limits, true, &none, true));
    let mut others = connection.clone();
    // Polled a little, then left alone while something else is asked: as the daemon's loop does.
    for _ in 0..10 {
        let done = timeout(Duration::from_millis(1), publishing.as_mut()).await;
        assert!(done.is_err(), "too few limits to be seen at it");
        let ping = Cmd::ping();
        let asked = ping.query_async::<()>(&mut others);
        timeout(Duration::from_secs(5), asked).await.expect("nobody else gets through").unwrap();
    }
    publishing.await.unwrap();
}
