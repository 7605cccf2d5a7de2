//! `topupd run`: starts the daemon, with a private Redis if asked.

use std::collections::BTreeSet;

use anyhow::Context;
use topup_embedded::RedisServer;
use topup_wire::limit::LimitName;

use super::{
    args::Run,
    exit::Exit,
    output::{eprint_line, print_error},
};
use crate::{
    app::{App, NothingPublished, daemon_id},
    config_source::{ConfigSource, LoadedFiles, default_config},
    logging,
    signals::{self, Requests},
};

pub(super) fn main(args: Run) -> Exit {
    let take_over: BTreeSet<LimitName> = args.take_over.into_iter().collect();
    let file = args.config.config.unwrap_or_else(default_config);
    let mut source = ConfigSource { file, redis: None };
    let files = source.read();
    let (config, refused) = match files.parse() {
        Ok(config) => (config, None),
        Err(problems) => match source.load_without_limits() {
            // The daemon refills the published limits. A private Redis has none.
            Ok(config) if !args.embedded => (config, Some(problems)),
            _ => {
                eprint_line(&problems.to_string());
                return Exit::Config;
            }
        },
    };
    if let Some(name) = take_over.iter().find(|name| !config.limits.contains_key(*name)) {
        eprint_line(&format!(
            "topupd: --take-over {name}: {} has no limit of that name",
            source.file.display()
        ));
        return Exit::Usage;
    }
    if let (false, Err(error)) = (args.embedded, source.redis_url(&config)) {
        print_error(&error);
        return Exit::Config;
    }
    logging::start();
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    match start(&mut source, LoadedFiles { files, config, refused }, take_over, args.embedded) {
        Ok(()) => Exit::Done,
        Err(error) if error.is::<NothingPublished>() => {
            print_error(&error);
            Exit::Config
        }
        Err(error) => {
            print_error(&error);
            Exit::Undecided
        }
    }
}

fn start(
    source: &mut ConfigSource,
    loaded: LoadedFiles,
    take_over: BTreeSet<LimitName>,
    embedded: bool,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start")?;
    // Before the embedded Redis starts: a signal during that start is handled after it.
    let requests = {
        let _inside = runtime.enter();
        Requests::listen().context("cannot handle signals")?
    };
    signals::exit_on_second().context("cannot handle signals")?;
    // The server ends with this function, or with the process.
    let server = if embedded { Some(RedisServer::start()?) } else { None };
    if let Some(server) = &server {
        source.redis = Some(server.url().parse().context("the embedded Redis")?);
        tracing::info!(
            "embedded Redis on {}; name it with --redis or TOPUP_REDIS_URL to reach it",
            server.url()
        );
    }
    let served = runtime.block_on(async {
        App::start(source.clone(), loaded, daemon_id(), take_over).await?.serve(requests).await
    });
    // Leaves requests to a hung Redis behind.
    runtime.shutdown_background();
    served
}
