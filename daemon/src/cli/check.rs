//! `topupd check`: checks a config file.

use serde_json::json;

use super::{
    args::Check,
    exit::Exit,
    output::{eprint_line, print_line},
};
use crate::{config::Config, config_source::default_config, text::counted};

pub(super) fn main(args: Check) -> Exit {
    let file = args.file.or(args.config.config).unwrap_or_else(default_config);
    match Config::load(&file) {
        Ok(config) if args.json => {
            let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
            let answer = json!({ "file": file, "limits": config.limits.len(), "warnings": warnings });
            print_line(&answer.to_string());
            Exit::Done
        }
        Ok(config) => {
            for warning in &config.warnings {
                eprint_line(&format!("warning: {warning}"));
            }
            print_line(&format!("{}: {}, no errors", file.display(), counted(config.limits.len(), "limit")));
            Exit::Done
        }
        Err(problems) if args.json => {
            let all: Vec<String> = problems.0.iter().map(ToString::to_string).collect();
            let error = json!({
                "kind": "config", "exit_code": Exit::Config.code(), "message": problems.to_string(), "problems": all,
            });
            print_line(&json!({ "error": error }).to_string());
            Exit::Config
        }
        Err(problems) => {
            eprint_line(&problems.to_string());
            Exit::Config
        }
    }
}
