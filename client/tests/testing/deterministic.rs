//! The same test does the same in each of its runs.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use topup::{
    Client, OnOutage,
    testing::{Limit, Topup},
};

/// Runs that are compared with the first one.
const RUNS: u32 = 60;

/// Answers that tasks got, each with its instant.
async fn story() -> Vec<String> {
    let topup = Topup::new()
        .limit("api", Limit::token_bucket(4, "10/s"))
        .limit("user", Limit::sliding_window(["3/s", "10/min"]).keyed())
        .start()
        .unwrap();
    let other = topup.client_of(Client::builder().on_outage(OnOutage::Allow)).unwrap();
    let said = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for task in 0..5_u64 {
        let (client, topup, said) =
            (if task % 2 == 0 { topup.client() } else { other.clone() }, topup.clone(), said.clone());
        tasks.push(tokio::spawn(async move {
            for round in 0..6 {
                let waited = client.limit("api").wait(1 + task % 2, Duration::from_millis(700)).await;
                let both =
                    [(client.limit("api"), 1), (client.limit("user").key(format!("u{}", task % 2)), 1)];
                let taken = client.take_all(both).await;
                let line = format!("{:?} {task}.{round}: {waited:?} {taken:?}", topup.elapsed());
                said.lock().unwrap().push(line);
            }
        }));
    }
    for step in 0..8 {
        topup.advance(Duration::from_millis(100 + 37 * step)).await;
        topup.set_outage(step == 4);
    }
    for task in tasks {
        task.await.unwrap();
    }
    said.lock().unwrap().split_off(0)
}

#[test]
fn every_run_is_the_same() {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(story())
    };
    let first = run();
    assert_eq!(first.len(), 30);
    assert!(
        first.iter().any(|line| line.contains("Degraded"))
            && first.iter().any(|line| line.contains("Denied"))
    );
    for _ in 0..RUNS {
        assert_eq!(run(), first);
    }
}
