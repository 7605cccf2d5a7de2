//! Requests to Redis, each script beside the code that calls it.
//!
//! Functions take the connection as `&mut impl ConnectionLike`; a clone of a shared connection is cheap.

use redis::{ErrorKind, RedisError, Script, ScriptInvocation, ServerErrorKind};

use crate::keyspace::ShardKeys;

mod all_assigned;
mod all_states;
mod arrange;
mod assign;
mod assigned;
mod assignment_index;
mod at_rest;
mod claims;
mod compare_assigned;
mod count;
mod count_permits;
mod daemons;
mod defined;
mod definitions;
mod expire_record;
mod fair_shares;
mod find_buckets;
mod first_take;
mod hash_order;
mod hold_reply;
mod holds;
mod in_doubt;
mod look_at_shard;
mod mend;
mod migrate;
mod pauses;
mod penalty;
mod permit_reply;
mod permits;
mod plan_move;
mod publish;
mod put_in;
mod raw_record;
mod record;
mod refill;
mod registry;
mod replace_assigned;
mod scan;
mod settle;
mod sources;
mod sweep;
mod take_all;
mod throttle;
mod top;
mod window;
mod workers;

pub use all_assigned::{AllAssigned, all_assigned};
pub use all_states::{sweep_states, touch_states};
pub use arrange::{IDLE, forget_assigned, remove_arrangement, remove_idle};
pub use assign::{Change, KeyChange, MOST_AT_ONCE, MOST_LOGGED, assign, try_assign};
pub use assigned::{assigned_outside, key_filter};
pub use assignment_index::{AssignmentIndex, assigned_after, assignment_index};
pub use at_rest::{
    AtRestNumber, are_whole_tokens, early_at_rest, encode_correction, encode_take_at_rest, is_at_rest,
    is_clean_counter, is_too_old, key_at_rest_until, number_at_rest, number_expires_at, read_counter,
    read_left, read_number_at_rest, read_text_at_rest, rests_as_number, time_at_rest, units_at_rest,
};
pub use claims::{ClaimChange, claim, ownership};
pub use compare_assigned::{Differences, compare_assigned};
pub use count::{clear_counts, count, counts, is_uncounted};
pub use count_permits::{PermitCounts, count_permits};
pub use daemons::{DaemonStatus, Health, check_writes, daemons, eviction_policy, heartbeat, poll, retire};
pub use defined::{DefineReply, HeldDefinition, change_defined, end_defined, forget_defined, hold_defined};
pub use definitions::{defined_limits, definition, ended_definitions, has_definitions};
pub use expire_record::{drop_expired, end_record, expire_record};
pub use fair_shares::{PartState, part_states};
pub use find_buckets::{Strays, find_at_rest, find_strays};
pub use first_take::{can_take_first, encode_first_take, first_take, is_not_a_counter};
pub use hold_reply::{DueHold, DueHolds, HoldOutcome, HoldReply};
pub use holds::{
    HoldOf, Use, abandon_hold, count_holds, due_holds, remember_hold, reserve_hold, settle_hold,
};
pub use in_doubt::InDoubt;
pub use look_at_shard::{ShardLook, is_corruption, look_at_shard};
pub use mend::{Mended, SharedMended, clean, mend, mend_shared};
pub use migrate::{is_migrating, list_previous, migrate};
pub use pauses::{
    LONGEST_PAUSE, MOST_BLOCKS, MOST_PAUSES, Pause, PauseReply, Pauses, block, pause, paused, resume,
    resume_all,
};
pub use penalty::{block_denied, penalize};
pub use permit_reply::{PermitState, Permits};
pub use permits::{KeyPermits, PermitOperation, peek_permits, permits};
pub use plan_move::{PlanBucket, PlanMove, move_tokens};
pub use publish::{FREEZE, algorithm_of, freeze, publish, publish_until, read_limit};
pub use put_in::{PutIn, put_in, try_put_in};
pub use raw_record::Record;
#[cfg(feature = "fuzzing")]
pub(crate) use record::parse as parse_record;
pub use refill::{Look, count_active, is_active, refill};
pub use registry::{
    MOST_CHANGES_LOGGED, announce, announce_one, changed_limits, forget, generation, is_registered,
    newer_schema, now, published_limits, register,
};
pub use replace_assigned::replace_assigned;
pub use settle::{decrement, encode_decrement, encode_settle, settle};
pub use sources::{
    SourceNews, SourceStatus, SourceTurn, doubt_source, forget_source, source_statuses, source_turn,
};
pub(crate) use sweep::remove_state;
pub use sweep::{drop_record, sweep_counters, sweep_keys};
pub use take_all::{BucketTake, is_cross_slot, take_all};
pub use throttle::{cell_throttle, has_cell, is_no_command, throttle};
pub use top::{DeniedKeys, add_denied, most_denied};
pub use window::{WindowEnd, encode_window_take, read_window};
pub use workers::{report_worker, retire_worker};

pub use crate::least_rights::is_not_permitted;

/// Whether Redis needs the text of a script first.
pub fn is_not_loaded(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// A call of a script on some members of a shard. Its keys are the `first` ones, then the counter of each member. Its first
/// argument is the length of a counter's key before the member.
fn call_on_members<'s>(
    script: &'s Script,
    first: &[&str],
    keys: &ShardKeys,
    members: &[impl AsRef<[u8]>],
) -> ScriptInvocation<'s> {
    let mut call = script.prepare_invoke();
    for key in first {
        call.key(*key);
    }
    for member in members {
        call.key([keys.counters.as_bytes(), member.as_ref()].concat());
    }
    call.arg(keys.counters.len());
    call
}

/// A script: shared files first, then its own, of which the last replies. The files `after` which they come answer the
/// common cases: making the functions of the others would cost these more than their own work. Constants come before each
/// part.
macro_rules! script {
    ($($file:literal)+ $(, after $($packed:literal)+)?) => {
        std::sync::LazyLock::new(|| {
            let parts = [
                $($(include_str!($packed),)+)?
                concat!(include_str!("time.lua"), include_str!("bucket.lua"), $(include_str!($file)),+),
            ];
            crate::least_rights::script(&parts.map(crate::constants::with_constants).concat())
        })
    };
}
use script;
