//! Collects the problems of one file while its tables are read.

use std::cell::RefCell;

use super::{problem::Problem, syntax::SyntaxError};

/// Where a key stands in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Location {
    /// Offset of the key in the text, in bytes.
    pub(super) offset: usize,
    /// The path of the key, such as `limit.api.rate`.
    pub(super) key: String,
}

/// The problems found so far.
#[derive(Debug)]
pub(super) struct Diagnostics<'t> {
    text: &'t str,
    file: &'t str,
    unclosed_bracket: bool,
    /// Lines that are no TOML. Values recovered from them are not judged.
    broken_lines: Vec<usize>,
    errors: RefCell<Vec<Problem>>,
    warnings: RefCell<Vec<Problem>>,
}

// === impl Diagnostics ===

impl<'t> Diagnostics<'t> {
    /// The diagnostics of `text` beginning with its syntax errors.
    pub(super) fn new(text: &'t str, file: &'t str, mut syntax_errors: Vec<SyntaxError>) -> Self {
        let mut diagnostics = Self {
            text,
            file,
            unclosed_bracket: syntax_errors.iter().any(|error| error.unclosed_bracket),
            broken_lines: Vec::new(),
            errors: RefCell::default(),
            warnings: RefCell::default(),
        };
        syntax_errors
            .sort_by_key(|error| (diagnostics.line(error.offset), !error.unclosed_bracket, error.offset));
        for SyntaxError { offset, message, .. } in syntax_errors {
            // One error per line, an unclosed bracket first: the others mostly follow from it.
            let line = diagnostics.line(offset);
            if !diagnostics.broken_lines.contains(&line) {
                diagnostics.error(&Location { offset, key: String::new() }, message);
                diagnostics.broken_lines.push(line);
            }
        }
        diagnostics
    }

    /// Whether a bracket is left open. Every key behind it would seem to stand in the wrong table.
    pub(super) const fn has_unclosed_bracket(&self) -> bool {
        self.unclosed_bracket
    }

    /// Whether every line is TOML. Only then is an absent key really missing.
    pub(super) const fn is_all_toml(&self) -> bool {
        self.broken_lines.is_empty()
    }

    /// Whether the line of this offset is no TOML.
    pub(super) fn is_broken_at(&self, offset: usize) -> bool {
        self.broken_lines.contains(&self.line(offset))
    }

    /// Adds an error, unless its line is no TOML and has an error already.
    pub(super) fn error(&self, location: &Location, message: impl Into<String>) {
        let problem = self.problem(location, message.into());
        if problem.line.is_none_or(|line| !self.broken_lines.contains(&line)) {
            self.errors.borrow_mut().push(problem);
        }
    }

    pub(super) fn warn(&self, location: &Location, message: impl Into<String>) {
        self.warnings.borrow_mut().push(self.problem(location, message.into()));
    }

    /// Errors and warnings, each in order of lines.
    pub(super) fn finish(self) -> (Vec<Problem>, Vec<Problem>) {
        let (mut errors, mut warnings) = (self.errors.into_inner(), self.warnings.into_inner());
        errors.sort_by_key(|problem| problem.line);
        warnings.sort_by_key(|problem| problem.line);
        (errors, warnings)
    }

    /// File and line of `location`, such as `config.toml:14`.
    pub(super) fn place(&self, location: &Location) -> String {
        format!("{}:{}", self.file, self.line(location.offset))
    }

    fn problem(&self, location: &Location, message: String) -> Problem {
        let (file, line) = (self.file.to_owned(), Some(self.line(location.offset)));
        Problem { file, line, key: location.key.clone(), message }
    }

    /// The line of an offset, from 1. The end of the text belongs to its last line.
    fn line(&self, offset: usize) -> usize {
        let before = self.text.trim_end().bytes().take(offset);
        before.filter(|byte| *byte == b'\n').count() + 1
    }
}
