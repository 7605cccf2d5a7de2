//! What the page and `/metrics` cost the refill, with many limits and many active buckets: quiet and watched phases in
//! turn, in one run. By hand, on a machine with nothing else to do, with other numbers by the environment:
//!
//! `TOPUP_TEST_PAIRS=15 TOPUP_TEST_SECONDS=4 cargo test --release -p topup-tests --test e2e -- --ignored --nocapture page_cost`

#![allow(clippy::panic, reason = "an answer of another shape fails the test")]

use std::{env, fmt::Write, time::Duration};

use tokio::{task::JoinSet, time::sleep};
use topup_lab::Summary;
use topup_tests::{Redis, SOON, eventually};
use topup_wire::{keyspace::ShardKeys, namespace::Namespace};

use super::{now, page::Server};

const LIMITS: usize = 1_000;
/// Active buckets of each limit.
const BUCKETS: usize = 100;
/// As many pages as a daemon serves.
const PAGES: usize = 16;
/// Time between two scrapes of `/metrics`: as often as a new one is made.
const SCRAPED_EVERY: Duration = Duration::from_secs(1);

/// The refill, as the daemon measures it.
#[derive(Clone, Copy)]
struct Refill {
    passes: f64,
    /// The sum of the times by which passes were late, in s.
    late: f64,
    credits: f64,
}

// === impl Refill ===

impl Refill {
    async fn of(server: &Server) -> Self {
        let (_, _, body) = server.get("/metrics").await;
        let metric = |name: &str| {
            let value = body.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
            value.unwrap_or_else(|| panic!("no {name} in {body}"))
        };
        Self {
            passes: metric("topup_refill_lag_seconds_count "),
            late: metric("topup_refill_lag_seconds_sum "),
            credits: metric("topup_refill_credits_total "),
        }
    }

    /// The mean lag of a pass since `before`, in ms.
    fn lag_since(self, before: Self) -> f64 {
        (self.late - before.late) * 1e3 / (self.passes - before.passes).max(1.0)
    }
}

/// Limits in the form that a daemon credits at each tick, so that all their buckets stay active.
fn limits() -> String {
    (0..LIMITS).fold("[daemon]\ntick = \"2s\"\n".to_owned(), |mut config, limit| {
        let _ = write!(
            config,
            "[limit.l{limit}]\nkeyed = true\nshards = 1\ncapacity = 1_000_000_000\nrate = \"1/s\"\ncatch_up = false\n"
        );
        config
    })
}

/// Writes buckets that are nearly empty, as takes leave them.
async fn fill(redis: &Redis) {
    let now = now(redis).await.to_string();
    for limit in 0..LIMITS {
        let keys = ShardKeys::new(Namespace::default(), &format!("l{limit}").parse().unwrap(), 0);
        let members: Vec<String> = (0..BUCKETS).map(|key| format!("key-{key}")).collect();
        let counters: Vec<String> = members.iter().map(|member| keys.counter(member)).collect();
        redis.ask_all::<(), 3>(counters.iter().map(|counter| ["SET", counter, "5"])).await;
        let entries = members.iter().map(|member| ["ZADD", &keys.due, &now, member]);
        redis.ask_all::<(), 4>(entries).await;
    }
}

fn number(name: &str, usual: u64) -> u64 {
    env::var(name).map_or(usual, |number| number.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement of a minute or two"]
async fn pages_and_scrapes_do_not_make_the_refill_late() {
    let (pairs, seconds) = (number("TOPUP_TEST_PAIRS", 10), number("TOPUP_TEST_SECONDS", 4));
    let redis = Redis::start().await;
    let server = Server::start_with(&redis, "127.0.0.1:0", &limits()).await;
    fill(&redis).await;
    let all = (LIMITS * BUCKETS) as f64;
    // Every bucket has been credited, and is credited with each tick from now on.
    let credited = async || {
        let credits = Refill::of(&server).await.credits;
        if credits >= all { Ok(()) } else { Err(credits) }
    };
    eventually(4 * SOON, credited).await;
    let (mut quiet, mut watched, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let mut news = 0;
    for _ in 0..pairs {
        let before = Refill::of(&server).await;
        sleep(Duration::from_secs(seconds)).await;
        let between = Refill::of(&server).await;
        let mut pages = JoinSet::new();
        for _ in 0..PAGES {
            let mut events = server.events().await;
            pages.spawn(async move {
                let mut seen = 0;
                while seen < seconds {
                    events.next("news").await;
                    seen += 1;
                }
                seen
            });
        }
        for _ in 0..seconds {
            assert_eq!(server.get("/metrics").await.0, 200);
            assert_eq!(server.get("/limits").await.0, 200);
            sleep(SCRAPED_EVERY).await;
        }
        let after = Refill::of(&server).await;
        news += pages.join_all().await.into_iter().sum::<u64>();
        quiet.push(between.lag_since(before));
        watched.push(after.lag_since(between));
        ratios.push(watched[watched.len() - 1] / quiet[quiet.len() - 1].max(1e-3));
        assert!(between.credits > before.credits && after.credits > between.credits, "the refill goes on");
    }
    let [quiet, watched, ratios] = [quiet, watched, ratios].map(|figures| Summary::of(figures).unwrap());
    let text = |summary: Summary| summary.text(|figure| format!("{figure:.2}"));
    println!(
        "{LIMITS} limits, {all} active buckets, {PAGES} pages and a scrape a second: lag of a pass {} ms, quiet {} ms, \
         ratio {}; median (min–max) of {pairs} pairs of {seconds} s, {news} news",
        text(watched),
        text(quiet),
        text(ratios)
    );
}
