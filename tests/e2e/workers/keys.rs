//! Keys: any text is one, and each has a bucket of its own.

use topup_tests::{SOON, eventually};

use super::fixture::Fixture;

const CONFIG: &str = r#"
[limit]
user = { keyed = true, capacity = 3, rate = "1/60s" }
passing = { keyed = true, capacity = 3, rate = "100/s" }
"#;

fn odd_keys() -> Vec<String> {
    let mut keys: Vec<String> = [
        "alice",
        "Alice",
        "alice ",
        " ",
        "\n",
        "alice\r\nDECR alice\r\n",
        "\0",
        "{",
        "}",
        "{}",
        "{alice}",
        "a}b{c",
        "{user:0}",
        "topup:{user:0}:limit",
        ":",
        "*",
        "?",
        "[a-z]",
        "\\",
        "\"'`",
        "$(reboot)",
        "%s%n",
        "ключ",
        "鍵",
        "🔑🗝️",
        "e\u{301}",
        "\u{e9}",
        "\u{202e}",
        "2001:db8::1",
        "0",
        "-1",
        "nan",
        "due",
    ]
    .map(str::to_owned)
    .to_vec();
    keys.extend(["k".repeat(256), "ü".repeat(128)]);
    keys
}

#[tokio::test]
async fn every_text_up_to_256_bytes_is_a_key_with_a_bucket_of_its_own() {
    let fixture = Fixture::set(CONFIG).await;
    for remaining in [2, 1, 0] {
        for key in odd_keys() {
            let told = fixture.bucket("user").key(&key).take(1).await.unwrap();
            assert_eq!((told.is_allowed(), told.remaining()), (true, remaining), "{key:?}");
        }
    }
    for key in odd_keys() {
        assert!(!fixture.bucket("user").key(&key).take(1).await.unwrap().is_allowed(), "{key:?}");
        fixture.bucket("user").key(&key).reset().await.unwrap();
    }
    eventually(SOON, async || fixture.bucket_keys().await.is_empty()).await;
}

#[tokio::test]
async fn the_daemon_refills_every_kind_of_key_and_leaves_none() {
    let fixture = Fixture::set(CONFIG).await;
    for key in odd_keys() {
        assert!(fixture.bucket("passing").key(key).take(1).await.unwrap().is_allowed());
    }
    eventually(SOON, async || fixture.bucket_keys().await.is_empty()).await;
}
