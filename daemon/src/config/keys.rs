//! Every key of a config, and messages that several keys share.

/// A key of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConfigKey {
    pub(super) name: &'static str,
    /// An example of the key with a value, for advice in problems.
    pub(super) example: &'static str,
}

/// The problem of a rate where the limit has none: in a schedule, or in a candidate.
pub(super) const REFILL_HAS_NO_RATE: &str =
    "a limit with refill has no rate to change: remove this one, or write capacity = 400";

/// The bounds of GCRA, see `Pace::can_rest`; the advice follows.
pub(super) const GCRA_BOUNDS: &str =
    "gcra counts at most 1000000 tokens a second, and a capacity that fills within 50 years";

const fn key(name: &'static str, example: &'static str) -> ConfigKey {
    ConfigKey { name, example }
}

pub(super) const ROOT: &[ConfigKey] = &[
    key("name", r#"name = "shop""#),
    key("redis", "[redis]"),
    key("daemon", "[daemon]"),
    key("admin", "[admin]"),
    key("limit", "[limit.api]"),
];

pub(super) const REDIS: &[ConfigKey] = &[
    key("url", r#"url = "redis://127.0.0.1:6379""#),
    key("namespace", r#"namespace = "topup""#),
    key("tls_ca", r#"tls_ca = "/etc/topup/ca.pem""#),
    key("tls_cert", r#"tls_cert = "/etc/topup/client.pem""#),
    key("tls_key", r#"tls_key = "/etc/topup/client.key""#),
];

pub(super) const DAEMON: &[ConfigKey] = &[key("tick", r#"tick = "100ms""#)];

pub(super) const ADMIN: &[ConfigKey] = &[
    key("listen", r#"listen = "127.0.0.1:9187""#),
    key("token_file", r#"token_file = "/etc/topup/admin-token""#),
];

pub(super) const LIMIT: &[ConfigKey] = &[
    key("capacity", "capacity = 100"),
    key("rate", r#"rate = "50/s""#),
    key("limit", "limit = 100"),
    key("window", r#"window = "1min""#),
    key("rules", r#"rules = [{ limit = 10, window = "1s" }, { limit = 100, window = "1min" }]"#),
    key("aligned", "aligned = true"),
    key("refill", r#"refill = { cron = "0 0 0 1 * *", timezone = "Europe/Berlin" }"#),
    key("keyed", "keyed = true"),
    key("algorithm", r#"algorithm = "token-bucket""#),
    key("catch_up", "catch_up = true"),
    key("on_change", r#"on_change = "keep""#),
    key("shards", "shards = 8"),
    key("lease", r#"lease = { max = 100, ttl = "1s" }"#),
    key("mode", r#"mode = "enforce""#),
    key("enforce_percent", "enforce_percent = 100"),
    key("on_outage", r#"on_outage = "local""#),
    key("compare_percent", "compare_percent = 1"),
    key("top_keys", "top_keys = 20"),
    key("candidate", r#"candidate = { rate = "100/s" }"#),
    key("schedule", "[[limit.api.schedule]]"),
];

pub(super) const REFILL: &[ConfigKey] = &[CRON, TIMEZONE];

pub(super) const LEASE: &[ConfigKey] = &[key("max", "max = 100"), key("ttl", r#"ttl = "1s""#)];

pub(super) const CANDIDATE: &[ConfigKey] = &[
    key("capacity", "capacity = 200"),
    key("rate", r#"rate = "100/s""#),
    key("limit", "limit = 200"),
    key("window", r#"window = "1min""#),
];

pub(super) const RULE: &[ConfigKey] = &[key("limit", "limit = 10"), key("window", r#"window = "1s""#)];

pub(super) const SCHEDULE: &[ConfigKey] =
    &[CRON, TIMEZONE, key("rate", r#"rate = "200/s""#), key("capacity", "capacity = 400")];

const CRON: ConfigKey = key("cron", r#"cron = "0 0 22 * * *""#);
const TIMEZONE: ConfigKey = key("timezone", r#"timezone = "Europe/Berlin""#);

/// All tables, for tests that keep documents and examples complete.
#[cfg(test)]
pub(super) const TABLES: &[&[ConfigKey]] =
    &[ROOT, REDIS, DAEMON, ADMIN, LIMIT, CANDIDATE, RULE, REFILL, LEASE, SCHEDULE];
