//! A million rows of a source: what they cost the daemon. Takes a minute or two, so by hand:
//!
//! ```sh
//! cargo test --release -p topup-tests --test e2e -- --ignored --nocapture a_million_rows
//! ```

use std::fmt::Write as _;

use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};
use topup_tests::{Signal, clock};

use super::{super::fixture::Fixture, *};

const ROWS: usize = 1_000_000;
/// Rows that change at once: more than are told one by one.
const CHANGED: usize = 100_000;
/// Looks that find nothing changed.
const LOOKS: usize = 4;

/// Memory and CPU of the daemon up to now.
struct Used {
    /// The most memory at once, in MB.
    peak: f64,
    /// Seconds of a CPU.
    cpu: f64,
    at: u64,
}

impl Used {
    fn by(fixture: &Fixture) -> Self {
        let process = format!("/proc/{}", fixture.daemon.pid());
        let status = fs::read_to_string(format!("{process}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let peak = line.trim().split(' ').next().unwrap().parse::<f64>().unwrap() / 1e3;
        let stat = fs::read_to_string(format!("{process}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        // User and system time, in hundredths of a second.
        let cpu = fields[11..13].iter().map(|field| field.parse::<f64>().unwrap()).sum::<f64>() / 100.0;
        Self { peak, cpu, at: clock::now() }
    }

    fn tell(&self, what: &str, since: &Self) {
        println!(
            "{what}: {:.1} s, {:.2} s of CPU, peak of memory {:.0} MB",
            (self.at - since.at) as f64 / 1e6,
            self.cpu - since.cpu,
            self.peak
        );
    }
}

fn rows(changed: usize) -> impl Iterator<Item = (String, &'static str)> {
    (0..ROWS).map(move |i| (format!("customer-{i:07}"), if i < changed { "silver" } else { "gold" }))
}

/// Follows a source that `write` fills, through its first look, some without a change, and one with many changes.
async fn measure(kind: &str, source: String, write: impl AsyncFn(usize)) {
    let bare =
        Fixture::set(&config("file = \"/dev/null\"").replace("source = { file = \"/dev/null\" }\n", ""))
            .await;
    let begun = Used::by(&bare);
    println!("{kind}: a daemon without a source has a peak of memory of {:.0} MB", begun.peak);
    write(0).await;
    bare.daemon.rewrite_config(&config(&source));
    bare.daemon.signal(Signal::HUP);
    let start = Used::by(&bare);
    let (redis, user) = (&bare.redis, bare.bucket("user"));
    let applied = async || {
        let hash = field(redis, "applied").await;
        if hash.is_empty() { Err(()) } else { Ok(hash) }
    };
    let first = eventually(10 * SOON, applied).await;
    let then = Used::by(&bare);
    then.tell("first look", &start);
    are(&user, &[("customer-0000007", 20)]).await;
    for _ in 0..LOOKS {
        looked(redis).await;
    }
    let same = Used::by(&bare);
    same.tell(&format!("{LOOKS} looks without a change"), &then);
    write(CHANGED).await;
    let before = Used::by(&bare);
    eventually(10 * SOON, async || applied().await.is_ok_and(|hash| hash != first)).await;
    Used::by(&bare).tell(&format!("a look with {CHANGED} changes"), &before);
    are(&user, &[("customer-0000007", 4), ("customer-0999999", 20)]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute"]
async fn a_million_rows_of_a_source_are_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (file, base) = (dir.path().join("customers.csv"), dir.path().join("customers.db"));
    let write = async |changed: usize| {
        let mut text = String::new();
        rows(changed).for_each(|(key, plan)| writeln!(text, "{key},{plan}").unwrap());
        replace(&file, &text);
    };
    measure("CSV", format!("file = {file:?}, every = \"1s\""), write).await;

    let options = SqliteConnectOptions::new().filename(&base).create_if_missing(true);
    let write = async |changed: usize| {
        let mut table = options.connect().await.unwrap();
        let make = "BEGIN; CREATE TABLE IF NOT EXISTS customers (key TEXT PRIMARY KEY, plan TEXT) WITHOUT ROWID; DELETE FROM customers;";
        sqlx::raw_sql(make).execute(&mut table).await.unwrap();
        for (key, plan) in rows(changed) {
            sqlx::query("INSERT INTO customers VALUES (?, ?)")
                .bind(key)
                .bind(plan)
                .execute(&mut table)
                .await
                .unwrap();
        }
        sqlx::raw_sql("COMMIT").execute(&mut table).await.unwrap();
    };
    let query = "SELECT key, plan FROM customers";
    measure(
        "SQLite",
        format!("url = \"sqlite:{}\", query = \"{query}\", every = \"1s\"", base.display()),
        write,
    )
    .await;
}
