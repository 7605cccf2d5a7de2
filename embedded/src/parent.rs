//! Children that die with their parent.

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Makes `command` start a child that the kernel kills (SIGKILL) when its parent ends, however the parent ends.
///
/// The child gets a process group of its own, so the terminal's Ctrl-C reaches the parent alone. The kernel watches the
/// *thread* that starts the child (`PR_SET_PDEATHSIG`): start it from a thread that lives as long as the child may.
/// Linux only.
#[allow(unsafe_code, reason = "std offers no safe way to run a system call between fork and exec")]
pub fn die_with_parent(command: &mut Command) {
    command.process_group(0);
    let parent = getpid();
    let before_exec = move || {
        // SIGKILL: a child that hangs or is paused must go as well.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // A parent that died before the call above sends nothing any more.
        if getppid() == Some(parent) { Ok(()) } else { Err(Errno::SRCH.into()) }
    };
    // SAFETY: the closure runs in the forked child of a threaded process, where only async-signal-safe calls are
    // sound. It makes two system calls, neither allocates nor locks, and builds errors from bare numbers only.
    unsafe {
        command.pre_exec(before_exec);
    }
}
