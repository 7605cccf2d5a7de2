//! Each algorithm of topup beside a plain script of the same.

use topup_lab::{Summary, Table, count, output::tell, short};

use super::{
    above::{self, Beside, Round, Shape},
    bench::Bench,
};
use crate::{limiter::kind::Limiter, open_loop::OpenLoad, rules::Rule};

pub(super) const TITLE: &str = "Algorithms";
/// Ours, and the script it is divided by.
const PAIRS: [(Limiter, Limiter); 7] = [
    (Limiter::Topup, Limiter::LuaGcra),
    (Limiter::TopupLazy, Limiter::LuaLazy),
    (Limiter::TopupGcra, Limiter::LuaGcra),
    (Limiter::TopupLeaky, Limiter::LuaLeaky),
    (Limiter::TopupFixed, Limiter::LuaFixed),
    (Limiter::TopupCounter, Limiter::LuaCounter),
    (Limiter::TopupLog, Limiter::LuaLog),
];
/// Percentages of its rate that a key asks for.
const SHARES: [u32; 2] = [50, 200];
/// Seconds before a measurement: windows are a second long.
const WARM: f64 = 2.0;

pub(super) async fn table(bench: &mut Bench<'_>) -> anyhow::Result<Table> {
    let offered = bench.choices.offered;
    let note = format!(
        "An open loop: {} takes a second, at random instants, of keys at random. Each key may take 10 a second and \
         asks for half of that, or for twice as much. *Above* is Redis CPU µs for each decision above a bare `DECR` \
         of the same load. *÷ plain* divides by the plain script's. *Script* is the time of one, without the \
         network. The plain sliding counter gets the time from its worker. The token bucket stands beside GCRA, \
         which decides the same.",
        count(offered)
    );
    let header = [
        "",
        "÷ plain (min–max)",
        "ours above",
        "plain above",
        "our script µs",
        "plain's",
        "commands",
        "plain's",
        "scripts",
        "allowed %",
        "plain's",
    ];
    let mut table = Table::new(TITLE, header).note(&note);
    // Neighbours in time, as they are divided; GCRA once.
    let mut limiters: Vec<Limiter> = Vec::new();
    for limiter in PAIRS.into_iter().flat_map(|(ours, plain)| [ours, plain]) {
        if !limiters.contains(&limiter) {
            limiters.push(limiter);
        }
    }
    for share in SHARES {
        let keys = (offered / (Rule::Few.rate() * f64::from(share) / 100.0)).round() as usize;
        let mut rounds: Vec<Round> = Vec::new();
        for round in 1..=bench.choices.rounds() {
            tell(&format!("algorithms, {share} % of the rate, round {round}"));
            let load =
                OpenLoad { limiter: Limiter::Raw, rule: Rule::Few, keys, processes: 1, seed: round.into() };
            let shape =
                Shape { load, rate: offered, warm: if bench.choices.quick { WARM / 2.0 } else { WARM } };
            rounds.push(above::round(bench, &shape, &limiters).await);
        }
        for (ours, plain) in PAIRS {
            let Some(ratio) = above::ratio(&rounds, ours, plain) else { continue };
            let median = |limiter, of: fn(&Beside) -> f64| {
                above::figure(&rounds, limiter, of)
                    .map_or_else(String::new, |Summary { median, .. }| short(median))
            };
            let allowed = |beside: &Beside| {
                100.0 * beside.measured.seen.allowed as f64 / beside.measured.seen.decided.max(1) as f64
            };
            table.row(
                format!("{}, {share} %", ours.label()),
                [
                    ratio.text(short),
                    median(ours, Beside::above),
                    median(plain, Beside::above),
                    median(ours, |beside| beside.measured.script_time()),
                    median(plain, |beside| beside.measured.script_time()),
                    median(ours, |beside| beside.measured.commands()),
                    median(plain, |beside| beside.measured.commands()),
                    median(ours, |beside| beside.measured.scripts()),
                    median(ours, allowed),
                    median(plain, allowed),
                ],
            );
        }
    }
    Ok(table)
}
