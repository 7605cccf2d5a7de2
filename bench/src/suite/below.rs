//! Users below their limits: Redis CPU per decision, by the part of its rate that a key asks for.

use topup_lab::{Summary, Table, count, output::tell, short};

use super::{
    above::{self, Round, Shape},
    bench::Bench,
};
use crate::{limiter::kind::Limiter, open_loop::OpenLoad, rules::Rule};

pub(super) const TITLES: [&str; 2] = ["Below the limit, one process", "Below the limit, several processes"];
const LIMITERS: [Limiter; 5] =
    [Limiter::Topup, Limiter::LuaGcra, Limiter::TopupLeased, Limiter::RedisCell, Limiter::LuaLazy];
/// Rates of a key, with a capacity of 10, and their names on the command line.
const RATES: [(Rule, &str); 6] = [
    (Rule::Few, "10/s"),
    (Rule::Calm, "1/s"),
    (Rule::Brisk, "100/s"),
    (Rule::Swift, "200/s"),
    (Rule::Uneven, "30/s"),
    (Rule::Rare, "1/60s"),
];
/// Percentages of its rate that a key asks for.
const SHARES: [u32; 6] = [1, 5, 10, 25, 50, 90];
const PROCESSES: [u32; 2] = [1, 4];
/// A quick look has all of these of the first rate, ...
const QUICK_SHARES: [u32; 3] = [1, 10, 50];
/// ... and this one of the others, in as many processes.
const QUICK: (u32, u32) = (25, 4);
/// Token times for which a load goes on before it is measured, ...
const WARM_TOKENS: f64 = 10.0;
/// ... between so many seconds. A token of the slowest rate takes a minute: its buckets are met cold.
const WARM: (f64, f64) = (1.0, 5.0);
const QUICK_WARM: (f64, f64) = (0.5, 1.0);

/// One line of the tables.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    rule: Rule,
    rate: &'static str,
    share: u32,
    processes: u32,
}

pub(super) async fn tables(bench: &mut Bench<'_>) -> anyhow::Result<Vec<Table>> {
    let points =
        points(&bench.choices.rates, &bench.choices.shares, &bench.choices.processes, bench.choices.quick);
    let mut rounds: Vec<Vec<Round>> = vec![Vec::new(); points.len()];
    for round in 1..=bench.choices.rounds() {
        for (index, (point, rounds)) in points.iter().zip(&mut rounds).enumerate() {
            let seed = u64::from(round) * 1_000 + index as u64;
            let shape = point.shape(bench, seed);
            let measured = above::round(bench, &shape, &LIMITERS).await;
            tell(&format!("below, round {round}: {}{}", point.name(), told(&measured)));
            rounds.push(measured);
        }
    }
    let one = |processes: u32| processes == 1;
    let table = |title: &str, wanted: fn(u32) -> bool| {
        let mut table = Table::new(title, header()).note(&note(bench.choices.offered));
        for (point, rounds) in points.iter().zip(&rounds).filter(|(point, _)| wanted(point.processes)) {
            let several =
                if one(point.processes) { String::new() } else { format!(", {} processes", point.processes) };
            table.row(format!("{}{several}", point.name()), row(point.keys(bench.choices.offered), rounds));
        }
        table
    };
    let tables = [table(TITLES[0], one), table(TITLES[1], |processes| processes != 1)];
    Ok(tables.into_iter().filter(|table| !table.rows().is_empty()).collect())
}

/// Points that the command line names. Without names, all of them, or those of a quick look.
fn points(rates: &[String], shares: &[u32], processes: &[u32], quick: bool) -> Vec<Point> {
    let chosen = !(rates.is_empty() && shares.is_empty() && processes.is_empty());
    let mut points = Vec::new();
    for &at in if processes.is_empty() { &PROCESSES[..] } else { processes } {
        for (first, &(rule, rate)) in RATES.iter().enumerate().map(|(index, rate)| (index == 0, rate)) {
            for &share in if shares.is_empty() { &SHARES[..] } else { shares } {
                let point = Point { rule, rate, share, processes: at };
                let looked_at = (first && QUICK_SHARES.contains(&share)) || (share, at) == QUICK;
                let named = rates.is_empty() || rates.iter().any(|name| name == rate);
                if named && (chosen || !quick || looked_at) {
                    points.push(point);
                }
            }
        }
    }
    points
}

fn note(offered: f64) -> String {
    format!(
        "An open loop: {} takes a second of one token each, at random instants, of keys at random. Each key may take \
         10 at once and as often as its row says, and asks for a part of that. *µs* are of Redis CPU, and *above* is \
         above a bare `DECR` of the same load, measured before and after. *÷ GCRA* divides by the cost of a plain \
         GCRA script above raw. *Leased* is topup with a `lease` whose `max` is the capacity. *Script* is the time of \
         one, without the network. *Native* commands are neither scripts nor called by one. *Commands* are all. *Own \
         CPU* is that of the processes that ask. *Errors* are takes without an answer within 250 ms. *p99* is of the \
         time to the answer.",
        count(offered)
    )
}

const fn header() -> [&'static str; 18] {
    [
        "",
        "keys",
        "topup ÷ GCRA",
        "leased ÷ GCRA",
        "redis-cell ÷ GCRA",
        "lazy Lua ÷ GCRA",
        "raw µs",
        "GCRA µs above",
        "topup µs above",
        "GCRA's script µs",
        "topup's script µs",
        "native",
        "scripts",
        "commands",
        "own CPU µs",
        "errors %",
        "GCRA's p99 ÷ raw",
        "topup's p99 ÷ raw",
    ]
}

fn row(keys: usize, rounds: &[Round]) -> Vec<String> {
    let text = |figure: Option<Summary>, with_bounds: bool| match figure {
        Some(figure) if with_bounds => figure.text(short),
        Some(figure) => short(figure.median),
        None => "–".to_owned(),
    };
    let gcra = |limiter| above::ratio(rounds, limiter, Limiter::LuaGcra);
    let topup = |of: fn(&above::Beside) -> f64| text(above::figure(rounds, Limiter::Topup, of), false);
    let script = |beside: &above::Beside| beside.measured.script_time();
    vec![
        count(keys as f64),
        text(gcra(Limiter::Topup), true),
        text(gcra(Limiter::TopupLeased), false),
        text(gcra(Limiter::RedisCell), false),
        text(gcra(Limiter::LuaLazy), false),
        topup(|beside| beside.raw),
        text(above::figure(rounds, Limiter::LuaGcra, above::Beside::above), false),
        topup(above::Beside::above),
        text(above::figure(rounds, Limiter::LuaGcra, script), false),
        topup(script),
        topup(|beside| beside.measured.native),
        topup(|beside| beside.measured.scripts()),
        topup(|beside| beside.measured.commands()),
        topup(|beside| beside.measured.client_cpu()),
        topup(|beside| beside.measured.seen.errors() * 100.0),
        text(above::figure(rounds, Limiter::LuaGcra, above::Beside::slower), false),
        topup(above::Beside::slower),
    ]
}

/// A round in a line of progress.
fn told(round: &Round) -> String {
    let one = |(limiter, beside): &(Limiter, Option<above::Beside>)| {
        let above = beside.as_ref().map_or(f64::NAN, above::Beside::above);
        format!(", {} {}", limiter.name(), short(above))
    };
    let raw = round.iter().find_map(|(_, beside)| beside.as_ref()).map_or(f64::NAN, |beside| beside.raw);
    format!(": raw {} µs; above it{}", short(raw), round.iter().map(one).collect::<String>())
}

// === impl Point ===

impl Point {
    fn name(&self) -> String {
        format!("{} % of {}", self.share, self.rate)
    }

    /// As many keys as ask for their part, all together, as often as there are takes.
    fn keys(&self, offered: f64) -> usize {
        let each = self.rule.rate() * f64::from(self.share) / 100.0;
        ((offered / each).round() as usize).max(1)
    }

    fn shape(&self, bench: &Bench<'_>, seed: u64) -> Shape {
        let (rate, (least, most)) =
            (bench.choices.offered, if bench.choices.quick { QUICK_WARM } else { WARM });
        let load = OpenLoad {
            limiter: Limiter::Raw,
            rule: self.rule,
            keys: self.keys(rate),
            processes: self.processes,
            seed,
        };
        Shape { load, rate, warm: (WARM_TOKENS / self.rule.rate()).clamp(least, most) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_ask_for_their_share() {
        let keys = |rule, share| Point { rule, rate: "", share, processes: 1 }.keys(10_000.0);
        assert_eq!((keys(Rule::Few, 1), keys(Rule::Few, 50)), (100_000, 2_000));
        assert_eq!((keys(Rule::Calm, 1), keys(Rule::Rare, 10)), (1_000_000, 6_000_000));
    }

    #[test]
    fn without_a_word_there_is_every_point() {
        assert_eq!(points(&[], &[], &[], false).len(), 72);
        assert_eq!(points(&[], &[], &[], true).len(), 12);
        assert_eq!(points(&["1/s".to_owned()], &[5, 7], &[16], true).len(), 2);
    }
}
