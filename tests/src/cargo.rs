//! The daemon's program, built once, as the tests themselves were.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The path of `topupd`, which is built first: with the profile of this test, into the same target folder.
///
/// Cargo names a package's binaries to the tests of that package only, and these tests are a package of their own.
pub(crate) fn topupd() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(build)
}

fn build() -> PathBuf {
    // A test is <target>/<profile>/deps/e2e-<hash>. A program has the daemon beside it.
    let test = env::current_exe().expect("a test has a path");
    let folder = test.parent().expect("it is in a folder");
    if !folder.ends_with("deps") {
        return folder.join("topupd");
    }
    let profile_dir = folder.parent().expect("a test is in <target>/<profile>/deps");
    let target = profile_dir.parent().expect("a profile is in <target>");
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(name) => name,
        None => panic!("{} names no profile", profile_dir.display()),
    };
    // The whole workspace decides the features of the packages below, as in `cargo build --workspace`: so what
    // that has built is used again.
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
        .args(["build", "--quiet", "--locked", "--workspace", "--bin", "topupd", "--profile", profile])
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap_or_else(|error| panic!("cargo cannot be run: {error}"));
    assert!(output.status.success(), "topupd does not build:\n{}", String::from_utf8_lossy(&output.stderr));
    profile_dir.join("topupd")
}
