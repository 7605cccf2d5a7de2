//! 0 done or allowed, 1 denied, 2 undecided, 64 wrong usage, 78 wrong config.

use topup_tests::{Cli, Ended, Redis};

use super::LIMITS;
use crate::daemon::{despite_standstill, ready};

const DONE: Option<i32> = Some(0);
const DENIED: Option<i32> = Some(1);
const UNDECIDED: Option<i32> = Some(2);
const USAGE: Option<i32> = Some(64);
const CONFIG: Option<i32> = Some(78);

/// One line on standard error, and no answer.
fn complained(told: &Ended, text: &str) {
    assert!(told.stderr.contains(text), "{text:?} in {told:?}");
    assert_eq!((told.stderr.lines().count(), told.stdout.as_str()), (1, ""), "{told:?}");
}

#[tokio::test]
async fn takes_are_allowed_and_denied() {
    let redis = Redis::start().await;
    let _daemon = ready(LIMITS, &redis).await;
    for limit in [&["api"][..], &["lazy"], &["user", "--key", "alice"]] {
        let run = async |word: &str, more: &[&str]| {
            let args = [&[word], limit, more].concat();
            Cli::new(&args).redis(&redis).run().await
        };
        let told = run("take", &["--count", "2"]).await;
        assert_eq!((told.code, told.stdout.as_str()), (DONE, "allowed, 1 of 3 left\n"), "{told:?}");
        let told = run("take", &["--count", "2"]).await;
        assert_eq!(told.code, DENIED, "{told:?}");
        assert!(told.stdout.starts_with("denied, 1 of 3 left, retry after 59m "), "{told:?}");
        let told = run("take", &[]).await;
        assert_eq!(told.stdout, "allowed, 0 of 3 left\n");
        let told = run("peek", &[]).await;
        assert_eq!(told.code, DONE);
        assert!(told.stdout.starts_with("denied, 0 of 3 left"), "{told:?}");
        let told = run("reset", &[]).await;
        assert_eq!((told.code, told.stdout.as_str()), (DONE, "allowed, 3 of 3 left\n"));
        let told = run("take", &["--count", "4"]).await;
        assert_eq!(told.code, USAGE);
        complained(&told, "holds at most 3 tokens");
    }
    assert_eq!(Cli::new(&["status"]).redis(&redis).run().await.code, DONE);
}

#[tokio::test]
async fn a_key_has_to_fit_the_limit() {
    let redis = Redis::start().await;
    let _daemon = ready(LIMITS, &redis).await;
    let keys = redis.dbsize().await;
    for word in ["take", "peek", "reset"] {
        let missing = Cli::new(&[word, "user"]).redis(&redis).run().await;
        assert_eq!(missing.code, USAGE);
        complained(&missing, "--key");
        let unexpected = Cli::new(&[word, "api", "--key", "alice"]).redis(&redis).run().await;
        assert_eq!(unexpected.code, USAGE);
        complained(&unexpected, "leave --key out");
    }
    assert_eq!(redis.dbsize().await, keys, "law 7");
}

#[tokio::test]
async fn a_limit_has_to_be_published() {
    let redis = Redis::start().await;
    for word in ["take", "peek", "reset"] {
        let told = Cli::new(&[word, "mail"]).redis(&redis).run().await;
        assert_eq!(told.code, UNDECIDED);
        complained(&told, "no limit mail is published");
        let told = Cli::new(&[word, "no such name"]).redis(&redis).run().await;
        assert_eq!(told.code, USAGE);
    }
    assert_eq!(redis.dbsize().await, 0, "law 7");
}

#[tokio::test]
async fn without_redis_there_is_no_decision() {
    let nobody = tempfile::tempdir().unwrap();
    let url = format!("unix://{}/redis.sock", nobody.path().display());
    for args in [&["take", "api"][..], &["peek", "api"], &["reset", "api"], &["remove", "api"]] {
        let told = Cli::new(args).env("TOPUP_REDIS_URL", &url).run().await;
        assert_eq!(told.code, UNDECIDED, "{args:?}");
        complained(&told, &format!("topupd: Redis {url}: "));
        assert_eq!(told.stderr.matches("os error").count(), 1, "{told:?}");
    }
}

#[tokio::test]
async fn wrong_usage_is_64() {
    for args in [
        &[][..],
        &["fetch"],
        &["take"],
        &["take", "api", "--count", "0"],
        &["take", "api", "--count", "many"],
        &["take", "api", "--wait", "soon"],
        &["take", "api", "--redis", "elsewhere"],
        &["take", "user", "--key", ""],
        &["run", "--fast"],
        &["check", "one", "two"],
    ] {
        let told = Cli::new(args).run().await;
        assert_eq!((told.code, told.stdout.as_str()), (USAGE, ""), "{args:?}: {told:?}");
        assert_ne!(told.stderr, "", "{args:?}");
    }
}

#[tokio::test]
async fn a_config_that_hides_its_redis_is_78_whatever_was_asked() {
    let bad = "[limit.api]\ncapacity = 0\nrate = \"5\"\n[redis]\nurl = \"http://there\"\n";
    for args in [&["run"][..], &["check"], &["take", "api"], &["peek", "api"], &["reset", "api"], &["status"]]
    {
        let told = Cli::new(args).config(bad).run().await;
        assert_eq!((told.code, told.stdout.as_str()), (CONFIG, ""), "{args:?}: {told:?}");
        let places: Vec<_> =
            told.stderr.lines().map(|line| line.split(": ").next().unwrap_or_default()).collect();
        assert_eq!(places, ["config.toml:2", "config.toml:3", "config.toml:5"], "{args:?}");
        let told = Cli::new(args).arg("--config").arg("nowhere.toml").run().await;
        assert_eq!(told.code, CONFIG, "{args:?}: {told:?}");
        complained(&told, "nowhere.toml: cannot be read");
    }
}

/// Holds a command to its success. A machine that stands still makes it give up, or call Redis slow.
async fn is_done(args: &[&str], config: &str) {
    let is_in_vain = |told: &Ended| ![DONE, CONFIG].contains(&told.code);
    let told = despite_standstill(async || Cli::new(args).config(config).run().await, is_in_vain).await;
    assert_eq!((told.code, told.stderr.as_str()), (DONE, ""), "{args:?} {config:?}: {told:?}");
}

/// On call, the file is often the trouble.
#[tokio::test]
async fn a_wrong_config_tells_the_redis_all_the_same() {
    let redis = Redis::start().await;
    let _daemon = ready(LIMITS, &redis).await;
    let broken = format!("[redis]\nurl = \"{}\"\n[limit.api]\ncapacity = \nrat = \"5\"\n", redis.url());
    for args in [&["take", "api"][..], &["peek", "api"], &["reset", "api"], &["status"]] {
        is_done(args, &broken).await;
        let told = Cli::new(args).config("[redis]\nurl = 5\n").run().await;
        assert_eq!(told.code, CONFIG, "{args:?}: {told:?}");
        complained(&told, "config.toml:2: ");
    }
}

#[tokio::test]
async fn a_wrong_limit_stops_no_command_that_needs_a_redis_only() {
    let redis = Redis::start().await;
    let _daemon = ready(LIMITS, &redis).await;
    for wrong in ["[limit.other]\ncapacity = 0\n", "[daemon]\ntick = 7\n", "what = \n", "[limt.api]\n"] {
        let config = format!("[redis]\nurl = \"{}\"\n{wrong}", redis.url());
        for args in [&["take", "api"][..], &["peek", "api"], &["reset", "api"], &["status"]] {
            is_done(args, &config).await;
        }
        assert_eq!(Cli::new(&["check"]).config(&config).run().await.code, CONFIG, "{wrong:?}");
    }
    // A line that is no TOML may be the one with the URL.
    let hidden = "[redis]\nurl = redis://there\n";
    assert_eq!(Cli::new(&["status"]).config(hidden).run().await.code, CONFIG);
}

#[tokio::test]
async fn a_redis_url_that_is_none_is_wrong_config() {
    for args in [&["run"][..], &["take", "api"], &["status"]] {
        let told = Cli::new(args).config(LIMITS).env("TOPUP_REDIS_URL", "http://:secret@there").run().await;
        assert_eq!(told.code, CONFIG, "{args:?}: {told:?}");
        assert!(told.stderr.contains("TOPUP_REDIS_URL: not a Redis URL"), "{told:?}");
        assert!(!told.stderr.contains("secret"), "{told:?}");
    }
}

#[tokio::test]
async fn help_and_version_are_answers() {
    for args in [&["--help"][..], &["-h"], &["help", "take"], &["take", "--help"], &["--version"], &["-V"]] {
        let told = Cli::new(args).run().await;
        assert_eq!((told.code, told.stderr.as_str()), (DONE, ""), "{args:?}");
        assert!(
            told.stdout.contains(if args[0] == "help" { "Usage" } else { "topupd" }),
            "{args:?}: {told:?}"
        );
    }
}

#[tokio::test]
async fn a_good_config_passes_the_check_with_its_warnings() {
    let told = Cli::new(&["check"]).config(LIMITS).run().await;
    assert_eq!(
        (told.code, told.stdout.as_str(), told.stderr.as_str()),
        (DONE, "config.toml: 3 limits, no errors\n", "")
    );
    let told = Cli::new(&["check"]).config("").run().await;
    assert_eq!(told.code, DONE);
    assert!(told.stderr.starts_with("warning: config.toml"), "{told:?}");
}
