//! The command line of `topup-demo`.

use std::{ffi::OsString, path::PathBuf};

use clap::{Parser, Subcommand, error::ErrorKind};

/// Shows the rate limiter topup at work, and checks that it keeps its word.
///
/// Starts a private Redis, the daemon topupd and four worker processes, which together ask for more than they may: three
/// times as much of most limits. A table shows what they get; half way, the rate of one limit is raised in the daemon's
/// config while all goes on. At the end, all that was allowed is compared with what a perfect limiter would have allowed.
///
/// Nothing is left behind, and no other Redis is touched.
#[derive(Debug, Parser)]
#[command(name = "topup-demo", version, after_help = AFTER_HELP, max_term_width = 100)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// How long the workers ask
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(6..=600))]
    pub(crate) seconds: u64,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

const AFTER_HELP: &str = "\
What is checked:
  never over     in every window of w seconds, each bucket allowed at most
                 capacity + rate x w + one tick's credit
  never starved  each limit allowed at least 97 % of capacity + rate x time,
                 less one token a bucket

Environment:
  NO_COLOR  No colours, even on a terminal

Exit codes:
  0    the laws held
  1    a law was broken, and the summary says which
  2    the demo could not run
  64   wrong usage
  130  ended by Ctrl-C (143 by TERM, 129 by HUP)";

/// What the demo starts itself as.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Take from buckets as told on standard input
    #[command(hide = true)]
    Worker { redis: String },
    /// Become a program that ends with its parent
    #[command(hide = true)]
    Leash {
        parent: i32,
        program: PathBuf,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

// === impl Cli ===

impl Cli {
    /// Reads the command line. `Err` once the answer has been printed: whether the user asked for it.
    pub(crate) fn read() -> Result<Self, bool> {
        Self::try_parse().map_err(|error| {
            let _ = error.print();
            matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)
        })
    }
}
