//! `topupd schema`: prints the JSON Schema of a config.

use clap::Args;

use super::{exit::Exit, output::print_line};
use crate::config;

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  topupd schema > topup.schema.json")]
pub(super) struct Schema {
    /// Print the keys as a page in Markdown instead
    #[arg(long)]
    markdown: bool,
}

pub(super) fn main(args: &Schema) -> Exit {
    match args.markdown {
        true => print_line(config::reference().trim_end()),
        false => print_line(&format!("{:#}", config::schema())),
    }
    Exit::Done
}
