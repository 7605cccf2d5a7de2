//! A child process that never outlives the demo, not even as a zombie.

use std::{
    ops::{Deref, DerefMut},
    thread::sleep,
    time::Duration,
};

use tokio::process;

/// A killed process is gone within a millisecond or so; one that hangs in the kernel is not waited for longer.
const LOOKS: u32 = 200;
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// A child process; killed and awaited on drop.
#[derive(Debug)]
pub(crate) struct Child(process::Child);

// === impl Child ===

impl Child {
    /// Starts `command` in a process group of its own: the terminal's Ctrl-C reaches the demo alone, which ends the rest.
    pub(crate) fn spawn(command: &mut process::Command) -> std::io::Result<Self> {
        command.process_group(0).kill_on_drop(true).spawn().map(Self)
    }
}

impl Deref for Child {
    type Target = process::Child;

    fn deref(&self) -> &process::Child {
        &self.0
    }
}

impl DerefMut for Child {
    fn deref_mut(&mut self) -> &mut process::Child {
        &mut self.0
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // An error means that it has ended and been awaited already.
        if self.0.start_kill().is_err() {
            return;
        }
        for _ in 0..LOOKS {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            sleep(LOOK_EVERY);
        }
    }
}
