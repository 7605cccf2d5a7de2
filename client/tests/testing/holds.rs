//! Holds and debt, by the test's clock.

use std::time::Duration;

use topup::testing::{Limit, Topup};

#[tokio::test]
async fn debt_is_repaid_by_time_and_holds_are_settled_once() {
    let second = Duration::from_secs(1);
    for limit in [
        Limit::token_bucket(10, "1/s"),
        Limit::lazy_token_bucket(10, "1/s"),
        Limit::gcra(10, "1/s"),
        Limit::leaky_bucket(10, "1/s"),
    ] {
        let topup = Topup::new().limit("api", limit.max_debt(5)).start().unwrap();
        let api = topup.client().limit("api");
        let mut hold = api.reserve_cost(6).await.unwrap();
        for _ in 0..2 {
            assert_eq!(hold.settle(2).await.unwrap().charged, 2);
            assert_eq!(api.peek().await.unwrap().remaining(), 8);
        }
        let mut hold = api.reserve_cost(8).await.unwrap();
        let settled = hold.settle(20).await.unwrap();
        assert_eq!((settled.charged, settled.uncharged), (13, 7));
        // 5 in debt.
        let denied = api.take(2).await.unwrap();
        assert_eq!(denied.retry_after(), Some(7 * second));
        topup.advance(7 * second - Duration::from_millis(1)).await;
        assert!(!api.take(2).await.unwrap().is_allowed());
        topup.advance(Duration::from_millis(1)).await;
        assert!(api.take(2).await.unwrap().is_allowed());
        // A denied hold has nothing, and a dropped one stays charged.
        assert!(!api.reserve_cost(1).await.unwrap().is_allowed());
        topup.advance(3 * second).await;
        drop(api.reserve_cost(2).await.unwrap());
        topup.advance(second).await;
        assert_eq!(api.peek().await.unwrap().remaining(), 2);
    }
}

#[tokio::test]
async fn only_a_rate_repays_debt() {
    let problem = Topup::new().limit("api", Limit::fixed_window("5/min").max_debt(5)).start().unwrap_err();
    assert!(problem.to_string().contains("max_debt"), "{problem}");
    let topup = Topup::new().limit("api", Limit::fixed_window("5/min")).start().unwrap();
    let charged = topup.client().limit("api").charge(7).await.unwrap();
    assert_eq!((charged.charged, charged.uncharged), (5, 2));
}
