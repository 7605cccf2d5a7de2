//! The command line of `topup-demo`.

use clap::{Parser, Subcommand};

/// Shows the rate limiter topup at work, and checks that its laws hold.
///
/// Starts a private Redis, the daemon topupd and four worker processes. The workers together ask for three times as much as
/// most limits allow. A table shows the answers. Half way, the rate of one limit is raised in the daemon's config. At the
/// end, all allowed takes are compared with those of a perfect limiter.
///
/// Nothing is left behind, and no other Redis is touched.
#[derive(Debug, Parser)]
#[command(name = "topup-demo", version, after_help = AFTER_HELP, max_term_width = 100)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// Seconds for which the workers ask
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(6..=600))]
    pub(crate) seconds: u64,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

const AFTER_HELP: &str = "\
The laws:
  never over     in every window of w seconds, each bucket allows at most
                 capacity + rate x w
  never starved  each limit allows at least 97 % of capacity + rate x time,
                 less one token a bucket

Environment:
  NO_COLOR  No colours, even on a terminal

Exit codes:
  0    the laws held
  1    a law did not hold, and the last line says which
  2    the demo could not run
  64   wrong usage
  130  ended by Ctrl-C (143 by TERM, 129 by HUP)";

/// Another role of this program.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Take from buckets as standard input says
    #[command(hide = true)]
    Worker { redis: String },
}
