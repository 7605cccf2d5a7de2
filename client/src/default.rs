//! The client of a process that needs only one.

use std::sync::OnceLock;

use crate::{client::Client, error::Error};

static DEFAULT: OnceLock<Client> = OnceLock::new();

/// Makes `client` the one that [`Admission::by_default`](crate::Admission::by_default) asks, and with it every
/// `#[topup::limited]` that names none. To be called once, where the program starts.
///
/// # Errors
/// [`Error::DefaultIsSet`] when there is one already: it stays.
pub fn set_default(client: Client) -> Result<(), Error> {
    DEFAULT.set(client).map_err(|_| Error::DefaultIsSet)
}

pub(crate) fn default_client() -> Option<&'static Client> {
    DEFAULT.get()
}
