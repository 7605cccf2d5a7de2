//! What the headers of the scripts promise.

mod arity;
mod flushed;
mod forms;
mod leftovers;
mod listing;
mod publishing;
pub(crate) mod sources;
mod wrong_types;
