//! `topupd plan`: tells what a reload with a config file would change.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::Args;
use topup_wire::{
    claims::{Owner, Ownership},
    connection::Connection,
    scripts,
};

use super::{
    args::Connect,
    check::refuse,
    exit::Exit,
    output::print_line,
    plan_text::{ChangeRow, PlanReport, render},
    redis::{Failure, ask, check_schema, open, run_as, server},
};
use crate::{
    config::{Config, ConfigFiles},
    config_source::{ConfigSource, INSTALLED_CONFIG, default_config},
    publish::{changes, preview},
    restart::{Fixed, needs_restart},
};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  topupd plan --config new.toml\n  topupd plan --config new.toml --as shop --json"
)]
pub(super) struct Plan {
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    /// The config that the file is to replace: its name, or else the path of its file
    ///
    /// The default is the config that the file names. A file without a name replaces the one at its path, or else the
    /// only config that has a daemon alive.
    #[arg(long = "as", value_name = "CONFIG")]
    replaces: Option<String>,
    #[command(flatten)]
    connect: Connect,
}

pub(super) fn main(args: &Plan) -> Exit {
    let source = ConfigSource {
        file: args.connect.config.config.clone().unwrap_or_else(default_config),
        redis: args.connect.redis.clone(),
    };
    let config = match ConfigFiles::read(&source.file).parse() {
        Ok(config) => config,
        Err(problems) => return refuse(&problems, args.json),
    };
    run_as(args.json, &args.connect, async {
        let mut report = PlanReport::of(&source.file, &config);
        let url = server(&args.connect)?;
        report.redis = url.to_string();
        let told = compare(&open(&url)?, args, &source, &config, &mut report).await;
        let exit = match told.map_err(|failure| failure.of(&url)) {
            Ok(exit) => exit,
            Err(Failure::Undecided(error)) => {
                report.undecided = Some(format!("{error:#}"));
                let owner = named(args, &source, &config);
                add_file_changes(&mut report, &source, &config, &owner);
                report.config = owner.to_string();
                Exit::Undecided
            }
            Err(failure) => return Err(failure),
        };
        if args.json {
            let text = serde_json::to_string_pretty(&report);
            print_line(&text.map_err(|error| Failure::Undecided(error.into()))?);
        } else {
            print_line(&render(&report));
        }
        Ok(exit)
    })
}

/// Compares `config` with what is published.
async fn compare(
    connection: &Connection,
    args: &Plan,
    source: &ConfigSource,
    config: &Config,
    report: &mut PlanReport,
) -> Result<Exit, Failure> {
    check_schema(&mut connection.clone()).await?;
    let seen = ask(scripts::ownership(&mut connection.clone())).await?;
    let owner = replaced(args, source, config, &seen);
    let preview = ask(preview(connection, &seen, &owner, config)).await?;
    report.config = owner.to_string();
    report.alive = seen.daemons.values().filter(|declared| declared.owner == owner).count();
    report.unchanged = preview.unchanged;
    report.changes = preview
        .effects
        .iter()
        .map(|(name, effect)| {
            let (active, source) = (preview.active.get(name).copied(), preview.sources.get(name).cloned());
            ChangeRow::of(name, effect, active, source)
        })
        .collect();
    for note in &preview.notes {
        let list = if note.is_refusal() { &mut report.refused } else { &mut report.notes };
        list.push(note.to_string());
    }
    add_restart(report, config, &owner);
    let is_empty = preview.is_empty() && report.restart.is_empty();
    Ok(if is_empty { Exit::Done } else { Exit::Changes })
}

/// The config that the file is to replace, among those that Redis knows.
fn replaced(args: &Plan, source: &ConfigSource, config: &Config, seen: &Ownership) -> Owner {
    let own = named(args, source, config);
    let is_known = seen.is_alive(&own) || seen.claims.values().any(|claims| claims.contains_key(&own));
    let mut alive = seen.alive.iter();
    match (alive.next(), alive.next()) {
        (Some(only), None) if !is_known && args.replaces.is_none() && config.name.is_none() => only.clone(),
        _ => own,
    }
}

/// The config that the command line or the file names.
fn named(args: &Plan, source: &ConfigSource, config: &Config) -> Owner {
    let of_text = |text: &String| text.parse().unwrap_or_else(|_| Owner::of_file(Path::new(text)));
    args.replaces.as_ref().map(of_text).unwrap_or_else(|| source.owner(config))
}

/// The file of the config `owner` on this machine, unless it is the file of the plan.
fn file_of(owner: &Owner, file: &str) -> Option<PathBuf> {
    let is_other = |path: &PathBuf| match (fs::canonicalize(path), fs::canonicalize(file)) {
        (Ok(path), Ok(file)) => path != file,
        _ => false,
    };
    let path = PathBuf::from(owner.as_str());
    let path = if path.is_absolute() { path } else { INSTALLED_CONFIG.into() };
    Some(path).filter(is_other)
}

/// Adds what takes a restart, as far as the file of the config before shows it.
fn add_restart(report: &mut PlanReport, config: &Config, owner: &Owner) {
    let new_owner = match &config.name {
        Some(name) => name.clone(),
        None if owner.as_str().starts_with('/') => owner.clone(),
        None => Owner::of_file(Path::new(&report.file)),
    };
    let before = file_of(owner, &report.file).and_then(|path| Config::load_without_limits(&path).ok());
    // A file with another name is not that of this config.
    let before = before.filter(|before| before.name.is_none() || before.name.as_ref() == Some(owner));
    let fixed = |config: &'_ Config| (config.redis_url.clone().or_settings_of(config), config.admin.clone());
    let new = fixed(config);
    let old = before.as_ref().map_or_else(|| new.clone(), fixed);
    let running = Fixed { url: Some(&old.0), owner, admin: old.1.as_ref() };
    let new = Fixed { url: Some(&new.0), owner: &new_owner, admin: new.1.as_ref() };
    report.restart = needs_restart(running, new).iter().map(ToString::to_string).collect();
}

/// Adds the differences between the file and that of the config before, where Redis tells nothing.
fn add_file_changes(report: &mut PlanReport, source: &ConfigSource, config: &Config, owner: &Owner) {
    let owner = if file_of(owner, &report.file).is_some() || source.file == Path::new(INSTALLED_CONFIG) {
        owner.clone()
    } else {
        Owner::of_file(Path::new(INSTALLED_CONFIG))
    };
    let Some(path) = file_of(&owner, &report.file) else { return };
    if let Ok(before) = Config::load(&path) {
        report.beside = Some(path.display().to_string());
        report.file_changes = changes(&before, config).iter().map(ToString::to_string).collect();
        add_restart(report, config, &owner);
    }
}
