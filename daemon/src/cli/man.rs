//! `topupd man`: prints the manual page, or writes one for each command.

use std::{fs, io::Write, path::Path};

use anyhow::Context;
use clap::CommandFactory;

use super::{args::Man, command::Cli, exit::Exit, output::print_error};

/// Programs for administrators.
const SECTION: &str = "8";

pub(super) fn main(args: &Man) -> Exit {
    let result = match &args.folder {
        Some(folder) => write_all(folder),
        None => print(),
    };
    match result {
        Ok(()) => Exit::Done,
        Err(error) => {
            print_error(&error);
            Exit::Usage
        }
    }
}

fn print() -> anyhow::Result<()> {
    let mut page = Vec::new();
    page_of(command()).render(&mut page)?;
    let _ = std::io::stdout().lock().write_all(&page);
    Ok(())
}

/// Writes `topupd.8`, and `topupd-COMMAND.8` for each command.
fn write_all(folder: &Path) -> anyhow::Result<()> {
    let unwritable = || format!("cannot write manual pages into {}", folder.display());
    fs::create_dir_all(folder).with_context(unwritable)?;
    let command = command();
    for command in command.get_subcommands().chain([&command]) {
        page_of(command.clone()).generate_to(folder).with_context(unwritable)?;
    }
    Ok(())
}

/// Without `topupd help`, which has no options. Built: only then has each command its full name.
fn command() -> clap::Command {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    command
}

fn page_of(command: clap::Command) -> clap_mangen::Man {
    clap_mangen::Man::new(command).section(SECTION).manual("topup")
}
