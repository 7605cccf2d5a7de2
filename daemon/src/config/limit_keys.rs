//! The keys of a limit.

use topup_wire::limit::{Algorithm, MAX_TOKENS, MAX_WINDOW_TOKENS, Mode, OnAbandon, OnChange, OnOutage};

use super::{
    config_key::{ConfigKey, Kind, RATE, TIME, key},
    limit_tables::{ASSIGNMENT, LEASE, OTHER_TERMS, PENALTY, REFILL, RULE, SCHEDULE, SOURCE},
    parts,
};

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
    key("algorithm", r#"algorithm = "token-bucket""#, Kind::Words(|| Algorithm::EVERY.map(Algorithm::as_str).to_vec()), "How takes are decided.")
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
        Kind::Words(|| OnChange::ALL.map(OnChange::as_str).to_vec()),
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
        Kind::Words(|| Mode::ALL.map(Mode::as_str).to_vec()),
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
        Kind::Words(|| OnOutage::ALL.map(OnOutage::as_str).to_vec()),
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
        Kind::Words(|| OnAbandon::ALL.map(OnAbandon::as_str).to_vec()),
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
        Kind::Table(OTHER_TERMS),
        "Other terms, tried on the same takes. An absent key is that of the limit.",
    ),
    key(
        "plan",
        "[limit.user.plan.gold]",
        Kind::Plans(OTHER_TERMS),
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
