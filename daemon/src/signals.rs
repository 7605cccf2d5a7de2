//! Signals, as a stream of requests.

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

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// TERM or INT: end the slice at hand, and go.
    Stop,
    /// HUP: read the config again.
    Reload,
    /// USR1: say how it is going.
    Report,
}

/// The requests made by signals.
pub struct Requests(Signals);

/// Makes a second TERM or INT end the process at once. Before the runtime starts, so that it works whatever hangs.
///
/// # Errors
/// When the handlers cannot be installed.
pub fn exit_on_second() -> io::Result<()> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        // In this order: the first signal finds the flag unset, and sets it.
        flag::register_conditional_shutdown(signal, 128 + signal, asked.clone())?;
        flag::register(signal, asked.clone())?;
    }
    debug_assert!(!asked.load(SeqCst));
    Ok(())
}

// === impl Requests ===

impl Requests {
    /// Listens from now on.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub fn listen() -> io::Result<Self> {
        Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1]).map(Self)
    }

    /// The next request.
    pub async fn next(&mut self) -> Request {
        loop {
            match self.0.next().await {
                Some(SIGHUP) => return Request::Reload,
                Some(SIGUSR1) => return Request::Report,
                Some(SIGTERM | SIGINT) => return Request::Stop,
                Some(_) => {}
                // Never closed while it is listened to.
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
