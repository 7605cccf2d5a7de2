//! Lines.

use std::fmt::Write;

use maud::{Markup, html};
use topup_lab::fine;

use crate::{cost::Crossover, score::Series};

/// The tokens admitted over time, and those of a perfect limiter. Both curves begin at 0.
pub(super) fn over_time(series: &Series) -> Markup {
    const WIDTH: f64 = 220.0;
    const HEIGHT: f64 = 110.0;
    let most = series.admitted.iter().chain(&series.ideal).copied().max().unwrap_or(0).max(1) as f64;
    let line = |sums: &[u64]| {
        let x = |index: usize| index as f64 / (sums.len().max(2) - 1) as f64 * WIDTH;
        let y = |sum: u64| HEIGHT - 16.0 - sum as f64 / most * (HEIGHT - 30.0);
        points(sums.iter().enumerate().map(|(index, sum)| (x(index), y(*sum))))
    };
    let end = series.step * series.admitted.len() as f64;
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" {
            line.axis x1="0" x2=(WIDTH) y1=(HEIGHT - 16.0) y2=(HEIGHT - 16.0) {}
            polyline.curve.ideal points=(line(&series.ideal)) {}
            polyline.curve.c0 points=(line(&series.admitted)) {}
            text x="0" y="10" { (fine(most)) " tokens" }
            text x=(WIDTH) y=(HEIGHT - 3.0) text-anchor="end" { (fine(end)) " s" }
        }
    }
}

/// Cost over takes, both on logarithmic scales.
pub(super) fn crossover(crossover: &Crossover) -> Markup {
    const WIDTH: f64 = 640.0;
    const HEIGHT: f64 = 300.0;
    const LEFT: f64 = 44.0;
    let all = || crossover.curves.iter().flat_map(|curve| curve.points.iter());
    let range = |of: fn(&(f64, f64, f64)) -> f64| {
        let figures = || all().map(of).filter(|figure| *figure > 0.0);
        (figures().fold(f64::MAX, f64::min), figures().fold(f64::MIN, f64::max))
    };
    let ((from, until), (least, most)) = (range(|point| point.0), range(|point| point.2));
    let x = |rate: f64| LEFT + (rate / from).ln() / (until / from).ln() * (WIDTH - LEFT - 12.0);
    let y = |cost: f64| HEIGHT - 34.0 - (cost / least).ln() / (most / least).ln() * (HEIGHT - 54.0);
    let decades = |least: f64, most: f64| {
        let exponents = least.log10().ceil() as i32..=most.log10().floor() as i32;
        exponents.map(|exponent| 10_f64.powi(exponent)).collect::<Vec<_>>()
    };
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" style="max-width: 52rem" {
            @for cost in decades(least, most) {
                line.axis x1=(LEFT) x2=(WIDTH) y1=(y(cost)) y2=(y(cost)) {}
                text x=(LEFT - 6.0) y=(y(cost) + 4.0) text-anchor="end" { (fine(cost)) }
            }
            @for (rate, _, _) in crossover.curves.first().map(|curve| curve.points.as_slice()).unwrap_or_default() {
                line.axis x1=(x(*rate)) x2=(x(*rate)) y1="20" y2=(HEIGHT - 34.0) {}
                text x=(x(*rate)) y=(HEIGHT - 18.0) text-anchor="middle" { (fine(*rate)) }
            }
            text x=(WIDTH) y=(HEIGHT - 3.0) text-anchor="end" { "takes per bucket and second" }
            text x="0" y="12" { "Redis CPU µs per bucket and second" }
            @for (index, curve) in crossover.curves.iter().enumerate() {
                polyline class=(format!("curve c{index}")) points=(points(curve.points.iter().map(|point| (x(point.0), y(point.2))))) {}
                @for point in &curve.points {
                    circle class=(format!("b{index}")) cx=(format!("{:.1}", x(point.0))) cy=(format!("{:.1}", y(point.2))) r="3" {}
                }
            }
        }
    }
}

fn points(points: impl Iterator<Item = (f64, f64)>) -> String {
    points.fold(String::new(), |mut text, (x, y)| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{x:.1},{y:.1} ");
        text
    })
}
