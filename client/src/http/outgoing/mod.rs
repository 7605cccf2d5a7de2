//! Requests that go out: they wait for tokens, and for as long as the other side asks.

mod call;
mod layer;
mod retry_after;

pub use call::{Answer, Outgoing, OutgoingKey, PerHost};
pub use layer::{CallError, Wait, WaitLayer};
