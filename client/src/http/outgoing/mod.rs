//! Outgoing requests: they wait for tokens, and for the pauses that called services ask for.

mod call;
mod layer;
mod retry_after;

pub use call::{OutgoingKey, OutgoingRequest, OutgoingResponse, PerHost};
pub use layer::{CallError, Wait, WaitLayer};
