//! A thread that starts children which die with their parent.
//!
//! `PR_SET_PDEATHSIG` is sent when the *thread* that forked the child ends, not when the process does. A start
//! from a short-lived thread (a test, a blocking pool) would kill the child with that thread; so children are
//! forked by a thread of their own, which lives until the keeper is dropped or the process ends.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use rustix::io::Errno;
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

type Job = (Command, Sender<io::Result<Child>>);

#[derive(Debug)]
pub(crate) struct Keeper {
    jobs: Sender<Job>,
}

// === impl Keeper ===

impl Keeper {
    pub(crate) fn new() -> io::Result<Self> {
        let (jobs, inbox) = channel::<Job>();
        thread::Builder::new().name("redis-keeper".into()).spawn(move || {
            for (mut command, reply) in inbox {
                // `spawn` below waits for every reply, so there is always somebody to hear it.
                let _ = reply.send(command.spawn());
            }
        })?;
        Ok(Self { jobs })
    }

    /// Starts `command` in a process group of its own, to be killed when this process ends in whatever way.
    pub(crate) fn spawn(&self, mut command: Command) -> io::Result<Child> {
        command.process_group(0);
        die_with_parent(&mut command);
        let (reply, answer) = channel();
        self.jobs.send((command, reply)).map_err(io::Error::other)?;
        answer.recv().map_err(io::Error::other)?
    }
}

#[allow(unsafe_code, reason = "std offers no safe way to run a system call between fork and exec")]
fn die_with_parent(command: &mut Command) {
    let parent = getpid();
    // SIGKILL: there is nothing to save, and a Redis that hangs or is paused must go as well.
    let before_exec = move || {
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
