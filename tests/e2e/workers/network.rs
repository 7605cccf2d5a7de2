//! A network that delays, hangs, loses answers and tears connections apart, between a client and Redis.

use std::time::Duration;

use topup::Client;
use topup_tests::{Answer, Attempt, Proxy, SOON, Stalls, clock, eventually};

use super::{
    fixture::{Fixture, Tasks, patient},
    oracle::{Oracle, no_errors},
};

const CONFIG: &str = "[limit.api]\ncapacity = 20\nrate = \"100/s\"\n";

/// Ten times the default deadline, in µs: a take that is slower waits for something else. The simulation holds the
/// deadline to the µs.
const IN_TIME: u64 = 10 * 250_000;
/// A machine that stands still for longer makes errors of its own.
const HALF_A_DEADLINE: Duration = Duration::from_millis(125);

struct Far {
    fixture: Fixture,
    proxy: Proxy,
    topup: Client,
    stalls: Stalls,
}

// === impl Far ===

impl Far {
    async fn set() -> Self {
        let fixture = Fixture::set(CONFIG).await;
        let proxy = Proxy::before(&fixture.redis).await;
        let topup = Client::connect(proxy.url()).await.unwrap();
        Self { fixture, proxy, topup, stalls: Stalls::watch() }
    }

    fn busy(&self) -> Tasks {
        Tasks::start((0..4).map(|_| self.topup.limit("api")), Duration::from_millis(8))
    }

    async fn back(&self) -> u64 {
        let bucket = self.topup.limit("api");
        let _ = eventually(SOON, async || bucket.peek().await).await;
        clock::now()
    }

    /// The way to Redis is whole again: all of `tasks` go on as if nothing had been.
    async fn recovers(&self, tasks: Tasks) {
        let back = self.back().await;
        tasks.log.allowed(40).await;
        self.assert_orderly(&tasks.stop().await, back);
    }

    /// All answers in time, no error that would not pass, and law 1; since `back` no error at all, and tokens.
    #[track_caller]
    fn assert_orderly(&self, attempts: &[Attempt], back: u64) {
        for attempt in attempts {
            assert!(!matches!(attempt.answer, Answer::Failed(_)), "{attempt:?}");
            let stalled = self.stalls.between(attempt.sent, attempt.received);
            let took = attempt.received - attempt.sent;
            assert!(took <= IN_TIME + stalled, "{attempt:?}, {stalled} µs of stalls");
        }
        // The tokens of the command in flight, one for each task, may count too late after a fault of over 250 ms.
        Oracle::new(20, 100.0).early(4.0).judge(attempts).never_over();
        let after: Vec<Attempt> = attempts.iter().filter(|attempt| attempt.sent >= back).cloned().collect();
        assert!(after.iter().any(Attempt::is_allowed));
        if self.stalls.below(HALF_A_DEADLINE, "errors after the fault") {
            no_errors(&after);
        }
    }
}

#[tokio::test]
async fn a_slow_network_costs_no_token() {
    let far = Far::set().await;
    far.proxy.delay(Duration::from_millis(20));
    let topup = patient(far.proxy.url()).await;
    let (tasks, stalls) =
        (Tasks::start((0..4).map(|_| topup.limit("api")), Duration::from_millis(8)), Stalls::watch());
    tasks.log.allowed(200).await;
    let attempts = tasks.stop().await;
    no_errors(&attempts);
    let judgement = Oracle::new(20, 100.0).judge(&attempts).never_over();
    println!("{judgement:?}");
    judgement.gives_most(&stalls);
}

#[tokio::test]
async fn cut_connections_are_made_again() {
    let far = Far::set().await;
    let tasks = far.busy();
    for _ in 0..20 {
        tasks.log.answered(16).await;
        far.proxy.cut();
    }
    far.recovers(tasks).await;
}

#[tokio::test]
async fn commands_torn_in_the_middle_give_no_token_twice() {
    let far = Far::set().await;
    far.proxy.tear(7);
    let tasks = far.busy();
    tasks.log.failed(20).await;
    far.proxy.pass();
    far.recovers(tasks).await;
}

#[tokio::test]
async fn a_hung_network_holds_no_caller_up() {
    let far = Far::set().await;
    let tasks = far.busy();
    tasks.log.allowed(30).await;
    far.proxy.hang();
    // Each task gives up twice.
    tasks.log.failed(8).await;
    far.proxy.pass();
    far.recovers(tasks).await;
}

#[tokio::test]
async fn lost_answers_cost_tokens_and_give_none() {
    let far = Far::set().await;
    let tasks = far.busy();
    tasks.log.allowed(30).await;
    far.proxy.lose_answers();
    tasks.log.failed(8).await;
    // Lost answers stay lost: only a new connection can be understood again.
    far.proxy.cut();
    far.proxy.pass();
    far.recovers(tasks).await;
    assert!(far.fixture.bucket("api").peek().await.is_ok());
}

#[tokio::test]
async fn a_dead_connection_that_nobody_closes_is_given_up() {
    let far = Far::set().await;
    let tasks = far.busy();
    tasks.log.allowed(30).await;
    far.proxy.half_open();
    // The second failures are told by the open breaker: each connection has been used.
    tasks.log.failed(8).await;
    far.proxy.pass();
    // Two connections are given up, each by itself: that of scripts, and that of takes.
    far.back().await;
    tasks.log.allowed(40).await;
    far.recovers(tasks).await;
}
