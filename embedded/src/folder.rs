//! The private folder of one Redis, and the removal of those whose owner was killed before it could clean up.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

/// `sockaddr_un.sun_path` has 108 bytes, the closing NUL among them.
pub(crate) const LONGEST_SOCKET_PATH: usize = 107;

const PREFIX: &str = "topup-redis-";
const LOG: &str = "redis.log";
const LAST_LINES: usize = 12;

/// A folder only its owner can enter, removed on drop.
///
/// Its owner holds a `flock` on it. The kernel drops the lock with the process, whatever ended the process. A folder that
/// can be locked is therefore an orphan. Unlike a stored pid, the lock survives pid reuse and containers. The lock also
/// tells systemd-tmpfiles to leave the folder alone when it ages the temp folder.
#[derive(Debug)]
pub(crate) struct Folder {
    dir: TempDir,
    _lock: File,
}

// === impl Folder ===

impl Folder {
    /// Makes a folder inside `parent`, and removes the orphans of the same user there.
    pub(crate) fn create(parent: &Path) -> io::Result<Self> {
        let parent = std::path::absolute(parent)?;
        fs::create_dir_all(&parent)?;
        remove_orphans(&parent)?;
        let dir = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(&parent)?;
        let lock = File::open(dir.path())?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        // Only now: a folder without a log may be one that is about to be locked, and is never an orphan.
        File::create(dir.path().join(LOG))?;
        Ok(Self { dir, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path().join("redis.sock")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path().join(LOG)
    }

    /// The last lines of the log; empty when Redis logged nothing.
    pub(crate) fn last_words(&self) -> String {
        let log = fs::read(self.log()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.trim_end().lines().collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    }
}

fn remove_orphans(parent: &Path) -> io::Result<()> {
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(PREFIX) && is_orphan(&entry.path()) {
            // Another starter may be removing it too, and what cannot be removed costs a few kilobytes.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

/// Whether `path` is the folder of a server that has ended: ours, once in use, and its lock is free. It has to be a real
/// folder, since anyone may plant a link in a shared temp folder.
fn is_orphan(path: &Path) -> bool {
    let ours = fs::symlink_metadata(path)
        .is_ok_and(|found| found.is_dir() && found.uid() == rustix::process::geteuid().as_raw());
    ours && path.join(LOG).exists()
        && File::open(path).is_ok_and(|dir| flock(&dir, FlockOperation::NonBlockingLockExclusive).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_owner_can_enter() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::create(parent.path()).unwrap();
        assert_eq!(fs::metadata(folder.path()).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn an_orphan_is_removed_and_a_living_folder_kept() {
        let parent = tempfile::tempdir().unwrap();
        let living = Folder::create(parent.path()).unwrap();
        let orphan = parent.path().join(format!("{PREFIX}orphan"));
        fs::create_dir(&orphan).unwrap();
        File::create(orphan.join(LOG)).unwrap();
        let foreign = parent.path().join("somebody-else");
        fs::create_dir(&foreign).unwrap();

        let next = Folder::create(parent.path()).unwrap();

        assert!(!orphan.exists());
        assert!(living.path().exists() && next.path().exists() && foreign.exists());
    }

    #[test]
    fn a_folder_not_yet_locked_is_kept() {
        let parent = tempfile::tempdir().unwrap();
        let newborn = parent.path().join(format!("{PREFIX}newborn"));
        fs::create_dir(&newborn).unwrap();

        Folder::create(parent.path()).unwrap();

        assert!(newborn.exists());
    }

    #[test]
    fn a_planted_link_is_not_followed() {
        let parent = tempfile::tempdir().unwrap();
        let target = tempfile::tempdir().unwrap();
        File::create(target.path().join(LOG)).unwrap();
        std::os::unix::fs::symlink(target.path(), parent.path().join(format!("{PREFIX}link"))).unwrap();

        Folder::create(parent.path()).unwrap();

        assert!(target.path().join(LOG).exists());
    }
}
