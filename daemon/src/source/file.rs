//! Sources that are files, or folders of files.

use std::{
    fs::{self, File, Metadata},
    io::{self, BufReader},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{task::spawn_blocking, time::sleep};
use topup_wire::{
    assigned_keys::AssignedKeys,
    limit::{LimitName, Plans},
};

use super::{MOST_ROWS, hash_of};
use crate::{assigned_rows::Rows, config::Problem};

/// The time for which a file must rest. A program that writes it in place may be half done.
const REST: Duration = Duration::from_millis(300);
/// Attempts to find it at rest.
const ATTEMPTS: usize = 20;
/// Endings of the files that count in a folder.
const ENDINGS: [&str; 3] = ["csv", "json", "jsonl"];

/// The identity of a file and of its content, as far as the file system tells; or of a folder and all its files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Stamp(Vec<[i64; 7]>);

/// The outcome of the last look without a mistake.
#[derive(Clone, Debug, Default)]
pub(super) struct LastLook {
    stamp: Stamp,
    hash: String,
    rows: usize,
    /// Whether the look before had the same outcome. One look alone may have met a write within the tick of the file
    /// system's clock, which leaves no trace in the stamp.
    is_sure: bool,
}

/// The assignments that were read, or why they cannot be used.
type Read = Result<(AssignedKeys, LastLook), String>;

// === impl Stamp ===

impl Stamp {
    /// The stamp of the file or folder at `path`; empty if there is none.
    fn of(path: &Path) -> Self {
        let files = files(path).unwrap_or_default();
        let all = files.iter().map(PathBuf::as_path).chain([path]);
        Self(all.filter_map(|path| fs::metadata(path).ok().as_ref().map(identity)).collect())
    }
}

fn identity(found: &Metadata) -> [i64; 7] {
    [
        found.dev() as i64,
        found.ino() as i64,
        found.size() as i64,
        found.mtime(),
        found.mtime_nsec(),
        found.ctime(),
        found.ctime_nsec(),
    ]
}

/// The file at `path`, or those of the folder there in order of their names. Hidden ones, such as editors make, are left out.
fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let found = fs::metadata(path)?;
    if found.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    // To open a pipe would wait for its writer.
    if !found.is_dir() {
        return Err(io::Error::other("it is neither a file nor a folder"));
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !is_hidden && path.extension().is_some_and(|end| ENDINGS.iter().any(|own| end == *own)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

// === impl LastLook ===

impl LastLook {
    /// The hash of its rows.
    pub(super) fn hash(&self) -> &str {
        &self.hash
    }

    /// The number of rows of the file at `path` if it is as it was, and Redis has its rows: those of the hash `applied`. It
    /// need not be read then.
    pub(super) async fn rows_if_unchanged(&self, path: PathBuf, applied: &str) -> Option<usize> {
        if !self.is_sure || self.hash != applied {
            return None;
        }
        let stamp = spawn_blocking(move || Stamp::of(&path)).await.ok()?;
        (stamp == self.stamp).then_some(self.rows)
    }

    /// Takes in the outcome of another look.
    pub(super) fn note(&mut self, look: Self) {
        let is_sure = self.stamp == look.stamp && self.hash == look.hash;
        *self = Self { is_sure, ..look };
    }
}

/// The rows of the file at `path`, once it rests. Rows of the hash `applied` are what Redis has, and need no rest.
pub(super) async fn read(path: PathBuf, limit: LimitName, plans: Plans, applied: String) -> Read {
    for _ in 0..ATTEMPTS {
        let (path, plans) = (path.clone(), plans.clone());
        let (at, applied) = (path.clone(), applied.clone());
        let once = spawn_blocking(move || {
            let (stamp, rows) = read_once(&at, limit, &plans);
            let hash = rows.as_ref().map_or_else(|_| String::new(), hash_of);
            (rows.is_ok() && hash == applied, rows, LastLook { stamp, hash, ..LastLook::default() })
        });
        // The runtime ends.
        let Ok((is_applied, rows, mut look)) = once.await else { break };
        look.rows = rows.as_ref().map_or(0, AssignedKeys::len);
        if !is_applied {
            sleep(REST).await;
            if Stamp::of(&path) != look.stamp {
                continue;
            }
        }
        return rows.map(|rows| (rows, look));
    }
    Err("the file changes all the time: write another one, and rename it to this one".to_owned())
}

fn read_once(path: &Path, limit: LimitName, plans: &Plans) -> (Stamp, Result<AssignedKeys, String>) {
    let stamp = Stamp::of(path);
    let mut rows = Rows::new(limit, plans, "line", MOST_ROWS);
    let mut read = || -> io::Result<()> {
        for file in files(path)? {
            let name =
                (file != path).then(|| file.file_name().unwrap_or_default().to_string_lossy().into_owned());
            rows.read(BufReader::new(File::open(file)?), name)?;
        }
        Ok(())
    };
    if let Err(error) = read() {
        return (stamp, Err(Problem::unreadable(&error)));
    }
    (stamp, rows.finish().map_err(|wrong| wrong.in_one_line()))
}

#[cfg(test)]
mod tests {
    use std::{fs::OpenOptions, io::Write};

    use super::*;

    /// The rows of a look that knows of none before.
    async fn rows_at(path: &Path) -> Result<AssignedKeys, String> {
        let limit: LimitName = "user".parse().unwrap();
        read(path.to_owned(), limit, Plans::default(), String::new()).await.map(|(rows, _)| rows)
    }

    /// A look finds a file as it was only if two looks before have read the same.
    #[tokio::test]
    async fn a_file_that_is_as_it_was_is_not_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let (path, limit) = (dir.path().join("tenants.csv"), "user".parse().unwrap());
        fs::write(&path, "a,deny\nb,deny\n").unwrap();
        let mut last = LastLook::default();
        let mut looked = Vec::new();
        for _ in 0..2 {
            let applied = last.hash.clone();
            let (_, look) = read(path.clone(), limit, Plans::default(), applied).await.unwrap();
            last.note(look);
            looked.push(last.rows_if_unchanged(path.clone(), &last.hash).await);
        }
        assert_eq!(looked, [None, Some(2)]);
        assert_eq!(last.rows_if_unchanged(path.clone(), "").await, None, "Redis has lost its rows");
        // The same length, written in place.
        fs::write(&path, "a,deny\nc,deny\n").unwrap();
        assert_eq!(last.rows_if_unchanged(path.clone(), &last.hash).await, None);
        let (_, look) = read(path.clone(), limit, Plans::default(), String::new()).await.unwrap();
        last.note(look);
        assert_eq!(last.rows_if_unchanged(path.clone(), &last.hash).await, None);
        fs::remove_file(&path).unwrap();
        assert_eq!(last.rows_if_unchanged(path, &last.hash).await, None);
    }

    /// A program that writes in place is never half read, and a look while it writes on takes the whole.
    #[tokio::test]
    async fn a_file_is_read_when_it_rests() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tenants.csv");
        let look = rows_at;
        let missing = look(&path).await.unwrap_err();
        assert!(missing.contains("write one there"), "{missing}");
        let told = look(Path::new("/dev/null")).await.unwrap_err();
        assert!(told.contains("neither a file nor a folder"), "{told}");

        fs::write(&path, "a,deny\n").unwrap();
        let writing = async {
            for i in 0..5 {
                // The pace of a program that writes in place.
                sleep(REST / 2).await;
                let mut file = OpenOptions::new().append(true).open(&path).unwrap();
                writeln!(file, "{i},exempt").unwrap();
            }
        };
        let (rows, ()) = tokio::join!(look(&path), writing);
        assert_eq!(rows.unwrap().len(), 6);

        // Replaced by one that is cut in a row.
        fs::write(&path, "a,deny\nb,exem").unwrap();
        let (rows, ()) = tokio::join!(look(&path), async {
            // The file is replaced within its rest.
            sleep(REST / 2).await;
            let whole = dir.path().join("whole");
            fs::write(&whole, "a,deny\nb,exempt\n").unwrap();
            fs::rename(&whole, &path).unwrap();
        });
        assert_eq!(rows.unwrap().len(), 2);
        fs::write(&path, "a,deny\nb,exem").unwrap();
        let wrong = look(&path).await.unwrap_err();
        assert!(wrong.starts_with("line 2: limit user has no plan exem"), "{wrong}");
    }

    #[tokio::test]
    async fn the_files_of_a_folder_are_one_source() {
        let dir = tempfile::tempdir().unwrap();
        let look = || rows_at(dir.path());
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        assert_eq!(look().await, Ok(AssignedKeys::default()));
        write("a.csv", "key,plan\na,deny\n");
        write("b.jsonl", "{\"key\": \"b\", \"plan\": \"deny\"}\n");
        write(".b.csv", "c,no such plan\n");
        write("README.md", "Each team has a file.\n");
        let rows = look().await.unwrap();
        assert_eq!(rows.iter().map(|(key, _)| key).collect::<Vec<_>>(), ["a", "b"]);
        write("c.csv", "d,deny\na,exempt\n");
        let wrong = look().await.unwrap_err();
        assert_eq!(wrong, "c.csv line 2: key \"a\" has a row already, in a.csv line 2");
    }
}
