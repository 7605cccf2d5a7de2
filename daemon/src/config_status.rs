//! The state of the config file, for the admin server.

use std::{path::PathBuf, sync::Arc};

use topup_wire::claims::Owner;

use crate::{
    clock::Moment,
    config::{Config, Problems},
    publish::Change,
};

/// The config in force, and the last look at its file.
#[derive(Clone, Debug)]
pub(crate) struct ConfigStatus {
    pub(crate) file: PathBuf,
    pub(crate) owner: Owner,
    pub(crate) config: Arc<Config>,
    /// When the config was applied; `None` if there has been none since the start.
    pub(crate) applied: Option<Moment>,
    /// The changes by the last reload that was applied; `None` if there has been no reload.
    pub(crate) changes: Option<Vec<String>>,
    /// The problems of the file, while it is refused.
    pub(crate) refused: Vec<String>,
}

// === impl ConfigStatus ===

impl ConfigStatus {
    /// The file is refused.
    pub(crate) fn refuse(&mut self, problems: &Problems) {
        self.refused = problems.0.iter().map(ToString::to_string).collect();
    }

    /// The file is `config` now, which makes `changes`.
    pub(crate) fn apply(&mut self, config: Arc<Config>, changes: &[Change]) {
        self.changes = Some(changes.iter().map(Change::to_string).collect());
        (self.config, self.applied, self.refused) = (config, Some(Moment::now()), Vec::new());
    }
}
