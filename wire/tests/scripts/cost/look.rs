//! Cost of a look at a shard, and of mending one that is as it should be.
//!
//! ```text
//! cargo test --release -p topup-wire --test scripts -- --ignored --nocapture microseconds_of_a_look
//! ```

use topup_wire::{bucket::Operation, keyspace::ShardKeys, limit::Algorithm, namespace::Namespace, scripts};

use crate::{
    generators::limit,
    server::{Redis, publish},
};

const LOOKS: u64 = 20_000;

#[tokio::test]
#[ignore = "measures, for some seconds"]
async fn microseconds_of_a_look() {
    let mut redis = Redis::start().await;
    let (keys, limit) = (ShardKeys::new(Namespace::default(), &"mail".parse().unwrap(), 0), limit(10, "1/s"));
    publish(&mut redis.connection, &keys, &limit, None).await.unwrap();
    let conn = &mut redis.connection;
    scripts::settle(conn, Algorithm::TokenBucket, &keys, "a", Operation::Take(9), true, None).await.unwrap();
    let now = redis.time().await;
    redis.ask::<()>(&["CONFIG", "RESETSTAT"]).await;
    let mut record = None;
    for _ in 0..LOOKS {
        record = scripts::look_at_shard(&mut redis.connection, &keys, &limit, now).await.unwrap().record;
    }
    println!("a look: {:.2} µs of Redis in commands", spent(&mut redis).await / LOOKS as f64);
    redis.ask::<()>(&["CONFIG", "RESETSTAT"]).await;
    for _ in 0..LOOKS / 10 {
        let record = record.as_ref();
        scripts::mend(&mut redis.connection, &keys, &limit, record, record).await.unwrap();
    }
    println!("a mend: {:.2} µs", spent(&mut redis).await / (LOOKS / 10) as f64);
    redis.ask::<()>(&["CONFIG", "RESETSTAT"]).await;
    for _ in 0..LOOKS / 10 {
        scripts::mend_shared(&mut redis.connection, "host", 0).await.unwrap();
    }
    println!("the shared keys: {:.2} µs", spent(&mut redis).await / (LOOKS / 10) as f64);
}

/// The time in µs of all commands that no script has called.
async fn spent(redis: &mut Redis) -> f64 {
    let text: String = redis.ask(&["INFO", "commandstats"]).await;
    let stats = text.lines().filter(|line| line.starts_with("cmdstat_"));
    let whole = |name: &str| text.contains("cmdstat_evalsha") == name.contains("evalsha");
    let usec =
        stats.filter(|line| whole(line)).filter_map(|line| line.split("usec=").nth(1)?.split(',').next());
    usec.map(|usec| usec.parse::<f64>().unwrap()).sum()
}
