//! The places in the file system where a change of a config shows.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ffi::OsString,
    fs,
    os::unix::fs::MetadataExt,
    path::{self, Component, Path, PathBuf},
};

/// Symbolic links that may be on the way to a file: as many as Linux follows.
const MOST_LINKS: usize = 40;

/// Folders to listen to, and names in them that matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Spots {
    /// Each folder with its identity, which is another after the folder was replaced.
    pub(super) folders: BTreeMap<PathBuf, (u64, u64)>,
    /// The file, and each link on the way to it.
    names: BTreeSet<PathBuf>,
    /// The folder of which every file matters.
    whole: Option<PathBuf>,
    /// Whether all of these folders are there.
    pub(super) is_complete: bool,
}

// === impl Spots ===

impl Spots {
    /// The places for the file at `path` and the files in `folder`.
    pub(super) fn of(path: &Path, folder: Option<&Path>) -> Self {
        let mut spots = Self { is_complete: true, ..Self::default() };
        spots.follow(path);
        if let Some(folder) = folder {
            let folder = spots.follow(folder);
            spots.listen_to(&folder);
            let links = fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok);
            for link in links.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink())) {
                spots.follow(&link.path());
            }
            spots.whole = Some(folder);
        }
        spots
    }

    /// Whether an event at `path` may change the config.
    pub(super) fn concern(&self, path: &Path) -> bool {
        self.names.contains(path)
            || self.folders.contains_key(path)
            || self.whole.as_deref().is_some_and(|whole| path.parent() == Some(whole))
    }

    /// Adds the way to `path`: each link on it, and the file at its end. Returns that end.
    fn follow(&mut self, path: &Path) -> PathBuf {
        let absolute = path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut left = parts(&absolute);
        let (mut here, mut links) = (PathBuf::from("/"), 0);
        while let Some(part) = left.pop_front() {
            if part == ".." {
                here.pop();
                continue;
            }
            let next = here.join(&part);
            match fs::read_link(&next) {
                Ok(target) if links < MOST_LINKS => {
                    links += 1;
                    self.listen_to(&here);
                    self.names.insert(next);
                    parts(&target).into_iter().rev().for_each(|part| left.push_front(part));
                    if target.is_absolute() {
                        here = PathBuf::from("/");
                    }
                }
                _ => here = next,
            }
        }
        if let Some(folder) = here.parent() {
            self.listen_to(folder);
        }
        self.names.insert(here.clone());
        here
    }

    fn listen_to(&mut self, folder: &Path) {
        match fs::metadata(folder) {
            Ok(found) => drop(self.folders.insert(folder.to_owned(), (found.dev(), found.ino()))),
            Err(_) => self.is_complete = false,
        }
    }
}

/// The names in `path`, without its root.
fn parts(path: &Path) -> VecDeque<OsString> {
    let is_step = |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    path.components().filter(is_step).map(|part| part.as_os_str().to_owned()).collect()
}
