//! Correct use compiles: every form of the attribute.

#![allow(clippy::multiple_bound_locations, reason = "every form of a bound")]

use std::{sync::Arc, time::Duration};

use topup::{Client, Denied, limited};

#[derive(Debug)]
struct Failure;

impl From<Denied> for Failure {
    fn from(_: Denied) -> Self {
        Self
    }
}

impl From<topup::Error> for Failure {
    fn from(_: topup::Error) -> Self {
        Self
    }
}

/// An error without `From<topup::Error>`.
#[derive(Debug)]
struct Refused(#[allow(dead_code, reason = "only its form counts")] Denied);

impl From<Denied> for Refused {
    fn from(denied: Denied) -> Self {
        Self(denied)
    }
}

struct Account {
    topup: Arc<Client>,
    id: u64,
}

#[limited(limit = "api")]
async fn plain() -> Result<(), Failure> {
    Ok(())
}

#[limited(limit = "user", key = id, count = 2, message = "slowly", wait = "2s", on_outage = allow)]
async fn everything(id: u64) -> Result<u64, Refused> {
    Ok(id)
}

#[topup::limited(limit = "api", wait = "1min 30s")]
#[topup::limited(limit = "user", key = &name[..1], message = format!("slowly, {name}"))]
#[topup::limited(limit = if name.is_empty() { "nobody" } else { "bytes" }, count = name.len() as u64)]
async fn stacked(name: String) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    Ok(name)
}

impl Account {
    /// The key is an expression of lower precedence than `&`, and the client is behind a pointer.
    #[limited(limit = "account", key = self.id + 1, client = self.topup, wait = Duration::from_secs(1), on_outage = "deny")]
    async fn withdraw(&mut self) -> Result<(), Refused> {
        self.id += 1;
        Ok(())
    }

    #[limited(limit = "account", key = self.id, client = self.topup)]
    async fn generic<T: Send>(self, value: T) -> Result<T, Failure>
    where
        T: Clone,
    {
        Ok(value)
    }
}

fn is_send<T: Send>(_: T) {}

#[test]
fn every_form_compiles() {
    is_send(plain());
    is_send(everything(1));
    is_send(stacked("name".to_owned()));
    let _ = Account::withdraw;
    let _ = Account::generic::<u8>;
}
