//! A comparison as a page for the browser: one file, no network, no script.

mod bars;
mod curves;
mod matrix;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use topup_lab::{Table, count, fine};

use crate::{
    comparison::Comparison,
    cost::Load,
    limiter::Limiter,
    report::{about_trace, of_trace, summary},
    score::{BINS, Histogram},
};

/// The page.
pub fn page(comparison: &Comparison) -> String {
    let about = &comparison.about;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "topup-compare, " (about.date) }
                style { (PreEscaped(include_str!("style.css"))) }
            }
            body {
                h1 { "Which limiter is exact, and what does each cost?" }
                p.soft {
                    "topup " (about.topup) " · Redis " (about.redis) " · " (about.date) " · " (about.cpus) " CPUs · "
                    (about.workers) " workers · seed " (about.seed) " · rounds " (about.rounds) br;
                    code { (about.command) }
                }
                (verdicts(comparison))
                @let summary = summary::table(comparison);
                h2 { (summary.title()) }
                (of(&summary))
                @if let Some(replay) = &comparison.replay {
                    h2 { "The trace" }
                    p { (about_trace(replay)) }
                    @for table in of_trace(replay) { h3 { (table.title()) } (of(&table)) }
                }
                @if !comparison.measurements.is_empty() { (accuracy(comparison)) }
                @if !comparison.costs.is_empty() { (costs(comparison)) }
                @if !comparison.left_out.is_empty() {
                    h2 { "Left out" }
                    ul { @for line in &comparison.left_out { li { (line) } } }
                }
            }
        }
    };
    page.into_string()
}

/// A table, for the browser.
fn of(table: &Table) -> Markup {
    html! {
        div.scroll {
            table {
                tr { @for name in table.header() { th { (name) } } }
                @for row in table.rows() {
                    tr {
                        @for (column, cell) in row.iter().enumerate() {
                            @if column == 0 { th { (cell) } } @else { td { (cell) } }
                        }
                    }
                }
            }
        }
    }
}

fn verdicts(comparison: &Comparison) -> Markup {
    html! {
        h2 { "Verdicts" }
        div.cards {
            @for (limiter, says) in &comparison.verdicts {
                div.card {
                    h3 { (limiter.name()) span.tag { (if limiter.is_ours() { "topup" } else { "as usually written" }) } }
                    div.soft { (what(*limiter)) }
                    ul { @for line in says { li { (line) } } }
                }
            }
        }
    }
}

/// The description of a limiter, without its owner.
fn what(limiter: Limiter) -> String {
    let says = limiter.says();
    says.split_once(": ").map_or(says.clone(), |(_, what)| what.to_owned())
}

fn accuracy(comparison: &Comparison) -> Markup {
    html! {
        h2 { "Admitted, as a share of what a perfect limiter of the same kind admits" }
        p.soft { "1 is perfect. Below: takes denied that should have been allowed. Above: the reverse." }
        (matrix::matrix(comparison, &|measurement| (format!("{:.3}", measurement.score.share()), matrix::of_share(measurement.score.share()))))

        h2 { "Worst excess, in tokens" }
        p.soft {
            "In the worst of all windows of any length: admitted above capacity + rate × window. Fixed and sliding windows "
            "of as many tokens are held against the same law."
        }
        (matrix::matrix(comparison, &|measurement| (fine(measurement.score.excess.tokens), matrix::of_excess(comparison, measurement))))

        h2 { "Worst starvation, in ms" }
        p.soft { "The longest a bucket denied although it had tokens, or should have had." }
        (matrix::matrix(comparison, &|measurement| (fine(measurement.score.starved_ms), matrix::of_starvation(measurement.score.starved_ms))))

        h2 { "How the excess of all windows is spread" }
        p.soft { "For each admitted take, the worst window that ends with it: tokens above capacity + rate × window." }
        p.soft {
            @for bin in 0..=BINS.len() { span class={ "key hk" (bin) } {} (Histogram::label(bin)) }
        }
        (bars::histogram(comparison))

        h2 { "Admitted against ideal over time" }
        p.soft { span.key.k0 {} "admitted, " "dashed: ideal" }
        @for traffic in &comparison.traffics {
            details open[matches!(traffic.name.as_str(), "steady-5" | "coarse-tick" | "trace")] {
                summary { b { (traffic.name) } ": " (traffic.says) }
                div.grid {
                    @for limiter in comparison.limiters() {
                        @if let Some(measurement) = comparison.measurement(limiter, &traffic.name) {
                            figure {
                                figcaption { (limiter.name()) }
                                (curves::over_time(&measurement.score.series))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn costs(comparison: &Comparison) -> Markup {
    let bars = |load: Load| {
        bars::by_limiter(
            comparison,
            &|cost| vec![cost.under(load).map_or(f64::NAN, |under| under.cpu)],
            &fine,
        )
    };
    html! {
        h2 { "Redis µs per decision" }
        p.soft {
            "CPU time of the whole server, network and refill included, while " (comparison.about.workers)
            " workers of 64 tasks ask as fast as they are answered. Scales are logarithmic."
        }
        div.cards {
            @for load in Load::ALL { figure { h3 { (load.says()) } (bars(load)) } }
        }

        h2 { "Bytes per bucket" }
        p.soft { span.key.k0 {} "active, after 20 takes of 30" span.key.k1 {} "idle, long full again" }
        (bars::by_limiter(
            comparison,
            &|cost| cost.memory.map_or(vec![], |memory| vec![memory.active, memory.idle]),
            &count,
        ))

        @if let Some(crossover) = &comparison.crossover {
            h2 { "From how many takes on is topping up cheaper?" }
            p {
                (sentence("topup's lazy refill", crossover.at)) " " (sentence("the usual lazy refill", crossover.at_usual))
                " Buckets of 20 tokens and 10/s, " (crossover.keys) " of them, asked at random."
            }
            p.soft {
                @for (index, curve) in crossover.curves.iter().enumerate() {
                    span class={ "key k" (index) } {} (curve.limiter.name())
                }
            }
            (curves::crossover(crossover))
        }
        @if let [still, busy, ..] = comparison.upkeep.as_slice() {
            h2 { "The daemon, while nobody asks" }
            p {
                "With no active bucket it costs Redis " (count(still.redis)) " µs a second, with " (busy.buckets) " active ones "
                (count(busy.redis)) " µs; itself it uses " (count(still.daemon)) " and " (count(busy.daemon)) " µs of CPU a second."
            }
        }
    }
}

fn sentence(than: &str, at: Option<f64>) -> String {
    match at {
        Some(at) => format!("Than {than}: from {} takes per bucket and second on.", fine(at)),
        None => format!("Than {than}: at none of the rates measured."),
    }
}
