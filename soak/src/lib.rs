//! Seeded faults between real workers, daemons and Redis, and a judge that knows the laws alone.
//!
//! | part | what it does |
//! |---|---|
//! | [`plan`] | draws processes, limits and faults from a seed |
//! | [`limits`] | the limits: their configs, and the terms that bound them |
//! | [`worker`] | calls topup, in a thread or a process, and tells each call |
//! | [`world`] | starts the processes and carries out the faults |
//! | [`heard`] | reports of the workers |
//! | [`oracle`] | laws 1 and 2 on instants and counts |
//! | [`judge`] | all laws of a run, with the bounds that docs/reliability.md states |
//! | [`run`] | one run from its start to its judgement |
//! | [`totals`] | figures of all runs |
//! | [`steady`] | no faults: memory stays flat under a steady load |
//! | [`cluster`] | one of three masters is killed: the others are as fast as before |

#![allow(clippy::expect_used, reason = "a harness fails the run it serves")]

pub mod cluster;
pub mod heard;
pub mod judge;
pub mod limits;
pub mod oracle;
pub mod plan;
pub mod run;
pub mod steady;
pub mod totals;
pub mod worker;
pub mod world;
