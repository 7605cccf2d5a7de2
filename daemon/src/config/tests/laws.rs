//! Laws of problems, tested on damaged copies of the shipped config.

use proptest::prelude::*;

use crate::config::Config;

const SHIPPED: &str = include_str!("../../../config.toml");

/// The shipped config with some of its characters replaced.
fn damaged() -> impl Strategy<Value = String> {
    let cut = (any::<prop::sample::Index>(), 0_usize..40, "[\\[\\]{}\"'=.#\n a-z0-9\u{e9}-]{0,6}");
    proptest::collection::vec(cut, 1..6).prop_map(|cuts| {
        let mut text: Vec<char> = SHIPPED.chars().collect();
        for (at, length, instead) in cuts {
            let start = at.index(text.len());
            let end = (start + length).min(text.len());
            text.splice(start..end, instead.chars());
        }
        text.into_iter().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_problem_has_a_line_of_the_file_and_fits_on_one(text in damaged()) {
        let found = Config::parse(&text, "config.toml").map_or_else(|problems| problems.0, |config| config.warnings);
        let lines = text.lines().count().max(1);
        for problem in found {
            prop_assert!(problem.line.is_some_and(|line| (1..=lines).contains(&line)), "{problem}");
            prop_assert!(problem.to_string().lines().count() == 1 && !problem.message.is_empty(), "{problem}");
        }
    }
}
