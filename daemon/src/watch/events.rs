//! Events of the file system, as the kernel tells them.

use notify::{
    Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher,
    event::{AccessKind, AccessMode, ModifyKind},
};
use tokio::sync::watch;

use super::{POLL, spots::Spots};

/// Where events come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventSource {
    Kernel,
    /// A kernel that has no more watches to give.
    #[cfg(test)]
    Exhausted,
}

/// The state of the files, as events tell it.
#[derive(Clone, Debug, Default)]
pub(super) struct Stir {
    /// Whether a program writes into a file that it has open.
    pub(super) is_open: bool,
    /// Whether the kernel has stopped to tell events.
    is_broken: bool,
}

/// The events at some spots.
pub(super) struct Events {
    source: EventSource,
    stir: watch::Sender<Stir>,
    spots: Spots,
    /// `None` while events cannot be told.
    watcher: Option<RecommendedWatcher>,
    /// Whether the log knows that they cannot.
    is_told: bool,
}

// === impl Events ===

impl Events {
    pub(super) fn new(source: EventSource, stir: watch::Sender<Stir>) -> Self {
        Self { source, stir, spots: Spots::default(), watcher: None, is_told: false }
    }

    /// Listens at `spots`, unless it does so. Returns whether every change there will be told.
    pub(super) fn listen(&mut self, spots: Spots) -> bool {
        let is_broken = self.stir.borrow().is_broken;
        if self.watcher.is_none() || is_broken || self.spots != spots {
            self.spots = spots;
            // The one before goes on until the new one listens.
            match self.arm() {
                Ok(watcher) => {
                    self.watcher = Some(watcher);
                    if std::mem::take(&mut self.is_told) {
                        tracing::info!("files of the config are watched again");
                    }
                }
                Err(error) => {
                    self.watcher = None;
                    if !std::mem::replace(&mut self.is_told, true) {
                        tracing::warn!(
                            "files of the config cannot be watched ({error}): looking at them every {POLL:?} instead"
                        );
                    }
                }
            }
        }
        self.watcher.is_some() && self.spots.is_complete
    }

    /// Whether it listens at these spots.
    pub(super) fn hears(&self, spots: &Spots) -> bool {
        self.spots == *spots
    }

    fn arm(&self) -> notify::Result<RecommendedWatcher> {
        match self.source {
            EventSource::Kernel => {}
            #[cfg(test)]
            EventSource::Exhausted => return Err(notify::Error::new(notify::ErrorKind::MaxFilesWatch)),
        }
        self.stir.send_if_modified(|stir| {
            *stir = Stir::default();
            false
        });
        let (stir, spots) = (self.stir.clone(), self.spots.clone());
        let mut watcher = notify::recommended_watcher(move |event| heard(event, &spots, &stir))?;
        for folder in self.spots.folders.keys() {
            watcher.watch(folder, RecursiveMode::NonRecursive)?;
        }
        Ok(watcher)
    }
}

/// Tells an event that concerns the config.
fn heard(event: notify::Result<Event>, spots: &Spots, stir: &watch::Sender<Stir>) {
    let event = match event {
        Ok(event) => event,
        Err(_) => return stir.send_modify(|stir| stir.is_broken = true),
    };
    let is_open = match event.kind {
        EventKind::Modify(ModifyKind::Data(_)) => true,
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
        // Readers.
        EventKind::Access(_) => return,
        _ => false,
    };
    if event.need_rescan() || event.paths.iter().any(|path| spots.concern(path)) {
        stir.send_modify(|stir| stir.is_open = is_open);
    }
}
