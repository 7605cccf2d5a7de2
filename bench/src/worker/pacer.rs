//! Waits for an instant to the µs. The timers of the runtime know whole ms, at which takes would come in bunches.

use std::{io, os::fd::OwnedFd, time::Duration};

use rustix::{
    io::read,
    time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    },
};
use tokio::io::unix::AsyncFd;
use topup_lab::clock::Stopwatch;

/// A timer of the kernel, and the time since it was made.
#[derive(Debug)]
pub(super) struct Pacer {
    watch: Stopwatch,
    timer: AsyncFd<OwnedFd>,
}

// === impl Pacer ===

impl Pacer {
    #[allow(
        deprecated,
        reason = "what replaces it is unsafe to call, and an OwnedFd keeps what that asks for"
    )]
    pub(super) fn start() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = AsyncFd::new(timerfd_create(TimerfdClockId::Monotonic, flags)?)?;
        Ok(Self { watch: Stopwatch::start(), timer })
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.watch.elapsed()
    }

    /// Waits until so much time has passed since its start: whether there was something to wait for.
    pub(super) async fn until(&self, at: Duration) -> io::Result<bool> {
        let Some(rest) = at.checked_sub(self.elapsed()).filter(|rest| !rest.is_zero()) else {
            return Ok(false);
        };
        let once = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: rest.subsec_nanos().into() },
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        loop {
            let mut ready = self.timer.readable().await?;
            // Otherwise it is ready for the wait before this one.
            if let Ok(fired) = ready.try_io(|timer| Ok(read(timer, &mut [0; 8])?)) {
                return fired.map(|_| true);
            }
        }
    }
}
