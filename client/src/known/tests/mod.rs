//! What is known of a bucket is never wrong, however late, and in whatever order, it was learned.

mod crowds;
mod even;
mod world;

use proptest::prelude::*;
use topup_wire::limit::Rate;

use super::*;
use world::{EPOCH, Step, WORKERS, World};

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let time = prop_oneof![4 => 0..100_u64, 4 => 0..2_000_u64, 1 => 0..60_000_u64];
    let count = prop_oneof![8 => Just(1_u64), 1 => 2..8_u64];
    let step = prop_oneof![
        4 => time.prop_map(Step::Pass),
        2 => (0..1_200_u64).prop_map(Step::Wait),
        2 => Just(Step::Refill),
        1 => count.clone().prop_map(Step::Rival),
        6 => (0..WORKERS, count.clone()).prop_map(|(worker, count)| Step::Ask(worker, count)),
        4 => (0..WORKERS, 1..40_u64).prop_map(|(worker, takes)| Step::Together(worker, takes)),
        8 => Just(Step::Arrive),
        8 => (0..4_usize).prop_map(Step::Learn),
    ];
    prop::collection::vec(step, 1..400)
}

fn rates() -> impl Strategy<Value = Rate> {
    let texts =
        vec!["1/60s", "1/s", "100/s", "7/3s", "1000/s", "50_000/s", "999_983/s", "3_000_000/s", "5/1d"];
    prop::sample::select(texts).prop_map(|text| text.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_workers_know_keeps_the_laws(
        rate in rates(), capacity in prop_oneof![1..12_u64, 50..500_u64, Just(1_000_000)],
        tick in prop_oneof![Just(1_000_u64), Just(100_000)],
        fast in prop_oneof![Just(0_i64), Just(10), Just(-10)], steps in steps(),
    ) {
        let mut world = World::new(rate, capacity, tick, fast);
        steps.into_iter().for_each(|step| world.take(step));
        world.assert_never_over();
    }
}

/// Steps of workers that are never late: each asks, and has its answer at once.
fn prompt_steps() -> impl Strategy<Value = Vec<Step>> {
    let ask = |worker, takes| {
        vec![Step::Together(worker, takes), Step::Arrive, Step::Learn(0), Step::Arrive, Step::Learn(0)]
    };
    // Now and then, after a while near full, everything that can be had.
    let few = (0..WORKERS, 1..4_u64, 0..900_u64)
        .prop_map(move |(worker, takes, time)| [vec![Step::Wait(time)], ask(worker, takes)].concat());
    let all = (0..WORKERS).prop_map(move |worker| {
        [40, 80, 80, 400].map(|takes| ask((worker + takes) % WORKERS, takes as u64)).concat()
    });
    let pause = (0..6_000_u64).prop_map(|thousandths| vec![Step::Wait(thousandths)]);
    let step = prop_oneof![20 => few, 1 => all, 1 => pause, 1 => Just(vec![Step::Refill])];
    prop::collection::vec(step, 1..150).prop_map(|steps| steps.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Near full the law leaves a tick's credit, no more, with a daemon that comes seldom.
    #[test]
    fn without_delays_no_window_has_more_than_a_tick_above(
        rate in prop::sample::select(vec!["100/s", "1000/s", "7/3s", "20_000/s"]),
        capacity in 20..400_u64, fast in prop_oneof![Just(0_i64), Just(10), Just(-10)], steps in prompt_steps(),
    ) {
        let mut world = World::new(rate.parse().unwrap(), capacity, 100_000, fast);
        steps.into_iter().for_each(|step| world.take(step));
        world.together = 0;
        world.assert_never_over();
    }
}

proptest! {
    /// Each question is answered as Redis would, which is what the world looks at.
    #[test]
    fn a_denial_of_one_token_is_one_of_more_for_as_long_as_those_take(
        rate in prop::sample::select(vec!["100/s", "7/3s", "999_983/s", "1/60s"]),
        asks in prop::collection::vec((0..1_500_u64, 1..8_u64), 1..40),
    ) {
        let mut world = World::new(rate.parse().unwrap(), 20, 100_000, 0);
        [Step::Rival(20), Step::Ask(0, 1), Step::Arrive, Step::Learn(0)].into_iter().for_each(|step| world.take(step));
        for (thousandths, count) in asks {
            [Step::Pass(thousandths), Step::Ask(0, count)].into_iter().for_each(|step| world.take(step));
        }
    }
}

/// Asks by one worker, once in `every` µs for `micros` in all, a daemon coming by each tick and a half.
fn alone(rate: &str, capacity: u64, every: u64, micros: u64) -> World {
    let mut world = World::new(rate.parse().unwrap(), capacity, 100_000, 0);
    let mut daemon = EPOCH;
    while world.now < EPOCH + micros {
        if world.now >= daemon {
            world.take(Step::Refill);
            daemon += 110_000;
        }
        [Step::Ask(0, 1), Step::Arrive, Step::Learn(0)].into_iter().for_each(|step| world.take(step));
        world.now += every;
    }
    world
}

/// Without this the property above could hold because nothing is ever known.
#[test]
fn a_worker_by_itself_decides_by_decr_and_by_memory() {
    let mut world = alone("10/s", 100, 1_000, 1_000_000);
    let [decr, memory, script] = world.decided;
    assert!(decr >= 98 && memory > 800 && script < 15, "{:?}", world.decided);
    world.assert_never_over();
    // Far below the rate, and so near full all the time.
    world = alone("1_000_000/s", 1_000_000, 16_000, 10_000_000);
    let [decr, memory, script] = world.decided;
    assert!(decr > 600 && memory == 0 && script < 10, "{:?}", world.decided);
    assert_eq!(world.stray, 0);
}

fn asked(count: u64) -> Asked {
    let terms =
        Terms { pace: Pace { n: 1, p: 1_000_000 }, foreseen: true, tick: 100_000, leeway: 0, stay: 100_000 };
    Asked { count, sent: 0, terms, epoch: 0 }
}

fn denied() -> Settled {
    Settled {
        verdict: Verdict::Denied,
        tokens: 0,
        capacity: 5,
        wait: 500_000,
        headroom: 5_000_000,
        granted: 0,
        counting: true,
        now: EPOCH,
    }
}

#[test]
fn a_denial_ends_with_its_time_and_with_another_epoch() {
    let known = Known::learned(&denied(), asked(2), 9);
    // Promised for when the answer came and so much later.
    let denial = Denial { tokens: 0, capacity: 5, wait: 500_009 };
    assert_eq!(known.denial(asked(2)), Some(denial));
    assert_eq!(known.denial(asked(3)), Some(Denial { wait: 1_500_009, ..denial }));
    assert_eq!(known.denial(asked(1)), None, "fewer may be there");
    assert_eq!(known.denial(asked(6)), None, "more than fits is for Redis to refuse");
    assert_eq!(known.denial(Asked { sent: 500_000, ..asked(2) }), None);
    assert_eq!(known.denial(Asked { epoch: 1, ..asked(2) }), None);
}

#[test]
fn whoever_takes_the_last_token_knows_when_the_next_one_comes() {
    let last = Settled { verdict: Verdict::Allowed, granted: 3, ..denied() };
    let known = Known::learned(&last, asked(3), 9);
    assert_eq!(known.denial(asked(1)), Some(Denial { tokens: 0, capacity: 5, wait: 500_009 }));
}

#[test]
fn an_answer_that_a_later_one_has_overtaken_tells_nothing_of_now() {
    let allowed = Settled { verdict: Verdict::Allowed, tokens: 4, wait: 0, headroom: 1_000_000, ..denied() };
    let mut known = Known::learned(&allowed, Asked { sent: 50, ..asked(1) }, 90);
    known.taken(0, 1, Asked { sent: 10, ..asked(1) }, 100);
    let bare = |known: Known, sent| known.below_full(1, Asked { sent, ..asked(1) }, false);
    assert!(
        bare(known, 922_800),
        "a second, but for a clock's error and a sixteenth that others may put back"
    );
    assert!(!bare(known, 923_000));
    known.taken(3, 1, Asked { sent: 60, ..asked(1) }, 110);
    assert!(bare(known, 1_845_000), "one token less, one second more");
}

#[test]
fn a_long_denial_is_asked_about_again() {
    let known = Known::learned(&Settled { wait: 60_000_000, ..denied() }, asked(1), 9);
    let at = |sent| known.denial(Asked { sent, ..asked(1) });
    assert_eq!(at(TRUST - 1).map(|denial| denial.wait), Some(60_000_009 - TRUST + 1));
    assert_eq!(at(TRUST), None);
}
