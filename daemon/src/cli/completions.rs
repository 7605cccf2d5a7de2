//! `topupd completions`: prints the completions of a shell.

use std::io::Write;

use clap::CommandFactory;

use super::{args::Completions, command::Cli, exit::Exit};

pub(super) fn main(args: &Completions) -> Exit {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "topupd", &mut text);
    let _ = std::io::stdout().lock().write_all(&text);
    Exit::Done
}
