//! Every request to Redis, each script beside the code that calls it.
//!
//! Functions take the connection as `&mut impl ConnectionLike`; a clone of a shared connection is cheap.

use redis::{ErrorKind, RedisError, ServerErrorKind};

mod at_rest;
mod carry;
mod count;
mod daemons;
mod first_take;
mod joint;
mod publish;
mod put_in;
mod refill;
mod registry;
mod scripted;
mod settle;
mod sweep;
mod throttle;

pub use at_rest::{
    AT_REST_UNIT, AtRestNumber, ask_adjust, ask_take_at_rest, is_at_rest, is_clean_counter, is_too_old,
    number_at_rest, read_counter, read_number_at_rest, rests_as_number,
};
pub use carry::{carry, is_carrying, list_former};
pub use count::{clear_counts, count, counts};
pub use daemons::{DaemonStatus, Health, daemons, eviction_policy, heartbeat, poll, retire};
pub use first_take::{
    LONGEST_FIRST_MS, MOST_FIRST, ask_first_take, can_take_first, first_take, is_not_a_counter,
};
pub use joint::{Part, are_apart, joint};
pub use publish::{FREEZE, algorithm_of, freeze, publish, read_limit};
pub use put_in::{PutIn, put_in, try_put_in};
pub use refill::{Look, count_active, is_active, refill};
pub use registry::{announce, forget, generation, published_limits, register};
pub use scripted::{ask, operate};
pub use settle::{ask_decrement, ask_settle, decrement, settle};
pub use sweep::{
    drop_record, find_at_rest, find_strays, sweep_counters, sweep_keys, sweep_states, touch_states,
};
pub use throttle::{cell_throttle, has_cell, is_no_command, throttle};

/// Whether Redis has to be given the text of a script first.
pub fn is_not_loaded(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// The source of a script: the shared parts it is written upon, then its own files, the last of which answers. What
/// answers the common case comes `after` which nothing else is needed: making the shared parts' functions would cost it
/// more than its own work.
macro_rules! script {
    ($($file:literal)+ $(, after $quick:literal)?) => {
        std::sync::LazyLock::new(|| {
            redis::Script::new(concat!(
                $(include_str!($quick),)?
                include_str!("time.lua"),
                include_str!("bucket.lua"),
                $(include_str!($file)),+
            ))
        })
    };
}
use script;
