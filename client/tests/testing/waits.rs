//! Waits, outages, changes, schedules and quotas, by the test's clock.

use std::time::Duration;

use topup::{
    Admission, Client, Error, OnOutage, Take,
    testing::{Limit, Mode, Topup},
};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn waiters_wake_in_order() {
    let topup = Topup::new().limit("api", Limit::token_bucket(1, "1/min")).start().unwrap();
    let api = topup.client().limit("api");
    assert!(api.take(1).await.unwrap().is_allowed());
    let waiters: Vec<_> = (1..=3_u32)
        .map(|_| {
            let (api, topup) = (api.clone(), topup.clone());
            tokio::spawn(
                async move { (api.wait(1, 600 * SECOND).await.unwrap().is_allowed(), topup.elapsed()) },
            )
        })
        .collect();
    let late = tokio::spawn({
        let api = api.clone();
        async move { api.wait(1, 120 * SECOND).await.unwrap() }
    });
    topup.advance(300 * SECOND).await;
    assert!(!late.await.unwrap().is_allowed(), "its turn would come too late");
    for (minute, waiter) in (1..).zip(waiters) {
        let (allowed, at) = waiter.await.unwrap();
        let token = minute * 60 * SECOND;
        assert!(allowed && token <= at && at <= token + Duration::from_millis(1), "{at:?}");
    }
}

#[tokio::test]
async fn a_wait_that_others_make_vain_ends_at_its_end() {
    let topup = Topup::new().limit("api", Limit::token_bucket(1, "1/s")).start().unwrap();
    let (api, other) =
        (topup.client().limit("api"), topup.client_of(Client::builder()).unwrap().limit("api"));
    assert!(api.take(1).await.unwrap().is_allowed());
    let waiter = tokio::spawn({
        let topup = topup.clone();
        async move { (api.wait(1, Duration::from_millis(1_500)).await, topup.elapsed()) }
    });
    let thief = tokio::spawn(async move { other.wait(1, 5 * SECOND).await });
    topup.advance(10 * SECOND).await;
    let (waited, at) = waiter.await.unwrap();
    let thief = thief.await.unwrap().unwrap();
    // One of both has the token of the first second.
    assert!(thief.is_allowed() || waited.as_ref().unwrap().is_allowed());
    assert!(at <= Duration::from_millis(1_501), "{at:?}: {waited:?}");
}

#[tokio::test]
async fn an_admission_of_several_limits_waits_too() {
    let limits = Topup::new().limit("a", Limit::token_bucket(1, "1/3s")).limit("b", Limit::gcra(1, "1/s"));
    let topup = limits.start().unwrap();
    let client = topup.client();
    let admit = |longest| {
        let client = client.clone();
        async move {
            let admission = Admission::of(&client).take(Take::of("a")).take(Take::of("b")).wait(longest);
            admission.decide().await.unwrap().is_ok()
        }
    };
    assert!(admit(Duration::ZERO).await);
    let (short, long) = (tokio::spawn(admit(2 * SECOND)), tokio::spawn(admit(4 * SECOND)));
    topup.advance(3 * SECOND).await;
    assert!(!short.await.unwrap() && long.await.unwrap());
}

#[tokio::test]
async fn an_outage_is_met_by_the_policies_and_passes() {
    let limits = Topup::new()
        .limit("open", Limit::token_bucket(3, "1/h").on_outage(OnOutage::Allow))
        .limit("shut", Limit::token_bucket(3, "1/h").on_outage(OnOutage::Deny))
        .limit("local", Limit::token_bucket(3, "1/h").on_outage(OnOutage::Local))
        .limit("none", Limit::token_bucket(3, "1/h"));
    let topup = limits.start().unwrap();
    let client = topup.client();
    for name in ["open", "shut", "local", "none"] {
        assert!(client.limit(name).take(1).await.unwrap().is_allowed());
    }
    // Workers are counted once a second.
    topup.advance(2 * SECOND).await;
    topup.set_outage(true);
    for _ in 0..5 {
        assert!(client.limit("open").take(1).await.unwrap().is_degraded());
        assert!(!client.limit("shut").take(1).await.unwrap().is_allowed());
        assert!(client.limit("none").take(1).await.unwrap_err().is_transient());
    }
    let mut local = 0;
    for _ in 0..5 {
        local += u32::from(client.limit("local").take(1).await.unwrap().is_allowed());
    }
    assert_eq!(local, 2, "as many as the bucket held");
    topup.advance(60 * SECOND).await;
    assert!(client.limit("open").take(1).await.unwrap().is_degraded());
    topup.set_outage(false);
    topup.advance(Duration::from_millis(100)).await;
    assert_eq!(client.limit("open").take(1).await.unwrap().remaining(), 1);
    assert!(!client.limit("local").take(1).await.unwrap().is_allowed(), "the local bucket was charged for");
}

#[tokio::test]
async fn changed_terms_hold_when_the_change_returns() {
    let limits = Topup::new()
        .limit("bucket", Limit::token_bucket(10, "1/h"))
        .limit("window", Limit::sliding_window(["10/h"]));
    let topup = limits.start().unwrap();
    let client = topup.client();
    for name in ["bucket", "window"] {
        assert!(client.limit(name).take(8).await.unwrap().is_allowed());
    }
    topup.change("bucket", Limit::token_bucket(10, "2/s")).await.unwrap();
    assert_eq!(topup.elapsed(), Duration::from_secs(1));
    topup.advance(SECOND).await;
    assert_eq!(client.limit("bucket").take(1).await.unwrap().remaining(), 3, "2 and what came in 1.25 s");
    topup.change("window", Limit::sliding_window(["20/h"])).await.unwrap();
    assert_eq!(client.limit("window").take(1).await.unwrap().remaining(), 11);
    topup.change("window", Limit::token_bucket(5, "1/s")).await.unwrap();
    assert_eq!(client.limit("window").take(1).await.unwrap().remaining(), 4, "another algorithm begins full");
    topup.change("bucket", Limit::token_bucket(5, "1/s").keyed()).await.unwrap();
    assert_eq!(client.limit("bucket").key("a").take(1).await.unwrap().remaining(), 4);
    topup.change("bucket", Limit::token_bucket(5, "1/s").keyed().mode(Mode::Off)).await.unwrap();
    assert!(client.limit("bucket").key("a").take(5).await.unwrap().is_allowed());
    topup.change("new", Limit::gcra(1, "1/s")).await.unwrap();
    assert!(client.limit("new").take(1).await.unwrap().is_allowed());
    assert!(matches!(client.limit("newer").take(1).await, Err(Error::UnknownLimit { .. })));
}

#[tokio::test]
async fn ticks_schedules_and_quotas_come_at_their_instants() {
    let limits = Topup::new()
        .limit("ticks", Limit::token_bucket(10, "10/s").without_catch_up(SECOND))
        .limit("later", Limit::token_bucket(1, "1/h").scheduled(60 * SECOND, 100, "10/s"))
        .limit("daily", Limit::quota(5, 86_400 * SECOND));
    let topup = limits.start().unwrap();
    let client = topup.client();
    let take = async |name: &str, count| client.limit(name).take(count).await.unwrap().is_allowed();
    assert!(take("ticks", 10).await && take("later", 1).await && take("daily", 5).await);
    topup.advance(Duration::from_millis(999)).await;
    assert!(!take("ticks", 1).await, "no tick yet");
    topup.advance(Duration::from_millis(1_001)).await;
    assert!(take("ticks", 1).await);
    assert!(matches!(client.limit("later").take(2).await, Err(Error::ExceedsCapacity { .. })));
    topup.advance(58 * SECOND).await;
    topup.advance(5 * SECOND).await;
    assert!(take("later", 50).await && !take("later", 10).await);
    assert!(!take("daily", 1).await);
    topup.advance(86_400 * SECOND - topup.elapsed() - Duration::from_micros(1)).await;
    assert!(!take("daily", 1).await);
    topup.advance(Duration::from_micros(1)).await;
    assert!(take("daily", 5).await && !take("daily", 1).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_threads_get_their_tokens_too() {
    let topup = Topup::new().limit("api", Limit::token_bucket(1, "1/s")).start().unwrap();
    let api = topup.client().limit("api");
    assert!(api.take(1).await.unwrap().is_allowed());
    let waiter = tokio::spawn(async move { api.wait(1, 5 * SECOND).await.unwrap().is_allowed() });
    // The task may begin to wait a moment later, on its own thread.
    for _ in 0..5 {
        topup.advance(SECOND).await;
    }
    assert!(waiter.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_paused_time_of_tokio_stays_where_it_is() {
    let topup = Topup::new().limit("api", Limit::token_bucket(1, "1/s")).start().unwrap();
    let api = topup.client().limit("api");
    assert!(api.take(1).await.unwrap().is_allowed());
    let waiter = tokio::spawn(async move { api.wait(1, 5 * SECOND).await.unwrap().is_allowed() });
    topup.advance(SECOND).await;
    assert!(waiter.await.unwrap());
}
