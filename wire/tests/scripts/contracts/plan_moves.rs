//! The move of a key's tokens over changes of its plan, to the token.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use topup_wire::{
    bucket::Operation,
    keyspace::ShardKeys,
    limit::{Algorithm, Capacity, Holds, Limit, LimitName, Lost, OnAbandon, OnChange, Rate, Supply, Terms},
    namespace::Namespace,
    scripts::{self, PlanMove},
};

use crate::server::{Redis, instant, publish};

const HOUR: u64 = 3_600_000_000;
const SECOND: u64 = 1_000_000;

/// Capacity, and tokens an hour.
const OWN: (u64, u64) = (10, 1);
const SILVER: (u64, u64) = (4, 1);
const GOLD: (u64, u64) = (20, 1);
/// Two tokens a second.
const QUICK: (u64, u64) = (30, 7_200);

/// A case that takes less time than this, in µs, gets no token of `quick` on the way.
const STALL: u64 = 100_000;

/// Generous, for a machine that is busy.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A worker that moves tokens in steps is alone for so many µs.
const TURN: u64 = 60_000;

/// A plan since so many ms before now, or `None` for one that is lost.
type Span = (u64, Option<&'static str>);

/// A limit of one key with some plans.
struct Scene<'r> {
    redis: &'r mut Redis,
    plans: Vec<(Limit, ShardKeys)>,
}

impl<'r> Scene<'r> {
    async fn set(redis: &'r mut Redis, algorithm: Algorithm, on_change: OnChange) -> Self {
        redis.ask::<()>(&["FLUSHALL"]).await;
        let mut plans = Vec::new();
        for (name, (capacity, rate)) in
            [("user", OWN), ("user/silver", SILVER), ("user/gold", GOLD), ("user/quick", QUICK)]
        {
            let rate = Rate::new(rate, Duration::from_secs(3_600)).unwrap();
            let terms = Terms { capacity: Capacity::new(capacity).unwrap(), supply: Supply::Rate(rate) };
            let plain = Limit::plain(LimitName::published(name).unwrap(), algorithm, terms);
            let holds = Holds::new(50, OnAbandon::Charge, Holds::DEFAULT_TTL).unwrap();
            let limit = Limit { on_change, holds, plans_fill: 100 * HOUR, ..plain };
            let keys = ShardKeys::new(Namespace::default(), &limit.name, 0);
            publish(&mut redis.connection, &keys, &limit, None).await.unwrap();
            plans.push((limit, keys));
        }
        Self { redis, plans }
    }

    fn plan(&self, name: &str) -> (&Limit, &ShardKeys) {
        let found =
            self.plans.iter().find(|(limit, _)| limit.name.as_str().trim_start_matches("user/") == name);
        found.map(|(limit, keys)| (limit, keys)).unwrap()
    }

    /// Charges a plan's bucket, into debt if it has no more tokens.
    async fn charge(&mut self, plan: &str, count: u64) {
        let (mut connection, (limit, keys)) = (self.redis.connection.clone(), self.plan(plan));
        let charge = Operation::Charge { count, most_debt: 50 };
        let told =
            scripts::settle(&mut connection, limit.algorithm, keys, "a", charge, false, None).await.unwrap();
        assert_eq!(told.granted, count);
    }

    /// The tokens of a plan's bucket, below 0 in debt.
    async fn tokens(&mut self, plan: &str) -> i64 {
        let (mut connection, (limit, keys)) = (self.redis.connection.clone(), self.plan(plan));
        let peek = Operation::Peek(1);
        let told =
            scripts::settle(&mut connection, limit.algorithm, keys, "a", peek, false, None).await.unwrap();
        let token = HOUR / limit.terms.supply.pace().n.max(1);
        let debt = told.wait.div_ceil(if plan == "quick" { SECOND / 2 } else { token }) as i64;
        if told.tokens > 0 { told.tokens as i64 } else { 1 - debt }
    }

    /// The key has had these plans, the oldest first.
    async fn moves(&mut self, spans: &[Span]) {
        let now = instant(self.redis.ask::<(u64, u64)>(&["TIME"]).await);
        let spans: Vec<_> = spans
            .iter()
            .enumerate()
            .map(|(i, (ago, plan))| {
                (if i == 0 { 0 } else { now - ago * 1_000 }, plan.map(|plan| self.plan(plan)).ok_or(Lost))
            })
            .collect();
        let change = PlanMove { limit: &self.plans[0].0, key: "a", now, spans: &spans };
        let mut connection = self.redis.connection.clone();
        assert!(scripts::move_tokens(&mut connection, change).await.unwrap());
        // Once more, as by another worker.
        assert!(scripts::move_tokens(&mut connection, change).await.unwrap());
    }

    /// Charges the limit's own bucket, moves, and tells the tokens of the last plan.
    async fn after(&mut self, charged: u64, spans: &[Span]) -> i64 {
        if charged > 0 {
            self.charge("user", charged).await;
        }
        self.moves(spans).await;
        self.tokens(spans.last().unwrap().1.unwrap()).await
    }
}

/// The mark of a change that is long past tells no bucket, and no worker makes such a change.
async fn long_past(redis: &mut Redis, algorithm: Algorithm) {
    let mut scene = Scene::set(redis, algorithm, OnChange::Keep).await;
    let now = instant(scene.redis.ask::<(u64, u64)>(&["TIME"]).await);
    let long_ago = now - 101 * HOUR;

    // A worker with a late answer knows an earlier time than Redis.
    scene.charge("user", 7).await;
    scene.charge("gold", 5).await;
    let spans = [(0, Ok(scene.plan("user"))), (long_ago, Ok(scene.plan("gold")))];
    let change = PlanMove { limit: &scene.plans[0].0, key: "a", now: long_ago + 99 * HOUR, spans: &spans };
    let mut connection = scene.redis.connection.clone();
    assert!(scripts::move_tokens(&mut connection, change).await.unwrap());
    assert_eq!((scene.tokens("user").await, scene.tokens("gold").await), (3, 15), "{algorithm}");

    // Others took from silver without a mark, since the change to it was long past by then.
    scene.redis.ask::<()>(&["SET", "topup:{topup}:moved:user:a", &format!("{long_ago} user")]).await;
    scene.charge("silver", 3).await;
    scene.moves(&[(0, Some("silver")), (10, Some("gold"))]).await;
    assert_eq!(scene.tokens("gold").await, 1, "{algorithm}");
}

async fn to_the_token(redis: &mut Redis, algorithm: Algorithm) {
    let (user, silver, gold, quick) = (Some("user"), Some("silver"), Some("gold"), Some("quick"));
    // Charged of 10, plans, left.
    for (charged, spans, left) in [
        (0, &[(0, user), (10, gold)][..], 10),
        (7, &[(0, user), (10, gold)], 3),
        // The plans between had no takes.
        (7, &[(0, user), (9_000, silver), (10, gold)], 3),
        (1, &[(0, user), (9_000, silver), (10, gold)], 4),
        (1, &[(0, user), (9_000, gold), (5_000, silver), (1_000, gold), (10, user)], 4),
        (8, &[(0, user), (9_000, gold), (10, user)], 2),
        // 2.5 s of two tokens each, and of as many until now.
        (10, &[(0, user), (9_350, quick), (6_750, gold)], 5),
        (10, &[(0, user), (9_000, gold), (2_250, quick)], 4),
        (10, &[(0, user), (60_000, quick), (10, silver)], 4),
        // Debt goes with the key, and time repays it.
        (17, &[(0, user), (9_000, silver), (10, gold)], -7),
        (17, &[(0, user), (9_350, quick), (6_750, gold)], -2),
        (17, &[(0, user), (9_000, gold), (10, user)], -7),
        (17, &[(0, user), (9_350, quick), (6_750, user)], -2),
        // Too many changes: no time counts, and a part of a token is lost.
        (3, &[(0, user), (9_000, None), (10, gold)], 0),
        (17, &[(0, user), (9_000, None), (10, gold)], -8),
        (3, &[(0, None), (2_250, quick)], 4),
        // Workers that know more may have taken from the bucket all the time.
        (7, &[(0, user), (9_000, None), (10, user)], 3),
        (7, &[(0, user), (9_000, None), (5_000, user), (10, gold)], 3),
    ] {
        loop {
            let began = redis.time().await;
            let mut scene = Scene::set(redis, algorithm, OnChange::Keep).await;
            let got = scene.after(charged, spans).await;
            if got == left {
                break;
            }
            // A machine that stood still has brought tokens of `quick`.
            let took = scene.redis.time().await - began;
            assert!(took > STALL, "{algorithm} {charged} {spans:?}: {got} and not {left}");
        }
    }

    // The mark tells where the tokens are, though nobody knows the plan of then any more.
    let mut scene = Scene::set(redis, algorithm, OnChange::Keep).await;
    assert_eq!(scene.after(7, &[(0, user), (60_000, silver)]).await, 3);
    scene.charge("silver", 1).await;
    scene.moves(&[(0, user), (61_000, None), (30_000, gold), (10, user)]).await;
    assert_eq!(scene.tokens("user").await, 0, "tokens of silver, lost");
    scene.charge("user", 5).await;
    scene.moves(&[(0, None), (0, gold)]).await;
    let debt = scene.tokens("gold").await;
    assert!(
        [-6, -5].contains(&debt),
        "{debt}: debt of the limit's own bucket, and perhaps a part of a token"
    );
    // A hold of the plan before is settled late: its debt comes due when the key comes back.
    scene.charge("user", 4).await;
    scene.moves(&[(0, gold), (0, user)]).await;
    let later = (scene.tokens("user").await, scene.tokens("gold").await);
    assert!([(debt - 5, 0), (debt - 4, 0)].contains(&later), "{later:?} after {debt}");

    let mut scene = Scene::set(redis, algorithm, OnChange::Proportional).await;
    assert_eq!(scene.after(5, &[(0, user), (9_000, silver), (10, gold)]).await, 10, "half of each");
    let mut scene = Scene::set(redis, algorithm, OnChange::Reset).await;
    assert_eq!(scene.after(17, &[(0, user), (9_000, silver), (10, gold)]).await, 20, "full of each");
    for spans in [&[(0, user), (9_000, None), (10, user)][..], &[(0, None), (10, user)]] {
        let mut scene = Scene::set(redis, algorithm, OnChange::Reset).await;
        assert_eq!(scene.after(7, spans).await, 3, "perhaps no change");
    }
}

#[tokio::test]
async fn tokens_and_debt_move_over_all_changes_once() {
    let mut redis = Redis::start().await;
    for algorithm in
        [Algorithm::TokenBucket, Algorithm::Gcra, Algorithm::LazyTokenBucket, Algorithm::LeakyBucket]
    {
        to_the_token(&mut redis, algorithm).await;
        long_past(&mut redis, algorithm).await;
    }
}

/// Two workers move at once. The second one begins after so many commands of its own.
async fn both_move(redis: &mut Redis, later: usize) -> i64 {
    let mut scene = Scene::set(redis, Algorithm::TokenBucket, OnChange::Keep).await;
    scene.charge("user", 7).await;
    let now = instant(scene.redis.ask::<(u64, u64)>(&["TIME"]).await);
    let spans = [(0, Ok(scene.plan("user"))), (now - 10_000, Ok(scene.plan("gold")))];
    let change = PlanMove { limit: &scene.plans[0].0, key: "a", now, spans: &spans };
    let moves = async |later: usize| {
        let mut connection = scene.redis.connection.clone();
        for _ in 0..later {
            scripts::now(&mut connection).await.unwrap();
        }
        while !scripts::move_tokens(&mut connection, change).await.unwrap() {}
    };
    let both = async { tokio::join!(moves(0), moves(later)) };
    assert!(timeout(TIMEOUT, both).await.is_ok(), "the moves come to an end");
    scene.tokens("gold").await
}

#[tokio::test]
async fn so_they_do_in_steps_where_plans_are_in_several_hash_slots() {
    let mut redis = Redis::start_with(&[("--cluster-enabled", "yes")]).await;
    // Redis 6 has no ADDSLOTSRANGE.
    let hash_slots: Vec<String> = (0..16_384).map(|hash_slot| hash_slot.to_string()).collect();
    let words = ["CLUSTER", "ADDSLOTS"].into_iter().chain(hash_slots.iter().map(String::as_str));
    redis.ask::<()>(&words.collect::<Vec<_>>()).await;
    let ready = async {
        while !redis.ask::<String>(&["CLUSTER", "INFO"]).await.contains("cluster_state:ok") {
            // Between two looks: the look and the deadline decide.
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(TIMEOUT, ready).await.expect("a node that has all hash slots is ready");
    for algorithm in [Algorithm::TokenBucket, Algorithm::LazyTokenBucket] {
        to_the_token(&mut redis, algorithm).await;
        long_past(&mut redis, algorithm).await;
    }
    for later in 0..16 {
        loop {
            let began = redis.time().await;
            let left = both_move(&mut redis, later).await;
            if left == 3 {
                break;
            }
            // A worker that stood still has had its turn.
            let took = redis.time().await - began;
            assert!(took > TURN, "{left} tokens, the second worker {later} commands later");
        }
    }
}
