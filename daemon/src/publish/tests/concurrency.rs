//! Publishing many limits at once.

use std::{pin::pin, time::Duration};

use redis::Cmd;
use tokio::time::timeout;

use super::{Fixture, publish};
use crate::{
    config::Config,
    publish::{FrozenShards, PublishOptions, desired_limits},
};

fn config(limits: usize) -> Config {
    let limit = |name| format!("[limit.l{name}]\nkeyed = true\ncapacity = 1\nrate = \"1/s\"\n");
    Config::parse(&(0..limits).map(limit).collect::<String>(), "config.toml").unwrap()
}

#[tokio::test]
async fn publishing_many_limits_blocks_no_other_request() {
    let Fixture { _server, connection } = Fixture::start();
    let (limits, none) = (desired_limits(&config(500), 1, |_| true), FrozenShards::new());
    let options = PublishOptions { plan: None, known: &none, announce: true };
    let mut publishing = pin!(publish(&connection, &limits, options));
    let mut others = connection.clone();
    // Polls publishing for a little, then lets it rest during another request, as the daemon's loop does.
    for _ in 0..10 {
        let done = timeout(Duration::from_millis(1), publishing.as_mut()).await;
        assert!(done.is_err(), "500 limits are published too soon for this test");
        let ping = Cmd::ping();
        let asked = ping.query_async::<()>(&mut others);
        timeout(Duration::from_secs(5), asked).await.expect("publishing blocks other requests").unwrap();
    }
    publishing.await.unwrap();
}
