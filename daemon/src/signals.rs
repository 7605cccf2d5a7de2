//! Unix signals as a stream of requests to the daemon.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use futures_util::StreamExt;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1},
    flag,
};
use signal_hook_tokio::Signals;

/// The request of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// TERM or INT: finish the slices in flight, and end.
    Stop,
    /// HUP: read the config again.
    Reload,
    /// USR1: log the status.
    LogStatus,
}

/// The stream of requests.
pub struct Requests(Signals);

/// Makes a second TERM or INT end the process at once. Call it before the runtime starts: it then works even if all
/// tasks hang.
///
/// # Errors
/// If the handlers cannot be installed.
pub fn exit_on_second() -> io::Result<()> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        // The order matters: the first signal must find the flag unset before it sets it.
        flag::register_conditional_shutdown(signal, 128 + signal, asked.clone())?;
        flag::register(signal, asked.clone())?;
    }
    debug_assert!(!asked.load(SeqCst));
    Ok(())
}

// === impl Requests ===

impl Requests {
    /// Catches signals from now on.
    ///
    /// # Errors
    /// If the handlers cannot be installed.
    pub fn listen() -> io::Result<Self> {
        Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1]).map(Self)
    }

    /// The next request.
    pub async fn next(&mut self) -> Request {
        loop {
            match self.0.next().await {
                Some(SIGHUP) => return Request::Reload,
                Some(SIGUSR1) => return Request::LogStatus,
                Some(SIGTERM | SIGINT) => return Request::Stop,
                Some(_) => {}
                // The stream never ends while its handlers exist.
                None => std::future::pending().await,
            }
        }
    }
}

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Requests").finish_non_exhaustive()
    }
}
