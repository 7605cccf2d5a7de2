//! Wrong limits, reservations, throttles, layers and leases.

use std::time::Duration;

use topup::{
    Count, Error,
    testing::{Limit, Mode, Topup},
};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_limit_that_cannot_be_is_an_error_with_its_name() {
    for (limit, problem) in [
        (Limit::token_bucket(0, "1/s"), "capacity"),
        (Limit::token_bucket(1, "often"), "often"),
        (Limit::gcra(1, "2000001/s"), "gcra counts"),
        (Limit::sliding_window([]), "1 to 8 rules"),
        (Limit::fixed_window("1/s").lease(1, SECOND), "only token buckets"),
        (Limit::quota(5, SECOND).lease(1, SECOND), "only token buckets with a rate"),
        (Limit::token_bucket(5, "1/s").lease(6, SECOND), "holds 5 tokens"),
        (Limit::gcra(5, "1/s").without_catch_up(SECOND), "only a token bucket"),
        (Limit::quota(5, Duration::ZERO), "1ms or more"),
        (Limit::quota(5, SECOND).scheduled(SECOND, 1, "1/s"), "only a limit with a rate"),
        (Limit::token_bucket(5, "1/s").scheduled(SECOND, 1, "1/s").scheduled(SECOND, 2, "1/s"), "later than"),
        (Limit::token_bucket(5, "1/s").enforce_percent(50), "keyed"),
        (Limit::token_bucket(5, "1/s").keyed().enforce_percent(101), "percent"),
    ] {
        let error = Topup::new().limit("api", limit).start().unwrap_err();
        let text = error.to_string();
        assert!(
            matches!(error, Error::InvalidLimit { .. }) && text.contains("\"api\"") && text.contains(problem),
            "{text}"
        );
    }
    let twice = Topup::new().limit("a", Limit::gcra(1, "1/s")).limit("a", Limit::gcra(1, "1/s"));
    assert!(twice.start().unwrap_err().to_string().contains("twice"));
    assert!(matches!(Topup::new().limit("a b", Limit::gcra(1, "1/s")).start(), Err(Error::InvalidName(_))));
}

#[tokio::test]
async fn every_call_of_a_client_is_answered() {
    let limits = Topup::new()
        .limit("queue", Limit::leaky_bucket(3, "1/s"))
        .limit("leased", Limit::token_bucket(100, "10/s").lease(10, SECOND))
        .limit("shadow", Limit::token_bucket(1, "1/h").mode(Mode::Shadow))
        .limit("some", Limit::token_bucket(1, "1/h").keyed().enforce_percent(50));
    let topup = limits.start().unwrap();
    let client = topup.client();

    let queue = client.limit("queue");
    let delays: Vec<_> = [
        queue.reserve(1, 5 * SECOND).await.unwrap().delay(),
        queue.reserve(1, 5 * SECOND).await.unwrap().delay(),
        queue.reserve(1, 5 * SECOND).await.unwrap().delay(),
    ]
    .into();
    assert_eq!(delays, [Some(Duration::ZERO), Some(SECOND), Some(2 * SECOND)]);
    assert_eq!(queue.reserve(1, 5 * SECOND).await.unwrap().retry_after(), Some(SECOND));

    let leased = client.limit("leased");
    for _ in 0..30 {
        assert!(leased.take(1).await.unwrap().is_allowed());
    }
    assert_eq!(topup.tokens("leased", None).unwrap() + client.prefetched_tokens(), 70);
    client.put_back().await;
    assert_eq!((topup.tokens("leased", None).unwrap(), client.prefetched_tokens()), (70, 0));

    let shadow = client.limit("shadow");
    assert!(shadow.take(1).await.unwrap().is_allowed());
    let decided = shadow.take(1).await.unwrap();
    assert!(decided.is_allowed() && decided.would_deny());

    let mut denied = 0;
    for key in 0..200 {
        let bucket = client.limit("some").key(key.to_string());
        assert!(bucket.take(1).await.unwrap().is_allowed());
        denied += u32::from(!bucket.take(1).await.unwrap().is_allowed());
    }
    assert!((60..140).contains(&denied), "{denied} of 200 keys");

    let throttled = client.throttle("ip", 2, 1, 1, 1).await.unwrap();
    assert!(!throttled.limited && throttled.remaining == 2);
    assert_eq!(topup.tokens("some", "1").unwrap(), 0);
    assert!(matches!(topup.tokens("other", None), Err(Error::UnknownLimit { .. })));
    let counts = client.counts("shadow");
    assert_eq!([Count::Allowed, Count::WouldDeny].map(|count| counts.get(count)), [1, 1]);
}
