//! The default client of a process.

use std::sync::OnceLock;

use crate::{client::Client, error::Error};

static DEFAULT: OnceLock<Client> = OnceLock::new();

/// Makes `client` the default client: [`Admission::by_default`](crate::Admission::by_default) uses it, and so does every
/// `#[topup::limited]` that names no client. Call it once, where the program starts.
///
/// # Errors
/// [`Error::DefaultIsSet`] if there is a default client already. The present one stays.
pub fn set_default(client: Client) -> Result<(), Error> {
    DEFAULT.set(client).map_err(|_| Error::DefaultIsSet)
}

pub(crate) fn default_client() -> Option<&'static Client> {
    DEFAULT.get()
}
