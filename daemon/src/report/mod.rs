//! The report of the published state, for `topupd status` and the admin server. Its fields are those of the JSON.

mod bucket;
mod bucket_error;
mod daemon_row;
mod gather;
mod key_plan;
mod limit_row;
mod ownership;
mod pauses;
mod problems;
mod rates;
mod read_limit;
mod sources;
mod status_report;

pub(crate) use bucket::{BucketLocation, find_limit, retry_after};
pub(crate) use bucket_error::BucketError;
pub(crate) use daemon_row::DaemonRow;
pub(crate) use gather::{Pace, gather};
pub(crate) use key_plan::{plan_sources, terms_of};
pub(crate) use limit_row::{CandidateRow, LimitRow, PartRow};
#[cfg(test)]
pub(crate) use limit_row::{DeniedKey, TopDenied};
pub(crate) use ownership::OwnerRow;
pub(crate) use pauses::PauseRow;
pub(crate) use rates::rates;
pub(crate) use sources::SourceRow;
pub(crate) use status_report::{Health, Problem, StatusReport};
