//! The first takes after a change of terms cost their tokens, and no more.

use topup_sim::run_headroom;

#[test]
fn the_first_takes_after_a_change_cost_their_tokens_and_no_more() {
    for (rates, token_time) in [([1, 2], 500_000), ([2, 1], 1_000_000)] {
        let untouched = run_headroom(rates, 0).unwrap();
        for takers in 1..=3 {
            let more = run_headroom(rates, takers).unwrap() - untouched;
            assert!(more.abs_diff(takers as u64 * token_time) <= 1, "{rates:?}, {takers}: {more} µs");
        }
    }
}
