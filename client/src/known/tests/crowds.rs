//! What is taken ahead for a crowd, and put back, is never too much, and nobody who knows of the bucket is misled by it.

use super::*;

fn crowded_steps() -> impl Strategy<Value = Vec<Step>> {
    let worker = 0..WORKERS;
    let step = prop_oneof![
        4 => (0..25_u64).prop_map(Step::Wait),
        1 => (0..3_000_u64).prop_map(Step::Wait),
        1 => Just(Step::Refill),
        1 => prop_oneof![0..2_000_u64, 0..200_000_u64, Just(1_000_000)].prop_map(Step::Rival),
        6 => (worker.clone(), 1..300_u64).prop_map(|(worker, takes)| Step::Crowd(worker, takes)),
        3 => (worker.clone(), 1..40_u64).prop_map(|(worker, takes)| Step::Together(worker, takes)),
        6 => (worker.clone(), 1..900_u64).prop_map(|(worker, takes)| Step::Spend(worker, takes)),
        6 => worker.prop_map(Step::PutBack),
        12 => Just(Step::Arrive),
        12 => (0..4_usize).prop_map(Step::Learn),
    ];
    prop::collection::vec(step, 1..300)
}

fn leased_steps() -> impl Strategy<Value = Vec<Step>> {
    let promptly = |step| vec![step, Step::Arrive, Step::Learn(0), Step::Arrive, Step::Learn(0)];
    let worker = 0..WORKERS;
    let step = prop_oneof![
        4 => (0..900_u64).prop_map(|time| vec![Step::Wait(time)]),
        2 => (0..40_000_u64).prop_map(|time| vec![Step::Pass(time)]),
        1 => Just(vec![Step::Refill]),
        1 => (1..300_u64).prop_map(|count| vec![Step::Rival(count)]),
        6 => (worker.clone(), 1..4_u64).prop_map(move |(worker, takes)| promptly(Step::Crowd(worker, takes))),
        4 => (worker.clone(), 1..40_u64).prop_map(move |(worker, takes)| promptly(Step::Together(worker, takes))),
        6 => (worker.clone(), 1..200_u64).prop_map(|(worker, takes)| vec![Step::Spend(worker, takes)]),
        6 => worker.clone().prop_map(|worker| vec![Step::PutBack(worker), Step::Arrive]),
        1 => worker.prop_map(|worker| vec![Step::PutBack(worker)]),
    ];
    prop::collection::vec(step, 1..200).prop_map(|steps| steps.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_taken_ahead_for_a_crowd_keeps_the_law(
        rate in prop::sample::select(vec!["1/60s", "1/s", "1000/s", "50_000/s", "3_000_000/s", "900_000_000/s"]),
        spent in prop_oneof![0..5_000_u64, 0..1_000_000_u64], tick in prop_oneof![Just(2_000_u64), Just(100_000)],
        fast in prop_oneof![Just(0_i64), Just(10), Just(-10)], steps in crowded_steps(),
    ) {
        let mut world = World::new(rate.parse().unwrap(), 1_000_000, tick, fast);
        world.take(Step::Rival(spent));
        steps.into_iter().for_each(|step| world.take(step));
        world.assert_never_over();
    }

    /// However much is leased, and for however long.
    #[test]
    fn what_is_leased_and_put_back_keeps_the_law(
        rate in prop::sample::select(vec!["1/60s", "7/3s", "100/s", "1000/s", "50_000/s"]), capacity in 20..2_000_u64,
        max in 1..500_u64, ttl in prop_oneof![Just(20_000_u64), Just(1_000_000), Just(60_000_000)],
        fast in prop_oneof![Just(0_i64), Just(10), Just(-10)], steps in leased_steps(),
    ) {
        let mut world = World::new(rate.parse().unwrap(), capacity, 100_000, fast).leased(max, ttl);
        steps.into_iter().for_each(|step| world.take(step));
        world.assert_never_over();
    }

    /// Who has taken while another had leased is not to find the bucket full earlier than it knows.
    #[test]
    fn who_learned_of_a_bucket_while_some_was_leased_knows_no_more_than_is_true(
        rate in prop::sample::select(vec!["1/s", "10/s", "100/s"]), spent in 800..1_400_u64,
        late in -300_i64..300, then in 1..300_u64,
    ) {
        let mut world = World::new(rate.parse().unwrap(), 2_000, 100_000, 0).leased(400, 20_000);
        let promptly = |step| [step, Step::Arrive, Step::Learn(0)];
        let leased = promptly(Step::Crowd(0, 1)).into_iter().chain(promptly(Step::Ask(1, 1)));
        let back = [Step::Wait(300), Step::PutBack(0), Step::Arrive];
        [Step::Rival(spent)].into_iter().chain(leased).chain(back).for_each(|step| world.take(step));
        // It would be full now, but for `late` tokens, with what was leased in it.
        world.take(Step::Pass((spent + 2).saturating_add_signed(late) * 1_000));
        let all = [Step::Together(1, then), Step::Together(1, 900), Step::Together(2, 2_000)].into_iter().flat_map(promptly);
        all.for_each(|step| world.take(step));
        world.together = 0;
        world.assert_never_over();
    }

    /// What was put back brings the instant nearer at which the bucket is full: a worker that learned of it while the
    /// tokens were out, and comes again when it would be full, must not rely on what it knew. Its clock is as slow as one
    /// may be: what is spared for that is not spared for this.
    #[test]
    fn who_learned_of_a_bucket_while_crowds_had_some_of_it_knows_no_more_than_is_true(
        rate in prop::sample::select(vec!["1/s", "10/s", "100/s"]), spent in 300_000..500_000_u64,
        late in -50_i64..200, then in 100..300_u64,
    ) {
        let mut world = World::new(rate.parse().unwrap(), 1_000_000, 100_000, -15);
        let promptly = |step| [step, Step::Arrive, Step::Learn(0)];
        let crowds = [0, 0, 2, 2].into_iter().flat_map(|worker| promptly(Step::Crowd(worker, 40)));
        [Step::Rival(spent)].into_iter().chain(crowds).for_each(|step| world.take(step));
        promptly(Step::Ask(1, 1)).into_iter().for_each(|step| world.take(step));
        prop_assert_eq!(world.decided, [2, 0, 3]);
        let back = [Step::PutBack(0), Step::Arrive, Step::PutBack(2), Step::Arrive];
        [Step::Wait(30)].into_iter().chain(back).for_each(|step| world.take(step));
        // It is full now, but for `late` tokens.
        world.take(Step::Pass((spent + 161).saturating_add_signed(late) * 1_000));
        let all = [then, 900].into_iter().flat_map(|takes| promptly(Step::Together(1, takes)));
        all.chain([Step::Refill, Step::Rival(999_000), Step::Rival(900)]).for_each(|step| world.take(step));
        world.together = 0;
        world.assert_never_over();
    }
}

/// Near full, what a worker keeps in hand for a crowd that goes on and on is soon in the bucket as well.
#[test]
fn what_is_in_hand_near_full_is_a_small_part_of_what_the_law_leaves() {
    let mut world = World::new("50_000/s".parse().unwrap(), 1_000_000, 100_000, 0);
    for _ in 0..600 {
        for worker in 0..WORKERS {
            [Step::Crowd(worker, 1), Step::Arrive, Step::Learn(0)]
                .into_iter()
                .for_each(|step| world.take(step));
        }
        world.take(Step::Wait(10));
    }
    (0..WORKERS).for_each(|worker| world.take(Step::Spend(worker, 1_000_000)));
    [Step::Rival(990_000), Step::Rival(9_000), Step::Rival(900)]
        .into_iter()
        .for_each(|step| world.take(step));
    assert!(world.given() > 1_000_000, "some were in hand");
    (world.late, world.together) = (0, 0);
    world.assert_never_over();
}
