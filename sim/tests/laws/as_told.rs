//! A caller that waits as long as a denial tells finds its token.

use topup_sim::{Ask, Network, Plan, Promise, SECOND, Stream, run, story};

const MS: u64 = 1_000;
/// Tokens a whole number of µs apart, and not. The last bucket soon begins to count.
const TERMS: [Promise; 5] = [
    Promise::new(2, 1, 250 * MS),
    Promise::new(20, 10, SECOND),
    Promise::new(3, 1, SECOND),
    Promise::new(3, 7, SECOND),
    Promise::new(100, 100, SECOND),
];
/// One way to Redis, in µs, at least and at most.
const TRIPS: [(u64, u64); 4] = [(40, 300), (1_000, 5_000), (100, 30_000), (40, 60_000)];

#[test]
fn a_lone_caller_that_waits_as_told_is_allowed() {
    for (seed, terms) in (0..40).flat_map(|seed| TERMS.map(|terms| (seed, terms))) {
        for trip in TRIPS {
            let mut plan = Plan::calm(seed, 1, terms);
            plan.network = Network { trip, ..Network::CALM };
            // All tokens at once or one by one, and then each that comes.
            for ask in [Ask::Take(if seed % 2 == 0 { terms.capacity } else { 1 }, 0), Ask::AsTold(false)] {
                plan.traffic.push(Stream::Once { at: 10 * MS, worker: 0, ask });
            }
            let outcome = run(&plan, None);
            let told = outcome.broken.as_ref().map(|broken| story(&plan, None, broken));
            assert!(told.is_none(), "{terms:?}, {trip:?}: {}", told.unwrap_or_default());
            assert!(outcome.counts.admitted > 5, "{terms:?}: {:?}", outcome.counts);
        }
    }
}
