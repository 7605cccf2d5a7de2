//! The unit and its drop-ins, as systemd reads them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use topup_tests::Daemon;

/// The exposure systemd-analyze may give the unit at most: 0 is sealed, 10 is bare.
const MOST_EXPOSURE: f64 = 1.5;
const INSTALLED: &str = "/usr/bin/topupd";
const DROP_INS: [&str; 2] = ["redis-on-localhost.conf", "redis-on-socket.conf"];

/// The unit in a folder of its own, with the `topupd` just built as its program: verify wants that to exist.
struct Unit {
    dir: TempDir,
}

// === impl Unit ===

impl Unit {
    fn shipped() -> Self {
        let unit = Self { dir: tempfile::tempdir().unwrap() };
        let text = shipped("topupd.service");
        assert!(text.contains(INSTALLED));
        unit.write(&text.replace(INSTALLED, Daemon::program().to_str().unwrap()));
        unit
    }

    fn with_drop_in(name: &str) -> Self {
        let unit = Self::shipped();
        let folder = unit.dir.path().join("topupd.service.d");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(name), shipped(name)).unwrap();
        unit
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("topupd.service")
    }

    fn write(&self, text: &str) {
        fs::write(self.path(), text).unwrap();
    }

    /// The complaints of systemd about the unit. Its exit code says nothing: it is 0 for a directive it does not know.
    fn complaints(&self) -> String {
        let output = analyze(&["verify", "--man=no"], &self.path());
        String::from_utf8(output.stderr).unwrap()
    }

    /// The last line: `→ Overall exposure level for topupd.service: 1.1 OK 🙂`.
    fn exposure(&self) -> f64 {
        let output = analyze(&["security", "--offline=true", "--no-pager"], &self.path());
        let report = String::from_utf8(output.stdout).unwrap();
        let verdict = report.lines().rfind(|line| line.contains("Overall exposure level")).unwrap();
        let level = verdict.rsplit(": ").next().and_then(|verdict| verdict.split(' ').next());
        level.unwrap().parse().unwrap()
    }
}

#[test]
fn systemd_has_nothing_against_the_unit() {
    assert_eq!(Unit::shipped().complaints(), "");
}

#[test]
fn systemd_has_nothing_against_the_drop_ins() {
    for name in DROP_INS {
        assert_eq!(Unit::with_drop_in(name).complaints(), "", "{name}");
    }
}

#[test]
fn a_directive_that_systemd_does_not_know_would_be_found() {
    let unit = Unit::shipped();
    let text = fs::read_to_string(unit.path()).unwrap();
    unit.write(&text.replace("ProtectClock=", "ProtectClocks="));
    assert!(unit.complaints().contains("ProtectClocks"), "{}", unit.complaints());
}

#[test]
fn a_program_that_does_not_exist_would_be_found() {
    let unit = Unit::shipped();
    unit.write(&shipped("topupd.service").replace(INSTALLED, "/nowhere/topupd"));
    assert!(unit.complaints().contains("/nowhere/topupd"), "{}", unit.complaints());
}

#[test]
fn the_unit_is_sealed() {
    let exposure = Unit::shipped().exposure();
    assert!(exposure <= MOST_EXPOSURE, "{exposure}");
}

#[test]
fn each_drop_in_seals_it_further() {
    let bare = Unit::shipped().exposure();
    for name in DROP_INS {
        let exposure = Unit::with_drop_in(name).exposure();
        assert!(exposure < bare, "{name}: {exposure}, without it {bare}");
    }
}

fn shipped(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../systemd").join(name);
    fs::read_to_string(path).unwrap()
}

fn analyze(args: &[&str], unit: &Path) -> Output {
    let output = Command::new("systemd-analyze").args(args).arg(unit).env("LC_ALL", "C.UTF-8").output();
    output.expect("systemd-analyze should be on the PATH (`apt-get install systemd`)")
}
