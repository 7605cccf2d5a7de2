//! CPUs: Redis has one of its own, the load generators have the others.
//!
//! Without that, a figure would tell where the kernel happened to put things.

use rustix::{
    process::{Pid, setpriority_process},
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};

/// Priority of everything that is measured, where the kernel allows it: other programs wait, and take little from a figure.
const PRIORITY: i32 = -15;

/// The CPUs this process may use: the first, for Redis, and the others. Nothing when there is but one.
fn split() -> Option<(CpuSet, CpuSet)> {
    let mut rest = sched_getaffinity(None).ok()?;
    let first = (0..CpuSet::MAX_CPU).find(|&cpu| rest.is_set(cpu))?;
    rest.unset(first);
    let mut redis = CpuSet::new();
    redis.set(first);
    (rest.count() > 0).then_some((redis, rest))
}

/// Gives this process, and all that it starts from now on, the same priority.
pub(crate) fn prefer() {
    // Refused to most users. A figure then depends on a machine with nothing else to do.
    let _ = setpriority_process(None, PRIORITY);
}

/// The number of CPUs to run on.
pub(crate) fn count() -> u32 {
    sched_getaffinity(None).map_or(1, |cpus| cpus.count())
}

/// Gives the process `pid`, a Redis, the first CPU.
pub(crate) fn pin_redis(pid: u32) -> anyhow::Result<()> {
    if let Some((redis, _)) = split() {
        sched_setaffinity(Pid::from_raw(pid.cast_signed()), &redis)?;
    }
    Ok(())
}

/// Leaves the first CPU to Redis, from now on, for this thread and the children that it starts.
///
/// # Errors
/// When the kernel does not allow it.
pub fn avoid_redis() -> anyhow::Result<()> {
    if let Some((_, rest)) = split() {
        sched_setaffinity(None, &rest)?;
    }
    Ok(())
}

/// Does `start`, whose children leave the first CPU to Redis.
pub(crate) fn beside_redis<T>(start: impl FnOnce() -> T) -> anyhow::Result<T> {
    let before = sched_getaffinity(None)?;
    avoid_redis()?;
    let started = start();
    sched_setaffinity(None, &before)?;
    Ok(started)
}
