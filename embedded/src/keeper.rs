//! A thread that starts children which die with their parent.
//!
//! The kernel ends such a child with the thread that started it, see [`child_command`]. A short-lived thread (of a
//! test, of a blocking pool) would take the child along. The keeper's thread lives until the keeper is dropped or the
//! process ends.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::thread;

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
                // `spawn` below waits for every reply, so a receiver is always there.
                let _ = reply.send(command.spawn());
            }
        })?;
        Ok(Self { jobs })
    }

    /// Starts `command`, a [`child_command`]. The kernel kills the child when this process ends in whatever way.
    pub(crate) fn spawn(&self, command: Command) -> io::Result<Child> {
        let (reply, answer) = channel();
        self.jobs.send((command, reply)).map_err(io::Error::other)?;
        answer.recv().map_err(io::Error::other)?
    }
}
