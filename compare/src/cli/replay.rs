//! `topup-compare replay`.

use std::process::ExitCode;

use super::{
    Replay,
    run::{command_line, on_fixture, show},
};
use crate::{
    comparison::{About, Comparison},
    limiter::Limiter,
    replay::{self, Options},
    rule::Rule,
    verdict,
};

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
