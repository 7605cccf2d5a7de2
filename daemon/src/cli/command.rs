//! The command line: all commands, and the text of its help.

use clap::{Parser, Subcommand};

use super::{
    args::{Acl, Bucket, Check, Completions, Man, Remove, Run, Status, Take, Throttle},
    assign::{Assign, Unassign},
    define::{Define, Undefine},
    explain::Explain,
    import::{Export, Import},
    limits::Limits,
    pause::{Pause, Resume},
    plan::Plan,
    reload::Reload,
    schema::Schema,
    set::{Drain, Set},
    top::Top,
};

/// Keeps token buckets in Redis topped up.
///
/// A config file names the limits. Workers link the client crate and take tokens from the buckets of these limits.
/// `topupd run` is the service. The other commands check a config, or look at published limits and take by hand.
#[derive(Debug, Parser)]
#[command(name = "topupd", version, after_help = AFTER_HELP, max_term_width = 100)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
Environment:
  TOPUP_REDIS_URL  URL of the Redis; overrides the systemd credential redis-url and redis.url of the config
  TOPUP_LOG        Least level to log: error, warn, info (default), debug, trace
  NO_COLOR         No colours, even on a terminal

Errors:
  With --json, an error is on standard output, where the answer would be:
  {\"error\": {\"kind\": \"usage\" | \"config\" | \"undecided\", \"exit_code\": N, \"message\": \"...\"}}

Exit codes:
  0   done, or the take was allowed; of status: all is well
  1   the take was denied
  2   no decision: Redis is away or refuses, no such limit is published, or a live daemon has the limit to remove
  3   of status: nothing is published
  4   of status: no daemon is alive, and workers go on without
  5   of status: something needs a look
  6   of plan: the reload would change something, or refuse a limit
  64  wrong usage
  78  wrong config";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run the daemon: publish the limits of the config and keep their buckets topped up
    ///
    /// TERM and INT end the daemon within a second, and a second signal ends it at once. HUP reads the config again. A
    /// file with a mistake is refused as a whole. USR1 logs the status in one line. Any number of daemons may serve one
    /// Redis.
    Run(Run),
    /// Check a config file, and print every problem with its line
    Check(Check),
    /// Tell what a reload with a config file would change, and change nothing
    ///
    /// Only reads from Redis. Compares the file with what is published, whether a daemon runs or not. Exits with 6 if
    /// anything would change or be refused. While Redis is away, it tells what the file alone shows, and exits with 2.
    Plan(Plan),
    /// Print a JSON Schema of the config, with which editors complete and check
    Schema(Schema),
    /// Take tokens from a bucket, all or nothing
    Take(Take),
    /// Print the answer that a take of one token would get, and take nothing
    #[command(after_help = "Examples:\n  topupd peek api\n  topupd peek user --key alice --json")]
    Peek(Bucket),
    /// Fill a bucket
    #[command(after_help = "Example:\n  topupd reset user --key alice")]
    Reset(Bucket),
    /// Answer like CL.THROTTLE of the Redis module redis-cell: five whole numbers, one on each line
    ///
    /// The first number is 1 if limited, else 0. Then come the most at once, MAX_BURST + 1, and the number left now. The
    /// fourth is the seconds until the same request is allowed, or -1 if it was. The fifth is the seconds until the most
    /// is left again. The module answers if Redis has it, or else a script of topup. No limit needs to be published.
    Throttle(Throttle),
    /// List the published limits
    Limits(Limits),
    /// Set the tokens of a bucket
    ///
    /// Tokens that are too many are taken, and those that are missing are put back. Traffic goes on beside it, and tokens
    /// that workers have in hand stay theirs.
    Set(Set),
    /// Empty a bucket
    Drain(Drain),
    /// Pause a limit, or one key of it, in all workers
    ///
    /// Workers learn of it within a quarter of a second. Takes are denied until the end, and waiters wait. A pause needs no
    /// daemon, and does not shorten a longer one.
    Pause(Pause),
    /// End a pause
    Resume(Resume),
    /// Assign a key to a plan, or to exempt or deny
    ///
    /// The assignment goes before those of the config. It applies 1.25 s later, in all workers at once. Tokens stay as the
    /// limit's on_change says.
    Assign(Assign),
    /// End the assignment of a key that was made by hand
    Unassign(Unassign),
    /// Tell the plan of a key, and why
    Explain(Explain),
    /// Replace all assignments of a limit by those of a file
    ///
    /// If any row is wrong, all wrong rows are named and nothing changes. All changes apply from one instant on.
    Import(Import),
    /// Print all assignments of a limit that were made by hand
    Export(Export),
    /// Define a limit that no config has, renew it, or change its terms
    ///
    /// It has an owner, and ends unless it is renewed in time. Programs define limits in the same way. A change of
    /// terms is in force for all workers at one instant. It works whether a daemon runs or not.
    Define(Define),
    /// End a limit that was defined, and remove its buckets
    Undefine(Undefine),
    /// Have the daemons of this host read their config again, and tell whether they applied it
    ///
    /// If a config is refused, its problems are named, the daemon keeps the config before, and the exit code is 78.
    Reload(Reload),
    /// Remove a published limit that no live daemon has in its config
    ///
    /// The limit goes with all its buckets. If a live daemon has the limit in its config, only the claims of configs
    /// without a live daemon end. The live daemon then takes the limit over.
    Remove(Remove),
    /// Show whether all is well, the live daemons, and the published limits with their active buckets
    ///
    /// The answer comes within 2 s whatever state Redis is in. It names each problem and what to do about it, and the
    /// exit code tells the worst one.
    Status(Status),
    /// Show limits, daemons and problems live in the terminal
    ///
    /// Where standard output is no terminal, one plain table is printed instead.
    Top(Top),
    /// Print the Redis users of workers, daemons, viewers and definers, each with the rights it needs
    ///
    /// A definer is a worker that defines limits, too.
    ///
    /// One command on each line, for redis-cli. A user has no password yet, so nobody can sign in as it:
    /// ACL SETUSER topup-worker '>PASSWORD'. Redis 7.0 or newer.
    Acl(Acl),
    /// Print the manual page, for man(1)
    Man(Man),
    /// Print the completions of a shell
    ///
    /// For bash: topupd completions bash > ~/.local/share/bash-completion/completions/topupd
    Completions(Completions),
}
