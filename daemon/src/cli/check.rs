//! `topupd check`: checks a config file.

use super::{
    args::Check,
    exit::Exit,
    output::{eprint_line, print_line},
};
use crate::{config::Config, config_source::default_config, text::counted};

pub(super) fn main(args: Check) -> Exit {
    let file = args.config.config.unwrap_or_else(default_config);
    match Config::load(&file) {
        Ok(config) => {
            for warning in &config.warnings {
                eprint_line(&format!("warning: {warning}"));
            }
            print_line(&format!("{}: {}, no errors", file.display(), counted(config.limits.len(), "limit")));
            Exit::Done
        }
        Err(problems) => {
            eprint_line(&problems.to_string());
            Exit::Config
        }
    }
}
