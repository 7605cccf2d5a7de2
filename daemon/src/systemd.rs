//! Notifications to systemd. Without systemd, these functions do nothing.

use sd_notify::NotifyState;

/// Tells systemd that the daemon serves; `status` is shown by `systemctl status`.
pub fn ready(status: &str) {
    notify(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Tells systemd that a reload has begun; [`ready`] ends it.
pub fn reloading() {
    // Newer versions of systemd want the instant, too.
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(_) => notify(&[NotifyState::Reloading]),
    }
}

/// Tells systemd that the daemon is about to end.
pub fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Sets the status line that `systemctl status` shows.
pub fn status(status: &str) {
    notify(&[NotifyState::Status(status)]);
}

/// Tells systemd that the daemon is not stuck.
pub fn watchdog() {
    notify(&[NotifyState::Watchdog]);
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!("systemd could not be notified: {error}");
    }
}
