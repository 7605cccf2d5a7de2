//! The source of a limit's assignments: a file, or a query of a database.

use std::{fmt, time::Duration};

use topup_wire::limit::Percent;

use super::{raw_table::RawTable, sql_url::SqlUrl, times, variables::Variables};

/// The part of the assignments that a source may drop at once, unless it names another.
const MAX_DROP_PERCENT: u64 = 50;

/// Where the daemon reads which keys are assigned to which plans.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceConfig {
    /// The place.
    pub place: SourcePlace,
    /// The time between two looks.
    pub every: Duration,
    /// The part of its assignments that may go at once.
    pub max_drop: Percent,
}

/// The place of a source.
#[derive(Clone, Debug, PartialEq)]
pub enum SourcePlace {
    /// A file of CSV or of JSON lines, or a folder of such files. A relative path begins in the folder of the config file.
    File(String),
    /// A query of a SQL database.
    Query {
        /// The database.
        url: SqlUrl,
        /// The query.
        query: String,
    },
}

/// Reads `source` of a limit. `None` for a source that is reported as wrong.
pub(super) fn read(table: &RawTable<'_>, variables: Variables<'_>) -> Option<SourceConfig> {
    let every = match table.has("every") {
        true => table.text_by("every", times::every).map(|every| every.value),
        false => Some(times::DEFAULT_EVERY),
    };
    let max_drop = match table.has("max_drop_percent") {
        true => table.whole("max_drop_percent", Percent::new).map(|percent| percent.value),
        false => Percent::new(MAX_DROP_PERCENT).ok(),
    };
    let file = table.text_by("file", |path| match path {
        "" => Err("a path is no empty text: write file = \"tenants.csv\""),
        path => Ok(path.to_owned()),
    });
    let url = table.url::<SqlUrl>("url", variables);
    let query = table.text::<String>("query");
    match (table.find("file"), table.find("url")) {
        (Some(location), Some(_)) => {
            table.error(&location, "a source is a file or a database, never both: remove file or url");
        }
        (None, None) => table.require("file", ", or url and query for a database"),
        (Some(_), None) => {
            if let Some(location) = table.find("query") {
                table.error(&location, "a file has no query: remove query, or write url in place of file");
            }
        }
        (None, Some(_)) => table.require("query", ""),
    }
    let place = match (file, url) {
        (Some(file), None) => SourcePlace::File(file.value),
        (None, url) => SourcePlace::Query { url: url?.value, query: query?.value },
        (Some(_), Some(_)) => return None,
    };
    Some(SourceConfig { place, every: every?, max_drop: max_drop? })
}

// === impl SourcePlace ===

/// The file, or the database without user and password.
impl fmt::Display for SourcePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.write_str(path),
            Self::Query { url, .. } => write!(f, "{url}"),
        }
    }
}

// === impl SourceConfig ===

impl SourceConfig {
    /// The part of its text that decides which rows it has.
    pub fn rows(&self) -> String {
        match &self.place {
            SourcePlace::File(path) => format!("{path} every "),
            SourcePlace::Query { url, query } => format!("{url} by {query:?} every "),
        }
    }
}

/// All of its keys, for the log of a reload.
impl fmt::Display for SourceConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}, {} % dropped at most", self.rows(), self.every, self.max_drop.get())
    }
}
