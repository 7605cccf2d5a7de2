//! Runs seed after seed for as long as it is told to.

use std::{process::ExitCode, time::Duration};

use clap::{Parser, ValueEnum};
use topup_sim::{
    Broken, Counts, Fault, Law, Plan, run, run_definitions, run_holds, run_key_plans, run_penalties,
    run_permits, run_shares, run_take_all, run_windows, story,
};

/// Simulates topup: many seeds, each with its own terms, traffic and mishaps.
#[derive(Debug, Parser)]
struct Args {
    /// The part that is simulated.
    #[arg(long, value_enum, default_value_t = Part::Buckets)]
    part: Part,
    /// Minutes to go on.
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// The first seed; TOPUP_SIM_SEED names the only one.
    #[arg(long)]
    seed: Option<u64>,
    /// Most seeds.
    #[arg(long, default_value_t = u64::MAX)]
    seeds: u64,
    /// Plants a fault of buckets, by its name in the source.
    #[arg(long)]
    fault: Option<String>,
    /// Tells the story of the seed up to this instant, in µs, whatever comes of it.
    #[arg(long)]
    tell: Option<u64>,
    /// Goes on after a broken law.
    #[arg(long)]
    all: bool,
}

/// A part of topup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Token buckets, under all traffic and all mishaps.
    Buckets,
    /// Plans of keys, which are assigned by hand, by a source and by the config.
    Plans,
    /// Estimates that are settled, once, late or never.
    Holds,
    /// Permits of processes that die.
    Permits,
    /// Fair shares of tenants.
    Shares,
    /// Blocks of keys that are denied again and again.
    Penalties,
    /// Limits that code defines.
    Definitions,
    /// Takes of several limits, all or nothing.
    TakeAll,
    /// Fixed windows, whose takes native commands count.
    Windows,
}

// === impl Part ===

impl Part {
    /// Runs a seed of any part but buckets.
    fn run(self, seed: u64) -> Result<u64, String> {
        match self {
            Self::Buckets => Ok(0),
            Self::Plans => run_key_plans(seed, None),
            Self::Holds => run_holds(seed, None),
            Self::Permits => run_permits(seed, None),
            Self::Shares => run_shares(seed, None),
            Self::Penalties => run_penalties(seed, None),
            Self::Definitions => run_definitions(seed, None),
            Self::TakeAll => run_take_all(seed, None),
            Self::Windows => run_windows(seed, None),
        }
    }
}

#[allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a tool for people, which takes its time")]
fn main() -> ExitCode {
    let args = Args::parse();
    let (began, most) = (std::time::Instant::now(), Duration::from_secs_f64(args.minutes * 60.0));
    let (mut counts, mut worst, mut failed) = (Counts::default(), 0, 0);
    let fault = args.fault.map(|name| Fault::ALL.into_iter().find(|fault| format!("{fault:?}") == name));
    let Some(fault) = fault.map_or(Some(None), |found| found.map(Some)) else {
        println!("there is no such fault, but {:?}", Fault::ALL);
        return ExitCode::FAILURE;
    };
    let named = std::env::var("TOPUP_SIM_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = if named.is_some() { 1 } else { args.seeds };
    let first = named.or(args.seed).unwrap_or(0);
    let mut seed = first;
    while began.elapsed() < most && seed - first < seeds {
        if args.part != Part::Buckets {
            if let Err(law) = args.part.run(seed) {
                failed += 1;
                println!("seed {seed}: {law}");
                if !args.all {
                    return ExitCode::FAILURE;
                }
            }
            seed += 1;
            continue;
        }
        let plan = Plan::generate(seed);
        let outcome = run(&plan, fault);
        counts += outcome.counts;
        worst = worst.max(outcome.worst);
        if let Some(at) = args.tell {
            let broken = Broken { bucket: 0, at, law: Law::Over(0) };
            println!("{}", story(&plan, fault, &broken));
        }
        if let Some(broken) = outcome.broken {
            failed += 1;
            if args.all {
                println!("seed {seed}: {:?} of bucket {} at {}", broken.law, broken.bucket, broken.at);
            } else {
                println!("{}", story(&plan, fault, &broken));
                return ExitCode::FAILURE;
            }
        }
        seed += 1;
    }
    let seeds = seed - first;
    if args.part != Part::Buckets {
        println!("{seeds} seeds from {first}, {failed} broke a law, in {:?}", began.elapsed());
        return if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    println!(
        "{seeds} seeds from {}, {failed} broke a law, in {:?}; {counts:?}; \
         worst excess, late commands included: {}.{:03} tokens",
        first,
        began.elapsed(),
        worst / 1_000,
        worst % 1_000,
    );
    if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
