//! Permits by the clock of a test.

use std::time::Duration;

use topup::testing::{Limit, Topup};

const TTL: Duration = Duration::from_secs(30);

#[tokio::test]
async fn permits_are_held_waited_for_renewed_and_lost_by_the_clock_of_a_test() {
    let topup = Topup::new().limit("gpu", Limit::concurrency(2, TTL)).start().unwrap();
    let gpu = topup.client().limit("gpu");
    let both = gpu.acquire(2, Duration::ZERO).await.unwrap().unwrap();
    assert!(gpu.acquire(1, Duration::ZERO).await.unwrap().is_err());
    let waits = tokio::spawn({
        let gpu = gpu.clone();
        async move { gpu.acquire(1, Duration::from_secs(600)).await.unwrap().unwrap() }
    });
    // Renewed, some times.
    topup.advance(Duration::from_secs(40)).await;
    assert!(both.is_valid());
    drop(both);
    topup.advance(Duration::from_secs(1)).await;
    let permit = waits.await.unwrap();
    // Another process waits in order, and an outage takes permits away.
    assert!(permit.is_valid());
    topup.set_outage(true);
    topup.advance(TTL).await;
    assert!(!permit.is_valid());
    permit.lost().await;
    topup.set_outage(false);
    topup.advance(Duration::from_secs(1)).await;
    assert!(gpu.acquire(2, Duration::ZERO).await.unwrap().is_ok());
    assert!(Topup::new().limit("x", Limit::concurrency(0, TTL)).start().is_err());
    assert!(Topup::new().limit("x", Limit::concurrency(1, Duration::ZERO)).start().is_err());
}
