//! `topupd check`: checks a config file.

use serde_json::json;

use super::{
    args::Check,
    exit::Exit,
    output::{eprint_line, print_line},
};
use crate::{
    config::{Config, Problem, Problems},
    config_source::default_config,
    text::counted,
};

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
        Err(problems) => refuse(&problems, args.json),
    }
}

/// Prints the problems of a config; with `json` as an error with all of them.
pub(super) fn refuse(problems: &Problems, json: bool) -> Exit {
    if json {
        let rows = problems.0.iter().map(|problem| {
            let Problem { file, line, key, message } = problem;
            json!({ "file": file, "line": line, "key": key, "message": message })
        });
        let rows: Vec<_> = rows.collect();
        let error = json!({
            "kind": "config", "exit_code": Exit::Config.code(), "message": problems.to_string(), "problems": rows,
        });
        print_line(&json!({ "error": error }).to_string());
    } else {
        eprint_line(&problems.to_string());
    }
    Exit::Config
}
