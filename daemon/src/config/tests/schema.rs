//! The schema accepts every config that the parser accepts, and refuses what it can. The page of keys is up to date.

use std::{collections::BTreeSet, fs, path::Path};

use proptest::prelude::*;
use regex_automata::meta::Regex;
use serde_json::Value;

use super::fixtures::fixtures;
use crate::config::{
    Config,
    keys::{self, Kind},
    reference, schema,
};

/// The reasons why `value` does not fit `schema`, by the keywords that the schema has.
fn misfits(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    if *schema == Value::Bool(false) {
        found.push(format!("{path}: not allowed"));
    }
    let Some(schema) = schema.as_object() else { return };
    let fits = |schema: &Value| {
        let mut inner = Vec::new();
        misfits(schema, value, path, &mut inner);
        inner.is_empty()
    };
    for (keyword, rule) in schema {
        let is_kept = match keyword.as_str() {
            "type" => match rule.as_str().unwrap() {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "integer" => value.is_i64() || value.is_u64(),
                "boolean" => value.is_boolean(),
                other => panic!("type {other}"),
            },
            "enum" => rule.as_array().unwrap().contains(value),
            "pattern" => {
                let pattern = Regex::new(rule.as_str().unwrap()).unwrap();
                value.as_str().is_none_or(|text| pattern.is_match(text))
            }
            "minimum" => value.as_i64().is_none_or(|number| number >= rule.as_i64().unwrap()),
            "maximum" => value.as_i64().is_none_or(|number| number <= rule.as_i64().unwrap()),
            "required" => value.as_object().is_none_or(|table| {
                rule.as_array().unwrap().iter().all(|key| table.contains_key(key.as_str().unwrap()))
            }),
            "properties" => {
                for (key, schema) in rule.as_object().unwrap() {
                    if let Some(value) = value.get(key) {
                        misfits(schema, value, &format!("{path}.{key}"), found);
                    }
                }
                true
            }
            "additionalProperties" => {
                let known = schema.get("properties").and_then(Value::as_object);
                for (key, value) in value.as_object().into_iter().flatten() {
                    if known.is_none_or(|known| !known.contains_key(key)) {
                        misfits(rule, value, &format!("{path}.{key}"), found);
                    }
                }
                true
            }
            "propertyNames" => {
                for key in value.as_object().into_iter().flatten().map(|(key, _)| key) {
                    misfits(rule, &Value::String(key.clone()), &format!("{path}.{key}"), found);
                }
                true
            }
            "items" => {
                for value in value.as_array().into_iter().flatten() {
                    misfits(rule, value, path, found);
                }
                true
            }
            "oneOf" => rule.as_array().unwrap().iter().filter(|schema| fits(schema)).count() == 1,
            "if" => {
                let branch = if fits(rule) { "then" } else { "else" };
                misfits(&schema[branch], value, path, found);
                true
            }
            "then" | "else" | "$schema" | "title" | "description" | "default" => true,
            other => panic!("keyword {other}"),
        };
        if !is_kept {
            found.push(format!("{path}: {keyword} {rule}"));
        }
    }
}

/// The reasons why `text` does not fit the schema; `None` if it is no TOML.
fn against(text: &str) -> Option<Vec<String>> {
    let value: Value = toml::from_str(text).ok()?;
    let mut found = Vec::new();
    misfits(&schema(), &value, "", &mut found);
    Some(found)
}

/// Configs beside this crate: the shipped one, those of packages, examples and snippets of pages.
fn configs() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut configs: Vec<(String, String)> =
        fixtures("valid").into_iter().map(|(name, text, _)| (name, text)).collect();
    for name in [
        "config.toml",
        "packaging/consumer/config.toml",
        "packaging/docker/config/config.toml",
        "packaging/kubernetes/config.toml",
    ] {
        configs.push((name.to_owned(), fs::read_to_string(root.join(name)).unwrap()));
    }
    let pages = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    for page in
        pages.chain([root.join("README.md")]).filter(|path| path.extension().is_some_and(|end| end == "md"))
    {
        let text = fs::read_to_string(&page).unwrap();
        let snippets = text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
        configs.extend(snippets.map(|snippet| (page.display().to_string(), snippet.to_owned())));
    }
    configs
}

#[test]
fn every_legal_config_fits() {
    let mut legal = 0;
    for (name, text) in configs().into_iter().filter(|(_, text)| Config::parse(text, "config.toml").is_ok()) {
        assert_eq!(against(&text), Some(Vec::new()), "{name}:\n{text}");
        legal += 1;
    }
    assert!(legal > 15, "{legal}");
}

/// Only the parser knows rules between values, and the forms of URLs and calendars.
#[test]
fn broken_configs_do_not_fit_unless_only_the_parser_can_tell() {
    let fitting: BTreeSet<String> = fixtures("invalid")
        .into_iter()
        .filter(|(_, text, _)| against(text).is_some_and(|found| found.is_empty()))
        .map(|(name, ..)| name)
        .collect();
    let only_parser = [
        "calendars.toml",
        "namespace.toml",
        "redis_form.toml",
        "redis_scheme.toml",
        "redis_tls.toml",
        "redis_unix_path.toml",
        "ticks.toml",
    ];
    assert!(fitting.iter().map(String::as_str).eq(only_parser), "{fitting:?}");
}

#[test]
fn a_fault_in_any_key_of_the_shipped_config_is_seen() {
    let text = include_str!("../../../../config.toml");
    for (good, bad) in [
        ("capacity = 100\n", "capacity = 0\n"),
        ("capacity = 100\n", "capacity = \"100\"\n"),
        ("capacity = 100\n", "capcity = 100\n"),
        ("capacity = 100\n", ""),
        ("rate = \"50/s\"\n", "rate = \"50\"\n"),
        ("rate = \"50/s\"\n", "rate = \"1.5/s\"\n"),
        ("rate = \"50/s\"\n", "rate = \"50/s\"\nlimit = 5\n"),
        ("keyed = true\n", "keyed = \"yes\"\n"),
        ("[limit.api]", "[limit.\"a b\"]"),
        ("[limit.api]", "[limits.api]"),
        ("algorithm = \"gcra\"", "algorithm = \"gdpr\""),
        ("algorithm = \"gcra\"", "algorithm = \"fixed-window\""),
        ("tick = \"100ms\"", "tick = 100"),
        ("cron = \"0 0 22 * * *\"\n", ""),
        ("refill = {", "rate = \"1/s\"\nrefill = {"),
    ] {
        assert!(
            text.contains(good)
                && against(&text.replacen(good, bad, 1)).is_some_and(|found| !found.is_empty()),
            "{bad}"
        );
    }
}

#[test]
fn whole_numbers_end_where_the_parser_ends() {
    for (key, least, most) in keys::LIMIT.iter().filter_map(|key| match key.kind {
        Kind::Whole(least, most) => Some((key.name, least, most)),
        _ => None,
    }) {
        let is_legal = |number: u64| {
            let table = match key {
                "limit" => "algorithm = \"fixed-window\"\nwindow = \"1s\"",
                "capacity" => "rate = \"1/s\"",
                _ => "capacity = 1\nrate = \"1/s\"\nkeyed = true",
            };
            Config::parse(&format!("[limit.x]\n{key} = {number}\n{table}"), "config.toml").is_ok()
        };
        assert!(is_legal(least) && is_legal(most) && !is_legal(most + 1), "{key}");
        assert!(least == 0 || !is_legal(least - 1), "{key}");
    }
}

#[test]
fn a_default_is_what_an_absent_key_means() {
    for (table, keys) in [("redis", keys::REDIS), ("daemon", keys::DAEMON)] {
        for (key, default) in keys.iter().filter_map(|key| Some((key.name, key.default?))) {
            let written = Config::parse(&format!("[{table}]\n{key} = {default}"), "config.toml").unwrap();
            let mut absent = Config::parse("", "config.toml").unwrap();
            absent.redis_url = absent.redis_url.or_namespace(written.redis_url.named_namespace());
            assert_eq!(written, absent, "{key}");
        }
    }
    let limit = |more: &str| {
        let steady = "[limit.x]\nkeyed = true\ncapacity = 1\nrate = \"1/s\"\n";
        Config::parse(&format!("{steady}{more}"), "config.toml").unwrap().limits
    };
    for (key, default) in keys::LIMIT.iter().filter_map(|key| Some((key.name, key.default?))) {
        if !["keyed", "aligned", "ttl"].contains(&key) {
            assert_eq!(limit(&format!("{key} = {default}")), limit(""), "{key}");
        }
    }
}

#[test]
fn a_limit_of_permits_without_a_ttl_has_the_default() {
    let limits = |more: &str| {
        let text = format!("[limit.x]\nalgorithm = \"concurrency\"\nlimit = 3\n{more}");
        Config::parse(&text, "config.toml").unwrap().limits
    };
    assert_eq!(limits("ttl = \"30s\""), limits(""));
}

/// `cargo run -p topupd -- schema --markdown > docs/config.md` writes it anew.
#[test]
fn the_page_of_keys_is_up_to_date() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/config.md");
    assert!(
        fs::read_to_string(page).unwrap() == reference(),
        "cargo run -p topupd -- schema --markdown > docs/config.md"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// An editor never marks a text that the parser takes.
    #[test]
    fn patterns_match_every_legal_text(
        text in "[ 0-9_]{0,3}/?[ 0-9_]{0,3}(ms|s|m|min|h|d|us|x)?[ ]?", name in "[A-Za-z0-9._ -]{0,3}",
    ) {
        for (config, key) in [
            (format!("[limit.x]\ncapacity = 1\nrate = {text:?}"), "rate"),
            (format!("[daemon]\ntick = {text:?}"), "tick"),
            (format!("name = {name:?}"), "name"),
            (format!("[redis]\nnamespace = {name:?}"), "namespace"),
        ] {
            if Config::parse(&config, "config.toml").is_ok() {
                prop_assert_eq!(against(&config), Some(Vec::new()), "{}", key);
            }
        }
    }
}
