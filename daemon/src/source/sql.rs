//! Sources that are SQL databases: SQLite and PostgreSQL. Each look makes a connection of its own, which may only read.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::TryStreamExt;
use sqlx::{
    Column, ConnectOptions, Connection, Executor, Row as _, Statement, postgres::PgConnectOptions,
    sqlite::SqliteConnectOptions,
};
use topup_wire::{
    assigned_keys::AssignedKeys,
    limit::{LimitName, Plans},
};

use super::{LONGEST_LOOK, MOST_ROWS};
use crate::{
    assigned_rows::{Row, Rows},
    config::SqlUrl,
};

/// The longest wait for a SQLite that a writer has locked.
const LOCKED: Duration = Duration::from_secs(2);
/// Steps of SQLite between two questions whether its rows are still wanted: some ms.
const STEPS: i32 = 100_000;

/// Stops a query of SQLite when it is dropped. Its thread would otherwise go on.
struct Stop(Arc<AtomicBool>);

// === impl Stop ===

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// The rows that `query` finds in the database at `url`. A relative path of SQLite begins in `folder`.
pub(super) async fn read(
    url: &SqlUrl,
    query: &str,
    folder: &Path,
    limit: LimitName,
    plans: &Plans,
) -> Result<AssignedKeys, String> {
    let query = query.trim().trim_end_matches(';');
    let mut rows = Rows::new(limit, plans, "row", MOST_ROWS);
    let read = match url.sqlite_path() {
        Some(path) => sqlite(&folder.join(path), query, &mut rows).await,
        None => postgres(url, query, &mut rows).await,
    };
    read.map_err(|error| error.to_string())?;
    rows.finish().map_err(|wrong| wrong.in_one_line())
}

async fn sqlite(path: &Path, query: &str, rows: &mut Rows<'_>) -> anyhow::Result<()> {
    anyhow::ensure!(path.exists(), "there is no such file");
    let options = SqliteConnectOptions::new().filename(path).read_only(true).busy_timeout(LOCKED);
    let mut connection = options.disable_statement_logging().connect().await?;
    let stop = Stop(Arc::default());
    let stopped = stop.0.clone();
    connection.lock_handle().await?.set_progress_handler(STEPS, move || !stopped.load(Relaxed));
    let statement = (&mut connection).prepare(query).await?;
    let columns = statement.columns();
    let find = |name: &str| columns.iter().position(|column| column.name().eq_ignore_ascii_case(name));
    let (Some(key), Some(plan)) = (find("key"), find("plan")) else {
        let names: Vec<&str> = columns.iter().map(Column::name).collect();
        anyhow::bail!(
            "the query has the columns {:?}: name two of them key and plan, as in SELECT id AS key",
            names.join(", ")
        );
    };
    let until = find("until");
    let mut found = statement.query().fetch(&mut connection);
    let mut place = 0;
    while let Some(row) = found.try_next().await? {
        place += 1;
        // SQLite makes a text of any value.
        let text = |column: usize| row.try_get_unchecked::<Option<String>, _>(column);
        let until = until.map_or(Ok(None), text)?;
        rows.add(
            place,
            match (text(key)?, text(plan)?) {
                (Some(key), Some(plan)) => Ok(Row { key, plan, until }),
                _ => Err("key or plan is NULL".to_owned()),
            },
        );
    }
    drop(found);
    Ok(connection.close().await?)
}

async fn postgres(url: &SqlUrl, query: &str, rows: &mut Rows<'_>) -> anyhow::Result<()> {
    let mut options: PgConnectOptions = url.as_str().parse()?;
    if options.get_application_name().is_none() {
        options = options.application_name("topupd");
    }
    let mut connection = options.disable_statement_logging().connect().await?;
    // Poolers refuse such settings in the greeting.
    let read_only = format!(
        "BEGIN READ ONLY; SET LOCAL statement_timeout = {}; SET LOCAL TimeZone = 'UTC'",
        LONGEST_LOOK.as_millis()
    );
    sqlx::raw_sql(&read_only).execute(&mut connection).await?;
    // PostgreSQL makes JSON of values of any type.
    let query = format!("SELECT to_jsonb(source)::text FROM (\n{query}\n) AS source");
    let mut found = sqlx::query_scalar::<_, String>(&query).persistent(false).fetch(&mut connection);
    let mut place = 0;
    while let Some(text) = found.try_next().await? {
        place += 1;
        rows.add(place, Row::from_json(&text));
    }
    drop(found);
    Ok(connection.close().await?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tokio::time::timeout;

    use super::*;

    /// Threads of SQLite in this process.
    fn threads() -> usize {
        let tasks = fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
        let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| name.starts_with("sqlx-sqlite")).count()
    }

    #[tokio::test]
    async fn sqlite_is_read_and_never_written_or_created() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tenants.db");
        let url: SqlUrl = "sqlite:tenants.db".parse().unwrap();
        let limit: LimitName = "user".parse().unwrap();
        let look = async |query: &str| read(&url, query, dir.path(), limit, &Plans::default()).await;
        let all = "SELECT * FROM tenants";
        assert_eq!(look(all).await.unwrap_err(), "there is no such file");
        assert!(!path.exists());
        let writable = SqliteConnectOptions::new().filename(&path).create_if_missing(true);
        let mut table = writable.connect().await.unwrap();
        sqlx::raw_sql(
            "CREATE TABLE tenants (\"Key\" ANY, plan TEXT, until ANY);
             INSERT INTO tenants VALUES ('acme', 'deny', NULL), (42, 'exempt', 4102444800),
             ('z', 'exempt', '2100-01-01T00:00:00Z')",
        )
        .execute(&mut table)
        .await
        .unwrap();
        let rows = look(&format!("{all} ;\n")).await.unwrap();
        let untils: Vec<_> = rows.iter().map(|(key, one)| (key, one.until)).collect();
        let end = Some(4_102_444_800_000_000);
        assert_eq!(untils, [("42", end), ("acme", None), ("z", end)]);
        for (query, problem) in [
            ("SELECT 1 AS key, NULL AS plan", "row 1: key or plan is NULL"),
            (
                "SELECT 'a' AS key, 'deny' AS plan UNION ALL SELECT 'a', 'exempt'",
                "row 2: key \"a\" has a row already, in row 1",
            ),
            ("SELECT plan FROM tenants", "the query has the columns \"plan\""),
            ("SELECT key FROM missing", "no such table: missing"),
            ("DELETE FROM tenants RETURNING key, plan", "attempt to write a readonly database"),
            ("ATTACH 'other.db' AS other", "the query has the columns \"\""),
        ] {
            let error = look(query).await.unwrap_err();
            assert!(error.contains(problem), "{query}: {error}");
        }
        fs::write(dir.path().join("other"), "no database, but a text that is long enough to look like one")
            .unwrap();
        let other: SqlUrl = "sqlite:other".parse().unwrap();
        let error = read(&other, all, dir.path(), limit, &Plans::default()).await.unwrap_err();
        assert!(error.contains("file is not a database"), "{error}");

        // A query without end, whose rows are no longer wanted.
        table.close().await.unwrap();
        let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) AS key, 'deny' AS plan FROM n";
        assert!(timeout(Duration::from_millis(300), look(endless)).await.is_err());
        let ended = async {
            while threads() > 0 {
                // Between two looks: the look and the deadline decide.
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(30), ended).await.expect("its thread ends, too");
    }
}
