//! `watch = true`: the daemon reloads by itself.
//!
//! By hand, with so many random edits, and as many broken ones:
//!
//! `TOPUP_TEST_EDITS=100 cargo test -p topup-tests --test e2e -- watch::random_edits --nocapture`

use std::{env, fs, path::Path, time::Duration};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use topup_tests::{Daemon, Launch, Pace, Redis, SOON, Signal, Stalls, Workers, clock, eventually};

/// Edits, unless the environment names a number.
const EDITS: u64 = 40;
/// Broken edits, unless it does.
const BROKEN_EDITS: usize = 10;
/// The longest time from an edit to its effect.
const EFFECTIVE_WITHIN: Duration = Duration::from_millis(1_500);
/// Lines of a broken limit `NAME`, and the beginning of the problem that is told of each.
const BROKEN: [(&str, &str); 5] = [
    ("capacity = 0", "limit.NAME.capacity"),
    ("rate = \"fast\"", "limit.NAME.rate"),
    ("capcity = 1", "limit.NAME.capcity"),
    ("capacity = [", ""),
    ("[redis]", "redis"),
];

/// A file of `conf.d` with one limit. A quarter of the limits are token buckets, whose changes take a freeze.
fn limit(number: u64, capacity: u64) -> String {
    let algorithm = if number.is_multiple_of(4) { "token-bucket" } else { "gcra" };
    format!("[limit.l{number}]\ncapacity = {capacity}\nrate = \"1000/s\"\nalgorithm = \"{algorithm}\"\n")
}

/// A daemon that watches a config with the folder `conf.d`.
async fn watching(redis: &Redis, files: u64) -> Daemon {
    let config =
        "include_dir = \"conf.d\"\n[daemon]\nwatch = true\n[limit.own]\ncapacity = 9\nrate = \"1/s\"\n";
    let launch = Launch::new(config).redis(redis);
    let folder = folder(&launch.config());
    fs::create_dir(&folder).unwrap();
    for number in 0..files {
        fs::write(folder.join(format!("l{number}.toml")), limit(number, 100)).unwrap();
    }
    let mut daemon = launch.run();
    daemon.wait_for_line("ready", SOON).await;
    daemon
}

fn folder(config: &Path) -> std::path::PathBuf {
    config.with_file_name("conf.d")
}

async fn capacity(redis: &Redis, number: u64) -> Option<u64> {
    redis.ask(&["HGET", &format!("topup:{{l{number}:0}}:limit"), "capacity"]).await
}

/// The terms of all limits.
async fn records(redis: &Redis, limits: u64) -> Vec<Vec<Option<String>>> {
    let mut records = Vec::new();
    for number in 0..limits {
        let key = format!("topup:{{l{number}:0}}:limit");
        records.push(redis.ask(&["HMGET", &key, "capacity", "rate", "algorithm"]).await);
    }
    records
}

/// Edits of which it is not known yet that they are in force: the limit, its capacity and the instant of the edit.
struct Edits {
    open: Vec<(u64, Option<u64>, u64)>,
    stalls: Stalls,
    /// The longest time to an effect, in µs.
    slowest: u64,
}

// === impl Edits ===

impl Edits {
    async fn look(&mut self, redis: &Redis) {
        for (number, expected, since) in std::mem::take(&mut self.open) {
            if capacity(redis, number).await == expected {
                let now = clock::now();
                self.slowest = self.slowest.max(now - since);
            } else {
                self.open.push((number, expected, since));
            }
        }
    }

    /// Waits until no edit of this limit is open; of any, for `None`.
    async fn closed(&mut self, redis: &Redis, number: Option<u64>) {
        eventually(SOON, async || {
            self.look(redis).await;
            self.open.iter().all(|open| number.is_some_and(|number| open.0 != number))
        })
        .await;
    }
}

/// Files are written in place, renamed, removed and made anew, each edit as soon as the daemon has told the one before.
#[tokio::test]
async fn random_edits_under_load_are_in_force_soon_and_broken_ones_change_nothing() {
    const LIMITS: u64 = 10;
    let count = env::var("TOPUP_TEST_EDITS").ok().map(|count| count.parse::<u64>().unwrap());
    let (count, broken) = (count.unwrap_or(EDITS), count.map_or(BROKEN_EDITS, |count| count as usize));
    let redis = Redis::start().await;
    let mut daemon = watching(&redis, LIMITS).await;
    let folder = folder(&daemon.config());
    let pace = Pace::steady(Duration::from_millis(5));
    let workers = Workers::start(env!("CARGO_BIN_EXE_worker"), 4, redis.url(), "l0", pace).await;
    let random = &mut StdRng::seed_from_u64(4);
    let mut edits = Edits { open: Vec::new(), stalls: Stalls::watch(), slowest: 0 };
    for edit in 0..count {
        let number = random.random_range(0..LIMITS);
        edits.closed(&redis, Some(number)).await;
        let (path, new) = (folder.join(format!("l{number}.toml")), 1_000 + edit);
        let is_there = path.exists();
        let expected = match random.random_range(0..3) {
            // The workers' limit stays.
            0 if is_there && number != 0 => {
                fs::remove_file(&path).unwrap();
                None
            }
            1 => {
                fs::write(folder.join(".new"), limit(number, new)).unwrap();
                fs::rename(folder.join(".new"), &path).unwrap();
                Some(new)
            }
            _ => {
                fs::write(&path, limit(number, new)).unwrap();
                Some(new)
            }
        };
        edits.open.push((number, expected, clock::now()));
        daemon.wait_for_line(&format!("reloaded: limit l{number}: "), SOON).await;
        edits.look(&redis).await;
    }
    edits.closed(&redis, None).await;
    let slowest = Duration::from_micros(edits.slowest);
    let bound = edits.stalls.allow(EFFECTIVE_WITHIN);
    println!(
        "{count} edits: in force after {slowest:?} at most; {bound:?} allowed on a machine as busy as this"
    );
    assert!(slowest < bound, "{slowest:?}, {bound:?} allowed");

    for number in 0..LIMITS {
        fs::write(folder.join(format!("l{number}.toml")), limit(number, 7)).unwrap();
    }
    eventually(SOON, async || {
        records(&redis, LIMITS).await.iter().all(|record| record[0].as_deref() == Some("7"))
    })
    .await;
    let before = records(&redis, LIMITS).await;
    for edit in 0..broken {
        let number = if edit + 1 < broken { random.random_range(0..LIMITS) } else { 0 };
        // Each kind comes, the last one last.
        let (line, problem) = BROKEN[(BROKEN.len() - broken % BROKEN.len() + edit) % BROKEN.len()];
        let (name, comments) = (format!("l{number}"), random.random_range(0..9));
        // The number of the edit: no two edits are the same.
        let text = format!("{}[limit.{name}] # {edit}\n{line}\n", "# good\n".repeat(comments));
        fs::write(folder.join(format!("{name}.toml")), text).unwrap();
        let told = format!("conf.d/{name}.toml:{}: {}", comments + 2, problem.replace("NAME", &name));
        daemon.wait_for_line(&told, SOON).await;
        daemon.wait_for_line("refused as a whole, and the running one stays", SOON).await;
        assert_eq!(records(&redis, LIMITS).await, before, "{told}");
        if edit + 1 < broken {
            // Written anew together with the next broken file.
            fs::write(folder.join(format!("{name}.toml")), limit(number, 7)).unwrap();
        }
    }
    println!("{broken} broken edits: each refused with file and line, and nothing changed");
    // A folder that is gone has not lost its limits, and an empty file does not drop them.
    fs::rename(&folder, folder.with_extension("gone")).unwrap();
    daemon.wait_for_line("config.toml:1: include_dir: the folder ", SOON).await;
    fs::rename(folder.with_extension("gone"), &folder).unwrap();
    daemon.wait_for_line(": redis", SOON).await;
    fs::write(folder.join("l1.toml"), "").unwrap();
    daemon.wait_for_line("conf.d/l1.toml:1: the file is empty", SOON).await;
    fs::write(folder.join("l1.toml"), limit(1, 7)).unwrap();
    let config = fs::read_to_string(daemon.config()).unwrap();
    fs::write(daemon.config(), "\n").unwrap();
    daemon.wait_for_line("config.toml:1: the file is empty", SOON).await;
    daemon.signal(Signal::USR1);
    daemon.wait_for_line("config on disk refused: config.toml:1", SOON).await;
    assert_eq!(records(&redis, LIMITS).await, before);
    fs::write(daemon.config(), config).unwrap();
    fs::write(folder.join("l0.toml"), limit(0, 7)).unwrap();
    daemon.wait_for_line("reloaded: nothing has changed", SOON).await;

    let attempts = workers.stop().await;
    let errors = attempts.iter().filter(|attempt| attempt.error().is_some()).count();
    assert!(errors == 0 && attempts.len() > 500, "{errors} errors of {} takes", attempts.len());
}

#[tokio::test]
async fn hup_and_the_watch_get_along_and_the_watch_ends_by_the_config() {
    let redis = Redis::start().await;
    let mut daemon = watching(&redis, 1).await;
    let file = folder(&daemon.config()).join("l0.toml");
    fs::write(&file, limit(0, 2)).unwrap();
    daemon.wait_for_line("reloaded: limit l0: capacity 100 -> 2", SOON).await;
    daemon.signal(Signal::HUP);
    daemon.wait_for_line("reloaded: nothing has changed", SOON).await;
    fs::write(&file, limit(0, 3)).unwrap();
    daemon.wait_for_line("reloaded: limit l0: capacity 2 -> 3", SOON).await;
    let reloads = daemon.lines().iter().filter(|line| line.contains("reloaded: ")).count();
    assert_eq!(reloads, 3, "the watch repeats nothing: {:?}", daemon.lines());
    // Other content, but for so short a time that only HUP has found it.
    fs::write(&file, limit(0, 4)).unwrap();
    daemon.signal(Signal::HUP);
    daemon.wait_for_line("reloaded: limit l0: capacity 3 -> 4", SOON).await;
    fs::write(&file, limit(0, 3)).unwrap();
    daemon.wait_for_line("reloaded: limit l0: capacity 4 -> 3", SOON).await;
    let config = fs::read_to_string(daemon.config()).unwrap();
    daemon.rewrite_config(&config.replace("watch = true", "watch = false"));
    daemon.wait_for_line("reloaded: nothing has changed", SOON).await;
    fs::write(&file, limit(0, 5)).unwrap();
    daemon.reload(&config);
    daemon.wait_for_line("reloaded: limit l0: capacity 3 -> 5", SOON).await;
    // Begun anew.
    fs::write(&file, limit(0, 6)).unwrap();
    daemon.wait_for_line("reloaded: limit l0: capacity 5 -> 6", SOON).await;
}

/// A daemon that starts with a bad file reloads when the file is good.
#[tokio::test]
async fn a_bad_file_at_the_start_is_watched_too() {
    let redis = Redis::start().await;
    drop(watching(&redis, 0).await);
    let bad = "[daemon]\nwatch = true\n[limit.l0]\ncapacity = 0\nrate = \"1/s\"\n";
    let mut daemon = Launch::new(bad).redis(&redis).run();
    daemon.wait_for_line("config.toml:4: limit.l0.capacity", SOON).await;
    daemon.rewrite_config(&bad.replace("= 0", "= 5"));
    eventually(SOON, async || capacity(&redis, 0).await == Some(5)).await;
}
