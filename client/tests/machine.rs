//! The machine of a bucket is pure: its files name no runtime, no Redis and no clock. No two of them need each other.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Words of the shell. In the machine, time is an argument.
const FOREIGN: [&str; 10] = [
    "async",
    "await",
    "tokio",
    "redis::",
    "Instant",
    "SystemTime",
    "crate::shell",
    "crate::client",
    "crate::bucket",
    "spawn(",
];

#[test]
fn the_machine_knows_no_runtime_no_redis_and_no_clock() {
    let files = files();
    assert!(files.len() >= 10, "{files:?}");
    for (file, code) in files {
        for line in code.lines() {
            let found = FOREIGN.iter().find(|word| line.contains(**word));
            assert!(found.is_none(), "{file}.rs: {found:?} in {line}");
        }
    }
}

#[test]
fn no_files_of_the_machine_need_each_other() {
    let files = files();
    // A name that `mod.rs` exports stands for its file.
    let exports = uses(&files["mod"], "pub use ").flat_map(|names| {
        let mut words = words(&names);
        let file = words.next().unwrap_or_default();
        words.map(move |name| (name, file.clone())).collect::<Vec<_>>()
    });
    let exports: BTreeMap<String, String> = exports.collect();
    let needs = |file: &str| {
        let of_word = |word: String| exports.get(&word).cloned().unwrap_or(word);
        let named = uses(&files[file], "use super::").flat_map(|names| words(&names).collect::<Vec<_>>());
        named.map(of_word).filter(|other| other != file && files.contains_key(other)).collect::<BTreeSet<_>>()
    };
    let mut left: BTreeMap<&str, BTreeSet<String>> =
        files.keys().filter(|file| *file != "mod").map(|file| (&file[..], needs(file))).collect();
    assert!(left.values().map(BTreeSet::len).sum::<usize>() > 2 * left.len(), "{left:?}");
    // Files that need none of those left are in no circle.
    while let Some(free) = left.iter().find(|(_, needs)| needs.is_empty()).map(|(file, _)| *file) {
        left.remove(free);
        for needs in left.values_mut() {
            needs.remove(free);
        }
    }
    assert!(left.is_empty(), "in circles, or above one: {left:?}");
}

/// The files of the machine: name and code.
fn files() -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/machine");
    fs::read_dir(folder).unwrap().map(|entry| read(&entry.unwrap().path())).collect()
}

/// Name and code of a file, without tests and comments.
fn read(file: &Path) -> (String, String) {
    let text = fs::read_to_string(file).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    (file.file_stem().unwrap().to_str().unwrap().to_owned(), code.collect::<Vec<_>>().join("\n"))
}

/// What follows each `keyword`, up to the semicolon.
fn uses<'t>(text: &'t str, keyword: &'t str) -> impl Iterator<Item = String> + 't {
    text.split(keyword).skip(1).filter_map(|rest| rest.split_once(';')).map(|(names, _)| names.to_owned())
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.split(move |letter| !is_part(letter)).filter(|word| !word.is_empty()).map(str::to_owned)
}
