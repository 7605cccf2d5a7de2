//! The rows of a source, if it can be read.

use topup_wire::assigned_keys::AssignedKeys;

use super::Follower;
use crate::{config::SourcePlace, source::file};

// === impl Follower ===

impl Follower {
    /// The number of rows of a file that is as it was, if Redis has them.
    pub(super) async fn rows_if_unchanged(&self, applied: &str) -> Option<usize> {
        match &self.source.place {
            SourcePlace::File(path) => self.last.rows_if_unchanged(self.folder.join(path), applied).await,
            SourcePlace::Query { .. } => None,
        }
    }

    /// The rows, and their hash.
    pub(super) async fn read(&mut self, applied: String) -> Result<(AssignedKeys, String), String> {
        match &self.source.place {
            SourcePlace::File(path) => {
                let path = self.folder.join(path);
                let (rows, look) = file::read(path, self.limit, self.plans.clone(), applied).await?;
                let hash = look.hash().to_owned();
                self.last.note(look);
                Ok((rows, hash))
            }
            #[cfg(feature = "sql")]
            SourcePlace::Query { url, query } => {
                let rows =
                    crate::source::sql::read(url, query, &self.folder, self.limit, &self.plans).await?;
                let hash = crate::source::hash_of(&rows);
                Ok((rows, hash))
            }
            #[cfg(not(feature = "sql"))]
            SourcePlace::Query { .. } => Err(crate::config::SqlUrlError::NotBuilt.to_string()),
        }
    }
}
