//! A PostgreSQL of a test's own.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection};
use tempfile::TempDir;
use topup_lab::{ChildProcess, child_command};

use crate::stalls::void;
use crate::{SOON, eventually};

/// The user `nobody`: the server refuses to run as root.
const NOBODY: u32 = 65534;
/// The password of its user, with characters that mean something in a URL.
pub const PASSWORD: &str = "s3cret@/:";
/// Looks at a server that shuts down.
const LOOKS: u32 = 400;
const DEBIAN: &str = "/usr/lib/postgresql";

/// A private PostgreSQL on a unix socket, stopped on drop.
#[derive(Debug)]
pub struct Postgres {
    child: Option<ChildProcess>,
    programs: PathBuf,
    dir: TempDir,
}

// === impl Postgres ===

impl Postgres {
    /// A server with an empty database, or `None` where none is installed. Says so on stderr then.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub async fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            void(
                "SKIPPED: there is no PostgreSQL here, so nothing was tested: run 'apt-get install postgresql'",
            );
            return None;
        };
        let dir = tempfile::tempdir().expect("a temp folder");
        let password = dir.path().join("password");
        fs::write(&password, PASSWORD).expect("a file in a temp folder");
        if is_root() {
            for path in [dir.path(), &password] {
                chown(path, Some(NOBODY), Some(NOBODY)).expect("root may do this");
            }
        }
        let mut server = Self { child: None, programs, dir };
        let mut init = server.command("initdb");
        init.args(["--no-sync", "--auth=scram-sha-256", "--username=topup", "--encoding=UTF8", "--locale=C"]);
        init.arg("--pwfile").arg(password).arg("--pgdata").arg(server.dir.path().join("data"));
        let init = tokio::process::Command::from(init).output().await.expect("initdb can be run");
        assert!(init.status.success(), "initdb: {}", String::from_utf8_lossy(&init.stderr));
        server.run().await;
        Some(server)
    }

    /// Starts the server again, after a [`stop`](Self::stop).
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub async fn run(&mut self) {
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.dir.path().join("data")).arg("-k").arg(self.dir.path());
        // No test needs its data after a crash of the machine.
        for setting in ["listen_addresses=", "fsync=off", "max_connections=20"] {
            command.arg("-c").arg(setting);
        }
        self.child = Some(ChildProcess::start(command).unwrap_or_else(|error| panic!("{error:#}")));
        eventually(SOON, async || self.try_execute("SELECT 1").await).await;
    }

    /// Stops the server at once.
    ///
    /// # Panics
    ///
    /// When it does not end.
    pub async fn stop(&mut self) {
        let mut child = self.child.take().expect("it runs");
        // An immediate shutdown: it ends its own children, and breaks all connections.
        child.signal(Signal::QUIT).expect("it runs");
        child.exit(SOON).await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Where it listens. `password` stands in the URL as it is.
    #[must_use]
    pub fn url(&self, password: &str) -> String {
        format!("postgres://topup:{password}@localhost/postgres?host={}", self.dir.path().display())
    }

    /// Executes statements, one after the other.
    ///
    /// # Panics
    ///
    /// When one fails.
    pub async fn execute(&self, statements: &str) {
        self.try_execute(statements).await.unwrap_or_else(|error| panic!("{statements}: {error}"));
    }

    async fn try_execute(&self, statements: &str) -> Result<(), sqlx::Error> {
        let options = PgConnectOptions::new_without_pgpass().socket(self.dir.path()).username("topup");
        let options = options.password(PASSWORD).database("postgres").disable_statement_logging();
        let mut connection = options.connect().await?;
        sqlx::raw_sql(statements).execute(&mut connection).await?;
        connection.close().await
    }

    /// A command in the name of a user who may run a server.
    fn command(&self, program: &str) -> Command {
        let mut command = child_command(self.programs.join(program));
        if is_root() {
            // Before all else: a process that changes its user is no longer told that its parent has died.
            let mut before = Command::new("setpriv");
            before.args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".into()]);
            before.arg("--").arg(command.get_program()).args(command.get_args()).process_group(0);
            command = before;
        }
        command.current_dir(self.dir.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Its children end with it, but only a shutdown removes what they share, and this file at its end.
        let Some(child) = &self.child else { return };
        let running = self.dir.path().join("data/postmaster.pid");
        let _ = child.signal(Signal::QUIT);
        for _ in 0..LOOKS {
            if !running.exists() {
                return;
            }
            // Between two looks, in a drop that cannot await.
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The folder of its programs.
fn programs() -> Option<PathBuf> {
    let of_path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&of_path).collect();
    let versions = fs::read_dir(DEBIAN).into_iter().flatten().filter_map(Result::ok);
    folders.extend(versions.map(|version| version.path().join("bin")));
    let has = |folder: &PathBuf| ["initdb", "postgres"].iter().all(|name| folder.join(name).exists());
    folders.into_iter().rev().find(has)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
