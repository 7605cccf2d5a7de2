//! The daemon's program, built by cargo as the tests themselves were.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The path of `topupd`.
///
/// Cargo builds the programs of a package for the tests of that package only. Each package that tests the daemon
/// therefore has it among its own programs, under the package's name.
pub(crate) fn topupd() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(find)
}

fn find() -> PathBuf {
    let package = env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "topup-tests".to_owned());
    // <target>/<profile>/deps/e2e-<hash>
    let test = env::current_exe().expect("a test has a path");
    let deps = test.parent().expect("it is in a folder");
    if !deps.ends_with("deps") {
        // A program has the daemon beside it.
        return deps.join("topupd");
    }
    let profile = deps.parent().expect("a test is in <target>/<profile>/deps");
    let name = format!("topupd-of-{package}");
    let program = profile.join(&name);
    assert!(program.exists(), "{} is missing: `cargo test -p {package}` builds it", program.display());
    // Under its own name, which it repeats in its messages. The link is relative: it holds where the folder is copied.
    let folder = profile.join(format!("of-{package}"));
    fs::create_dir_all(&folder).expect("a folder in <target>");
    let topupd = folder.join("topupd");
    match symlink(Path::new("..").join(name), &topupd) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => panic!("{}: {error}", topupd.display()),
        _ => topupd,
    }
}
