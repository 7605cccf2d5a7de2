//! Problems of a config file, each with its location.

use std::{fmt, io};

/// One mistake in a config file, or one warning.
///
/// Displayed on one line, such as `config.toml:14: limit.mail.rate: missing: write rate = "50/s"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file's name.
    pub file: String,
    /// The line, from 1; `None` if the file cannot be read.
    pub line: Option<usize>,
    /// The key, such as `limit.mail.rate`; empty for a problem of the whole file.
    pub key: String,
    /// The mistake and its fix.
    pub message: String,
}

/// All problems of a config file, in order of lines. Displayed one per line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

// === impl Problem ===

impl Problem {
    /// The message of a file that cannot be read.
    pub(crate) fn unreadable(error: &io::Error) -> String {
        let advice = match error.kind() {
            io::ErrorKind::NotFound => "write one there, or name another",
            io::ErrorKind::PermissionDenied => "let the daemon's user read it",
            io::ErrorKind::InvalidData => "save it as UTF-8 text",
            _ => "name a readable file",
        };
        format!("cannot be read ({error}): {advice}")
    }

    /// A problem of a whole file.
    pub(super) fn of_file(file: &str, message: &str) -> Self {
        Self { file: file.to_owned(), line: None, key: String::new(), message: message.to_owned() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)
    }
}

// === impl Problems ===

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(Problem::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Problems {}
