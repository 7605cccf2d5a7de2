//! What systemd is told. Without systemd, nothing.

use sd_notify::NotifyState;

/// Tells systemd that the daemon serves; `status` is shown by `systemctl status`.
pub fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Tells systemd that a reload has begun; [`ready`] ends it.
pub fn reloading() {
    // Newer systemd wants the instant with it; without a clock to ask, the message alone serves the older.
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(_) => tell(&[NotifyState::Reloading]),
    }
}

/// Tells systemd that the daemon is going.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Tells systemd how the daemon is doing.
pub fn status(status: &str) {
    tell(&[NotifyState::Status(status)]);
}

/// Tells systemd that the daemon is not stuck.
pub fn watchdog() {
    tell(&[NotifyState::Watchdog]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!("systemd could not be told: {error}");
    }
}
