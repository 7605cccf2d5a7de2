//! Every target runs its corpus, and mutations of it.

use topup_fuzz::target::Target;

/// Executions of each target: some seconds for all of them.
const EXECUTIONS: u64 = 1_500;

#[test]
fn no_parser_panics() {
    let seed = std::env::var("TOPUP_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for target in Target::ALL {
        assert!(target.corpus().unwrap().len() >= 3, "{target:?} has no corpus");
        target.run(seed, |executions| executions < EXECUTIONS).unwrap();
    }
}
