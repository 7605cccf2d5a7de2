//! Watches the files of a config, and reads them when they have changed and rest.
//!
//! Editors and tools replace files in many ways: by a rename, by a link to another folder, in several writes. The
//! watch therefore never trusts an event: after one, it reads the files, and waits until they stay the same. Where the
//! kernel tells no events, it looks at the files itself.

mod events;
mod spots;
#[cfg(test)]
mod tests;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{
    sync::{mpsc, watch},
    task::{JoinHandle, spawn_blocking},
    time::{sleep, timeout},
};

use crate::config::ConfigFiles;
use events::{EventSource, Events, Stir};
use spots::Spots;

/// The time without an event after which files rest.
const QUIET: Duration = Duration::from_millis(50);
/// The longest time that a program may keep a file open between two writes. Others would see half of it.
const LONGEST_WRITE: Duration = Duration::from_secs(1);
/// The time that a file which is wrong, empty or missing has to become right before it is refused.
const PATIENCE: Duration = Duration::from_millis(500);
/// The time between two looks where nothing tells events.
const POLL: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 500 });
/// The time between two looks beside events: a network file system tells nothing of changes by other machines.
const NET: Duration = Duration::from_secs(10);

/// A watch on the files of a config. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct FileWatch {
    found: mpsc::Receiver<ConfigFiles>,
    task: JoinHandle<()>,
}

// === impl FileWatch ===

impl FileWatch {
    /// Begins to watch the config file at `file`, and the folder that it includes.
    pub(crate) fn start(file: PathBuf) -> Self {
        Self::with(file, EventSource::Kernel)
    }

    fn with(file: PathBuf, source: EventSource) -> Self {
        let (tell, found) = mpsc::channel(1);
        Self { found, task: tokio::spawn(run(file, source, tell)) }
    }

    /// The files as they are after a change, and as they were at the start. The same content may come twice.
    pub(crate) async fn changed(&mut self) -> ConfigFiles {
        match self.found.recv().await {
            Some(files) => files,
            // Its task ends with the runtime only.
            None => std::future::pending().await,
        }
    }
}

impl Drop for FileWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(file: PathBuf, source: EventSource, tell: mpsc::Sender<ConfigFiles>) {
    let (stir, mut stirs) = watch::channel(Stir::default());
    let mut events = Events::new(source, stir);
    let mut last = None;
    loop {
        // The next look sees changes between this look and the first event.
        let (_, spots) = look(&file).await;
        let hears_all = events.listen(spots);
        let (files, spots) = settled(&file, &mut stirs).await;
        let is_heard = events.hears(&spots);
        if last.as_ref() != Some(&files) {
            if tell.send(files.clone()).await.is_err() {
                return;
            }
            last = Some(files);
        }
        if is_heard {
            let pause = if hears_all { NET } else { POLL };
            let _ = timeout(pause, stirs.changed()).await;
        }
    }
}

/// Returns the files when they have stopped changing. Files with a mistake may be half written, and get more time.
async fn settled(file: &Path, stirs: &mut watch::Receiver<Stir>) -> (ConfigFiles, Spots) {
    loop {
        let before = look(file).await;
        quiet(stirs).await;
        let files = look(file).await;
        if files.0 != before.0 {
            continue;
        }
        if files.0.blank().is_none() && files.0.parse().is_ok() {
            return files;
        }
        if timeout(PATIENCE, stirs.changed()).await.is_err() && look(file).await == files {
            return files;
        }
    }
}

/// Returns when there has been no event for a while and no program is known to write.
async fn quiet(stirs: &mut watch::Receiver<Stir>) {
    loop {
        stirs.mark_unchanged();
        let longest = if stirs.borrow().is_open { LONGEST_WRITE } else { QUIET };
        // Between the two lines, an event may have come: it is not marked as seen then.
        if timeout(longest, stirs.changed()).await.is_err() {
            return;
        }
    }
}

/// Reads the files, and finds the places where a change of them shows.
async fn look(file: &Path) -> (ConfigFiles, Spots) {
    loop {
        let path = file.to_owned();
        let looked = spawn_blocking(move || {
            let files = ConfigFiles::read(&path);
            let spots = Spots::of(&path, files.folder());
            (files, spots)
        });
        match looked.await {
            Ok(looked) => return looked,
            // The runtime ends.
            Err(_) => sleep(POLL).await,
        }
    }
}
