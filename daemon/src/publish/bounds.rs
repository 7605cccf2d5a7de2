//! Bounds on the work that publishing has in flight.

/// Buckets that one script or command handles: about a millisecond of Redis, so that takes pass between.
pub(crate) const SLICE: usize = 250;

/// Limits that are published, or read, at once. The connection's queue holds 50 requests. A fuller queue would block
/// all others, the heartbeat first, while the tasks that fill it are not polled.
pub(crate) const MAX_CONCURRENT: usize = 16;
