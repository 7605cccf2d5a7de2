//! `topupd check`.

use super::{Check, Exit, exit::answer};
use crate::{app::default_config, config::Config};

#[allow(clippy::print_stderr, reason = "the place for it")]
pub(super) fn main(args: Check) -> Exit {
    let file = args.config.config.unwrap_or_else(default_config);
    match Config::load(&file) {
        Ok(config) => {
            for warning in &config.warnings {
                eprintln!("warning: {warning}");
            }
            let limits = config.limits.len();
            answer(&format!(
                "{}: {limits} limit{}, no errors",
                file.display(),
                if limits == 1 { "" } else { "s" }
            ));
            Exit::Done
        }
        Err(problems) => {
            eprintln!("{problems}");
            Exit::Config
        }
    }
}
