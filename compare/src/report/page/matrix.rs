//! Limiters against traffics.

use maud::{Markup, html};

use crate::{
    comparison::{Comparison, Measurement},
    rule::TICK,
};

/// One figure of each limiter under each traffic, and how it is to be coloured.
pub(super) fn matrix(
    comparison: &Comparison,
    figure: &dyn Fn(&Measurement) -> (String, &'static str),
) -> Markup {
    html! {
        div.scroll {
            table {
                tr { th {} @for traffic in &comparison.traffics { th { (traffic.name) } } }
                @for limiter in comparison.limiters() {
                    tr {
                        th { (limiter.name()) }
                        @for traffic in &comparison.traffics {
                            @match comparison.measurement(limiter, &traffic.name).map(figure) {
                                Some((text, class)) => { td class=(class) { (text) } }
                                None => { td { "–" } }
                            }
                        }
                    }
                }
            }
        }
    }
}

pub(super) fn of_share(share: f64) -> &'static str {
    match share {
        share if (0.99..=1.002).contains(&share) => "good",
        share if (0.95..=1.02).contains(&share) => "fair",
        _ => "bad",
    }
}

/// Good is none, fair is within what comes in a tick.
pub(super) fn of_excess(comparison: &Comparison, measurement: &Measurement) -> &'static str {
    let traffic = comparison.traffics.iter().find(|traffic| traffic.name == measurement.traffic);
    let room = traffic.map_or(0.0, |traffic| traffic.rule.credit(TICK));
    match measurement.score.excess.tokens {
        tokens if tokens < 0.5 => "good",
        tokens if tokens <= room => "fair",
        _ => "bad",
    }
}

pub(super) const fn of_starvation(ms: f64) -> &'static str {
    match ms {
        ms if ms <= 5.0 => "good",
        ms if ms <= 50.0 => "fair",
        _ => "bad",
    }
}
