//! Signals that end a program early.

use std::{io, process::ExitCode};

use tokio::signal::unix::{SignalKind, signal};

/// The number of the signal that came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted(pub u8);

/// Runs `work` unless INT, TERM or HUP comes first. The signals are caught, so that the caller can end its children.
///
/// # Errors
/// When the signals cannot be caught.
pub async fn unless_signalled<T>(work: impl Future<Output = T>) -> io::Result<Result<T, Interrupted>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(tokio::select! {
        biased;
        _ = interrupt.recv() => Err(Interrupted(2)),
        _ = terminate.recv() => Err(Interrupted(15)),
        _ = hangup.recv() => Err(Interrupted(1)),
        done = work => Ok(done),
    })
}

// === impl Interrupted ===

impl From<Interrupted> for ExitCode {
    /// 128 and the signal's number, as shells say it.
    fn from(Interrupted(signal): Interrupted) -> Self {
        Self::from(128 + signal)
    }
}
