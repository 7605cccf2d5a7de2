//! The options of a private Redis.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A start takes some 10 ms; this is for a machine that is busy with something else.
const START_WITHIN: Duration = Duration::from_secs(5);

/// The options of [`crate::Builder`].
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) start_within: Duration,
    /// The folder in which the private folder is made.
    pub(crate) parent: PathBuf,
    pub(crate) tcp: bool,
}

// === impl Options ===

impl Options {
    pub(crate) fn new() -> Self {
        Self {
            program: "redis-server".into(),
            args: Vec::new(),
            start_within: START_WITHIN,
            parent: env::temp_dir(),
            tcp: false,
        }
    }

    pub(crate) fn program_name(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    /// Whether the program is a file.
    pub(crate) fn is_installed(&self) -> bool {
        find_program(Path::new(&self.program)).is_some()
    }
}

/// The file of `program`: a path, or a name to be looked for on the PATH of this process.
pub(crate) fn find_program(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return program.exists().then(|| program.to_owned());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.exists())
}
