//! The admin server: a live page, metrics, health, limits and buckets over HTTP. Changes need the token.
//!
//! It asks Redis by a connection of its own and reads the engine's published status, so no request makes the engine wait.

mod actions;
mod assets;
mod cached;
mod events;
mod feed;
mod gatherer;
mod guard;
mod history;
mod listener;
mod news;
mod peek;
mod reply;
mod routes;
mod serve;
mod state;
mod token;
mod upcoming;

use std::time::Duration;

use tokio::time::sleep;

pub(crate) use state::AdminState;

use crate::config::AdminConfig;
use guard::Guard;
use listener::Listener;
use token::Token;

/// The time between two attempts to listen.
const RETRY: Duration = Duration::from_secs(5);

/// Serves until it is aborted. An address that is taken, or a token that cannot be read, keeps no bucket from being
/// refilled: it is logged, and tried again.
pub(crate) async fn run(config: AdminConfig, state: AdminState) {
    let mut last = String::new();
    loop {
        match open(&config).await {
            Ok((listener, guard)) => {
                tracing::info!("the admin server listens on {}", listener.address());
                let router = routes::router(state.clone(), guard);
                tokio::join!(serve::serve(listener, router), gatherer::run(&state));
                return;
            }
            Err(error) => {
                let error = format!("{error:#}");
                if error != last {
                    tracing::error!("the admin server cannot start ({error}); trying again every {RETRY:?}");
                }
                last = error;
            }
        }
        sleep(RETRY).await;
    }
}

async fn open(config: &AdminConfig) -> anyhow::Result<(Listener, Guard)> {
    let token = config.token_file.as_deref().map(Token::read).transpose()?;
    Ok((Listener::bind(&config.listen).await?, Guard::new(&config.listen, token)))
}
