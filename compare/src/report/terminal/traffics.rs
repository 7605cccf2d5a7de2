//! Tables of figures under each traffic.

use topup_lab::{Table, fine};

use crate::{
    comparison::{Comparison, Measurement},
    traffic::Traffic,
};

/// Traffics side by side in a table.
const ABREAST: usize = 7;

/// One figure of each limiter under each traffic, as many traffics abreast as a terminal holds.
pub(super) fn by_traffic(
    comparison: &Comparison,
    title: &str,
    figure: &dyn Fn(&Measurement) -> String,
) -> Vec<Table> {
    let abreast = |traffics: &[Traffic]| {
        let names = traffics.iter().map(|traffic| traffic.name.clone());
        let mut table = Table::new(title, std::iter::once(String::new()).chain(names));
        for limiter in comparison.limiters() {
            let measurement = |traffic: &Traffic| {
                comparison.measurement(limiter, &traffic.name).map_or_else(|| "–".to_owned(), figure)
            };
            table.row(limiter.name(), traffics.iter().map(measurement));
        }
        table
    };
    comparison.traffics.chunks(ABREAST).map(abreast).collect()
}

/// Figures of one traffic only.
pub(super) fn other(comparison: &Comparison) -> Option<Table> {
    let header = [
        "",
        "otherwise than certain",
        "retry late p50 µs",
        "retry late p99 µs",
        "promised after due p50 µs",
        "unevenness, steady-5",
    ];
    let told = |traffic: &Traffic| matches!(traffic.name.as_str(), "certain" | "promises" | "steady-5");
    if !comparison.traffics.iter().any(told) {
        return None;
    }
    let mut table = Table::new("One by one", header);
    for limiter in comparison.limiters() {
        let certain =
            comparison.measurement(limiter, "certain").and_then(|measurement| measurement.otherwise);
        let promises = comparison
            .measurement(limiter, "promises")
            .and_then(|measurement| measurement.score.promises.clone());
        let late = promises.as_ref().and_then(|promises| promises.late);
        let cautious = promises.as_ref().and_then(|promises| promises.cautious);
        let uneven =
            comparison.measurement(limiter, "steady-5").and_then(|measurement| measurement.score.unevenness);
        let or = |figure: Option<f64>| figure.map_or_else(|| "–".to_owned(), fine);
        table.row(
            limiter.name(),
            [
                or(certain.map(|count| count as f64)),
                or(late.map(|late| late.p50)),
                or(late.map(|late| late.p99)),
                or(cautious.map(|cautious| cautious.p50)),
                or(uneven),
            ],
        );
    }
    Some(table)
}
