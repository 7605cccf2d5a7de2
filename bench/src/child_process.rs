//! Child processes that never outlive the benchmark, on the CPUs that are theirs.

use std::{convert::Infallible, ffi::OsString, os::unix::process::CommandExt, path::Path, process};

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use tokio::process::{Child, Command};

use crate::cpu;

/// A command that runs `program` as [`become_program`] does. In a process group of its own, so that Ctrl-C reaches the
/// benchmark alone, which ends the rest.
pub(crate) fn command(program: &Path, avoid_redis: bool) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("where is this program?")?);
    command.arg("child").arg(process::id().to_string());
    if avoid_redis {
        command.arg("--avoid-redis");
    }
    command.arg("--").arg(program).process_group(0).kill_on_drop(true);
    Ok(command)
}

/// Becomes `program`, to be ended by the kernel when its parent ends, `kill -9` included. What the kernel is asked for
/// here outlasts the change of program, and needs no unsafe code between fork and exec.
pub(crate) fn become_program(
    parent: i32,
    avoid_redis: bool,
    program: &Path,
    args: &[OsString],
) -> anyhow::Result<Infallible> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // A parent that died before the call above sends nothing any more.
    ensure!(getppid() == Pid::from_raw(parent), "the benchmark has ended");
    if avoid_redis {
        cpu::avoid_redis()?;
    }
    let failed: Result<Infallible, _> = Err(process::Command::new(program).args(args).exec());
    failed.with_context(|| program.display().to_string())
}

/// Ends a child at once and waits for its end.
pub(crate) async fn end(mut child: Child) {
    // An error means that it has ended by itself.
    let _ = child.kill().await;
}
