//! The admin server: a live page, metrics, health, limits and buckets over HTTP. Changes need the token.
//!
//! It has a thread, a runtime and a connection to Redis of its own, and reads the engine's published status. No request
//! makes the engine wait, whatever it costs.

mod actions;
mod assets;
mod cached;
mod events;
mod feed;
mod gatherer;
mod guard;
mod head;
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

use std::{io, thread, time::Duration};

use tokio::{
    runtime,
    sync::oneshot,
    time::{sleep, timeout},
};

pub(crate) use state::AdminSettings;

use crate::config::AdminConfig;
use guard::Guard;
use listener::Listener;
use state::AdminState;
use token::Token;

/// The time between two attempts to listen.
const RETRY: Duration = Duration::from_secs(5);

/// A running admin server. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct AdminServer {
    stop: oneshot::Sender<()>,
    ended: oneshot::Receiver<()>,
}

// === impl AdminServer ===

impl AdminServer {
    /// Begins to serve.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn start(config: AdminConfig, settings: AdminSettings) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name("admin".to_owned()).spawn(move || {
            runtime.block_on(async {
                let state = AdminState::new(settings);
                tokio::select! {
                    () = run(config, state) => {}
                    _ = stopped => {}
                }
            });
            // The socket is gone.
            drop(end);
            runtime.shutdown_background();
        })?;
        Ok(Self { stop, ended })
    }

    /// Ends it, and waits until its socket is gone, for no longer than `grace`.
    pub(crate) async fn stop(self, grace: Duration) {
        drop(self.stop);
        let _ = timeout(grace, self.ended).await;
    }
}

/// Serves until it is dropped. An address that is taken, or a token that cannot be read, keeps no bucket from being
/// refilled: it is logged, and tried again.
async fn run(config: AdminConfig, state: AdminState) {
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
