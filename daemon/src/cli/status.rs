//! `topupd status`: the report of the published state, as text or JSON.

use super::{
    args::Status,
    exit::Exit,
    output::print_line,
    redis::{Failure, open, run_as, server},
    status_text::render,
};
use crate::report::{Health, Pace, gather};

pub(super) fn main(args: &Status) -> Exit {
    run_as(args.query.json, &args.query.connect, async {
        let url = server(&args.query.connect)?;
        let connection = open(&url)?;
        let report = gather(url.to_string(), &connection, Pace::AT_ONCE).await;
        if args.query.json {
            let text = serde_json::to_string_pretty(&report);
            print_line(&text.map_err(|error| Failure::Undecided(error.into()))?);
        } else {
            print_line(&render(&report));
        }
        Ok(report.health.into())
    })
}

// === impl Health ===

impl From<Health> for Exit {
    fn from(health: Health) -> Self {
        match health {
            Health::Healthy => Self::Done,
            Health::Degraded => Self::Degraded,
            Health::NoDaemon => Self::NoDaemon,
            Health::Unpublished => Self::Unpublished,
            Health::Undecided => Self::Undecided,
        }
    }
}
