//! The fixed window, whose end is the expiry of its key: to the µs on a Redis in memory, and on a real one.

use std::time::Duration;

use rand::{RngExt, rngs::StdRng};
use redis::{Cmd, FromRedisValue, Script, Value, aio::ConnectionLike};
use topup_twin::{FixedWindow, JUNK, Record, State};
use topup_wire::{
    bucket::Operation,
    in_memory::{Direct, InMemoryRedis},
    keyspace::ShardKeys,
    limit::{Algorithm, Capacity, Limit, Rule, Supply, Terms, Windows},
    namespace::Namespace,
    reply::{Settled, Verdict},
    scripts::{self, InDoubt},
};

use super::windowed::{about_a_window, windows};
use crate::{
    contracts::sources,
    generators::{any_size, count, limit, seeds},
    server::{Redis, instant},
};

const WORLDS: u64 = 24;
const WORLDS_IN_REDIS: u64 = 8;
const STEPS: usize = 120;
const BEGAN: u64 = 1_767_225_600_000_000;
const MS: u64 = 1_000;
/// Least length of a window on a real Redis, in µs.
const LEAST_IN_REDIS: u64 = 10_000_000;

/// One bucket, twice.
struct World<C> {
    connection: C,
    /// The Redis, if it is one in memory.
    memory: Option<InMemoryRedis>,
    scripts: [Script; 2],
    keys: ShardKeys,
    limit: Limit,
    record: Record,
    bucket: Option<FixedWindow>,
    compared: u32,
}

/// An answer, and instants before and after it.
struct Answered {
    settled: Settled,
    /// Without `wait` and `now`.
    short: bool,
    within: [u64; 2],
}

#[tokio::test]
async fn the_fixed_window_does_what_its_twin_does() {
    for (_seed, mut rng) in seeds(WORLDS) {
        let mut world = in_memory(&mut rng).await;
        for _ in 0..STEPS {
            world.step(&mut rng).await;
        }
        assert_eq!(world.compared, STEPS as u32);
    }
}

#[tokio::test]
async fn the_fixed_window_of_a_real_redis_does_so_too() {
    let (mut redis, mut compared, mut steps) = (Redis::start().await, 0, 0);
    for (_seed, mut rng) in seeds(WORLDS_IN_REDIS) {
        redis.ask::<()>(&["FLUSHALL"]).await;
        let mut world = World::new(redis.connection.clone(), None, &mut rng).await;
        for _ in 0..STEPS {
            world.step(&mut rng).await;
        }
        (compared, steps) = (compared + world.compared, steps + STEPS as u32);
    }
    assert!(compared > steps / 2, "{compared} of {steps}");
}

/// Takes by each path, while time goes on and terms stay. A denied take is allowed when it was told, not a µs before.
#[tokio::test]
async fn no_window_has_more_than_the_limit_and_each_ends_when_told() {
    let mut denied = 0;
    for (_seed, mut rng) in seeds(WORLDS) {
        let mut world = in_memory(&mut rng).await;
        let (length, aligned) = world.window();
        let (mut index, mut taken) = (0, 0);
        for _ in 0..STEPS {
            let count = any_size(&mut rng, world.record.capacity).max(1);
            let Answered { settled, within: [now, _], .. } =
                world.ask(Operation::Take(count), rng.random_range(0..3)).await;
            // The number of an aligned window, or the end of one that began with a take.
            let own =
                if aligned { now / MS * MS / length } else { (now / MS * MS + length).next_multiple_of(MS) };
            if if aligned { own > index } else { now >= index } {
                (index, taken) = (own, 0);
            }
            taken += settled.granted;
            assert!(taken <= world.record.capacity, "{taken} of {} at {now}", world.record.capacity);
            let by = if settled.verdict == Verdict::Denied {
                denied += 1;
                world.set_now(now + settled.wait - 1);
                let early = world.ask(Operation::Peek(count), 1).await.settled;
                assert_eq!((early.verdict, early.wait), (Verdict::Denied, 1));
                world.set_now(now + settled.wait);
                assert_eq!(world.ask(Operation::Peek(count), 2).await.settled.verdict, Verdict::Allowed);
                settled.wait
            } else {
                about_a_window(&world.record, &mut rng).unsigned_abs() >> rng.random_range(0..12)
            };
            world.set_now(now + by);
        }
    }
    assert!(denied > WORLDS * 10, "{denied}");
}

/// A lower limit forgets nothing that was taken under the higher one.
#[tokio::test]
async fn a_limit_that_is_lowered_and_raised_within_a_window_gives_nothing_away() {
    let (_, mut rng) = seeds(1).next().unwrap();
    let mut world = in_memory(&mut rng).await;
    let windows =
        |tokens| Windows::new(&[Rule::new(tokens, Duration::from_secs(60)).unwrap()], false).unwrap();
    let mut left = Vec::new();
    for (tokens, operation) in [
        (100, Operation::Take(80)),
        (50, Operation::Refund(0)),
        (50, Operation::Refund(5)),
        (100, Operation::Peek(1)),
    ] {
        let terms =
            Terms { capacity: Capacity::new(tokens).unwrap(), supply: Supply::Windows(windows(tokens)) };
        world.publish(terms).await;
        left.push(world.ask(operation, 1).await.settled.tokens);
    }
    assert_eq!(left, [20, 0, 0, 25]);
}

/// A bare `INCRBY` has begun the window, and its worker has not given the key an expiry.
#[tokio::test]
async fn a_window_without_an_end_keeps_its_count_and_ends() {
    let (_, mut rng) = seeds(1).next().unwrap();
    for (operation, tokens) in [
        (Operation::Refund(0), 3),
        (Operation::Refund(2), 5),
        (Operation::Take(4), 3),
        (Operation::Charge { count: 1, most_debt: 0 }, 2),
    ] {
        let mut world = of_ten(&mut rng).await;
        let state = world.keys.state(Algorithm::FixedWindow, "");
        Cmd::incr(&state, 7).exec_async(&mut world.connection).await.unwrap();
        let settled = world.ask(operation, 2).await.settled;
        assert_eq!((settled.tokens, world.state().await.1), (tokens, 60_000 - 1), "{operation:?}");
    }
}

/// Tokens that were counted, though they were not left, are taken off the window again, but never of a later one.
#[tokio::test]
async fn what_no_caller_got_is_taken_off_down_to_the_limit() {
    let (_, mut rng) = seeds(1).next().unwrap();
    let mut world = of_ten(&mut rng).await;
    let state = world.keys.state(Algorithm::FixedWindow, "");
    let mut counts = Vec::new();
    for (counted, operation, uncovered) in [
        (13, Operation::Refund(0), 3),
        (13, Operation::Take(1), 2),
        (13, Operation::Refund(1), 3),
        (13, Operation::Refund(0), 4),
        (8, Operation::Take(1), 3),
        (10, Operation::Share(2), 1),
    ] {
        Cmd::set(&state, counted).exec_async(&mut world.connection).await.unwrap();
        Cmd::pexpire_at(&state, (BEGAN / MS + (1 << 40)) as i64)
            .exec_async(&mut world.connection)
            .await
            .unwrap();
        scripts::settle(
            &mut world.connection,
            Algorithm::FixedWindow,
            &world.keys,
            "",
            operation,
            false,
            Some(InDoubt { tokens: uncovered, full_at: 0 }),
        )
        .await
        .unwrap();
        counts.push(world.state().await.0.unwrap());
    }
    assert_eq!(counts, [10, 11, 9, 13, 9, 10]);
}

/// Commands of one script may see two ms: a time read before a `PTTL` makes the window end early.
#[tokio::test]
async fn a_window_that_is_written_again_ends_when_it_did() {
    let (mut redis, (_, mut rng)) = (Redis::start().await, seeds(1).next().unwrap());
    let mut world = World::new(redis.connection.clone(), None, &mut rng).await;
    let windows = Windows::new(&[Rule::new(10, Duration::from_secs(600)).unwrap()], false).unwrap();
    world.publish(Terms { capacity: Capacity::new(10).unwrap(), supply: Supply::Windows(windows) }).await;
    let state = world.keys.state(Algorithm::FixedWindow, "");
    world.ask(Operation::Take(10), 1).await;
    let (end, keys) = (redis.expiry(&state).await, &world.keys);
    for _ in 0..2_000 {
        Cmd::incr(&state, 1).exec_async(&mut redis.connection).await.unwrap();
        let take = Operation::Take(1);
        let algorithm = Algorithm::FixedWindow;
        let uncovered = Some(InDoubt { tokens: 1, full_at: 0 });
        scripts::settle(&mut redis.connection, algorithm, keys, "", take, false, uncovered).await.unwrap();
        assert_eq!(redis.ask::<u64>(&["GET", &state]).await, 10);
        assert_eq!(redis.expiry(&state).await, end);
    }
}

/// Ten tokens a minute.
async fn of_ten(rng: &mut StdRng) -> World<Direct> {
    let mut world = in_memory(rng).await;
    let windows = Windows::new(&[Rule::new(10, Duration::from_secs(60)).unwrap()], false).unwrap();
    world.publish(Terms { capacity: Capacity::new(10).unwrap(), supply: Supply::Windows(windows) }).await;
    world
}

/// Keys that people or other programs wrote.
#[tokio::test]
async fn a_state_of_junk_is_replaced_by_the_next_takes() {
    let (_, mut rng) = seeds(1).next().unwrap();
    let mut world = in_memory(&mut rng).await;
    let state = world.keys.state(Algorithm::FixedWindow, "");
    for junk in JUNK.into_iter().chain(["7", "007"]) {
        for path in 0..3 {
            Cmd::set(&state, junk).exec_async(&mut world.connection).await.unwrap();
            let mut settled = world.ask(Operation::Take(1), path).await.settled;
            for _ in 0..=world.record.capacity.min(2) {
                settled = world.ask(Operation::Take(world.record.capacity), path).await.settled;
            }
            assert!(matches!(settled.verdict, Verdict::Allowed | Verdict::Denied), "{junk:?}: {settled:?}");
            assert!(world.state().await.1 >= 0, "{junk:?} does not expire");
        }
    }
}

async fn in_memory(rng: &mut StdRng) -> World<Direct> {
    let redis = InMemoryRedis::new(BEGAN + any_size(rng, 1 << 40));
    World::new(redis.direct(Namespace::default()), Some(redis), rng).await
}

/// Windows of any length or, on a real Redis, of some that outlast the pauses of a busy machine.
fn long_windows(rng: &mut StdRng, any: bool) -> Terms {
    loop {
        let terms = windows(rng, 1);
        let Supply::Windows(rules) = terms.supply else { panic!("no windows") };
        if any || rules.longest() >= LEAST_IN_REDIS {
            return terms;
        }
    }
}

/// Reads a reply to an operation on `count` tokens. With `true`, it is one number, without `wait` and `now`.
pub(super) fn read(reply: Value, limit: &Limit, count: u64) -> (Settled, bool) {
    match reply {
        Value::Int(left) => {
            let Terms { capacity, supply } = limit.terms;
            (Settled::from_number(left as u64, limit.algorithm, capacity, supply.pace(), count), true)
        }
        numbers => (Settled::from_redis_value(numbers).unwrap(), false),
    }
}

// === impl World ===

impl<C: ConnectionLike> World<C> {
    async fn new(mut connection: C, memory: Option<InMemoryRedis>, rng: &mut StdRng) -> Self {
        let (terms, algorithm) = (long_windows(rng, memory.is_some()), Algorithm::FixedWindow);
        let limit = Limit { terms, algorithm, ..limit(1, "1/s") };
        let keys = ShardKeys::new(Namespace::default(), &limit.name, 0);
        scripts::publish(&mut connection, &keys, &limit, None, None).await.unwrap();
        let record = Record::new(&limit, BEGAN);
        let scripts = [true, false].map(|packed| Script::new(&sources::of(algorithm, packed)));
        Self { connection, memory, scripts, keys, limit, record, bucket: None, compared: 0 }
    }

    fn window(&self) -> (u64, bool) {
        let Supply::Windows(windows) = self.limit.terms.supply else { panic!("no windows") };
        (windows.longest(), windows.aligned())
    }

    fn set_now(&self, now: u64) {
        self.memory.as_ref().unwrap().set_now(now);
    }

    async fn step(&mut self, rng: &mut StdRng) {
        match rng.random_range(0..10) {
            0 => self.change(rng).await,
            1..4 => {
                let by = about_a_window(&self.record, rng) / 1_000 * 1_000;
                self.pass(if rng.random_bool(0.2) { -by } else { by }).await;
            }
            _ => {}
        }
        let capacity = self.record.capacity;
        let operation = match rng.random_range(0..12) {
            0 => Operation::Peek(count(&self.record, rng)),
            1 => Operation::Refund(count(&self.record, rng)),
            2 if rng.random_bool(0.3) => Operation::Reset,
            2 => Operation::Charge { count: count(&self.record, rng), most_debt: any_size(rng, capacity) },
            3 | 4 => Operation::Share(count(&self.record, rng)),
            5 | 6 => Operation::Take(count(&self.record, rng)),
            _ => Operation::Take(1),
        };
        let before = self.bucket;
        let Answered { settled, short, within: [from, to] } =
            self.ask(operation, rng.random_range(0..3)).await;
        let now = if short { from } else { settled.now };
        let mut expected = FixedWindow::settle(&self.record, &mut self.bucket, operation, now);
        let (text, left) = self.state().await;
        let seen = self.time().await;
        let edge = before.is_some_and(|held| held.over + 2 * MS > from && held.over < seen + 2 * MS);
        let told = expected.wait;
        if short {
            (expected.now, expected.wait) = (0, 0);
        } else if self.memory.is_none() && settled.wait.abs_diff(expected.wait) <= MS {
            // Two commands of one script may see two ms.
            expected.wait = settled.wait;
        }
        let ends = self.bucket.is_some_and(|held| held.over < seen + 2 * MS);
        // A short reply does not tell when its window began.
        let began = short && before.is_none_or(|held| held.over <= to) && to - from > MS;
        let held = self.bucket.filter(|held| held.over > to);
        if self.memory.is_none() && (edge || ends || began) {
            // The window ended meanwhile or not, or began a while ago.
            self.bucket = None;
            let state = self.keys.state(Algorithm::FixedWindow, "");
            return Cmd::del(state).exec_async(&mut self.connection).await.unwrap();
        }
        self.compared += 1;
        assert_eq!(
            settled, expected,
            "{operation:?} of {before:?} at {now} under {:?}, {told}",
            self.limit.terms
        );
        assert_eq!(text, held.map(|held| held.taken), "after {operation:?} of {before:?}");
        // A key that is gone does not come back when the clock does.
        self.bucket = held;
        if let Some(held) = held {
            let said = (to / MS).saturating_add_signed(left);
            let most = if self.memory.is_some() { 0 } else { 2 + (seen - from) / MS };
            assert!(
                said.abs_diff(held.expiry(&self.record)) <= most,
                "{said}, {left} of {held:?} after {operation:?} of {before:?}, {from} to {to}, {:?}",
                self.limit.terms
            );
        }
    }

    /// Asks by the quickest path that there is, by packed terms, or by neither.
    async fn ask(&mut self, operation: Operation, path: usize) -> Answered {
        let from = self.time().await;
        let script = &self.scripts[path / 2];
        let mut call = script.key(&self.keys.record);
        call.key(self.keys.state(Algorithm::FixedWindow, ""));
        let (word, count) = match operation {
            Operation::Take(count) => ("take", count),
            Operation::Share(count) => ("share", count),
            Operation::Peek(count) => ("peek", count),
            Operation::Refund(count) => ("refund", count),
            Operation::Reset => ("reset", 0),
            Operation::Charge { count, .. } => ("charge", count),
            other => panic!("{other:?} is not asked here"),
        };
        call.arg(word).arg(count);
        match operation {
            Operation::Charge { most_debt, .. } => drop(call.arg(most_debt)),
            Operation::Take(1..) | Operation::Share(1..) if path == 0 => drop(call.arg("quick")),
            _ => {}
        }
        let reply: Value = call.invoke_async(&mut self.connection).await.unwrap();
        let within = [from, self.time().await];
        let (settled, short) = read(reply, &self.limit, count);
        Answered { settled, short, within }
    }

    async fn change(&mut self, rng: &mut StdRng) {
        self.publish(long_windows(rng, self.memory.is_some())).await;
    }

    async fn publish(&mut self, terms: Terms) {
        let limit = Limit { terms, ..self.limit.clone() };
        scripts::publish(&mut self.connection, &self.keys, &limit, None, None).await.unwrap();
        let now = self.time().await;
        self.record = self.record.changed(&limit, now);
        self.limit = limit;
    }

    /// Time goes on, or back. On a real Redis, the window ends earlier instead, or later.
    async fn pass(&mut self, by: i64) {
        if let Some(memory) = &self.memory {
            return memory.set_now(memory.now().saturating_add_signed(by).max(BEGAN));
        }
        let Some(mut held) = self.bucket else { return };
        let ended = held.over;
        held.over = ended.saturating_add_signed(-by);
        let expire_at =
            Cmd::pexpire_at(self.keys.state(Algorithm::FixedWindow, ""), held.expiry(&self.record) as i64);
        let is_there: bool = expire_at.query_async(&mut self.connection).await.unwrap();
        assert!(is_there || ended < self.time().await + 2 * MS, "{:?} is gone", self.bucket);
        self.bucket = is_there.then_some(held);
    }

    async fn state(&mut self) -> (Option<u64>, i64) {
        let state = self.keys.state(Algorithm::FixedWindow, "");
        redis::pipe().get(&state).pttl(&state).query_async(&mut self.connection).await.unwrap()
    }

    async fn time(&mut self) -> u64 {
        let mut time = Cmd::new();
        instant(time.arg("TIME").query_async(&mut self.connection).await.unwrap())
    }
}
