//! What is wrong with a config, and where.

use std::{fmt, io, path::Path};

/// One thing wrong, or probably not meant, in a config file.
///
/// Shown on one line: `config.toml:14: limit.mail.rate: what is wrong: what to write instead`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file's name.
    pub file: String,
    /// The line, from 1; `None` when the problem is the file itself.
    pub line: Option<usize>,
    /// The key, such as `limit.mail.rate`; empty when the problem is no key's.
    pub key: String,
    /// What is wrong and what to write instead.
    pub message: String,
}

/// All problems of a config file, in order of lines; shown one per line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

// === impl Problem ===

impl Problem {
    pub(super) fn unreadable(path: &Path, error: &io::Error) -> Self {
        let advice = match error.kind() {
            io::ErrorKind::NotFound => "write one there, or name another",
            io::ErrorKind::PermissionDenied => "let the daemon's user read it",
            io::ErrorKind::InvalidData => "save it as UTF-8 text",
            _ => "name a readable file",
        };
        Self {
            file: path.display().to_string(),
            line: None,
            key: String::new(),
            message: format!("cannot be read ({error}): {advice}"),
        }
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
