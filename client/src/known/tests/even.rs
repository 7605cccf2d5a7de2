//! A bucket that is asked for less than time brings stays even, whoever credits it and when: no script is asked, and what it
//! has not lost yet is nobody's.

use super::*;

/// Asks, and has the answer at once.
fn ask(worker: usize, takes: u64) -> [Step; 3] {
    [Step::Together(worker, takes), Step::Arrive, Step::Learn(0)]
}

/// Somebody else takes all there is.
fn everything() -> impl Iterator<Item = Step> {
    (0..9).rev().map(|power| Step::Rival(1 << power))
}

/// Steps of workers that take below the rate for long, and then, one after the other, as much as each thinks it may;
/// whereupon somebody else takes all that can be had.
fn even_steps() -> impl Strategy<Value = Vec<Step>> {
    let calm = (0..WORKERS, 0..300_u64).prop_map(move |(worker, time)| {
        [Step::Wait(time)].into_iter().chain(ask(worker, 1)).collect::<Vec<_>>()
    });
    let takes = prop::sample::select(vec![1_u64, 1, 2, 5, 7, 50]);
    let burst = prop::collection::vec((takes, 0..8_usize), WORKERS).prop_map(move |turns| {
        let turns = turns.into_iter().enumerate();
        let turns =
            turns.flat_map(|(worker, (takes, times))| vec![ask(worker, takes).to_vec(); times].concat());
        turns.chain(everything()).collect()
    });
    let pause = (0..2_500_u64).prop_map(|thousandths| vec![Step::Wait(thousandths)]);
    let credit = prop::sample::select(vec![Step::Refill, Step::Rival(1)]).prop_map(|step| vec![step]);
    let step = prop_oneof![30 => calm, 2 => burst, 2 => pause, 2 => credit];
    prop::collection::vec(step, 1..200).prop_map(|steps| steps.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// However long nobody has credited a bucket that loses tokens all the while.
    #[test]
    fn what_a_bucket_near_full_has_not_lost_yet_is_nobodys(
        rate in prop::sample::select(vec!["100/s", "1000/s", "70/s"]),
        capacity in 20..500_u64, fast in prop_oneof![Just(0_i64), Just(10), Just(-10)], steps in even_steps(),
    ) {
        let mut world = World::new(rate.parse().unwrap(), capacity, 100_000, fast);
        steps.into_iter().for_each(|step| world.take(step));
        world.together = 0;
        world.assert_never_over();
    }
}

/// Asks as often as chance has it, `asks` times a tick of 100 ms, by some of the workers; a daemon comes by each tick.
fn steady(rate: &str, workers: usize, asks: u64, seed: u64) -> World {
    let mut world = World::new(rate.parse().unwrap(), 1_000_000, 100_000, 0);
    let mut random = seed;
    for thousandth in 0..200_000_u64 {
        // The lowest bits of such a row are no good.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if (random >> 33) % 1_000 < asks {
            let worker = (random >> 20) as usize % workers;
            [Step::Ask(worker, 1), Step::Arrive, Step::Learn(0)]
                .into_iter()
                .for_each(|step| world.take(step));
        }
        if thousandth % 1_000 == 0 {
            world.take(Step::Refill);
        }
        world.take(Step::Wait(1));
    }
    world
}

/// However near full, and however seldom a daemon comes along for it.
#[test]
fn below_its_rate_a_bucket_is_hardly_ever_settled() {
    for (workers, most) in [(1, 2.0), (2, 8.0), (3, 11.0)] {
        let world = steady("100/s", workers, 7, 42);
        let [decr, memory, script] = world.decided;
        let part = 100.0 * f64::from(script) / f64::from(decr + script);
        assert!(memory == 0 && part < most, "{workers} workers: {part:.1} % of {:?}", world.decided);
        world.assert_never_over();
    }
}

/// A bucket of 500 tokens and 100/s, of which each of the workers knows, and has taken a few after the other.
fn known_to_all() -> World {
    let mut world = World::new("100/s".parse().unwrap(), 500, 100_000, 0);
    for turn in 0..60 {
        ask(turn % WORKERS, 1).into_iter().for_each(|step| world.take(step));
        world.take(Step::Wait(150));
    }
    world
}

#[test]
fn workers_that_come_at_once_after_a_while_are_each_to_take_a_few() {
    let mut world = known_to_all();
    world.take(Step::Wait(3_000));
    let all = (0..WORKERS).flat_map(|worker| ask(worker, 5)).chain(everything());
    all.for_each(|step| world.take(step));
    world.together = 0;
    world.assert_never_over();
}

/// Each of the workers, one after the other, takes what it may by bare commands, and then somebody everything.
fn as_much_as_they_may(mut world: World) -> World {
    for worker in 0..WORKERS {
        loop {
            let mut after = world.clone();
            ask(worker, 1).into_iter().for_each(|step| after.take(step));
            // A script would credit it: that is left to those who come for the rest.
            if after.decided[2] > world.decided[2] {
                break;
            }
            world = after;
        }
    }
    everything().for_each(|step| world.take(step));
    world.together = 0;
    world
}

#[test]
fn what_others_take_is_seen_in_the_count() {
    as_much_as_they_may(known_to_all()).assert_never_over();
}

#[test]
fn what_others_take_may_be_hidden_by_what_a_script_has_credited() {
    let mut world = known_to_all();
    [Step::Rival(1), Step::Wait(3_000)].into_iter().for_each(|step| world.take(step));
    as_much_as_they_may(world).assert_never_over();
}

/// As much more as time seems to bring by a clock that is fast, for as long as it takes to be too much.
#[test]
fn a_clock_that_is_fast_does_not_make_a_bucket_even() {
    let mut world = World::new("100/s".parse().unwrap(), 10_000, 100_000, 15);
    ask(0, 1).into_iter().for_each(|step| world.take(step));
    world.take(Step::Wait(3_000));
    for _ in 0..4_000 {
        ask(0, 1).into_iter().for_each(|step| world.take(step));
        world.now += 9_930;
    }
    (0..5).map(|power| Step::Rival(8_192 >> power)).chain(everything()).for_each(|step| world.take(step));
    world.assert_never_over();
}

#[test]
fn an_answer_that_is_late_does_not_say_that_a_bucket_is_even() {
    let pace = Pace { n: 1, p: 10_000 };
    let terms = Terms { pace, foreseen: true, tick: 100_000, leeway: 5, stay: 1_600_000 };
    let asked = |sent| Asked { count: 1, sent, terms, epoch: 0 };
    let settled = Settled {
        verdict: Verdict::Allowed,
        tokens: 90,
        capacity: 100,
        wait: 0,
        headroom: 100_000,
        granted: 1,
        counting: true,
        now: EPOCH,
    };
    let may_take =
        |received| Known::learned(&settled, asked(0), received).below_full(1, asked(900_000), false);
    assert!(may_take(70_000));
    assert!(!may_take(890_000), "others may have taken what time has brought");
}
