//! Fair shares by the clock of a test.

use std::time::Duration;

use topup::{
    Decision,
    testing::{Limit, Topup},
};

#[tokio::test]
async fn a_tenant_borrows_what_others_leave_and_gives_way_when_they_come_back() {
    let weights = [("acme", 3), ("*", 1)];
    let topup = Topup::new().limit("api", Limit::fair_shares(400, "400/s", weights)).start().unwrap();
    let (acme, other) = (topup.client().limit("api").key("acme"), topup.client().limit("api").key("x"));
    let all = async |bucket: &topup::Bucket| {
        let mut had = 0;
        while bucket.take(1).await.unwrap().is_allowed() {
            had += 1;
        }
        had
    };
    assert_eq!(all(&other).await, 100, "its own part at once");
    // Three seconds alone: its own 100/s, and 300/s that acme leaves.
    let mut borrowed = 0;
    for _ in 0..60 {
        topup.advance(Duration::from_millis(50)).await;
        borrowed += all(&other).await;
    }
    assert!((1_160..=1_200).contains(&borrowed), "{borrowed}");
    // Acme comes back: 300 at once, and each has its rate.
    assert_eq!(acme.peek().await.unwrap(), Decision::Allowed { remaining: 300, capacity: 300 });
    assert_eq!(all(&acme).await, 300);
    topup.advance(Duration::from_millis(200)).await;
    all(&acme).await;
    all(&other).await;
    let (mut of_acme, mut of_other) = (0, 0);
    for _ in 0..20 {
        topup.advance(Duration::from_millis(50)).await;
        of_acme += all(&acme).await;
        of_other += all(&other).await;
    }
    assert!((299..=301).contains(&of_acme) && (99..=101).contains(&of_other), "{of_acme} and {of_other}");

    assert!(Topup::new().limit("x", Limit::fair_shares(10, "1/s", [("acme", 1)])).start().is_err());
    assert!(Topup::new().limit("x", Limit::fair_shares(3, "1/s", [("acme", 3), ("*", 1)])).start().is_err());
}
