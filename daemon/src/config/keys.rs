//! Every key of a config with its kind and meaning, and messages that several keys share.
//!
//! The parser reads by these tables, and schema and reference page are made of them.

use topup_wire::limit::{Algorithm, MAX_TOKENS, MAX_WINDOW_TOKENS, Mode, OnAbandon, OnChange, OnOutage};

pub(super) use super::config_key::{ConfigKey, Kind};
use super::{config_key::key, parts};

/// The problem of a rate where the limit has none: in a schedule, or in a candidate.
pub(super) const REFILL_HAS_NO_RATE: &str =
    "a limit with refill has no rate to change: remove this one, or write capacity = 400";

/// The name of a limit, or of a config.
pub(super) const NAME: &str = "^[A-Za-z0-9._-]{1,64}$";
/// The name of a plan.
pub(super) const PLAN_NAME: &str = "^[A-Za-z0-9._-]{1,24}$";
const NAMESPACE: &str = "^[A-Za-z0-9._-]{1,32}$";
const RATE: &str = r"^\s*[0-9_]*[0-9][0-9_]*\s*/\s*([0-9_]*[0-9][0-9_]*)?\s*(ms|s|m|min|h|d)\s*$";
const TIME: &str = r"^\s*[0-9][0-9_]*\s*(ms|s|m|min|h|d)\s*$";

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

pub(super) const LIMIT: &[ConfigKey] = &[
    key(
        "capacity",
        "capacity = 100",
        Kind::Whole(1, MAX_TOKENS),
        "Most tokens a bucket holds. Required, unless the algorithm has `limit`.",
    ),
    key(
        "rate",
        r#"rate = "50/s""#,
        Kind::Form(RATE),
        "Speed at which a bucket fills, in whole tokens per interval: `50/s`, `1/60s`, `10/min`. Required, \
         unless there is `refill` or the algorithm has `limit`.",
    ),
    key(
        "limit",
        "limit = 100",
        Kind::Whole(1, MAX_WINDOW_TOKENS),
        "Most tokens within a window, for the algorithms with windows; most permits held at once, up to 10000, for `concurrency`.",
    ),
    key(
        "window",
        r#"window = "1min""#,
        Kind::Form(TIME),
        "Length of the window, 1ms to 366d; for the algorithms with windows.",
    ),
    key(
        "rules",
        r#"rules = [{ limit = 10, window = "1s" }, { limit = 100, window = "1min" }]"#,
        Kind::Tables(RULE),
        "Up to 8 rules in place of `limit` and `window`; for `sliding-window`.",
    ),
    key(
        "aligned",
        "aligned = true",
        Kind::Flag,
        "Whether windows begin at multiples of their length since 1970; for `fixed-window`.",
    )
    .or("false"),
    key(
        "ttl",
        r#"ttl = "30s""#,
        Kind::Form(TIME),
        "Time after which a holder that died has lost its permits, 500ms to 1h; for `concurrency`.",
    )
    .or(r#""30s""#),
    key(
        "refill",
        r#"refill = { cron = "0 0 0 1 * *", timezone = "Europe/Berlin" }"#,
        Kind::Table(REFILL),
        "Instants that fill every bucket, in place of `rate`; for `token-bucket`.",
    ),
    parts::SHARE,
    parts::PARTS,
    key("keyed", "keyed = true", Kind::Flag, "Whether there is one bucket for each key, or one for all.")
        .or("false"),
    key("algorithm", r#"algorithm = "token-bucket""#, Kind::Words(algorithms), "How takes are decided.")
        .or(r#""token-bucket""#),
    key(
        "catch_up",
        "catch_up = true",
        Kind::Flag,
        "Whether a take that finds a bucket empty credits the tokens it is owed; for `token-bucket` with a \
         rate.",
    )
    .or("true"),
    key(
        "on_change",
        r#"on_change = "keep""#,
        Kind::Words(on_change),
        "Fate of the tokens in a bucket when `capacity` changes.",
    )
    .or(r#""keep""#),
    key(
        "shards",
        "shards = 8",
        Kind::Whole(1, 1024),
        "Parts that a Redis Cluster spreads over its nodes; for keyed limits. 8 unless set.",
    ),
    key(
        "lease",
        r#"lease = { max = 100, ttl = "1s" }"#,
        Kind::Table(LEASE),
        "Tokens that each worker may take ahead; for `token-bucket` with a rate.",
    ),
    key(
        "mode",
        r#"mode = "enforce""#,
        Kind::Words(modes),
        "Effect of a denial: it holds, it is only told, or Redis is not asked.",
    )
    .or(r#""enforce""#),
    key(
        "enforce_percent",
        "enforce_percent = 100",
        Kind::Whole(0, 100),
        "Percentage of keys for which a denial holds; for keyed limits.",
    )
    .or("100"),
    key(
        "on_outage",
        r#"on_outage = "local""#,
        Kind::Words(on_outage),
        "Decision of a worker while Redis gives none. Without it, each worker's own setting.",
    ),
    key(
        "compare_percent",
        "compare_percent = 1",
        Kind::Whole(0, 100),
        "Percentage of keys whose takes are also asked of a lazy bucket; for `token-bucket` with a \
         rate.",
    )
    .or("0"),
    key(
        "top_keys",
        "top_keys = 20",
        Kind::Whole(0, 100),
        "Number of the most denied keys that workers tell; for keyed limits. 0 tells none.",
    )
    .or("0"),
    key(
        "hash_top_keys",
        "hash_top_keys = true",
        Kind::Flag,
        "Whether hashes stand for these keys, in Redis and wherever they are shown.",
    )
    .or("false"),
    key(
        "penalty",
        r#"penalty = { after = 5, within = "1min", block = "10min" }"#,
        Kind::Table(PENALTY),
        "Blocks keys that are denied again and again; for keyed limits.",
    ),
    key(
        "max_debt",
        "max_debt = 1000",
        Kind::Whole(0, MAX_TOKENS),
        "The most tokens below 0 that a charge after use may leave in a bucket; for limits with a rate.",
    )
    .or("0"),
    key(
        "on_abandon",
        r#"on_abandon = "charge""#,
        Kind::Words(on_abandon),
        "Fate of the tokens of a hold that is dropped, or whose holder dies: they stay charged, or are put back.",
    )
    .or(r#""charge""#),
    key(
        "hold_ttl",
        r#"hold_ttl = "10min""#,
        Kind::Text,
        "Time after which a hold that is not settled counts as abandoned, 1 s to a day.",
    )
    .or(r#""10min""#),
    key(
        "candidate",
        r#"candidate = { rate = "100/s" }"#,
        Kind::Table(CANDIDATE),
        "Other terms, tried on the same takes. An absent key is that of the limit.",
    ),
    key(
        "plan",
        "[limit.user.plan.gold]",
        Kind::Plans(PLAN),
        "Other terms for some keys, by name: 1 to 24 of the characters A-Z a-z 0-9 . _ -; for keyed limits. An absent key is that of the limit.",
    ),
    key(
        "keys",
        r#"keys = { acme = "gold", "10.0.*" = "exempt", evil = "deny" }"#,
        Kind::Assigned(ASSIGNMENT),
        "The plan of a key, or of all keys that match a pattern with `*`: the name of a plan, `exempt` or `deny`; for keyed limits. 10,000 at most.",
    ),
    key(
        "source",
        r#"source = { file = "tenants.csv" }"#,
        Kind::Table(SOURCE),
        "More assignments, which the daemon reads from a file or a database again and again; for keyed limits.",
    ),
    key(
        "schedule",
        "[[limit.api.schedule]]",
        Kind::Tables(SCHEDULE),
        "Another rate or capacity from each firing of a cron until another entry fires.",
    ),
];

pub(super) const REFILL: &[ConfigKey] = &[CRON, TIMEZONE];

pub(super) const LEASE: &[ConfigKey] = &[
    key(
        "max",
        "max = 100",
        Kind::Whole(1, MAX_TOKENS),
        "Most tokens that a worker takes ahead, up to the capacity.",
    )
    .needed(),
    key("ttl", r#"ttl = "1s""#, Kind::Form(TIME), "Longest time that it keeps them, 10ms to 60s.")
        .or(r#""1s""#),
];

pub(super) const PENALTY: &[ConfigKey] = &[
    key("after", "after = 5", Kind::Whole(1, 1_000_000), "Number of denied takes that block a key.").needed(),
    key(
        "within",
        r#"within = "1min""#,
        Kind::Form(TIME),
        "Time within which they count, from the first on, 1s to 1d.",
    )
    .needed(),
    key("block", r#"block = "10min""#, Kind::Form(TIME), "Length of the first block, 1s to 1d.").needed(),
    key("factor", "factor = 2", Kind::Whole(1, 10), "Length of a block in lengths of the one before.")
        .or("2"),
    key("max", r#"max = "1d""#, Kind::Form(TIME), "Length of the longest block, up to 1d.").or(r#""1d""#),
];

pub(super) const CANDIDATE: &[ConfigKey] = &[
    key("capacity", "capacity = 200", Kind::Whole(1, MAX_TOKENS), "Most tokens a bucket holds."),
    key("rate", r#"rate = "100/s""#, Kind::Form(RATE), "Speed at which a bucket fills."),
    key("limit", "limit = 200", Kind::Whole(1, MAX_WINDOW_TOKENS), "Most tokens within a window."),
    key("window", r#"window = "1min""#, Kind::Form(TIME), "Length of the window."),
];

pub(super) const PLAN: &[ConfigKey] = CANDIDATE;

pub(super) const ASSIGNMENT: &[ConfigKey] = &[
    key("plan", r#"plan = "gold""#, Kind::Text, "The name of a plan, `exempt` or `deny`.").needed(),
    key(
        "until",
        r#"until = "2026-12-01T00:00:00Z""#,
        Kind::Instant,
        "The end of the assignment, with its time zone; without it, there is none.",
    ),
];

pub(super) const SOURCE: &[ConfigKey] = &[
    key(
        "file",
        r#"file = "tenants.csv""#,
        Kind::Text,
        "File of CSV or JSON lines, or folder of such files (`*.csv`, `*.json`, `*.jsonl`). A relative path begins in the folder of the config file.",
    ),
    key(
        "url",
        r#"url = "sqlite:/srv/tenants.db""#,
        Kind::Text,
        "Database in place of a file: `sqlite:PATH` or `postgres://user:password@host/database`. `${NAME}` stands for the environment variable `NAME`.",
    ),
    key(
        "query",
        r#"query = "SELECT key, plan, until FROM tenants""#,
        Kind::Text,
        "Query with the columns `key` and `plan`, and `until` if wanted; for `url`.",
    ),
    key("every", r#"every = "10s""#, Kind::Form(TIME), "Time between two looks, 1s to 1d.").or(r#""10s""#),
    key(
        "max_drop_percent",
        "max_drop_percent = 50",
        Kind::Whole(0, 100),
        "Most of its assignments that may go at once. A look that finds fewer changes nothing.",
    )
    .or("50"),
];

pub(super) const RULE: &[ConfigKey] = &[
    key("limit", "limit = 10", Kind::Whole(1, MAX_WINDOW_TOKENS), "Most tokens within the window.").needed(),
    key("window", r#"window = "1s""#, Kind::Form(TIME), "Length of the window.").needed(),
];

pub(super) const SCHEDULE: &[ConfigKey] = &[
    CRON,
    TIMEZONE,
    key("rate", r#"rate = "200/s""#, Kind::Form(RATE), "Rate from then on; without it, the limit's own."),
    key(
        "capacity",
        "capacity = 400",
        Kind::Whole(1, MAX_TOKENS),
        "Capacity from then on; without it, the limit's own.",
    ),
];

const CRON: ConfigKey =
    key("cron", r#"cron = "0 0 22 * * *""#, Kind::Text, "Six fields: second minute hour day month weekday.")
        .needed();
const TIMEZONE: ConfigKey =
    key("timezone", r#"timezone = "Europe/Berlin""#, Kind::Text, "Time zone of `cron`.").or(r#""UTC""#);

fn algorithms() -> Vec<&'static str> {
    Algorithm::EVERY.iter().map(|algorithm| algorithm.as_str()).collect()
}

fn on_change() -> Vec<&'static str> {
    OnChange::ALL.map(OnChange::as_str).to_vec()
}

fn modes() -> Vec<&'static str> {
    Mode::ALL.iter().map(|mode| mode.as_str()).collect()
}

fn on_abandon() -> Vec<&'static str> {
    OnAbandon::ALL.map(OnAbandon::as_str).to_vec()
}

fn on_outage() -> Vec<&'static str> {
    OnOutage::ALL.iter().map(|policy| policy.as_str()).collect()
}

/// All tables, for tests that keep documents and examples complete.
#[cfg(test)]
pub(super) const TABLES: &[&[ConfigKey]] =
    &[ROOT, REDIS, DAEMON, ADMIN, LIMIT, CANDIDATE, ASSIGNMENT, SOURCE, RULE, REFILL, LEASE, SCHEDULE];
