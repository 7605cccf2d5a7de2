//! Every key of a config with its kind and meaning.
//!
//! The parser reads by these tables, and schema and reference page are made of them.

use super::config_key::{TIME, key};
pub(super) use super::{
    config_key::{ConfigKey, Kind, NAME, PLAN_NAME},
    limit_keys::LIMIT,
    limit_tables::{
        ASSIGNMENT, LEASE, OTHER_TERMS, PENALTY, REFILL, REFILL_HAS_NO_RATE, RULE, SCHEDULE, SOURCE,
    },
};

const NAMESPACE: &str = "^[A-Za-z0-9._-]{1,32}$";

pub(super) const ROOT: &[ConfigKey] = &[
    key(
        "name",
        r#"name = "shop""#,
        Kind::Form(NAME),
        "Name of this config among all that publish to one Redis. Without it, the absolute path of the file. A change takes a restart.",
    ),
    key(
        "include_dir",
        r#"include_dir = "conf.d""#,
        Kind::Text,
        "Folder with more limits, beside this file: its `*.toml` have `[limit.*]` tables only, and are read in order of their names. A limit in two files and a missing folder are errors.",
    ),
    key("redis", "[redis]", Kind::Table(REDIS), "The server that holds the buckets."),
    key("daemon", "[daemon]", Kind::Table(DAEMON), "The daemon itself."),
    key(
        "admin",
        "[admin]",
        Kind::Table(ADMIN),
        "HTTP server for metrics and health; none without this table. A change takes a restart.",
    ),
    key(
        "limit",
        "[limit.api]",
        Kind::Limits(LIMIT),
        "The limits by name: 1 to 64 of the characters A-Z a-z 0-9 . _ -, in quotes if it has a dot.",
    ),
];

pub(super) const REDIS: &[ConfigKey] = &[
    key(
        "url",
        r#"url = "redis://127.0.0.1:6379""#,
        Kind::Text,
        "URL of the server: `redis://`, `rediss://` for TLS, `unix://`, several hosts of a cluster separated \
         by commas, or `redis+sentinel://`. `${NAME}` stands for the environment variable `NAME`. \
         `TOPUP_REDIS_URL` and the credential `redis-url` override it. A change takes a restart.",
    )
    .or(r#""redis://127.0.0.1:6379""#),
    key(
        "namespace",
        r#"namespace = "topup""#,
        Kind::Form(NAMESPACE),
        "First part of every key: 1 to 32 of the characters A-Z a-z 0-9 . _ -. A change takes a restart.",
    )
    .or(r#""topup""#),
    key(
        "tls_ca",
        r#"tls_ca = "/etc/topup/ca.pem""#,
        Kind::Text,
        "PEM file of the CAs that may sign the server's certificate. Without it, those of the system.",
    ),
    key(
        "tls_cert",
        r#"tls_cert = "/etc/topup/client.pem""#,
        Kind::Text,
        "PEM file of the daemon's own certificate; needs `tls_key`.",
    ),
    key("tls_key", r#"tls_key = "/etc/topup/client.key""#, Kind::Text, "PEM file of the key of `tls_cert`."),
];

pub(super) const DAEMON: &[ConfigKey] = &[
    key(
        "tick",
        r#"tick = "100ms""#,
        Kind::Form(TIME),
        "Refill period, 1ms to 60s. Without catch-up, tokens come once a tick.",
    )
    .or(r#""100ms""#),
    key(
        "watch",
        "watch = true",
        Kind::Flag,
        "Whether the daemon reloads by itself when the content of its files changes.",
    )
    .or("false"),
];

pub(super) const ADMIN: &[ConfigKey] = &[
    key(
        "listen",
        r#"listen = "127.0.0.1:9187""#,
        Kind::Text,
        "IP address and port, or a unix socket such as `unix:/run/topup/admin.sock`.",
    )
    .needed(),
    key(
        "token_file",
        r#"token_file = "/etc/topup/admin-token""#,
        Kind::Text,
        "File with a bearer token of 16 to 256 characters that each request has to show. An address that is no loopback one needs it.",
    ),
];

/// All tables, for tests that keep documents and examples complete.
#[cfg(test)]
pub(super) const TABLES: &[&[ConfigKey]] = &[
    ROOT,
    REDIS,
    DAEMON,
    ADMIN,
    LIMIT,
    OTHER_TERMS,
    ASSIGNMENT,
    SOURCE,
    RULE,
    REFILL,
    LEASE,
    PENALTY,
    SCHEDULE,
];
