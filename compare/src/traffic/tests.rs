//! Traffic is what it says, and the same each time.

use topup_lab::clock::SECOND;

use super::*;
use crate::oracle::{Ideal, Oracle, Perfect};

fn named(name: &str) -> Traffic {
    all(4.0).into_iter().find(|traffic| traffic.name == name).unwrap()
}

#[test]
fn one_seed_asks_the_same_and_another_does_not() {
    for traffic in all(4.0) {
        assert_eq!(arrivals(&traffic, 7), arrivals(&traffic, 7), "{}", traffic.name);
    }
    assert_ne!(arrivals(&named("poisson"), 7), arrivals(&named("poisson"), 8));
    let certain = named("certain");
    assert_eq!(certain_plan(&certain, 7, Ideal::Bucket), certain_plan(&certain, 7, Ideal::Bucket));
    assert_ne!(certain_plan(&certain, 7, Ideal::Bucket), certain_plan(&certain, 8, Ideal::Bucket));
}

#[test]
fn loads_are_as_they_say() {
    for (name, tokens) in
        [("steady-0.5", 192), ("steady-5", 1_920), ("fast", 30_000), ("slow", 960), ("multi-token", 768)]
    {
        let traffic = named(name);
        let asked: u32 = arrivals(&traffic, 1).iter().map(|arrival| arrival.count).sum();
        assert!(asked.abs_diff(tokens) <= tokens / 8, "{name}: {asked}");
    }
    assert!(arrivals(&named("zipf"), 1).iter().all(|arrival| arrival.key < 100_000));
}

#[test]
fn the_attack_on_the_edge_gets_two_windows_worth_from_a_perfect_fixed_window() {
    let traffic = named("window-edge");
    for ideal in [Ideal::Fixed, Ideal::FixedByFirst] {
        let mut perfect = Perfect::new(&Oracle { ideal, rule: traffic.rule, offset: 0, change: None });
        let first = arrivals(&traffic, 1).into_iter().take_while(|arrival| arrival.at < 2 * SECOND);
        let allowed = first.filter(|arrival| perfect.take(arrival.at, 1)).count();
        assert_eq!(allowed, 100, "{ideal:?}");
    }
}

#[test]
fn a_burst_near_full_is_of_every_worker_and_more_than_the_bucket_holds() {
    for workers in [4, 8, 16, 64] {
        let traffic = named(&format!("near-full-{workers}"));
        let all = arrivals(&traffic, 1);
        let first = all.iter().filter(|arrival| arrival.at < 2 * SECOND);
        assert_eq!(first.count() as u32, 49 * workers + 1_400);
        assert!(all.iter().all(|arrival| arrival.at < traffic.time));
        assert_eq!(traffic.workers, Some(workers));
    }
}

#[test]
fn certain_takes_are_many_and_of_both_answers() {
    for ideal in Ideal::ALL {
        let plan = certain_plan(&named("certain"), 3, ideal);
        let all: Vec<bool> = plan.iter().flatten().map(|(_, allowed)| *allowed).collect();
        let allowed = all.iter().filter(|allowed| **allowed).count();
        assert!(all.len() > 300 && allowed > 100 && allowed < all.len() - 50, "{allowed} of {}", all.len());
    }
}
