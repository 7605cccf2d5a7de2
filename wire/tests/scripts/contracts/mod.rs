//! Promises in the headers of the scripts.

mod arity;
mod assignments;
mod at_rest;
mod defined;
mod flushed;
mod forms;
mod healing;
mod holds;
mod leftovers;
mod listing;
mod mending;
mod pauses;
#[cfg(feature = "in-memory")]
mod penalty;
mod pipeline;
mod plan_moves;
mod publishing;
mod schema;
pub(crate) mod sources;
mod top;
mod wrong_types;
