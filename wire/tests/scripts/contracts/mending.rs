//! Healing keeps packed terms, fields of scripts, and a bounded time for many odd entries.

use topup_wire::{keyspace::ShardKeys, limit::Limit, namespace::Namespace, scripts};

use super::healing::{look, mend};
use crate::{
    generators::limit,
    server::{Redis, publish},
    travel::travel,
};

/// A worker under least rights may not write the record.
#[tokio::test]
async fn terms_of_a_raised_bucket_that_has_grown_are_packed_by_a_daemon_too() {
    let mut redis = Redis::start().await;
    let keys = ShardKeys::new(Namespace::default(), &"mail".parse().unwrap(), 0);
    publish(&mut redis.connection, &keys, &limit(10, "1/s"), None).await.unwrap();
    let raised = limit(20, "1/s");
    publish(&mut redis.connection, &keys, &raised, None).await.unwrap();
    for (passed, is_unpacked) in [(0, true), (9_000_000, true), (1_100_000, false), (0, false)] {
        travel(&mut redis, &keys, passed).await;
        let verified = look(&mut redis, &keys, &raised).await.record;
        let before = verified.as_ref().unwrap().is_unpacked();
        mend(&mut redis, &keys, &raised, verified.as_ref()).await;
        let seen = look(&mut redis, &keys, &raised).await.record.unwrap();
        assert_eq!((before, seen.is_unpacked()), (is_unpacked || passed > 0, is_unpacked), "{passed}");
        assert_eq!(seen.limit(&raised.name).unwrap(), raised);
    }
}

/// Or a script that writes a new field would see it removed by the next healing.
#[test]
fn fields_that_scripts_write_are_known_to_mend() {
    let mend = super::sources::text_of("mend");
    let list = mend.split_once("local scripts_own = ").unwrap().1.split_once("\nfor ").unwrap().0;
    let own: Vec<&str> = list.split([' ', '\'', '.', '\n']).filter(|word| !word.is_empty()).collect();
    let mut written = Vec::new();
    for name in ["publish", "freeze", "migrate", "token_bucket", "mend"] {
        let text = super::sources::text_of(name);
        for end in ["'HSET', record, ", "'HINCRBY', record, ", "'HSET', KEYS[1], ", "anew = {"] {
            for call in text.split(end).skip(1) {
                let call = call.split(if end == "anew = {" { '}' } else { '\n' }).next().unwrap();
                let words = call.split('\'').skip(1).step_by(2);
                let names = words.filter(|word| {
                    !word.is_empty() && word.chars().all(|c| c == '_' || c.is_ascii_lowercase())
                });
                written.extend(names.map(str::to_owned));
            }
        }
    }
    assert!(written.len() > 15, "{written:?}");
    // Each publication gives these, also after a change that a schedule has made.
    let given = ["capacity", "n", "p", "rate", "schedule"];
    for field in written {
        // A format, and the algorithm whose terms are packed.
        let known = own.contains(&&*field) || given.contains(&&*field) || field == "token-bucket";
        assert!(known, "{field} is not in {own:?}");
    }
}

/// A slice of many such entries costs Redis little, and all are gone after some slices.
#[tokio::test]
async fn ten_thousand_entries_of_no_bucket_are_cleaned_in_slices() {
    let mut redis = Redis::start().await;
    let keys = ShardKeys::new(Namespace::default(), &"mail".parse().unwrap(), 0);
    let limit = Limit { keyed: true, ..limit(10, "1/s") };
    publish(&mut redis.connection, &keys, &limit, None).await.unwrap();
    let flood = "for i = 1, 10000 do redis.call('ZADD', KEYS[1], 'inf', 'x' .. i) end";
    redis.ask::<()>(&["EVAL", flood, "1", &keys.due]).await;
    let (mut cleaned, mut slices) = (0, 0);
    while cleaned < 10_000 {
        let odd = look(&mut redis, &keys, &limit).await.odd_members;
        assert!(odd.len() <= 1_501);
        cleaned += scripts::clean(&mut redis.connection, &keys, true, &odd).await.unwrap();
        slices += 1;
        assert!(slices <= 20, "{cleaned} after {slices} slices");
    }
    assert_eq!((cleaned, redis.ask::<u64>(&["EXISTS", &keys.due]).await), (10_000, 0));
    let stats: String = redis.ask(&["INFO", "commandstats"]).await;
    println!("{slices} slices: {stats}");
}
