//! The throttle against recorded answers of the module redis-cell.
//!
//! Time passes by moving the stored instants. Calls of a key follow each other at once, so no reply depends on the
//! speed of the machine. Where a build of the module is at hand, the record is made anew by
//!
//! ```text
//! TOPUP_TEST_REDIS_CELL=/path/to/libredis_cell.so cargo test -p topup-wire --test scripts record_redis_cell --
//! --ignored ```

use std::{fmt::Write as _, fs, path::Path};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use redis::{Script, aio::MultiplexedConnection};
use topup_wire::{limit::Throttle, namespace::Namespace, reply::Throttled, scripts};

use crate::server::Redis;

const CORPUS: &str = include_str!("redis_cell.txt");
const KEYS: u64 = 500;
const CALLS: usize = 25;
/// Answers that are others when each call takes so many ms longer are not recorded.
const DELAY: u64 = 20;

/// Something that happens to one key.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A call: `max_burst`, `count`, `period`, `quantity`.
    Call([u64; 4]),
    /// Time passes, in ms.
    Pass(u64),
}

/// The side that replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Script,
    Module,
}

#[tokio::test]
async fn the_script_answers_what_redis_cell_does() {
    let mut redis = Redis::start().await;
    let (mut calls, mut limited, mut before) = (0, 0, redis.time().await);
    for line in CORPUS.lines().filter(|line| !line.starts_with('#')) {
        let (event, recorded) = line.split_once(" = ").unwrap_or((line, ""));
        let (key, event) = parsed(event);
        // A busy machine takes longer for a call than it took when the record was made.
        let now = redis.time().await;
        pass(&mut redis.connection, &Namespace::default().throttle_state(key), -((now - before) as i64))
            .await;
        let answer = happen(&mut redis.connection, Asked::Script, key, event).await;
        before = redis.time().await;
        let Some(answer) = answer else { continue };
        assert_eq!(shown(&answer), recorded, "{line}");
        calls += 1;
        limited += u32::from(answer.limited);
    }
    assert!(calls >= 1_000 && (calls / 5..calls).contains(&limited), "{limited} of {calls} limited");
    assert!(redis.keyspace().await.keys().all(|key| key.starts_with("topup:throttle:{")));
}

#[tokio::test]
async fn a_throttle_that_looks_only_leaves_no_key_and_one_beyond_reckoning_is_an_error() {
    let mut redis = Redis::start().await;
    let look = Throttle::new(15, 30, 60, 0).unwrap();
    let answer = scripts::throttle(&mut redis.connection, "a", look).await.unwrap();
    assert_eq!(shown(&answer), "0 16 16 -1 0");
    let most = Throttle::new(i32::MAX as u64, 1, i32::MAX as u64, 1).unwrap();
    let error = scripts::throttle(&mut redis.connection, "a", most).await.unwrap_err();
    assert!(error.to_string().contains("longer than can be reckoned"), "{error}");
    assert!(redis.keyspace().await.is_empty());
    assert!(!scripts::has_cell(&mut redis.connection).await.unwrap());
    let error = scripts::cell_throttle(&mut redis.connection, "a", look).await.unwrap_err();
    assert!(scripts::is_no_command(&error), "{error}");
    for wrong in [(0, 0, 1, 1), (0, 1, 0, 1), (u64::MAX, 1, 1, 1), (1, 1_000_001, 1, 1)] {
        Throttle::new(wrong.0, wrong.1, wrong.2, wrong.3).unwrap_err();
    }
}

#[tokio::test]
#[ignore = "writes the record, and needs the module: see above"]
async fn record_redis_cell() {
    let module =
        std::env::var("TOPUP_TEST_REDIS_CELL").expect("TOPUP_TEST_REDIS_CELL names libredis_cell.so");
    let mut redis = Redis::start_with(&[("--loadmodule", &module)]).await;
    assert!(scripts::has_cell(&mut redis.connection).await.unwrap());
    let mut record = String::new();
    for number in 0..KEYS {
        let (at_once, later) =
            (history(&mut redis, number, 0).await, history(&mut redis, number, DELAY).await);
        // Where rounding makes the machine's speed tell, nothing is to be learned.
        if at_once == later {
            record.push_str(&at_once);
        }
    }
    let date = std::process::Command::new("date").arg("+%F").output().unwrap();
    let date = String::from_utf8(date.stdout).unwrap();
    let info: String = redis.ask(&["INFO", "server"]).await;
    let of_server = |field: &str| {
        let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).unwrap();
        value.trim().to_owned()
    };
    let head = format!(
        "# Answers of redis-cell 0.2.2 on Redis {}, recorded {} by the test record_redis_cell: limited, limit,\n\
         # remaining, retry_after and reset_after of CL.THROTTLE key max_burst count period quantity; pass: so many ms.\n",
        of_server("redis_version"),
        date.trim(),
    );
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts/throttle/redis_cell.txt");
    fs::write(path, head + &record).unwrap();
}

/// Replies of the module about one key, with a delay after each call.
async fn history(redis: &mut Redis, number: u64, delay: u64) -> String {
    redis.ask::<()>(&["FLUSHALL"]).await;
    let (mut record, key) = (String::new(), format!("key-{number}"));
    let mut rng = StdRng::seed_from_u64(number);
    // At least two seconds for each, so that the duration of a call makes no difference.
    let each = [2, 3, 7, 60, 3_600, 12_343, 86_400, 31_557_600][rng.random_range(0..8)];
    let count = rng.random_range(1..=30);
    let period = (each * count + rng.random_range(0..count)).min(i32::MAX as u64);
    let max_burst = [0, 1, 3, 15, 100][rng.random_range(0..5)];
    for _ in 0..CALLS {
        let event = match rng.random_range(0..5) {
            0 => Event::Pass(1_000 * rng.random_range(0..2 * each) + rng.random_range(300..700)),
            1 => Event::Call([max_burst, count, period, rng.random_range(0..=max_burst + 3)]),
            2 if rng.random_bool(0.3) => Event::Call([max_burst / 2, count, period, 1]),
            _ => Event::Call([max_burst, count, period, 1]),
        };
        let answer = happen(&mut redis.connection, Asked::Module, &key, event).await;
        let written = match event {
            Event::Call([max_burst, count, period, quantity]) => {
                write!(record, "{key} {max_burst} {count} {period} {quantity} = ")
            }
            Event::Pass(millis) => write!(record, "{key} pass {millis}"),
        };
        written.unwrap();
        writeln!(record, "{}", answer.as_ref().map(shown).unwrap_or_default()).unwrap();
        if answer.is_some() && delay > 0 {
            happen(&mut redis.connection, Asked::Module, &key, Event::Pass(delay)).await;
        }
    }
    record
}

/// Carries out an event.
async fn happen(
    connection: &mut MultiplexedConnection,
    asked: Asked,
    key: &str,
    event: Event,
) -> Option<Throttled> {
    match (event, asked) {
        (Event::Call([max_burst, count, period, quantity]), asked) => {
            let throttle = Throttle::new(max_burst, count, period, quantity).unwrap();
            let answer = match asked {
                Asked::Script => scripts::throttle(connection, key, throttle).await,
                Asked::Module => scripts::cell_throttle(connection, key, throttle).await,
            };
            Some(answer.unwrap())
        }
        (Event::Pass(millis), asked) => {
            let state = if asked == Asked::Script {
                Namespace::default().throttle_state(key)
            } else {
                key.to_owned()
            };
            pass(connection, &state, millis as i64 * 1_000).await;
            None
        }
    }
}

/// Lets so many µs pass for the state at `state`.
async fn pass(connection: &mut MultiplexedConnection, state: &str, micros: i64) {
    let pass = Script::new(include_str!("pass.lua"));
    pass.key(state).arg(micros).invoke_async::<()>(connection).await.unwrap();
}

fn parsed(event: &str) -> (&str, Event) {
    let words: Vec<&str> = event.split(' ').collect();
    let number = |word: &str| word.parse::<u64>().unwrap();
    match words[..] {
        [key, "pass", millis] => (key, Event::Pass(number(millis))),
        [key, max_burst, count, period, quantity] => {
            (key, Event::Call([max_burst, count, period, quantity].map(number)))
        }
        _ => panic!("{event:?} is no event"),
    }
}

fn shown(answer: &Throttled) -> String {
    let Throttled { limited, limit, remaining, retry_after, reset_after, .. } = *answer;
    let retry_after = retry_after.map_or_else(|| "-1".to_owned(), |seconds| seconds.to_string());
    format!("{} {limit} {remaining} {retry_after} {reset_after}", u8::from(limited))
}
