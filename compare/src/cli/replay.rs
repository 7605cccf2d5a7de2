//! `topup-compare replay`.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use topup_wire::limit::{Capacity, Rate};

use super::{
    args::{Output, Where},
    run::{command_line, on_fixture, show},
};
use crate::{
    comparison::{About, Comparison},
    limiter::Limiter,
    replay::{self, Options},
    rule::Rule,
    verdict,
};

/// A trace, and a limit to try on it.
#[derive(Clone, Debug, Args)]
pub(super) struct Replay {
    #[command(flatten)]
    place: Where,
    /// The trace: CSV with time,key,count, or a web server's access log in the combined format
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// The most tokens of a bucket, or in a window
    #[arg(long, value_name = "N")]
    #[arg(value_parser = capacity)]
    capacity: Capacity,
    /// The rate at which they come, such as 50/s, 1/60s, 10/min
    #[arg(long, value_name = "RATE")]
    rate: Rate,
    /// Replay so much faster that it takes this long with each limiter
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Only these limiters [default: topup's, and the lazy bucket as usually written]
    #[arg(long, value_name = "LIMITER", value_delimiter = ',')]
    only: Vec<Limiter>,
    /// Worker processes
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
    #[command(flatten)]
    output: Output,
}

pub(super) fn main(args: &Replay) -> anyhow::Result<ExitCode> {
    let trace = replay::read(&args.trace)?;
    let is_usual = |limiter: &Limiter| limiter.is_ours() && !limiter.ideal().is_special();
    let usual = |limiter: &Limiter| is_usual(limiter) || *limiter == Limiter::LazyLua;
    let chosen =
        |limiter: &Limiter| if args.only.is_empty() { usual(limiter) } else { args.only.contains(limiter) };
    let options = Options {
        file: args.trace.file_name().unwrap_or(args.trace.as_os_str()).to_string_lossy().into_owned(),
        rule: Rule::new(args.capacity.get(), args.rate),
        limiters: Limiter::all().iter().copied().filter(chosen).collect(),
        seconds: args.seconds,
    };
    on_fixture(&args.place, args.workers, async |fixture| {
        let version = fixture.server().version().await?;
        let mut comparison = Comparison::new(About::new(version, args.workers, &command_line()));
        replay::run(fixture, &trace, &options, &mut comparison).await?;
        comparison.verdicts = verdict::verdicts(&comparison);
        show(&comparison, &args.output)
    })
}

fn capacity(text: &str) -> Result<Capacity, String> {
    let tokens = text.parse().map_err(|_| "a capacity is a whole number of tokens")?;
    Capacity::new(tokens).map_err(|error| error.to_string())
}
