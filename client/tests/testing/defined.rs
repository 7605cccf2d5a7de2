//! Limits that code defines, by the test's clock.

use std::time::Duration;

use topup::{
    Defined, Error, Terms,
    testing::{Limit, Topup},
};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_limit_of_code_is_one_of_the_test_until_its_end() {
    let topup = Topup::new().limit("api", Limit::token_bucket(10, "1/s")).start().unwrap();
    let (client, other) = (topup.client(), topup.client_of(topup::Client::builder()).unwrap());
    let define = |terms| client.define("tenant", terms).owner("billing").expires_in(60 * SECOND);
    assert_eq!(define(Terms::token_bucket(10, "1/s")).await.unwrap(), Defined::New);
    for left in (2..10).rev() {
        assert_eq!(other.limit("tenant").take(1).await.unwrap().remaining(), left);
    }
    topup.advance(3 * SECOND).await;
    assert_eq!(client.limit("tenant").take(1).await.unwrap().remaining(), 4);

    // A change is announced for 0.75 s, and time before it counts at the rate before.
    let change = tokio::spawn(define(Terms::token_bucket(10, "2/s")).into_future());
    topup.advance(SECOND).await;
    assert_eq!(change.await.unwrap().unwrap(), Defined::Changed);
    for client in [&client, &other] {
        // 4 + 0.75 + 0.25 × 2.
        assert_eq!(client.limit("tenant").peek().await.unwrap().remaining(), 5);
    }
    topup.advance(SECOND).await;
    assert_eq!(other.limit("tenant").take(1).await.unwrap().remaining(), 6);

    let refused = other.define("tenant", Terms::gcra(1, "1/s")).owner("sales").await.unwrap_err();
    assert!(matches!(refused, Error::DefinedByOther { owner, .. } if owner == "billing"));
    for terms in [Terms::gcra(1, "2000000/s"), Terms::quota(1, SECOND)] {
        let refused = other.define("tenant", terms).owner("billing").await.unwrap_err();
        assert!(matches!(refused, Error::InvalidLimit { .. }), "{refused}");
    }

    topup.advance(50 * SECOND).await;
    assert_eq!(define(Terms::token_bucket(10, "2/s")).await.unwrap(), Defined::Renewed);
    topup.advance(59 * SECOND).await;
    assert_eq!(other.limit("tenant").take(1).await.unwrap().remaining(), 9);
    topup.advance(2 * SECOND).await;
    for client in [&client, &other] {
        let ended = client.limit("tenant").take(1).await;
        assert!(matches!(ended, Err(Error::UnknownLimit { .. })), "{ended:?}");
    }
    assert!(client.undefine("tenant").owner("billing").await.unwrap());
    assert!(!client.undefine("tenant").owner("billing").await.unwrap());
    assert_eq!(other.define("tenant", Terms::gcra(3, "1/s")).owner("sales").await.unwrap(), Defined::New);
    assert_eq!(client.limit("tenant").take(1).await.unwrap().remaining(), 2);
}
