//! Children that die with their parent.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, id};

use crate::options::find_program;

/// Has the kernel send a signal when the parent ends.
const SETPRIV: &str = "setpriv";
/// Ends if the parent is not `$0` any more: a parent that died earlier sends no signal.
const UNLESS_ORPHAN: &str = r#"[ "$PPID" = "$0" ] && exec "$@""#;

/// A command that starts `program` as a child that the kernel kills (SIGKILL) when its parent ends, however the parent ends.
///
/// Add arguments, environment and standard streams; the program of the command is `setpriv` (util-linux 2.33 or newer), which
/// becomes `program` under the same process id. A program that is missing ends with status 127.
///
/// The child gets a process group of its own, so the terminal's Ctrl-C reaches the parent alone. The kernel watches the
/// *thread* that starts the child (`PR_SET_PDEATHSIG`): start it from a thread that lives as long as the child may.
/// Linux only.
///
/// The parent is not forked (`posix_spawn`). A fork copies its memory map, and all its threads wait for that: seconds, where
/// other processes keep the kernel busy.
#[must_use]
pub fn child_command(program: impl AsRef<OsStr>) -> Command {
    // The child's PATH may be another one.
    let setpriv = find_program(Path::new(SETPRIV)).unwrap_or_else(|| SETPRIV.into());
    let mut command = Command::new(setpriv);
    // SIGKILL: a child that hangs or is paused must go as well.
    command.args(["--pdeathsig", "KILL", "--", "/bin/sh", "-c", UNLESS_ORPHAN, &id().to_string()]);
    command.arg(program).process_group(0);
    command
}
