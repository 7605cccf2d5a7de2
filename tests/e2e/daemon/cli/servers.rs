//! Which Redis is asked: the command line before the environment before the config.

use topup_tests::{Cli, Ended, Redis};

use super::LIMITS;
use crate::daemon::ready;

const NOWHERE: &str = "unix:///nowhere/redis.sock";

fn answered(told: &Ended) {
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "allowed, 3 of 3 left\n"), "{told:?}");
}

#[tokio::test]
async fn the_config_names_it() {
    let redis = Redis::start().await;
    let _daemon = ready(LIMITS, &redis).await;
    let config = format!("[redis]\nurl = \"{}\"\n", redis.url());
    answered(&Cli::new(&["peek", "api"]).config(&config).run().await);
    answered(&Cli::new(&["peek", "api", "--config", "other.toml"]).file("other.toml", &config).run().await);
}

#[tokio::test]
async fn the_environment_comes_before_the_config() {
    let redis = Redis::start().await;
    let _daemon = ready(LIMITS, &redis).await;
    let config = format!("[redis]\nurl = \"{NOWHERE}\"\n");
    answered(&Cli::new(&["peek", "api"]).config(&config).redis(&redis).run().await);
}

#[tokio::test]
async fn the_command_line_comes_before_the_environment() {
    let redis = Redis::start().await;
    let _daemon = ready(LIMITS, &redis).await;
    let told = Cli::new(&["peek", "api", "--redis", redis.url()]).env("TOPUP_REDIS_URL", NOWHERE).run().await;
    answered(&told);
}

/// The daemon's config may be unreadable to whoever asks, or be edited just now.
#[tokio::test]
async fn a_config_that_is_not_needed_may_be_bad() {
    let redis = Redis::start().await;
    let _daemon = ready(LIMITS, &redis).await;
    let asked = || Cli::new(&["peek", "api"]).file("config.toml", "[limit.api]\ncapacity = 0\n");
    answered(&asked().redis(&redis).run().await);
    answered(&asked().arg("--redis").arg(redis.url()).run().await);
}
