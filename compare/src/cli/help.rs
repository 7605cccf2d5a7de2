//! The pages of help that `scripts/compare --help` prints without a build.

use std::{env, fs, path::Path};

use clap::CommandFactory;

use super::Cli;

/// Sets the pages to what they should be, if it is set.
const WRITE: &str = "TOPUP_WRITE_HELP";

#[test]
fn the_pages_of_help_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("help");
    let mut command = Cli::command().term_width(100).bin_name("scripts/compare");
    command.build();
    let mut pages = vec![("compare".to_owned(), command.render_long_help().to_string())];
    for command in command.get_subcommands_mut().filter(|command| !command.is_hide_set()) {
        pages.push((command.get_name().to_owned(), command.render_long_help().to_string()));
    }
    for (name, page) in pages {
        let path = folder.join(format!("{name}.txt"));
        if env::var_os(WRITE).is_some() {
            fs::write(&path, &page).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap_or_default(), page, "{name}: {WRITE}=1 writes it anew");
    }
}
