//! The URL of a SQL database.

use std::{fmt, str::FromStr};

/// The parameters that the URL of a PostgreSQL may have. One of another name may be a misspelt one, and a password is
/// never shown if it stands before the host.
const PARAMETERS: [&str; 10] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "application_name",
];

/// The URL of a database that this build can read: `sqlite:PATH` or `postgres://`. Displayed without its password.
#[derive(Clone, PartialEq, Eq)]
pub struct SqlUrl(String);

/// A text that is no [`SqlUrl`]. The message does not repeat the text, which may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SqlUrlError {
    /// Another scheme, or none.
    #[error(
        "not the URL of a database: write \"sqlite:/path/to/tenants.db\" or \"postgres://user@host/database\""
    )]
    Scheme,
    /// A path of SQLite that is none.
    #[error("sqlite: takes the path of a file and nothing else: write \"sqlite:/path/to/tenants.db\"")]
    Path,
    /// A parameter that this daemon does not know.
    #[error("a parameter that is not known: there are {}", PARAMETERS.join(", "))]
    Parameter,
    /// Another mistake behind the scheme.
    #[error("not the URL of a PostgreSQL ({0}): write \"postgres://user:password@host:port/database\"")]
    Form(String),
    /// This program cannot read databases.
    #[error(
        "this topupd is built without databases: install the package or the image, or build it with \
         `cargo install topupd --features sql`; a file of CSV or JSON lines needs neither"
    )]
    NotBuilt,
}

// === impl SqlUrl ===

impl SqlUrl {
    /// The URL with its password, for connections only.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path of a SQLite database.
    pub fn sqlite_path(&self) -> Option<&str> {
        sqlite_path(&self.0)
    }
}

fn sqlite_path(url: &str) -> Option<&str> {
    let path = url.strip_prefix("sqlite:")?;
    Some(path.strip_prefix("//").unwrap_or(path))
}

impl FromStr for SqlUrl {
    type Err = SqlUrlError;

    fn from_str(text: &str) -> Result<Self, SqlUrlError> {
        if let Some(path) = sqlite_path(text) {
            if path.is_empty() || path.starts_with(':') || path.contains(['?', '#']) {
                return Err(SqlUrlError::Path);
            }
        } else {
            match text.split_once("://") {
                Some(("postgres" | "postgresql", _)) => {}
                _ => return Err(SqlUrlError::Scheme),
            }
            let parameters = text.split_once('?').map_or("", |(_, parameters)| parameters).split('&');
            let mut names = parameters
                .filter(|one| !one.is_empty())
                .map(|one| one.split_once('=').unwrap_or((one, "")).0);
            if names.any(|name| !PARAMETERS.contains(&name)) {
                return Err(SqlUrlError::Parameter);
            }
        }
        check(text)?;
        Ok(Self(text.to_owned()))
    }
}

#[cfg(feature = "sql")]
fn check(url: &str) -> Result<(), SqlUrlError> {
    if sqlite_path(url).is_none() {
        url.parse::<sqlx::postgres::PgConnectOptions>()
            .map_err(|error| SqlUrlError::Form(error.to_string()))?;
    }
    Ok(())
}

#[cfg(not(feature = "sql"))]
fn check(_: &str) -> Result<(), SqlUrlError> {
    Err(SqlUrlError::NotBuilt)
}

impl fmt::Display for SqlUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.sqlite_path().is_some() {
            return f.pad(&self.0);
        }
        // Parameters tell how to connect, and not where.
        let place = self.0.split('?').next().unwrap_or_default();
        let place = place.split_once("://").map_or("", |(_, place)| place);
        f.pad(&format!("postgres://{}", place.rsplit('@').next().unwrap_or_default()))
    }
}

impl fmt::Debug for SqlUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqlUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "sql")]
    fn a_url_is_read_and_shown_without_its_password() {
        for (url, shown) in [
            ("sqlite:tenants.db", "sqlite:tenants.db"),
            ("sqlite:///srv/tenants.db", "sqlite:///srv/tenants.db"),
            ("postgres://app:s3cret@db.example:5433/app?sslmode=require", "postgres://db.example:5433/app"),
            ("postgresql:///app?host=/run/postgresql&user=app", "postgres:///app"),
        ] {
            let parsed: SqlUrl = url.parse().unwrap();
            let text = format!("{parsed} {parsed:?}");
            assert!(parsed.to_string() == shown && !text.contains("s3cret"), "{text}");
            assert_eq!(parsed.as_str(), url);
        }
        assert_eq!("sqlite:///srv/a.db".parse::<SqlUrl>().unwrap().sqlite_path(), Some("/srv/a.db"));
    }

    #[test]
    fn what_is_no_url_is_refused_and_not_repeated() {
        for (url, error) in [
            ("mysql://app:s3cret@host/app", SqlUrlError::Scheme),
            ("tenants.db", SqlUrlError::Scheme),
            ("sqlite:", SqlUrlError::Path),
            ("sqlite::memory:", SqlUrlError::Path),
            ("sqlite:a.db?mode=rwc", SqlUrlError::Path),
            ("postgres://host/app?password=s3cret", SqlUrlError::Parameter),
        ] {
            let refused = url.parse::<SqlUrl>().unwrap_err();
            assert_eq!(refused, error, "{url}");
            assert!(!refused.to_string().contains("s3cret"));
        }
        #[cfg(feature = "sql")]
        assert!(
            matches!("postgres://host:s3cret/app".parse::<SqlUrl>(), Err(SqlUrlError::Form(text)) if !text.contains("s3cret"))
        );
        #[cfg(not(feature = "sql"))]
        assert_eq!("sqlite:a.db".parse::<SqlUrl>(), Err(SqlUrlError::NotBuilt));
    }
}
