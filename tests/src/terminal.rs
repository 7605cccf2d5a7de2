//! A terminal of a test's own: a pseudo-terminal of 80 by 24, and what is drawn on it.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::OwnedFd,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use rustix::{
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt},
    termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize},
};
use tokio::process::Child;

/// A terminal.
#[derive(Debug)]
pub struct Terminal {
    keys: File,
    /// Held, so that the output of a program that ended can be read.
    peer: OwnedFd,
    seen: Arc<Mutex<Vec<u8>>>,
}

/// Sends a signal to a program on a terminal.
///
/// # Panics
///
/// When it has ended.
pub fn signal(program: &Child, signal: Signal) {
    let pid = program.id().and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
    kill_process(pid.expect("it runs"), signal).expect("a child can be signalled");
}

// === impl Terminal ===

impl Terminal {
    /// Opens one.
    ///
    /// # Panics
    ///
    /// When the machine has none.
    #[must_use]
    pub fn open() -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let keys = openpt(flags).expect("a pseudo-terminal");
        grantpt(&keys).expect("it is ours");
        unlockpt(&keys).expect("it is ours");
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&keys, size).expect("a terminal has a size");
        let peer = ioctl_tiocgptpeer(&keys, flags).expect("its other end");
        let (mut screen, seen) =
            (File::from(keys.try_clone().expect("a file")), Arc::new(Mutex::new(Vec::new())));
        let drawn = seen.clone();
        // It ends with the last end of the terminal.
        thread::spawn(move || {
            let mut buffer = [0; 4_096];
            while let Ok(read @ 1..) = screen.read(&mut buffer) {
                drawn.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..read]);
            }
        });
        Self { keys: keys.into(), peer, seen }
    }

    /// The end for a program.
    pub(crate) fn other_end(&self) -> Stdio {
        self.peer.try_clone().expect("a file").into()
    }

    /// Presses keys.
    ///
    /// # Panics
    ///
    /// When the terminal is gone.
    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("a terminal has keys");
    }

    /// All that was written to the screen, control sequences included.
    #[must_use]
    pub fn seen(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// Whether keys are shown and lines are edited, as a shell needs it.
    ///
    /// # Panics
    ///
    /// When the terminal is gone.
    #[must_use]
    pub fn is_as_shells_want_it(&self) -> bool {
        let modes = tcgetattr(&self.peer).expect("a terminal has modes").local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON)
    }
}
