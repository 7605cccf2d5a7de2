//! `config.toml` at the top of the repository: reference, default and fixture.

use std::path::Path;

use topup_wire::limit::Algorithm;

use crate::config::{Config, SupplyConfig, keys};

const TEXT: &str = include_str!("../../../config.toml");

#[test]
fn the_shipped_config_is_accepted_without_a_warning() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config.toml");
    let config = Config::load(&path).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(config.warnings, []);
    assert!(["api", "user", "sms"].iter().all(|name| config.limits.contains_key(*name)));
    let limits = || config.limits.values();
    assert!(limits().any(|limit| limit.algorithm == Algorithm::LazyTokenBucket));
    assert!(limits().any(|limit| matches!(limit.supply, SupplyConfig::Calendar(_))));
    assert!(limits().any(|limit| limit.schedule.len() > 1));
}

#[test]
fn the_configs_of_containers_are_accepted_without_a_warning() {
    for name in ["consumer/config.toml", "docker/config/config.toml", "kubernetes/config.toml"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging").join(name);
        let config = Config::load(&path).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!((config.warnings.len(), config.limits.len()), (0, 2), "{name}");
    }
}

#[test]
fn the_shipped_config_mentions_every_key() {
    for key in keys::TABLES.iter().copied().flatten() {
        let (value, table, inner) =
            (format!("{} = ", key.name), format!("[{}", key.name), format!(".{}]]", key.name));
        let mentioned = [value, table, inner].iter().any(|form| TEXT.contains(form));
        assert!(mentioned, "config.toml does not mention {}", key.name);
    }
}

#[test]
fn what_is_left_out_of_the_shipped_config_has_the_values_it_shows() {
    let shipped = Config::parse(TEXT, "config.toml").unwrap();
    let empty = Config::parse("", "config.toml").unwrap();
    assert_eq!((shipped.redis_url, shipped.tick), (empty.redis_url, empty.tick));
}

#[test]
fn the_example_of_every_key_is_toml_that_sets_it() {
    for key in keys::TABLES.iter().copied().flatten() {
        let entries = toml::de::DeTable::parse(key.example).expect(key.example);
        assert!(entries.get_ref().contains_key(key.name) || key.example.starts_with('['), "{}", key.example);
    }
}
