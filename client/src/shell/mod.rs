//! The shell around the machine: it sends commands, receives replies, reads the clock and wakes tasks.

pub(crate) mod asking;
pub(crate) mod breakers;
pub(crate) mod bucket_cache;
pub(crate) mod clock;
pub(crate) mod control;
pub(crate) mod control_poll;
pub(crate) mod deadline;
pub(crate) mod dispatch;
pub(crate) mod entry;
pub(crate) mod expiry;
pub(crate) mod holds;
pub(crate) mod key_plans;
pub(crate) mod limit_handle;
pub(crate) mod limits;
pub(crate) mod local_buckets;
#[cfg(feature = "testing")]
pub(crate) mod manual_clock;
pub(crate) mod module;
pub(crate) mod pauses;
pub(crate) mod pending;
pub(crate) mod placed;
pub(crate) mod published;
pub(crate) mod put_back;
pub(crate) mod requests;
pub(crate) mod shared;
pub(crate) mod step;
pub(crate) mod timers;
pub(crate) mod waits;

pub(crate) use bucket_cache::{BucketCache, MOST_BUCKETS};
pub(crate) use dispatch::PipelineRequest;
pub(crate) use entry::BucketEntry;
pub(crate) use limit_handle::LimitHandle;
pub(crate) use limits::Limits;
pub(crate) use pending::{Pending, TaskWaiter};
pub(crate) use placed::{Place, Placed};
pub(crate) use published::Published;
pub(crate) use requests::{exceeds, not_tokens, unknown};
pub(crate) use shared::{Handle, Shared};
