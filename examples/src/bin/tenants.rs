//! Tenants in a table of SQLite, each with a plan. The program edits the table, and knows nothing of limits. The daemon
//! follows the table, and so do all workers.
//!
//! `tenants list`, `tenants set acme gold`, `tenants trial acme gold 3600` for an hour, `tenants remove acme`, and
//! `tenants take acme`, which asks the limiter.

#![allow(clippy::print_stdout, reason = "prints what it finds")]

use std::{env, path::PathBuf};

use anyhow::{Context, Result, bail};
use sqlx::{ConnectOptions, Row, SqliteConnection, sqlite::SqliteConnectOptions};

#[tokio::main]
async fn main() -> Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    if let ["take", name] = words[..] {
        let decision = topup_examples::connect().await?.limit("tenant").key(name).take(1).await?;
        let verdict = if decision.is_allowed() { "allowed" } else { "denied" };
        println!("{name}: {verdict}, of {}", decision.capacity());
        return Ok(());
    }
    let mut table = open().await?;
    let sql = match words[..] {
        ["list"] => return list(&mut table).await,
        ["set", ..] => "INSERT OR REPLACE INTO tenants (name, plan) VALUES (?, ?)",
        ["trial", ..] => {
            "INSERT OR REPLACE INTO tenants (name, plan, trial_ends) VALUES (?, ?, unixepoch() + ?)"
        }
        ["remove", ..] => "DELETE FROM tenants WHERE name = ?",
        _ => bail!("usage: tenants list | set NAME PLAN | trial NAME PLAN SECONDS | remove NAME | take NAME"),
    };
    let edit = words[1..].iter().fold(sqlx::query(sql), |edit, word| edit.bind(*word));
    edit.execute(&mut table).await?;
    Ok(())
}

/// The table in the file that `TENANTS` names.
async fn open() -> Result<SqliteConnection> {
    let file =
        env::var_os("TENANTS").map(PathBuf::from).context("set TENANTS to the file of the database")?;
    let mut table = SqliteConnectOptions::new().filename(file).create_if_missing(true).connect().await?;
    let create =
        "CREATE TABLE IF NOT EXISTS tenants (name TEXT PRIMARY KEY, plan TEXT NOT NULL, trial_ends INTEGER)";
    sqlx::query(create).execute(&mut table).await?;
    Ok(table)
}

async fn list(table: &mut SqliteConnection) -> Result<()> {
    for tenant in sqlx::query("SELECT name, plan FROM tenants ORDER BY name").fetch_all(table).await? {
        println!("{} {}", tenant.try_get::<String, _>("name")?, tenant.try_get::<String, _>("plan")?);
    }
    Ok(())
}
