//! A change of terms waits until all workers know of it.

use std::collections::HashMap;

use topup_wire::{keyspace::GENERATION, scripts, scripts::FREEZE};

use super::Stage;
use crate::{clock::Moment, config::Config, publish::Announced, wanted::wanted};

const SLOW: &str = "[limit.api]\nkeyed = true\nshards = 2\ncapacity = 10\nrate = \"5/s\"\n";
const FAST: &str = "[limit.api]\nkeyed = true\nshards = 2\ncapacity = 10\nrate = \"50/s\"\n";

fn none() -> Announced {
    Announced::new()
}

async fn record(stage: &Stage) -> HashMap<String, String> {
    let fields: HashMap<String, Vec<u8>> = stage.ask(&["HGETALL", "topup:{api:1}:limit"]).await;
    fields.into_iter().map(|(field, value)| (field, String::from_utf8_lossy(&value).into_owned())).collect()
}

async fn generation(stage: &Stage) -> u64 {
    stage.ask(&["GET", GENERATION]).await
}

/// Has every freeze be as old as it must be.
async fn age(stage: &Stage) {
    for shard in 0..2 {
        let (record, micros) = (format!("topup:{{api:{shard}}}:limit"), -(FREEZE.as_micros() as i64));
        stage.ask::<i64>(&["HINCRBY", &record, "frozen", &micros.to_string()]).await;
    }
}

#[tokio::test]
async fn a_change_of_rate_is_announced_and_made_no_sooner_than_a_freeze_later() {
    let stage = Stage::set();
    assert!(stage.publish(SLOW, &none()).await.announced.is_empty(), "a new limit needs no freeze");
    let (before, known) = (record(&stage).await, generation(&stage).await);
    assert_eq!(before["frozen"], "0");

    let begun = Moment::now();
    let announced = stage.publish(FAST, &none()).await.announced;
    assert_eq!(announced.len(), 2);
    let mut frozen = record(&stage).await;
    assert_ne!(frozen.insert("frozen".to_owned(), "0".to_owned()), Some("0".to_owned()));
    assert_eq!(frozen, before, "nothing else has changed");
    assert!(generation(&stage).await > known, "workers are told");

    // Asked all the time; the last of these answers is the change.
    while !stage.publish(FAST, &announced).await.announced.is_empty() {}
    assert!(begun.elapsed() >= FREEZE);
    let after = record(&stage).await;
    assert_eq!((&*after["rate"], &*after["frozen"]), ("50/s", "0"));
    assert!(after["since"].parse::<u64>().unwrap() > announced.into_values().max().unwrap());
}

#[tokio::test]
async fn what_workers_were_not_told_of_is_announced_again_however_old() {
    let stage = Stage::set();
    stage.publish(SLOW, &none()).await;
    // By a daemon that is killed before it tells anybody.
    stage.publish(FAST, &none()).await;
    age(&stage).await;
    let known = generation(&stage).await;
    let announced = stage.publish(FAST, &none()).await.announced;
    assert_eq!(record(&stage).await["rate"], "5/s");
    assert!(generation(&stage).await > known);
    assert!(stage.publish(FAST, &announced).await.announced.is_empty());
    assert_eq!(record(&stage).await["rate"], "50/s");
}

#[tokio::test]
async fn a_change_that_is_taken_back_ends_the_freeze_and_needs_another() {
    let stage = Stage::set();
    stage.publish(SLOW, &none()).await;
    let announced = stage.publish(FAST, &none()).await.announced;
    let outcome = stage.publish(SLOW, &none()).await;
    assert!(outcome.changed && outcome.announced.is_empty());
    assert_eq!(record(&stage).await["frozen"], "0");
    let again = stage.publish(FAST, &announced).await.announced;
    assert!(again.values().zip(announced.values()).all(|(again, before)| again > before));
}

#[tokio::test]
async fn another_change_during_a_freeze_is_made_at_its_end() {
    let stage = Stage::set();
    stage.publish(SLOW, &none()).await;
    let announced = stage.publish(FAST, &none()).await.announced;
    let other = FAST.replace("50/s", "7/s");
    assert_eq!(stage.publish(&other, &announced).await.announced.len(), 2);
    age(&stage).await;
    assert!(stage.publish(&other, &announced).await.announced.is_empty());
    assert_eq!(record(&stage).await["rate"], "7/s");
}

#[tokio::test]
async fn only_capacity_rate_and_algorithm_of_a_token_bucket_need_a_freeze() {
    let stage = Stage::set();
    let quota = "[limit.api]\nkeyed = true\nshards = 2\ncapacity = 10\nrefill = { cron = \"0 0 0 1 * *\" }\n";
    let gcra = |rate: &str| format!("{}algorithm = \"gcra\"\n", SLOW.replace("5/s", rate));
    for (from, to) in [
        (SLOW.to_owned(), format!("{SLOW}lease = {{ max = 5, ttl = \"1s\" }}\n")),
        (SLOW.to_owned(), format!("{SLOW}on_change = \"reset\"\n")),
        (quota.to_owned(), quota.replace("10", "20")),
        (gcra("5/s"), gcra("50/s")),
        (gcra("5/s"), SLOW.to_owned()),
        (SLOW.to_owned(), String::new()),
        (String::new(), FAST.to_owned()),
    ] {
        stage.ask::<()>(&["FLUSHALL"]).await;
        stage.publish(&from, &none()).await;
        let outcome = stage.publish(&to, &none()).await;
        assert!(outcome.changed && outcome.announced.is_empty(), "{from} -> {to}");
    }
    let frozen =
        [SLOW.replace("10", "11"), quota.to_owned(), format!("{FAST}catch_up = false\n"), gcra("5/s")];
    for to in frozen {
        stage.ask::<()>(&["FLUSHALL"]).await;
        stage.publish(SLOW, &none()).await;
        assert_eq!(stage.publish(&to, &none()).await.announced.len(), 2, "{to}");
    }
}

/// Terms that give more apply from when they are published, those that give less from the boundary.
#[tokio::test]
async fn nobody_is_given_for_the_past_what_was_not_in_force() {
    for (before, after, from_boundary) in
        [("5/s", "50/s", false), ("50/s", "5/s", true), ("5/s", "1/s", true), ("1/s", "2/s", false)]
    {
        let stage = Stage::set();
        stage.publish(&SLOW.replace("5/s", before), &none()).await;
        let (seconds, micros): (u64, u64) = stage.ask(&["TIME"]).await;
        let boundary = seconds * 1_000_000 + micros;
        let changed = Config::parse(&SLOW.replace("5/s", after), "config.toml").unwrap();
        let mut wanted = wanted(&changed, boundary, |_| true);
        wanted[0].at = Some(boundary);
        let (connection, wanted) = (&stage.connection, &wanted);
        let publish =
            async |told: Announced| super::publish(connection, wanted, true, &told, false).await.unwrap();
        let announced = publish(none()).await.announced;
        age(&stage).await;
        publish(announced).await;
        let since: u64 = record(&stage).await["since"].parse().unwrap();
        assert_eq!(since == boundary, from_boundary, "{before} -> {after}");
        assert!(since >= boundary);
    }
}

#[tokio::test]
async fn the_generation_never_comes_back_to_an_earlier_number() {
    let stage = Stage::set();
    let conn = &mut stage.connection.clone();
    let (seconds, _): (u64, u64) = stage.ask(&["TIME"]).await;
    let mut last = seconds * 1_000;
    for flushed in [false, false, true, false, true] {
        if flushed {
            stage.ask::<()>(&["FLUSHALL"]).await;
            // A generation is not told twice in a ms.
            while {
                let (s, micros): (u64, u64) = stage.ask(&["TIME"]).await;
                s * 1_000 + micros / 1_000 <= last
            } {}
        }
        let generation = scripts::announce(conn).await.unwrap();
        assert!(generation > last);
        assert_eq!(scripts::generation(conn).await.unwrap(), Some(generation));
        last = generation;
    }
}
