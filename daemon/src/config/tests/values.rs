//! The value of each key, and the defaults of absent keys.

use std::{path::Path, time::Duration};

use topup_wire::limit::{Algorithm, OnChange, Shards};

use crate::config::{Config, RedisUrl, SupplyConfig};

#[test]
fn every_key_becomes_its_value() {
    let text = r#"
        [redis]
        url = "unix:///run/redis/redis.sock?db=2"
        [daemon]
        tick = "2s"
        [limit.full]
        capacity = 1_000
        rate = "10/min"
        keyed = true
        algorithm = "token-bucket"
        catch_up = false
        on_change = "proportional"
        shards = 16
        [[limit.full.schedule]]
        cron = "0 0 22 * * *"
        timezone = "Europe/Berlin"
        rate = "20/min"
        [[limit.full.schedule]]
        cron = "0 0 6 * * *"
        capacity = 0x10
    "#;
    let config = Config::parse(text, "config.toml").unwrap();
    let limit = &config.limits["full"];
    assert_eq!(config.redis_url.as_str(), "unix:///run/redis/redis.sock?db=2");
    assert_eq!(config.tick, Duration::from_secs(2));
    assert_eq!((limit.name.as_str(), limit.capacity.get(), limit.keyed), ("full", 1000, true));
    assert_eq!(limit.supply, SupplyConfig::Rate("10/min".parse().unwrap()));
    assert_eq!((limit.algorithm, limit.catch_up), (Algorithm::TokenBucket, false));
    assert_eq!((limit.on_change, limit.shards.get()), (OnChange::Proportional, 16));
    let [night, day] = limit.schedule.as_slice() else { panic!("two entries") };
    assert_eq!((night.calendar.text(), night.calendar.zone()), ("0 0 22 * * *", "Europe/Berlin"));
    assert_eq!((night.rate, night.capacity), ("20/min".parse().ok(), None));
    assert_eq!((day.calendar.zone(), day.rate, day.capacity.unwrap().get()), ("UTC", None, 16));
}

#[test]
fn a_namespace_stands_beside_the_url_or_in_it() {
    for (redis, namespace, shown) in [
        ("", "topup", "redis://127.0.0.1:6379"),
        ("namespace = \"shop\"", "shop", "redis://127.0.0.1:6379?namespace=shop"),
        ("url = \"redis://u:p@a/2?namespace=shop\"", "shop", "redis://***@a/2?namespace=shop"),
        (
            "url = \"unix:///a?namespace=shop&pass=b\"\nnamespace = \"shop\"",
            "shop",
            "unix:///a?namespace=shop",
        ),
        ("url = \"redis://a\"\nnamespace = \"topup\"", "topup", "redis://a"),
    ] {
        let config = Config::parse(&format!("[redis]\n{redis}"), "config.toml").unwrap();
        assert_eq!(config.redis_url.namespace().as_str(), namespace, "{redis}");
        assert_eq!(config.redis_url.to_string(), shown);
    }
    let named: RedisUrl = "redis://a?namespace=shop".parse().unwrap();
    let (other, plain) = (Some("other".parse().unwrap()), RedisUrl::default());
    assert_eq!(named.clone().or_namespace(other).namespace().as_str(), "shop");
    assert_eq!(named.clone().with_namespace(other).namespace().as_str(), "other");
    assert_eq!(named.with_namespace(None).namespace().as_str(), "shop");
    assert_eq!(plain.or_namespace(other).namespace().as_str(), "other");
}

#[test]
fn what_is_left_out_has_its_default() {
    let text = "[limit]\none = { capacity = 5, rate = \"1/s\" }\n[limit.\"a.b\"]\ncapacity = 5\nrate = \"1/s\"\nkeyed = true";
    let config = Config::parse(text, "config.toml").unwrap();
    assert_eq!(config.redis_url.as_str(), "redis://127.0.0.1:6379");
    assert_eq!(config.tick, Duration::from_millis(100));
    let limit = &config.limits["one"];
    assert_eq!((limit.keyed, limit.shards, limit.catch_up), (false, Shards::ONE, true));
    assert_eq!((limit.algorithm, limit.on_change), (Algorithm::TokenBucket, OnChange::Keep));
    assert!(limit.schedule.is_empty());
    assert_eq!(config.limits["a.b"].shards.get(), 8);
}

#[test]
fn ticks_are_1ms_to_60s() {
    let tick = |text: &str| {
        Config::parse(&format!("[daemon]\ntick = {text:?}"), "config.toml").map(|config| config.tick)
    };
    assert_eq!(tick("1ms"), Ok(Duration::from_millis(1)));
    assert_eq!(tick("1min"), Ok(Duration::from_secs(60)));
    for wrong in ["0ms", "61s", "100", "s", "", "100 parsecs", "-1s", "0.1s", "1/s"] {
        assert!(tick(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_password_is_never_shown() {
    for (text, shown) in [
        ("redis://127.0.0.1:6379/3", "redis://127.0.0.1:6379/3"),
        ("redis://user:s3cret@host:1/3?protocol=resp3", "redis://***@host:1/3"),
        ("redis://:s3c@ret@host", "redis://***@host"),
        ("redis://:s3c,ret@one:7000,other:7001", "redis://***@one:7000,other:7001"),
        ("unix:///run/r@dis.sock?pass=s3cret", "unix:///run/r@dis.sock"),
    ] {
        let url: RedisUrl = text.parse().expect(text);
        assert_eq!((url.to_string(), url.as_str()), (shown.to_owned(), text));
        assert!(!format!("{url:?}").contains("s3c"));
    }
    for wrong in
        ["redis://user:s3cret@host:port", "rediss://:s3cret@host#", "http://s3cret", "redis://:s3cret@h/x"]
    {
        let error = wrong.parse::<RedisUrl>().expect_err(wrong).to_string();
        assert!(!error.contains("s3c"), "{error}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_a_problem() {
    let problems = Config::load(Path::new("/nowhere/config.toml")).unwrap_err().to_string();
    let expected = "/nowhere/config.toml: cannot be read (No such file or directory (os error 2)): write one there, or name another";
    assert_eq!(problems, expected);
}
