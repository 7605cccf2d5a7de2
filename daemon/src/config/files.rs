//! The files of a config: the config file itself, and those of its `include_dir`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{problem::Problem, syntax};

/// The texts of a config, as they were read. Two are equal if their files have the same names and the same content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFiles {
    /// The config file.
    pub(super) main: SourceFile,
    /// The folder of `include_dir`, where the config file names one.
    pub(super) folder: Option<PathBuf>,
    /// The files of that folder in order of their names, or the reason why it cannot be read.
    pub(super) included: Result<Vec<SourceFile>, String>,
}

/// One file, and the name that it has in problems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceFile {
    pub(super) name: String,
    /// Its text, or the reason why it cannot be read.
    pub(super) text: Result<String, String>,
}

// === impl ConfigFiles ===

impl ConfigFiles {
    /// Reads the file at `path`, and `*.toml` of its `include_dir`. Hidden files, such as editors make, are left out.
    pub fn read(path: &Path) -> Self {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let text = fs::read_to_string(path).map_err(|error| Problem::unreadable(&error));
        // A problem of a file that is not there names the whole path.
        let name = if text.is_ok() { name } else { path.display().to_string() };
        let named = text.as_deref().ok().and_then(include_dir);
        let folder = named.as_ref().map(|named| path.parent().unwrap_or(Path::new("")).join(named));
        let included = match (&folder, &named) {
            (Some(folder), Some(named)) => read_folder(folder, Path::new(named)),
            _ => Ok(Vec::new()),
        };
        Self { main: SourceFile { name, text }, folder, included }
    }

    /// A config of one file with this `text`.
    pub(super) fn of(text: &str, name: &str) -> Self {
        let main = SourceFile { name: name.to_owned(), text: Ok(text.to_owned()) };
        Self { main, folder: None, included: Ok(Vec::new()) }
    }

    /// The folder of `include_dir`, where the config file names one.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The problem of a file without any content. A file that is being written may be empty for a moment.
    pub fn blank(&self) -> Option<Problem> {
        let is_blank = |file: &&SourceFile| file.text.as_ref().is_ok_and(|text| text.trim().is_empty());
        let problem = |file: &SourceFile, limits: &str| Problem {
            file: file.name.clone(),
            line: Some(1),
            key: String::new(),
            message: format!(
                "the file is empty, and a watched file may be so by accident: to remove {limits}, reload by HUP"
            ),
        };
        let main = Some(&self.main).filter(is_blank).map(|file| problem(file, "all limits"));
        let included = || self.included.iter().flatten().find(is_blank);
        main.or_else(|| included().map(|file| problem(file, "its limits, remove the file, or")))
    }
}

/// The value of `include_dir` in the text of a config file.
fn include_dir(text: &str) -> Option<String> {
    let (entries, _) = syntax::parse(text);
    Some(entries.get("include_dir")?.get_ref().as_str()?.to_owned())
}

/// The files of the folder that the config calls `named`.
fn read_folder(folder: &Path, named: &Path) -> Result<Vec<SourceFile>, String> {
    let unreadable = |error: io::Error| {
        format!("the folder {} cannot be read ({error}): make it, or remove include_dir", folder.display())
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        let is_hidden = name.as_encoded_bytes().starts_with(b".");
        if !is_hidden && name.as_encoded_bytes().ends_with(b".toml") {
            names.push(name);
        }
    }
    names.sort();
    let read = |name| SourceFile {
        name: named.join(&name).display().to_string(),
        text: fs::read_to_string(folder.join(&name)).map_err(|error| Problem::unreadable(&error)),
    };
    Ok(names.into_iter().map(read).collect())
}
