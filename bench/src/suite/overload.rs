//! Costs of denials, under a load far above the limit.

use topup_lab::{Table, count, output::tell, short};

use crate::{
    limiter::kind::Limiter,
    measurement::{Found, Measurement},
    rules::Rule,
};

use super::{bench::Bench, medians::Medians};

pub(super) const TITLE: &str = "Overload";
const LIMITERS: [Limiter; 9] = [
    Limiter::Raw,
    Limiter::Topup,
    Limiter::TopupLeased,
    Limiter::RedisCell,
    Limiter::LuaGcra,
    Limiter::LuaLazy,
    Limiter::LuaLog,
    Limiter::Limitador,
    Limiter::Trypema,
];
/// One bucket of 1,000/s, and 1,000 of 10/s.
const SHAPES: [(Rule, usize, &str); 2] =
    [(Rule::Tight, 0, ", one key of 1,000/s"), (Rule::Few, 1_000, ", 1,000 keys of 10/s")];

pub(super) async fn table(bench: &mut Bench<'_>) -> anyhow::Result<Table> {
    let note = "256 tasks ask without a pause for tokens that are seldom there. *CPU per allowed* is Redis CPU µs \
                for each allowed decision, denials, refills and daemon included. *÷ most* divides the allowed takes \
                by capacity + rate × time, the most that a perfect token bucket allows. Windows have no burst beside \
                their rate.";
    let header = [
        "",
        "÷ raw",
        "decisions/s",
        "commands per decision",
        "scripts per decision",
        "CPU per allowed",
        "÷ most",
    ];
    let mut table = Table::new(TITLE, header).note(note);
    for (rule, keys, name) in SHAPES {
        let mut found = vec![Vec::new(); LIMITERS.len()];
        for round in 1..=bench.choices.rounds().min(3) {
            tell(&format!("overload{name}, round {round}"));
            for (limiter, found) in LIMITERS.iter().zip(&mut found) {
                if bench.has(*limiter) {
                    found.extend(
                        bench.measure(&Measurement::new(*limiter, rule, keys, bench.choices.time())).await,
                    );
                }
            }
        }
        let (capacity, per_second) = (rule.capacity() as f64, rule.per_second() as f64);
        let most = |seconds: f64| keys.max(1) as f64 * (capacity + per_second * seconds);
        let raw = Medians::of(&found[0]).number(Found::rate).unwrap_or(0.0);
        for (limiter, found) in LIMITERS.iter().zip(&found) {
            let medians = Medians::of(found);
            if found.is_empty() {
                continue;
            }
            table.row(
                format!("{}{name}", limiter.label()),
                [
                    medians.text(|found| found.rate() / raw, short),
                    medians.text(Found::rate, count),
                    medians.text(Found::commands, short),
                    medians.text(Found::scripts, short),
                    limits(
                        *limiter,
                        medians.text(|found| found.redis.cpu / found.seen.allowed.max(1) as f64, short),
                    ),
                    limits(
                        *limiter,
                        medians.text(|found| found.seen.allowed as f64 / most(found.seen.seconds), short),
                    ),
                ],
            );
        }
    }
    Ok(table)
}

/// A figure; none for raw, which limits nothing.
fn limits(limiter: Limiter, figure: String) -> String {
    if limiter == Limiter::Raw { String::new() } else { figure }
}
