//! The machine of a bucket is pure: its files name no runtime, no Redis and no clock.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::{fs, path::Path};

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
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/machine");
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 10, "{files:?}");
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let found = FOREIGN.iter().find(|word| line.contains(**word));
            assert!(found.is_none(), "{}: {found:?} in {line}", file.display());
        }
    }
}
