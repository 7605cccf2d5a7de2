//! Collects the problems of one file while its tables are read.

use std::cell::RefCell;

use super::{Problem, syntax::Broken};

/// A key and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Offset of the key in the text, in bytes.
    pub(super) offset: usize,
    /// The path of the key, such as `limit.api.rate`.
    pub(super) key: String,
}

/// The problems found so far.
#[derive(Debug)]
pub(super) struct Report<'t> {
    text: &'t str,
    file: &'t str,
    torn: bool,
    /// Lines that are no TOML: what was saved from them is not to be judged.
    broken: Vec<usize>,
    errors: RefCell<Vec<Problem>>,
    warnings: RefCell<Vec<Problem>>,
}

// === impl Report ===

impl<'t> Report<'t> {
    /// A report on `text`, which begins with what is no TOML in it.
    pub(super) fn new(text: &'t str, file: &'t str, mut broken: Vec<Broken>) -> Self {
        let torn = broken.iter().any(|broken| broken.unclosed);
        let mut report = Self {
            text,
            file,
            torn,
            broken: Vec::new(),
            errors: RefCell::default(),
            warnings: RefCell::default(),
        };
        broken.sort_by_key(|broken| (report.line(broken.offset), !broken.unclosed, broken.offset));
        for Broken { offset, message, .. } in broken {
            // One per line, an unclosed bracket if there is one: the others are mostly its echoes.
            let line = report.line(offset);
            if !report.broken.contains(&line) {
                report.error(&Place { offset, key: String::new() }, message);
                report.broken.push(line);
            }
        }
        report
    }

    /// Whether a bracket is left open, so that nothing can be said about what follows.
    pub(super) const fn is_torn(&self) -> bool {
        self.torn
    }

    /// Whether every line is TOML: only then is a key that is not found really missing.
    pub(super) const fn is_whole(&self) -> bool {
        self.broken.is_empty()
    }

    pub(super) fn error(&self, place: &Place, message: impl Into<String>) {
        let problem = self.problem(place, message.into());
        if problem.line.is_none_or(|line| !self.broken.contains(&line)) {
            self.errors.borrow_mut().push(problem);
        }
    }

    pub(super) fn warn(&self, place: &Place, message: impl Into<String>) {
        self.warnings.borrow_mut().push(self.problem(place, message.into()));
    }

    /// Errors and warnings, each in order of lines.
    pub(super) fn finish(self) -> (Vec<Problem>, Vec<Problem>) {
        let (mut errors, mut warnings) = (self.errors.into_inner(), self.warnings.into_inner());
        errors.sort_by_key(|problem| problem.line);
        warnings.sort_by_key(|problem| problem.line);
        (errors, warnings)
    }

    fn problem(&self, place: &Place, message: String) -> Problem {
        let (file, line) = (self.file.to_owned(), Some(self.line(place.offset)));
        Problem { file, line, key: place.key.clone(), message }
    }

    /// The line of an offset, from 1; the end of the text belongs to its last line.
    fn line(&self, offset: usize) -> usize {
        let before = self.text.trim_end().bytes().take(offset);
        before.filter(|byte| *byte == b'\n').count() + 1
    }
}
