//! Passwords, which no message may repeat.

use topup::Client;
use topup_embedded::RedisServer;
use topup_tests::{Cli, Daemon, Ended, Launch, Redis, SOON, eventually};

const LIMIT: &str = "[limit.api]\ncapacity = 9\nrate = \"1/s\"\n";

/// Parts of the passwords below. None of them is a part of any other text that topupd prints.
const SECRETS: [&str; 4] = ["hunter", "zwei", "drei", "4711"];

/// URLs that cannot be used: of no scheme, no host, no port, with characters that should have been encoded.
const WRONG: [&str; 16] = [
    "http://:hunter@there",
    "hunter",
    "hunter@there",
    "redis:/:hunter@there",
    "redis:hunter@there:6379",
    "REDIS://hunter:zwei@there",
    "redis://:hunter@",
    "redis://:hun/ter/zwei@there",
    "redis://4711:4711/zwei@there",
    "redis://u:4711?zwei@there",
    "redis://hunter#zwei@there",
    "redis://:hunter@there:zwei",
    "redis://:hunter@there/zwei",
    "redis://:hunter zwei@there:drei",
    "redis://:hunter@there?tls_ca=/zwei",
    "rediss://:hunter@there?tls_cert=/zwei",
];

fn kept(told: &Ended, case: &str) {
    let all = format!("{}{}", told.stdout, told.stderr);
    assert!(told.code.is_some_and(|code| code > 1), "{case}: {told:?}");
    assert!(!all.is_empty(), "{case}: {told:?}");
    for secret in SECRETS {
        assert!(!all.contains(secret), "{case} repeats {secret}: {all}");
    }
    assert!(!all.contains("\"ter"), "{case}: {all}");
}

/// The problems of a config, none of which repeats a secret.
async fn checked(config: &str) -> Ended {
    let told = Cli::new(&["check"]).config(config).run().await;
    assert!(told.stderr.contains("config.toml:"), "{config}: {told:?}");
    kept(&told, config);
    told
}

#[tokio::test]
async fn no_message_repeats_a_wrong_url() {
    let credentials = tempfile::tempdir().unwrap();
    for url in WRONG {
        for told in [
            Cli::new(&["status"]).env("TOPUP_REDIS_URL", url).run().await,
            Cli::new(&["run"]).config(LIMIT).env("TOPUP_REDIS_URL", url).run().await,
            Cli::new(&["status", "--redis", url]).run().await,
            Cli::new(&["status", &format!("--redis={url}")]).run().await,
        ] {
            kept(&told, url);
        }
        std::fs::write(credentials.path().join("redis-url"), url).unwrap();
        let told = Cli::new(&["peek", "api"]).env("CREDENTIALS_DIRECTORY", credentials.path()).run().await;
        kept(&told, url);
        for config in [
            format!("[redis]\nurl = \"{url}\"\n{LIMIT}"),
            // Unquoted, half quoted, in a list, as a key, in the place of other keys.
            format!("[redis]\nurl = {url}\n{LIMIT}"),
            format!("[redis]\nurl = {url}\"\n{LIMIT}"),
            format!("[redis]\nurl = \"{url}\n{LIMIT}"),
            format!("[redis]\nurl = [\"{url}\", {url}]\n{LIMIT}"),
        ] {
            checked(&config).await;
        }
        if url.contains([':', '@']) {
            for config in [
                format!("[redis]\n{url}\n{LIMIT}"),
                format!("[redis]\n\"{url}\" = 1\n{LIMIT}"),
                format!("[redis]\nurl = 7\n\"{url}\" = 1\n\"{url}\" = 2\n{LIMIT}"),
                format!("redis = \"{url}\"\n{LIMIT}"),
                format!("{LIMIT}[daemon]\ntick = {url}\n"),
            ] {
                checked(&config).await;
            }
            if url.contains("://") {
                let mut config = format!("[daemon]\ntick = \"{url}\"\n");
                let keys =
                    ["algorithm", "on_change", "mode", "refill", "shards", "keyed", "capacity", "rate"];
                for key in keys {
                    config.push_str(&format!("[limit.{key}]\n{key} = \"{url}\"\n"));
                }
                let told = checked(&config).await;
                for key in keys {
                    assert!(told.stderr.contains(&format!("limit.{key}.{key}: ")), "{key}: {told:?}");
                }
            }
            kept(&Cli::new(&["status", url]).run().await, url);
            kept(&Cli::new(&["status", &format!("--redsi={url}")]).run().await, url);
            kept(&Cli::new(&["take", "api", "--count", url]).run().await, url);
        }
        let error = Client::connect(url).await.map(drop).expect_err(url);
        let told = format!("{error} {error:?} {:?}", std::error::Error::source(&error));
        for secret in SECRETS {
            assert!(!told.contains(secret), "{url}: {told}");
        }
    }
}

#[tokio::test]
async fn a_refused_password_is_in_no_log() {
    let redis = Redis::with(RedisServer::builder().tcp().arg("--requirepass", "right")).await;
    let wrong = redis.url().replace("redis://", "redis://hunter:zwei%2Fdrei@");
    let told = Client::connect(&wrong).await.map(drop).expect_err("a wrong password");
    let told = format!("{told} {told:?}");
    assert!(told.contains("WRONGPASS"), "{told}");
    let mut daemon: Daemon =
        Launch::new(LIMIT).env("TOPUP_REDIS_URL", &wrong).env("TOPUP_LOG", "trace").run();
    daemon.wait_for_line("WRONGPASS", SOON).await;
    let log = daemon.lines().join("\n");
    for secret in SECRETS {
        assert!(!told.contains(secret) && !log.contains(secret), "{told} {log}");
    }
    // A server without the command repeats its arguments.
    let renamed = RedisServer::builder().tcp().arg("--rename-command", "AUTH").arg("LOGIN", "--save");
    let odd = Redis::with(renamed.arg("3600", "1")).await;
    let told = Client::connect(&odd.url().replace("redis://", "redis://:zwei%2Fdrei@")).await;
    let told = told.map(drop).expect_err("no AUTH").to_string();
    assert!(!told.contains("drei") && told.contains("refuses to sign in"), "{told}");
}

#[tokio::test]
async fn a_right_password_is_seen_by_no_other_user() {
    let redis = Redis::with(RedisServer::builder().tcp().arg("--requirepass", "hunter zwei")).await;
    let url = redis.url().replace("redis://", "redis://:hunter%20zwei@");
    let config = format!("[redis]\nurl = \"{url}\"\n{LIMIT}");
    let mut daemon = Launch::new(&config).env("TOPUP_LOG", "trace").run();
    daemon.wait_for_line("ready", SOON).await;
    let topup = Client::connect(&url).await.unwrap();
    eventually(SOON, async || topup.limit("api").take(1).await.is_ok()).await;
    let debug = format!("{topup:?} {:?} {:?}", topup.limit("api"), Client::builder());
    let args = std::fs::read_to_string(format!("/proc/{}/cmdline", daemon.pid())).unwrap();
    let status = Cli::new(&["status", "--json"]).env("TOPUP_REDIS_URL", &url).run().await;
    let log = daemon.lines().join("\n");
    for told in [&debug, &args, &status.stdout, &status.stderr, &log] {
        assert!(!told.contains("hunter") && !told.contains("zwei"), "{told}");
    }
}
