//! Sources of assignments: files and databases that the daemon follows, their faults, and daemons that die.

mod database;
mod file;
mod million;
mod several;

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use topup::Bucket;
use topup_tests::{Cli, Redis, SOON, eventually};

use super::fixture::Fixture;

/// A limit whose assignments come from `source`.
fn config(source: &str) -> String {
    format!(
        "name = \"shop\"\n[limit.user]\nkeyed = true\ncapacity = 2\nrate = \"1/s\"\nplan.silver = {{ capacity = 4 }}\n\
         plan.gold = {{ capacity = 20 }}\nkeys.acme = \"silver\"\nsource = {{ {source} }}\n"
    )
}

/// Replaces the file at `path` in one step.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(&new, path).unwrap();
}

/// Waits until these keys have these capacities.
async fn are(limit: &Bucket, wanted: &[(&str, u64)]) {
    eventually(SOON, async || {
        for (key, wanted) in wanted {
            let found = limit.key(*key).peek().await.map(|decision| decision.capacity());
            if !matches!(found, Ok(capacity) if capacity == *wanted) {
                return Err(format!("{key} has {found:?}, not {wanted}"));
            }
        }
        Ok(())
    })
    .await;
}

async fn json(redis: &Redis, args: &[&str]) -> Value {
    let ended = Cli::new(args).arg("--json").redis(redis).run().await;
    serde_json::from_str(&ended.stdout).map_err(|error| format!("{error}: {ended:?}")).unwrap()
}

/// Waits until the source has a problem with `text` in it.
async fn refused(redis: &Redis, text: &str) {
    eventually(SOON, async || {
        let problem = field(redis, "problem").await;
        if problem.contains(text) { Ok(()) } else { Err(problem) }
    })
    .await;
}

/// A field that is told of the source of the limit "user"; empty for none.
async fn field(redis: &Redis, field: &str) -> String {
    let value: Option<String> = redis.ask(&["HGET", "topup:{topup}:sources", &format!("user {field}")]).await;
    value.unwrap_or_default()
}

/// A look at the source that begins from now on has ended.
async fn looked(redis: &Redis) {
    let now = super::fixture::now(redis).await;
    eventually(SOON, async || field(redis, "read").await.parse::<u64>().is_ok_and(|read| read > now)).await;
}

/// The keys of the source's assignments, without what is told of it.
async fn keys_of_source(redis: &Redis) -> Vec<String> {
    redis.ask(&["KEYS", "topup:{topup}:assigned:user~source:*"]).await
}
