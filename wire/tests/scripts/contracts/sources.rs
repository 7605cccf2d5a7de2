//! The scripts as text.

use std::{collections::BTreeSet, fs, path::Path};

use topup_wire::{constants::with_constants, limit::Algorithm};

/// Every command a script may use: Redis 6.2 has them all, and so has Valkey.
const COMMANDS: &str = "DECRBY DEL EXISTS GET HDEL HGET HGETALL HINCRBY HLEN HMGET HSET INCRBY LINDEX LLEN LTRIM MGET MSET PERSIST \
     PEXPIRE PEXPIREAT PTTL RENAME RPUSH SET SETBIT TIME TYPE UNLINK ZADD ZCARD ZCOUNT ZMSCORE ZRANGE ZRANGEBYSCORE ZREM ZREMRANGEBYSCORE ZSCORE";

/// Files that others are written upon, and that reply to nothing themselves.
const SHARED: [&str; 17] = [
    "bucket",
    "fair_shares_packed",
    "fixed_window_quick",
    "gcra_quick",
    "lazy",
    "packed_state",
    "rated_quick",
    "records_as_arguments",
    "rest",
    "schedule",
    "settle_packed",
    "sliding_counter_quick",
    "sliding_window_quick",
    "state",
    "take_packed",
    "time",
    "windows",
];

/// The algorithms, each a function that others call.
const ALGORITHMS: [&str; 7] = [
    "fair_shares",
    "fixed_window",
    "lazy_token_bucket",
    "leaky_bucket",
    "sliding_counter",
    "sliding_window",
    "token_bucket",
];

/// A script: its name, and the text of its own file.
pub(crate) struct Source {
    pub(crate) name: String,
    text: String,
}

/// Every script there is.
pub(crate) fn scripts() -> Vec<Source> {
    let part = |name: &str| SHARED.contains(&name) || ALGORITHMS.contains(&name);
    all().into_iter().filter(|source| !part(&source.name)).collect()
}

/// The script of an algorithm whose buckets need no index. Without `packed`, it has no path for packed terms.
pub(crate) fn of(algorithm: Algorithm, packed: bool) -> String {
    let (file, asks) = match algorithm {
        // A token bucket that is always at rest.
        Algorithm::Gcra => ("token_bucket".to_owned(), "settle"),
        _ => (algorithm.as_str().replace('-', "_"), "script_only"),
    };
    let all = all();
    let named = |name: &str| all.iter().find(|source| source.name == name).unwrap();
    let header = named(&file).header().replace("\n--", "");
    let upon = header.split_once("Written upon ").unwrap().1.split_once(". ").unwrap().0.to_owned();
    let upon = upon.replace(" and ", ", ").replace(".lua", "");
    let parts = upon.split(", ").map(named).chain([named(&file), named(asks)]);
    let first: &[&str] = match algorithm {
        Algorithm::Gcra if packed => &["gcra_quick", "settle_packed"],
        Algorithm::FixedWindow if packed => &["fixed_window_quick", "take_packed"],
        Algorithm::SlidingCounter if packed => &["sliding_counter_quick", "take_packed"],
        Algorithm::SlidingWindow if packed => &["sliding_window_quick", "take_packed"],
        Algorithm::LazyTokenBucket | Algorithm::LeakyBucket if packed => &["rated_quick", "take_packed"],
        _ if packed && asks == "script_only" => &["take_packed"],
        _ => &[],
    };
    let text: String =
        first.iter().copied().map(named).chain(parts).map(|source| source.text.as_str()).collect();
    with_constants(&text)
}

/// The text of one file.
pub(super) fn text_of(name: &str) -> String {
    all().into_iter().find(|source| source.name == name).unwrap().text
}

fn all() -> Vec<Source> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/scripts");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let scripts = files.filter(|path| path.extension().is_some_and(|ending| ending == "lua"));
    scripts.map(|path| Source::read(&path)).collect()
}

// === impl Source ===

impl Source {
    fn read(path: &Path) -> Self {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        Self { name, text: fs::read_to_string(path).unwrap() }
    }

    /// The comment it begins with.
    fn header(&self) -> String {
        self.text.lines().take_while(|line| line.starts_with("--")).collect::<Vec<_>>().join("\n")
    }

    /// The text that Redis gets.
    pub(crate) fn whole(&self) -> String {
        // A header's lines are broken anywhere.
        let header = self.header().replace("\n--", "");
        let every = [
            ["take_packed", "time", "bucket", "schedule", "rest", "state", "lazy", "windows"].as_slice(),
            &ALGORITHMS,
        ]
        .concat();
        let upon = match () {
            () if header.contains("Runs after time.lua, bucket.lua and packed_state.lua.") => {
                ["time", "bucket", "packed_state"].as_slice()
            }
            () if header.contains("and fair_shares.lua.") => {
                &["fair_shares_packed", "time", "bucket", "fair_shares"]
            }
            () if header.contains("Runs after time.lua, bucket.lua and rest.lua.") => {
                &["time", "bucket", "rest"]
            }
            () if header.contains("bucket.lua, schedule.lua, rest.lua and token_bucket.lua.") => {
                &["settle_packed", "time", "bucket", "schedule", "rest", "token_bucket"]
            }
            () if header.contains(
                "Runs after take_packed.lua, time.lua, bucket.lua and the file of the algorithm",
            ) =>
            {
                &["take_packed", "time", "bucket", "schedule", "state", "lazy", "lazy_token_bucket"]
            }
            () if header.contains("and the files of all algorithms") => &every,
            () => &[],
        };
        let all = all();
        let parts = upon.iter().map(|name| &all.iter().find(|source| source.name == **name).unwrap().text);
        with_constants(&parts.chain([&self.text]).cloned().collect::<String>())
    }

    /// The commands it calls.
    fn commands(&self) -> BTreeSet<&str> {
        let calls = self.text.split("call('").skip(1).map(|call| &call[..call.find('\'').unwrap()]);
        calls.collect()
    }
}

#[test]
fn every_script_says_what_it_takes_and_answers() {
    let scripts = scripts();
    assert!(scripts.len() >= 8);
    for script in scripts {
        let header = script.header();
        for word in ["\n-- KEYS\n-- 1. ", "\n-- ARGV\n-- 1. ", "\n-- Reply"] {
            let none = word.contains("ARGV") && script.text.contains("#ARGV == 0");
            assert!(none || header.contains(word), "{}: no {word:?}", script.name);
        }
        assert!(script.text.contains("\nassert(#KEYS "), "{}: takes anything", script.name);
    }
}

#[test]
fn every_algorithm_is_one_function_of_its_name() {
    for source in all().iter().filter(|source| ALGORITHMS.contains(&source.name.as_str())) {
        let functions: Vec<&str> =
            source.text.lines().filter(|line| line.starts_with("local function ")).collect();
        let [function] = functions[..] else { panic!("{}: {functions:?}", source.name) };
        assert!(function.starts_with(&format!("local function {}(", source.name)), "{function}");
        assert!(source.header().contains("\n-- Laws  "), "{}: keeps no law", source.name);
        assert!(!source.text.contains("KEYS["), "{}: takes what others are asked for", source.name);
    }
}

/// Or a script would leave its namespace. Each key comes from KEYS, or is one of them with a member added.
#[test]
fn no_script_names_a_key_of_its_own() {
    for source in all() {
        for (line, code) in source.text.lines().enumerate().filter(|(_, line)| !line.trim().starts_with("--"))
        {
            let place = format!("{}.lua:{}: {code}", source.name, line + 1);
            assert!(!code.contains("topup") && !code.contains(":{") && !code.contains("}:"), "{place}");
            // The first word behind a command is a key.
            for key in
                code.split("call('").skip(1).filter_map(|call| call.split_once("', ")).map(|(_, key)| key)
            {
                assert!(!key.starts_with(['\'', '"']), "{place}");
            }
        }
    }
}

#[test]
fn no_script_needs_a_redis_newer_than_6_2() {
    for source in all() {
        for command in source.commands() {
            let known = COMMANDS.split(' ').any(|known| known == command);
            assert!(known, "{}: is {command} older than 6.2?", source.name);
        }
    }
}

#[test]
fn no_line_is_too_long_to_read() {
    for source in all() {
        for line in source.text.lines() {
            assert!(line.chars().count() <= 120, "{}: {line}", source.name);
        }
    }
}
