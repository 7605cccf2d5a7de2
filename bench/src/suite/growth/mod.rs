//! The growth of costs with keys, tasks, processes, active buckets and limits.

mod buckets;
mod grown;
mod limits;
mod takes;

use std::{io, path::Path};

use anyhow::ensure;
use clap::ValueEnum;
use topup_lab::{output::answer, wrapped};

use super::bench::Bench;
use crate::{
    catalog::Curve,
    report::{self, installed_redis, written},
};
use grown::{CRATES, Grown};

/// The last section of the page.
const CLOSE_UP: &str = "Close up";

/// Measures the curves that are asked for. On the page, each takes the place of what was measured of it before.
pub(super) async fn all(bench: &mut Bench<'_>, redis: &str) -> anyhow::Result<()> {
    for curve in Curve::value_variants().iter().filter(|curve| bench.choices.wants_curve(**curve)) {
        bench.others.clear();
        let section = measure(*curve, bench).await?.section(*curve, bench, redis);
        put(section, bench.choices.docs.as_deref())?;
    }
    Ok(())
}

/// Takes what the benchmarks of `benches/micro` say, from standard input, for a section of the same page.
pub(crate) fn micro(docs: Option<&Path>) -> anyhow::Result<()> {
    let said = io::read_to_string(io::stdin())?;
    let tree = said.trim();
    ensure!(tree.contains("median"), "this is not what divan says of benchmarks: {said:.200}");
    let note = "Parts of a decision, on one thread. *combine* has many tasks that take of one bucket at once, and \
                *item/s* counts them. *denial* is a take that is answered from memory. *encode* writes a request \
                into the buffer. *handle* makes the name of a bucket. *lease* is a `try_take` of a token that was \
                taken ahead.";
    let written = written("scripts/bench --micro", &installed_redis(), &CRATES, &[]);
    let section =
        format!("## {CLOSE_UP}\n\n{}\n```text\n{tree}\n```\n\n{}", wrapped(note), wrapped(&written));
    put(section, docs)
}

/// Prints a section, and puts it on the page.
fn put(section: String, docs: Option<&Path>) -> anyhow::Result<()> {
    answer(&section);
    let Some(docs) = docs else { return Ok(()) };
    let titles: Vec<&str> =
        Curve::value_variants().iter().map(|curve| curve.title()).chain([CLOSE_UP]).collect();
    report::put(docs, "growth.md", include_str!("../../report/growth.md"), &[section], &titles)
}

async fn measure(curve: Curve, bench: &mut Bench<'_>) -> anyhow::Result<Grown> {
    match curve {
        Curve::Keys | Curve::Tasks | Curve::Processes => Ok(takes::grown(bench, curve).await),
        Curve::Buckets => buckets::grown(bench).await,
        Curve::Limits => limits::grown(bench).await,
    }
}
