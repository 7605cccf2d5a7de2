//! When a bucket is absent, at rest or counting, and what bare commands make of it.

use std::time::Duration;

use topup_wire::{
    bucket::Operation,
    constants::HOLD,
    limit::{Algorithm, Limit},
    namespace::Namespace,
    reply::{PutInReply, Settled, Verdict},
    scripts::{self, BucketTake, InDoubt, Look, PutIn, number_at_rest},
};

use crate::{
    generators::limit,
    laws::Scene,
    server::{Redis, publish},
};

/// From one credit of a bucket that is near full to the next.
const PERIOD: u64 = 1_600_000;

async fn scene(limit: Limit) -> Scene {
    Scene::set(Redis::start().await, limit).await
}

/// A bare `DECR` of bucket "a"; none when that is at rest.
async fn decrement(scene: &mut Scene) -> Option<i64> {
    let counter = scene.keys.counter("a");
    match scripts::decrement(&mut scene.redis.connection, &counter, 1).await {
        Err(error) if scripts::is_not_a_counter(&error) => None,
        left => Some(left.unwrap()).filter(|left| *left > number_at_rest(0, 0)),
    }
}

/// A share of `count` of bucket "a", which may count where `may_count`.
async fn share(scene: &mut Scene, count: u64, may_count: bool) -> Settled {
    let (keys, share) = (scene.keys.clone(), Operation::Share(count));
    scripts::settle(&mut scene.redis.connection, Algorithm::TokenBucket, &keys, "a", share, may_count, None)
        .await
        .unwrap()
}

async fn text(scene: &mut Scene) -> Option<String> {
    let counter = scene.keys.counter("a");
    scene.redis.ask(&["GET", &counter]).await
}

async fn is_due(scene: &mut Scene) -> bool {
    let due = scene.keys.due.clone();
    scene.redis.ask::<Option<f64>>(&["ZSCORE", &due, "a"]).await.is_some()
}

#[tokio::test]
async fn a_bucket_counts_from_two_missing_tokens_on_where_it_may() {
    /// The time of a token: far longer than the test takes on any machine.
    const TOKEN: u64 = 60_000_000;
    let mut scene = scene(limit(10, "1/min")).await;
    for (count, may_count, counting) in [(1, true, false), (1, false, false), (1, true, true)] {
        assert_eq!(share(&mut scene, count, may_count).await.counting, counting);
        assert_eq!(is_due(&mut scene).await, counting);
        assert_eq!(decrement(&mut scene).await.is_some(), counting);
    }
    assert_eq!(text(&mut scene).await.unwrap(), "6");
    // It counts until it misses one token at most.
    scene.pass(3 * TOKEN).await;
    assert!(share(&mut scene, 1, false).await.counting);
    scene.pass(TOKEN + TOKEN / 2).await;
    let rests = share(&mut scene, 1, true).await;
    assert_eq!((rests.counting, is_due(&mut scene).await), (true, true), "{rests:?}");
    scene.pass(4 * TOKEN).await;
    let rests = share(&mut scene, 1, true).await;
    assert_eq!((rests.tokens, rests.counting, is_due(&mut scene).await), (9, false, false));
    assert_eq!(decrement(&mut scene).await, None);
}

#[tokio::test]
async fn a_bucket_that_is_soon_full_does_not_count() {
    let mut scene = scene(limit(100, "1000/s")).await;
    assert!(!share(&mut scene, 4, true).await.counting);
    assert!(share(&mut scene, 20, true).await.counting);
}

#[tokio::test]
async fn a_refund_puts_a_counter_to_rest_for_as_long_as_anyone_may_count_on_it() {
    for operation in [Operation::Refund(2), Operation::Refund(9), Operation::Reset] {
        let mut scene = scene(limit(10, "10/s")).await;
        assert!(share(&mut scene, 8, true).await.counting);
        let settled = scene.settle("a", operation).await;
        assert_eq!((settled.counting, is_due(&mut scene).await), (false, false));
        assert_eq!(decrement(&mut scene).await, None);
        assert!(!share(&mut scene, 4, true).await.counting, "held");
        // A machine may stand still for a second meanwhile.
        scene.pass(HOLD - 1_000_000).await;
        assert!(!share(&mut scene, 5, true).await.counting, "still held");
        scene.pass(1_000_000).await;
        assert!(share(&mut scene, 8, true).await.counting);
    }
}

#[tokio::test]
async fn what_nobody_else_has_touched_is_put_in_in_place() {
    let mut scene = scene(limit(10, "1/s")).await;
    let taken = share(&mut scene, 9, true).await;
    let full_at = scene.instant(taken.now + taken.headroom);
    let PutInReply::Done(back) = scene.put_in("a", 8, full_at).await else { panic!("nobody else has taken") };
    assert_eq!((back.tokens, back.counting), (9, true));
}

/// The full instant is the same again, but a refund might have made the bucket full in between.
#[tokio::test]
async fn what_others_took_and_put_back_is_not_untouched() {
    let mut scene = scene(limit(10, "1/h")).await;
    let taken = share(&mut scene, 4, false).await;
    let full_at = Some(taken.now + taken.headroom);
    share(&mut scene, 5, false).await;
    let refunded = scene.settle("a", Operation::Refund(5)).await;
    assert_eq!(Some(refunded.now + refunded.headroom), full_at);
    let request =
        PutIn { tokens: Some(0), unused: 0, unused_since: 0, spare: 3, full_at, in_hand_for: Duration::ZERO };
    let conn = &mut scene.redis.connection;
    scripts::try_put_in(conn, Algorithm::TokenBucket, &scene.keys, "a", request).await.unwrap();
    assert_eq!(scene.settle("a", Operation::Peek(1)).await.tokens, 6);
}

/// To a bucket of ideal precision, unused tokens were never taken, so a refund meanwhile may have overflowed it.
#[tokio::test]
async fn tokens_unused_since_before_a_refund_are_lost() {
    for refunded in [20, 5, 0] {
        let mut scene = scene(limit(20, "1/h")).await;
        let unused = share(&mut scene, 13, false).await;
        if refunded > 0 {
            scene.settle("a", Operation::Refund(refunded)).await;
        } else {
            // Unused tokens of another worker.
            assert_eq!(put_unused(&mut scene, 5, unused.now).await, 12);
        }
        let later = share(&mut scene, 7, false).await;
        let kept = later.tokens + if refunded > 0 { 0 } else { 8 };
        assert_eq!(put_unused(&mut scene, 8, unused.now).await, kept);
        assert_eq!(put_unused(&mut scene, 1, later.now).await, kept + 1, "taken after the refund");
    }
}

/// Puts tokens that no caller got into the bucket. Returns its tokens.
async fn put_unused(scene: &mut Scene, unused: u64, unused_since: u64) -> u64 {
    let in_hand_for = Duration::ZERO;
    let request = PutIn { tokens: Some(0), unused, unused_since, spare: 0, full_at: None, in_hand_for };
    let conn = &mut scene.redis.connection;
    scripts::try_put_in(conn, Algorithm::TokenBucket, &scene.keys, "a", request).await.unwrap();
    scene.settle("a", Operation::Peek(1)).await.tokens
}

#[tokio::test]
async fn what_others_take_from_ends_counting_before_tokens_are_put_in() {
    let mut scene = scene(limit(100, "1/s")).await;
    let taken = share(&mut scene, 90, true).await;
    let full_at = scene.instant(taken.now + taken.headroom);
    assert_eq!(decrement(&mut scene).await, Some(9));
    let PutInReply::Again(told) = scene.put_in("a", 3, full_at).await else { panic!("somebody has taken") };
    assert_eq!((told.tokens, told.counting), (9, false), "nothing is given yet");
    assert_eq!(decrement(&mut scene).await, None, "whoever believes in a counter is told");
    let wait = scene.limit.in_hand_for().as_micros() as u64;
    assert_eq!(told.wait, wait);
    scene.pass(wait).await;
    let PutInReply::Done(back) = scene.put_in("a", 3, full_at).await else {
        panic!("nobody has any in hand")
    };
    assert_eq!((back.tokens, back.counting), (12, false));
    assert!(!share(&mut scene, 4, true).await.counting, "held");
    scene.pass(HOLD).await;
    assert!(share(&mut scene, 4, true).await.counting);
}

const fn of_any(tokens: u64) -> InDoubt {
    InDoubt { tokens, full_at: 0 }
}

#[tokio::test]
async fn a_bucket_that_misses_tokens_in_doubt_is_not_charged_for_them() {
    for may_count in [true, false] {
        let mut scene = scene(limit(10, "1/h")).await;
        let taken = share(&mut scene, 4, may_count).await;
        assert_eq!((taken.tokens, taken.counting), (6, may_count));
        let (full_at, hour) = (taken.now + taken.headroom, 3_600_000_000);
        for (full_at, left) in
            [(full_at, 6), (full_at - 2 * hour, 6), (full_at + 1, 4), (full_at + 2 * hour, 4)]
        {
            let in_doubt = InDoubt { tokens: 2, full_at };
            let left_in = scene.settle_in_doubt("a", Operation::Refund(0), in_doubt).await.tokens;
            assert_eq!(left_in, left, "{may_count}, {full_at}");
        }
        assert_eq!(scene.settle_in_doubt("a", Operation::Refund(0), of_any(3)).await.tokens, 1);
    }
}

#[tokio::test]
async fn tokens_in_doubt_are_not_found_in_a_bucket() {
    let mut scene = scene(limit(10, "1/s")).await;
    assert!(share(&mut scene, 5, true).await.counting);
    // The takes come as late as if the bucket had been full, so their tokens were not there to be lost.
    scene.pass(60_000_000).await;
    for left in [4, 3, 2] {
        assert_eq!(decrement(&mut scene).await, Some(left));
    }
    let settled = scene.settle_in_doubt("a", Operation::Peek(1), of_any(3)).await;
    assert_eq!(settled.tokens, 7);
    let settled = scene.settle_in_doubt("a", Operation::Take(1), of_any(3)).await;
    assert_eq!((settled.tokens, scene.tokens("a").await), (6, 6));
    // A settle of another worker, which comes first, fills the bucket.
    assert!(share(&mut scene, 4, true).await.counting);
    scene.pass(60_000_000).await;
    assert_eq!(decrement(&mut scene).await, Some(1));
    assert_eq!(share(&mut scene, 1, true).await.tokens, 9);
    assert_eq!(scene.settle_in_doubt("a", Operation::Take(1), of_any(1)).await.tokens, 7);
    // A bucket that is no counter any more loses at most the tokens that it has.
    let settled = scene.settle_in_doubt("b", Operation::Take(1), of_any(4)).await;
    assert_eq!(settled.tokens, 5);
    let denied = scene.settle_in_doubt("b", Operation::Take(1), of_any(40)).await;
    assert_eq!((denied.verdict, denied.tokens), (Verdict::Denied, 0));
    assert_eq!(scene.tokens("b").await, 0);
}

#[tokio::test]
async fn a_full_counter_goes_with_the_first_pass_that_finds_it() {
    let mut scene = scene(limit(10, "10/s")).await;
    assert!(share(&mut scene, 9, true).await.counting);
    scene.pass(PERIOD).await;
    assert_eq!(scene.refill(1).await.full, 1);
    assert_eq!((text(&mut scene).await, is_due(&mut scene).await), (None, false));
    // A bare command that comes late is found to be none, and goes with the next settle.
    assert_eq!(decrement(&mut scene).await, Some(-1));
    assert!(!scene.first_take("a", 1).await.1);
    assert_eq!(share(&mut scene, 1, true).await.tokens, 9);
    assert_eq!(text(&mut scene).await.unwrap().len(), 20);
}

/// Its counter was evicted, and a client took it for full.
#[tokio::test]
async fn a_bucket_at_rest_that_is_due_loses_its_place_and_nothing_else() {
    for migrated in [false, true] {
        let mut scene = scene(limit(10, "1/s")).await;
        assert!(share(&mut scene, 9, true).await.counting);
        let counter = scene.keys.counter("a");
        scene.redis.ask::<()>(&["DEL", &counter]).await;
        assert!(scene.first_take("a", 5).await.1);
        let before = text(&mut scene).await;
        if migrated {
            scene.publish(limit(10, "2/s"), None).await;
            scene.migrate(1).await;
        } else {
            scene.pass(PERIOD).await;
            let keys = scene.keys.clone();
            let all = scripts::refill(&mut scene.redis.connection, &keys, 9, Look::All).await.unwrap();
            assert_eq!(all.tokens, 0);
        }
        assert!(!is_due(&mut scene).await);
        assert_eq!(text(&mut scene).await, before);
    }
}

#[tokio::test]
async fn a_bucket_at_rest_keeps_its_tokens_over_a_change_of_terms() {
    for first in [false, true] {
        let (mut scene, member) = (scene(limit(10, "1/min")).await, "a");
        if first {
            assert!(scene.first_take(member, 4).await.1);
        } else {
            assert!(!share(&mut scene, 4, false).await.counting);
        }
        scene.pass(120_000_000).await;
        // Two have come; a third is half on its way.
        scene.pass(30_000_000).await;
        scene.publish(limit(20, "1/s"), None).await;
        assert_eq!(scene.tokens(member).await, 8);
        scene.pass(1_600_000).await;
        assert_eq!(scene.tokens(member).await, 10);
        // Touched, it is under the present ones, and so keeps its tokens over the next.
        let conn = &mut scene.redis.connection;
        let (node, name) = (&mut conn.clone(), scene.limit.name);
        scripts::touch_states(conn, node, &name, Algorithm::TokenBucket).await.unwrap();
        let terms: u64 = scene.redis.ask(&["HGET", &scene.keys.record.clone(), "terms"]).await;
        let counter = scene.keys.counter(member);
        let text: String = scene.redis.ask(&["GET", &counter]).await;
        assert_eq!(text[1..5], format!("{:04}", terms % 10_000));
        scene.publish(limit(30, "1/min"), None).await;
        assert_eq!(scene.tokens(member).await, 10);
    }
}

#[tokio::test]
async fn what_is_published_says_the_terms_and_when_buckets_of_earlier_ones_are_full() {
    let mut scene = scene(limit(10, "1/s")).await;
    let name = scene.limit.name;
    let conn = &mut scene.redis.connection;
    let first = scripts::read_limit(conn, &name).await.unwrap().unwrap();
    assert_eq!((first.frozen, first.absent_full_at, first.earlier_until), (false, 0, 0));
    scene.publish(limit(70, "1/s"), None).await;
    let raised = scripts::read_limit(&mut scene.redis.connection, &name).await.unwrap().unwrap();
    assert_eq!(raised.terms_id, first.terms_id + 1);
    let now = scene.redis.time().await;
    assert!(raised.absent_full_at.abs_diff(now + 60_000_000) < 1_000_000);
    assert!(raised.earlier_until.abs_diff(now + 10_000_000) < 1_000_000);
    // The terms before the previous ones count, too.
    for capacity in [20, 15] {
        scene.publish(limit(capacity, "1/s"), None).await;
    }
    let lowered = scripts::read_limit(&mut scene.redis.connection, &name).await.unwrap().unwrap();
    assert!(lowered.earlier_until.abs_diff(now + 70_000_000) < 1_000_000);
    scene.redis.ask::<()>(&["HSET", &scene.keys.record.clone(), "frozen", "1"]).await;
    let frozen = scripts::read_limit(&mut scene.redis.connection, &name).await.unwrap().unwrap();
    assert!(frozen.frozen);
}

/// Workers of this version send no such first take. The bucket loses the tokens that it had.
#[tokio::test]
async fn a_first_take_of_a_raised_bucket_takes_from_what_it_held() {
    let mut scene = scene(limit(10, "1/min")).await;
    scene.publish(limit(70, "1/min"), None).await;
    assert!(scene.first_take("a", 4).await.1);
    assert_eq!((scene.tokens("a").await, scene.tokens("b").await), (6, 10));
}

/// Or a raised capacity would cost each settle twice as much until the next change.
#[tokio::test]
async fn terms_are_packed_again_once_a_raised_bucket_has_grown() {
    let mut scene = scene(limit(10, "1/s")).await;
    scene.publish(limit(20, "1/s"), None).await;
    let record = scene.keys.record.clone();
    for (passed, packed) in [(0, 0), (9_000_000, 0), (1_100_000, 53)] {
        scene.pass(passed).await;
        share(&mut scene, 1, false).await;
        assert_eq!(scene.redis.ask::<usize>(&["HSTRLEN", &record, "packed"]).await, packed);
    }
    assert_eq!(share(&mut scene, 1, false).await.tokens, 16);
}

#[tokio::test]
async fn buckets_of_several_algorithms_are_taken_from_all_or_none() {
    let mut redis = Redis::start().await;
    let named = |name: &str, algorithm: Algorithm, capacity: u64| {
        let name = name.parse().unwrap();
        Limit { name, algorithm, ..crate::generators::limit_of(algorithm, capacity) }
    };
    let limits = Algorithm::ALL.map(|algorithm| named(algorithm.as_str(), algorithm, 5));
    let keys = limits
        .each_ref()
        .map(|limit| topup_wire::keyspace::ShardKeys::new(Namespace::default(), &limit.name, 0));
    for (limit, keys) in limits.iter().zip(&keys) {
        publish(&mut redis.connection, keys, limit, None).await.unwrap();
    }
    let conn = &mut redis.connection;
    for (count, verdict, left) in
        [(3, Verdict::Allowed, 2), (3, Verdict::Denied, 2), (2, Verdict::Allowed, 0)]
    {
        let parts: Vec<BucketTake<'_>> = limits
            .iter()
            .zip(&keys)
            .map(|(limit, keys)| {
                let algorithm = limit.algorithm;
                BucketTake { algorithm, keys, member: "a", count, enforced: true }
            })
            .collect();
        for (settled, limit) in scripts::take_all(conn, &parts).await.unwrap().iter().zip(&limits) {
            assert_eq!((settled.verdict, settled.tokens), (verdict, left), "{}", limit.algorithm);
            assert!(!settled.counting);
        }
    }
}
