use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::Duration,
};

use tempfile::TempDir;
use tokio::time::timeout;
use topup_wire::limit::LimitName;

use super::*;
use crate::clock::Moment;

/// Far more than any change takes.
const SOON: Duration = Duration::from_secs(20);

/// A config whose first limit has this capacity.
fn config(capacity: u64) -> String {
    format!("include_dir = \"conf.d\"\n[limit.api]\ncapacity = {capacity}\nrate = \"1/s\"\n")
}

/// A watched config in a folder.
struct Fixture {
    folder: TempDir,
    watch: FileWatch,
}

// === impl Fixture ===

impl Fixture {
    /// Watches `file` below the folder that `make` fills.
    async fn set(source: EventSource, file: &str, make: impl Fn(&Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        make(folder.path());
        let watch = FileWatch::with(folder.path().join(file), source);
        let mut fixture = Self { folder, watch };
        fixture.expect("at the start", 1).await;
        fixture
    }

    /// A config beside an empty `conf.d`.
    async fn plain(source: EventSource) -> Self {
        Self::set(source, "etc/config.toml", |folder| {
            fs::create_dir_all(folder.join("etc/conf.d")).unwrap();
            fs::write(folder.join("etc/config.toml"), config(1)).unwrap();
        })
        .await
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }

    /// The next files that are told have a limit `api` with this capacity.
    async fn expect(&mut self, how: &str, capacity: u64) {
        let files = timeout(SOON, self.watch.changed()).await.unwrap_or_else(|_| panic!("{how}: not seen"));
        let config = files.parse().unwrap_or_else(|problems| panic!("{how}: {problems}"));
        assert_eq!(config.limits["api"].capacity.get(), capacity, "{how}");
    }

    /// The next files that are told have these limits.
    async fn expect_limits(&mut self, how: &str, names: &[&str]) {
        let files = timeout(SOON, self.watch.changed()).await.unwrap_or_else(|_| panic!("{how}: not seen"));
        let config = files.parse().unwrap_or_else(|problems| panic!("{how}: {problems}"));
        assert!(config.limits.keys().map(LimitName::as_str).eq(names.iter().copied()), "{how}: {config:?}");
    }
}

/// A path of a command line is one from the current folder.
#[test]
fn a_relative_path_leads_to_the_same_places() {
    let here = std::env::current_dir().unwrap();
    let spots = Spots::of(Path::new("src/../Cargo.toml"), None);
    assert!(
        spots.is_complete && spots.folders.contains_key(&here) && spots.concern(&here.join("Cargo.toml"))
    );
    assert_eq!(spots, Spots::of(&here.join("Cargo.toml"), None));
}

/// Links that lead nowhere end the search, and the file is looked for in vain.
#[test]
fn a_ring_of_links_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
    symlink(&one, &other).unwrap();
    symlink(&other, &one).unwrap();
    let spots = Spots::of(&one, None);
    assert!(spots.concern(&one) && spots.concern(&other));
}

/// Every way in which a file gets another content, one after the other.
async fn every_way(source: EventSource) {
    let mut fixture = Fixture::plain(source).await;
    fixture.write("etc/config.toml", &config(2));
    fixture.expect("written in place", 2).await;
    fixture.write("etc/.new", &config(3));
    fixture.rename("etc/.new", "etc/config.toml");
    fixture.expect("renamed", 3).await;
    fixture.rename("etc/config.toml", "etc/config.toml~");
    fixture.write("etc/config.toml", &config(4));
    fs::remove_file(fixture.path("etc/config.toml~")).unwrap();
    fixture.expect("as vim does with a backup", 4).await;
    fs::remove_file(fixture.path("etc/config.toml")).unwrap();
    fixture.write("etc/config.toml", &config(5));
    fixture.expect("removed and made anew", 5).await;
    fs::create_dir_all(fixture.path("new/conf.d")).unwrap();
    fixture.write("new/config.toml", &config(6));
    fixture.rename("etc", "old");
    fixture.rename("new", "etc");
    fixture.expect("in another folder of the same name", 6).await;
    fixture.write("etc/config.toml", &config(7));
    fixture.expect("in that folder", 7).await;
    fixture.write("elsewhere.toml", &config(8));
    fs::remove_file(fixture.path("etc/config.toml")).unwrap();
    symlink("../elsewhere.toml", fixture.path("etc/config.toml")).unwrap();
    fixture.expect("a link", 8).await;
    fixture.write("elsewhere.toml", &config(9));
    fixture.expect("behind the link", 9).await;
    let user = "[limit.user]\ncapacity = 1\nrate = \"1/s\"\n";
    fixture.write("etc/config.toml", "include_dir = \"conf.d\"\n");
    fixture.expect_limits("without limits", &[]).await;
    fixture.write("etc/conf.d/1.toml", user);
    fixture.expect_limits("a file of the folder", &["user"]).await;
    fixture.write("etc/conf.d/2.toml", &user.replace("user", "a"));
    fixture.expect_limits("another one", &["a", "user"]).await;
    fs::remove_file(fixture.path("etc/conf.d/1.toml")).unwrap();
    fixture.expect_limits("one of the two", &["a"]).await;
}

#[tokio::test]
async fn a_change_is_seen_however_it_is_made() {
    every_way(EventSource::Kernel).await;
}

#[tokio::test]
async fn without_events_it_looks_at_the_files() {
    every_way(EventSource::Exhausted).await;
}

/// Kubernetes: `config.toml -> ..data/config.toml`, `..data -> ..1`, and an update moves `..data` to another folder.
#[tokio::test]
async fn the_links_of_a_config_map_are_followed() {
    let update = |map: &Path, number: u64| {
        let inside = map.join(format!("..{number}"));
        fs::create_dir(&inside).unwrap();
        let without_folder = config(number).lines().skip(1).collect::<Vec<_>>().join("\n");
        fs::write(inside.join("config.toml"), without_folder).unwrap();
        symlink(format!("..{number}"), map.join("..data_tmp")).unwrap();
        fs::rename(map.join("..data_tmp"), map.join("..data")).unwrap();
    };
    let mut fixture = Fixture::set(EventSource::Kernel, "map/config.toml", |folder| {
        fs::create_dir(folder.join("map")).unwrap();
        symlink("..data/config.toml", folder.join("map/config.toml")).unwrap();
        update(&folder.join("map"), 1);
    })
    .await;
    for number in 2..5 {
        update(&fixture.path("map"), number);
        fs::remove_dir_all(fixture.path(&format!("map/..{}", number - 1))).unwrap();
        fixture.expect("another version", number).await;
    }
}

/// Halves that are whole configs: without the end of the write, limits would be removed with their buckets.
#[tokio::test]
async fn a_file_that_is_being_written_is_not_read() {
    let mut fixture = Fixture::plain(EventSource::Kernel).await;
    let began = Moment::now();
    let mut file = File::create(fixture.path("etc/config.toml")).unwrap();
    file.write_all(b"include_dir = \"conf.d\"\n").unwrap();
    let told = timeout(QUIET * 6, fixture.watch.changed()).await.is_ok();
    file.write_all(&config(2).as_bytes()[23..]).unwrap();
    drop(file);
    // A machine that stands still for a second looks like a program that leaves the file as it is.
    if began.elapsed() < LONGEST_WRITE {
        assert!(!told);
        fixture.expect("the whole file", 2).await;
    }
}

#[tokio::test]
async fn a_file_that_is_wrong_empty_or_gone_for_a_moment_is_not_told() {
    let mut fixture = Fixture::plain(EventSource::Kernel).await;
    for (capacity, moment) in (2..).zip([Some(""), Some("\n\n"), Some("[limit.api]\ncapac"), None]) {
        let began = Moment::now();
        match moment {
            Some(text) => fixture.write("etc/config.toml", text),
            None => fs::remove_file(fixture.path("etc/config.toml")).unwrap(),
        }
        let told = timeout(PATIENCE / 3, fixture.watch.changed()).await.is_ok();
        fixture.write("etc/config.toml", &config(capacity));
        if began.elapsed() < PATIENCE {
            assert!(!told, "{moment:?}");
            fixture.expect("the new file", capacity).await;
        } else if !told {
            while fixture.watch.changed().await.parse().is_err() {}
        }
    }
    // It stays so: that is to be told, as a problem.
    fixture.write("etc/config.toml", "");
    let files = timeout(SOON, fixture.watch.changed()).await.unwrap();
    assert_eq!(files.blank().map(|problem| problem.line), Some(Some(1)));
    fs::remove_file(fixture.path("etc/config.toml")).unwrap();
    let files = timeout(SOON, fixture.watch.changed()).await.unwrap();
    assert!(files.parse().unwrap_err().to_string().contains("cannot be read"));
}
