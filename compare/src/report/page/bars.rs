//! Bars.

use maud::{Markup, html};

use crate::{
    comparison::{Comparison, Cost},
    score::{BINS, Histogram},
};

const WIDTH: f64 = 420.0;
/// Where bars begin: names stand before.
const LEFT: f64 = 136.0;
/// Where the longest ends: its figure stands behind.
const RIGHT: f64 = 370.0;
const ROW: f64 = 20.0;

/// For each limiter a bar for each of its figures, on a logarithmic scale.
pub(super) fn by_limiter(
    comparison: &Comparison,
    figures: &dyn Fn(&Cost) -> Vec<f64>,
    text: &dyn Fn(f64) -> String,
) -> Markup {
    let rows: Vec<(String, Vec<f64>)> =
        comparison.costs.iter().map(|cost| (cost.limiter.name(), figures(cost))).collect();
    let all = || rows.iter().flat_map(|(_, figures)| figures.iter().copied()).filter(|figure| *figure > 0.0);
    let (least, most) = (all().fold(f64::MAX, f64::min), all().fold(f64::MIN, f64::max));
    // The smallest is still to be seen.
    let scale = |figure: f64| {
        let share = (figure / least * 2.0).ln() / (most / least * 2.0).ln();
        if figure > 0.0 { share.clamp(0.0, 1.0) * (RIGHT - LEFT) } else { 0.0 }
    };
    let bars = rows.iter().map(|(_, figures)| figures.len().max(1)).max().unwrap_or(1) as f64;
    let row = ROW + (bars - 1.0) * 12.0;
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {}", row * rows.len() as f64)) role="img" style="max-width: 38rem" {
            @for (index, (name, figures)) in rows.iter().enumerate() {
                @let top = index as f64 * row;
                text.name x=(LEFT - 8.0) y=(top + 14.0) text-anchor="end" { (name) }
                @for (bar, figure) in figures.iter().enumerate() {
                    @let y = top + 4.0 + bar as f64 * 13.0;
                    rect class=(format!("b{bar}")) x=(LEFT) y=(y) width=(round(scale(*figure).max(1.0))) height="11" rx="2" {}
                    text.value x=(round(LEFT + scale(*figure).max(1.0) + 5.0)) y=(y + 9.5) { (text(*figure)) }
                }
            }
        }
    }
}

/// For each limiter one bar, divided as the excess of its windows is.
pub(super) fn histogram(comparison: &Comparison) -> Markup {
    let limiters = comparison.limiters();
    let total = |limiter| {
        let mut sum = Histogram::default();
        let counted = comparison
            .measurements
            .iter()
            .filter(|measurement| measurement.limiter == limiter && measurement.traffic != "redis-restart");
        for measurement in counted {
            sum.bins.iter_mut().zip(measurement.score.histogram.bins).for_each(|(sum, count)| *sum += count);
        }
        sum
    };
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {}", ROW * limiters.len() as f64)) role="img" style="max-width: 38rem" {
            @for (index, limiter) in limiters.iter().enumerate() {
                @let top = index as f64 * ROW;
                @let bins = total(*limiter).bins;
                @let all = bins.iter().sum::<u64>().max(1) as f64;
                text.name x=(LEFT - 8.0) y=(top + 14.0) text-anchor="end" { (limiter.name()) }
                @for bin in 0..=BINS.len() {
                    @let before = bins[..bin].iter().sum::<u64>() as f64 / all;
                    @let share = bins[bin] as f64 / all;
                    @if share > 0.0 {
                        rect class=(format!("h{bin}")) x=(round(LEFT + before * (RIGHT - LEFT))) y=(top + 4.0)
                            width=(round((share * (RIGHT - LEFT)).max(1.0))) height="13" {
                            title { (Histogram::label(bin)) ": " (bins[bin]) }
                        }
                    }
                }
                @let over = 1.0 - bins[0] as f64 / all;
                text.value x=(RIGHT + 5.0) y=(top + 14.0) { (format!("{:.1} %", 100.0 * over)) }
            }
        }
    }
}

fn round(figure: f64) -> f64 {
    (figure * 10.0).round() / 10.0
}
