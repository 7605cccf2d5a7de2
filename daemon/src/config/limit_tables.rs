//! The keys of the tables within a limit.

use topup_wire::limit::{MAX_TOKENS, MAX_WINDOW_TOKENS};

use super::config_key::{ConfigKey, Kind, RATE, TIME, key};

/// The problem of a rate where the limit has none: in a schedule, or in a candidate.
pub(super) const REFILL_HAS_NO_RATE: &str =
    "a limit with refill has no rate to change: remove this one, or write capacity = 400";

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

/// The terms of a candidate or of a plan.
pub(super) const OTHER_TERMS: &[ConfigKey] = &[
    key("capacity", "capacity = 200", Kind::Whole(1, MAX_TOKENS), "Most tokens a bucket holds."),
    key("rate", r#"rate = "100/s""#, Kind::Form(RATE), "Speed at which a bucket fills."),
    key("limit", "limit = 200", Kind::Whole(1, MAX_WINDOW_TOKENS), "Most tokens within a window."),
    key("window", r#"window = "1min""#, Kind::Form(TIME), "Length of the window."),
];

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
