//! `topupd run`.

use anyhow::Context;
use topup_embedded::RedisServer;

use super::{
    Exit, Run,
    exit::{complain, note},
};
use crate::{
    app::{App, daemon_id, default_config},
    config::Config,
    logging,
    signals::{self, Requests},
    source::Source,
};

pub(super) fn main(args: Run) -> Exit {
    let file = args.config.config.unwrap_or_else(default_config);
    let mut source = Source { file, redis: None };
    let config = match source.load() {
        Ok(config) => config,
        Err(problems) => {
            note(&problems.to_string());
            return Exit::Config;
        }
    };
    if let (false, Err(error)) = (args.embedded, source.redis_url(&config)) {
        complain(&error);
        return Exit::Config;
    }
    logging::start();
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    match start(&mut source, config, args.embedded) {
        Ok(()) => Exit::Done,
        Err(error) => {
            complain(&error);
            Exit::Undecided
        }
    }
}

fn start(source: &mut Source, config: Config, embedded: bool) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start")?;
    // Listened to before they mean anything else: one that comes while Redis starts is heard after that.
    let requests = {
        let _inside = runtime.enter();
        Requests::listen().context("cannot handle signals")?
    };
    signals::exit_on_second().context("cannot handle signals")?;
    // Lives as long as this call; ends with this process however that ends.
    let server = if embedded { Some(RedisServer::start()?) } else { None };
    if let Some(server) = &server {
        source.redis = Some(server.url().parse().context("the embedded Redis")?);
        tracing::info!("embedded Redis on {}; reach it with --redis or TOPUP_REDIS_URL", server.url());
    }
    let served = runtime
        .block_on(async { App::start(source.clone(), config, daemon_id()).await?.serve(requests).await });
    // Whatever still waits for a hung Redis is not waited for.
    runtime.shutdown_background();
    served
}
