//! The command line of `topupd`: parses the arguments and runs one command.

mod acl;
mod args;
mod assign;
mod bucket;
mod check;
mod command;
mod completions;
mod define;
mod exit;
mod explain;
mod import;
mod limit_name;
mod limits;
mod man;
mod output;
#[cfg(test)]
mod page;
mod pause;
mod plan;
mod plan_text;
mod redis;
mod reload;
mod remove;
mod run;
mod schema;
mod set;
mod status;
mod status_text;
mod table;
mod throttle;
mod top;

use std::ffi::OsString;

use clap::{Parser, error::ErrorKind};
use command::{Cli, Command};
use output::eprint_line;
use redis::Failure;
use topup_wire::connection;

pub use exit::Exit;

/// Runs the command line `args`, and returns the exit code.
pub fn main(args: impl IntoIterator<Item = OsString>) -> Exit {
    let args: Vec<OsString> = args.into_iter().collect();
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => {
            let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            if !is_help && args.iter().any(|arg| arg == "--json") {
                let text = error.to_string();
                let text = without_urls(&text, &args).unwrap_or(text);
                let message =
                    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
                return Failure::Usage(anyhow::Error::msg(message)).print(true);
            }
            match without_urls(&error.to_string(), &args) {
                Some(text) => eprint_line(text.trim_end()),
                None => drop(error.print()),
            }
            return if is_help { Exit::Done } else { Exit::Usage };
        }
    };
    match cli.command {
        Command::Run(args) => run::main(args),
        Command::Check(args) => check::main(args),
        Command::Plan(args) => plan::main(&args),
        Command::Schema(args) => schema::main(&args),
        Command::Take(args) => bucket::take(&args),
        Command::Peek(args) => bucket::peek(&args),
        Command::Reset(args) => bucket::reset(&args),
        Command::Throttle(args) => throttle::main(&args),
        Command::Limits(args) => limits::main(&args),
        Command::Set(args) => set::set(&args),
        Command::Drain(args) => set::drain(&args),
        Command::Pause(args) => pause::pause(&args),
        Command::Resume(args) => pause::resume(&args),
        Command::Assign(args) => assign::assign(&args),
        Command::Unassign(args) => assign::unassign(&args),
        Command::Explain(args) => explain::main(&args),
        Command::Import(args) => import::import(&args),
        Command::Export(args) => import::export(&args),
        Command::Define(args) => define::define(&args),
        Command::Undefine(args) => define::undefine(&args),
        Command::Reload(args) => reload::main(&args),
        Command::Remove(args) => remove::main(&args),
        Command::Acl(args) => acl::main(&args),
        Command::Status(args) => status::main(&args),
        Command::Top(args) => top::main(&args),
        Command::Man(args) => man::main(&args),
        Command::Completions(args) => completions::main(&args),
    }
}

/// `text` with each URL of `args` redacted; `None` if it repeats none. A URL may hold a password.
fn without_urls(text: &str, args: &[OsString]) -> Option<String> {
    let mut is_url = false;
    let mut shown = text.to_owned();
    for arg in args.iter().map(|arg| arg.to_string_lossy()) {
        let value =
            arg.strip_prefix("--").and_then(|arg| arg.split_once('=')).map_or(&*arg, |(_, value)| value);
        if (is_url || arg.starts_with("--redis=") || value.contains([':', '@'])) && !value.is_empty() {
            shown = shown.replace(value, &connection::redacted(value));
        }
        is_url = arg == "--redis";
    }
    (shown != text).then_some(shown)
}
