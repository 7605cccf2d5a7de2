//! The targets: parsers of what others write, and what must hold of their results.

use std::net::SocketAddr;

use clap::ValueEnum;
use http::{HeaderValue, Request};
use topup::http::key::{KeyExtractor, Peer, Proxies, client_ip};
use topup_compare::replay::trace::Trace;
use topup_daemon::config::Config;
use topup_wire::{connection, fuzzing, limit::Throttle};

/// A parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// The text of a config.
    Config,
    /// Names of limits and keys of buckets.
    Keys,
    /// Replies of Redis: of a pipeline, of scripts, records.
    Replies,
    /// `Forwarded` and `X-Forwarded-For`.
    Forwarded,
    /// Traces and access logs.
    Traces,
    /// Arguments of `CL.THROTTLE`.
    Throttle,
    /// URLs of Redis.
    Urls,
}

// === impl Target ===

impl Target {
    /// All targets.
    pub const ALL: [Self; 7] =
        [Self::Config, Self::Keys, Self::Replies, Self::Forwarded, Self::Traces, Self::Throttle, Self::Urls];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Keys => "keys",
            Self::Replies => "replies",
            Self::Forwarded => "forwarded",
            Self::Traces => "traces",
            Self::Throttle => "throttle",
            Self::Urls => "urls",
        }
    }

    /// Parses `input`. Panics if what must hold does not.
    pub(crate) fn execute(self, input: &[u8]) {
        let text = String::from_utf8_lossy(input);
        match self {
            Self::Config => config(&text),
            Self::Keys => {
                let (name, key) = text.split_once('\n').unwrap_or(("user", &text));
                fuzzing::names_and_keys(name, key);
            }
            Self::Replies => {
                fuzzing::pipeline_replies(input);
                fuzzing::script_replies(input);
                fuzzing::record(&text);
            }
            Self::Forwarded => forwarded(input),
            Self::Traces => {
                if let Ok(trace) = Trace::parse(&text, "trace") {
                    assert!(trace.entries.is_sorted_by_key(|entry| entry.at));
                    assert!(trace.entries.iter().all(|entry| trace.keys.get(entry.key as usize).is_some()));
                }
            }
            Self::Throttle => throttle(&text),
            Self::Urls => url(&text),
        }
    }
}

fn config(text: &str) {
    let problems = match Config::parse(text, "config.toml") {
        Ok(config) => {
            assert!(config.limits.iter().all(|(name, limit)| *name == limit.name));
            config.warnings
        }
        Err(problems) => problems.0,
    };
    let lines = text.lines().count().max(1);
    for problem in problems {
        assert!(problem.line.is_some_and(|line| (1..=lines).contains(&line)), "{problem}");
        assert_eq!(problem.to_string().lines().count(), 1, "{problem}");
    }
}

/// Lines of a header `Forwarded`, or `X-Forwarded-For`.
fn forwarded(input: &[u8]) {
    const PEER: &str = "192.0.2.1:80";
    let mut request = Request::new(());
    for line in input.split(|byte| *byte == b'\n') {
        for name in ["forwarded", "x-forwarded-for"] {
            if let Ok(value) = HeaderValue::from_bytes(line) {
                request.headers_mut().append(name, value);
            }
        }
    }
    let Ok(peer) = PEER.parse::<SocketAddr>() else { return };
    request.extensions_mut().insert(Peer(peer));
    let (request, ()) = request.into_parts();
    let key = |proxies: Proxies| client_ip(proxies).key(&request).ok().flatten();
    // A sender that is no proxy of ours is itself, whatever it says.
    for strangers in [Proxies::networks(["10.0.0.0/8"]), Proxies::networks([""; 0])] {
        let Ok(strangers) = strangers else { continue };
        assert_eq!(key(strangers.clone()).as_deref(), Some("192.0.2.1"));
        assert_eq!(key(strangers.forwarded()).as_deref(), Some("192.0.2.1"));
    }
    let Ok(ours) = Proxies::networks(["192.0.2.0/24"]) else { return };
    for proxies in [ours, Proxies::count(1), Proxies::count(3)] {
        for key in [key(proxies.clone()), key(proxies.forwarded())] {
            let key = key.unwrap_or_default();
            let address = key.split('/').next().unwrap_or_default();
            assert!(address.parse::<std::net::IpAddr>().is_ok(), "{key} is no address");
        }
    }
}

fn throttle(text: &str) {
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    let mut next = || numbers.next().and_then(Result::ok);
    let (Some(max_burst), Some(count), Some(period)) = (next(), next(), next()) else { return };
    let quantity = next().unwrap_or(1);
    if Throttle::new(max_burst, count, period, quantity).is_ok() {
        // As the script computes, in ns and µs.
        let interval = period * 1_000_000_000 / count;
        let most = u128::from(interval) * u128::from(max_burst + 1);
        assert!(interval >= 1_000 && most < 1 << 96, "{text}");
    }
}

/// A URL with a password. No message repeats it.
fn url(text: &str) {
    const SECRET: &str = "Hunter";
    let text = text.replace(SECRET, "");
    let _ = (connection::check(&text), connection::redacted(&text));
    // Into the password, if there is one.
    let Some((scheme, rest)) = text.split_once("://").filter(|(scheme, _)| !scheme.contains("unix")) else {
        return;
    };
    let Some(at) = rest.find(':').filter(|at| rest[*at..].contains('@')) else { return };
    let (before, after) = text.split_at(scheme.len() + 4 + at);
    let url = format!("{before}{SECRET}{after}");
    assert!(!connection::redacted(&url).contains(SECRET), "{url}");
    if let Err(error) = connection::check(&url) {
        assert!(!format!("{error} {error:?}").contains(SECRET), "{url}: {error}");
    }
}
