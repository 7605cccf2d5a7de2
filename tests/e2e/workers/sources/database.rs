//! Databases that the daemon follows: SQLite, and a PostgreSQL of the test's own.

use sqlx::{ConnectOptions, SqliteConnection, sqlite::SqliteConnectOptions};
use topup_tests::{Launch, Postgres, Signal, postgres::PASSWORD};

use super::*;

async fn execute(connection: &mut SqliteConnection, statements: &str) {
    sqlx::raw_sql(statements).execute(connection).await.unwrap();
}

#[tokio::test]
async fn a_table_of_sqlite_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tenants.db");
    let options = SqliteConnectOptions::new().filename(&path).create_if_missing(true);
    let mut table = options.connect().await.unwrap();
    execute(&mut table, "CREATE TABLE tenants (id INTEGER PRIMARY KEY, plan TEXT, until INTEGER)").await;
    execute(
        &mut table,
        "INSERT INTO tenants VALUES (7, 'gold', NULL), (8, 'silver', 4102444800), (9, 'gold', 5)",
    )
    .await;
    let query = "SELECT id AS key, plan, until FROM tenants";
    let source = format!("url = \"sqlite:{}\", query = \"{query}\", every = \"1s\"", path.display());
    let fixture = Fixture::set(&config(&source)).await;
    let user = fixture.bucket("user");
    are(&user, &[("7", 20), ("8", 4), ("9", 2)]).await;
    execute(&mut table, "UPDATE tenants SET plan = 'gold', until = NULL WHERE id = 8").await;
    are(&user, &[("8", 20)]).await;

    // A writer that holds it for long, and one that empties it by mistake.
    execute(&mut table, "BEGIN EXCLUSIVE; UPDATE tenants SET plan = 'silver'").await;
    refused(&fixture.redis, "locked").await;
    execute(&mut table, "ROLLBACK").await;
    eventually(SOON, async || field(&fixture.redis, "problem").await.is_empty()).await;
    execute(&mut table, "DELETE FROM tenants").await;
    refused(&fixture.redis, "it has 0 assignments where there were 2").await;
    execute(&mut table, "INSERT INTO tenants VALUES (7, 'silver', NULL), (8, 'platinum', NULL)").await;
    refused(&fixture.redis, "row 2: limit user has no plan platinum").await;
    are(&user, &[("7", 20), ("8", 20)]).await;
    // A query that would write may not.
    let writes = source.replace(query, "DELETE FROM tenants RETURNING id AS key, plan");
    fixture.daemon.rewrite_config(&config(&writes));
    fixture.daemon.signal(Signal::HUP);
    refused(&fixture.redis, "readonly").await;
    fixture.daemon.rewrite_config(&config(&source.replace(query, "SELECT id, plan FROM tenants")));
    fixture.daemon.signal(Signal::HUP);
    refused(&fixture.redis, "the query has the columns \"id, plan\"").await;
    execute(&mut table, "UPDATE tenants SET plan = 'silver'").await;
    fixture.daemon.rewrite_config(&config(&source));
    fixture.daemon.signal(Signal::HUP);
    are(&user, &[("7", 4), ("8", 4)]).await;
}

#[tokio::test]
async fn a_table_of_postgresql_is_followed() {
    let Some(mut database) = Postgres::start().await else { return };
    database
        .execute(
            "CREATE TABLE tenants (id bigint PRIMARY KEY, plan text, until timestamptz);
             INSERT INTO tenants VALUES (7, 'gold', NULL), (8, 'silver', '2100-01-01 00:00+01'), (9, 'gold', '2020-01-01 00:00Z')",
        )
        .await;
    let query = "SELECT id AS key, plan, until FROM tenants -- all\\n;";
    let url = database.url("${TENANTS_PASSWORD}");
    let source = format!("url = \"{url}\", query = \"{query}\", every = \"1s\"");
    let redis = Redis::start().await;
    let mut daemon = Launch::new(&config(&source)).redis(&redis).env("TENANTS_PASSWORD", PASSWORD).run();
    let user = super::super::fixture::patient(redis.url()).await.limit("user");
    daemon.wait_for_line("in force from", SOON).await;
    are(&user, &[("7", 20), ("8", 4), ("9", 2)]).await;
    database.execute("UPDATE tenants SET plan = 'gold' WHERE id = 8").await;
    are(&user, &[("8", 20)]).await;

    // The database stops, comes back, and is emptied by mistake.
    database.stop().await;
    eventually(SOON, async || !field(&redis, "problem").await.is_empty()).await;
    let status = json(&redis, &["status"]).await.to_string();
    assert!(status.contains("\"sources\"") && !status.contains("s3cret"), "{status}");
    are(&user, &[("7", 20), ("8", 20)]).await;
    database.run().await;
    eventually(SOON, async || field(&redis, "problem").await.is_empty()).await;
    database.execute("CREATE TABLE kept AS TABLE tenants; TRUNCATE tenants").await;
    refused(&redis, "it has 0 assignments where there were 2").await;
    database.execute("INSERT INTO tenants TABLE kept; UPDATE tenants SET plan = 'silver'").await;
    are(&user, &[("7", 4), ("8", 4)]).await;
    database.execute("ALTER TABLE tenants RENAME COLUMN plan TO tariff").await;
    refused(&redis, "column \"plan\" does not exist").await;
    are(&user, &[("7", 4), ("8", 4)]).await;

    // A query that would write may not.
    let writing =
        "CREATE FUNCTION spoil() RETURNS text LANGUAGE sql AS $$ DELETE FROM tenants RETURNING 'gold' $$";
    database.execute(writing).await;
    daemon.rewrite_config(&config(&source.replace(query, "SELECT 1 AS key, spoil() AS plan")));
    daemon.signal(Signal::HUP);
    refused(&redis, "read-only transaction").await;
    let lines = daemon.lines().join("\n");
    assert!(!lines.contains("s3cret"), "{lines}");
    // A password that is wrong is told without it.
    daemon.signal(Signal::KILL);
    let mut other = Launch::new(&config(&source)).redis(&redis).env("TENANTS_PASSWORD", "wr0ng").run();
    let line = other.wait_for_line("cannot be used", SOON).await;
    assert!(line.contains("password authentication failed") && !line.contains("wr0ng"), "{line}");
}
