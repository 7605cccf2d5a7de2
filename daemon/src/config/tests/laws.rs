//! Laws of problems, tested on damaged copies of the shipped config.

use proptest::prelude::*;

use crate::config::{Config, ConfigFiles, files::SourceFile};

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

    /// Files of the folder hold limits only, so each damaged copy has problems.
    #[test]
    fn every_problem_of_a_folder_names_its_file_and_line(text in damaged()) {
        let lines = text.lines().count().max(1);
        let source = |name: &str, text: String| SourceFile { name: name.to_owned(), text: Ok(text) };
        let own = "include_dir = \"conf.d\"\n[limit.own]\ncapacity = 1\nrate = \"1/s\"\n";
        let mut files = ConfigFiles::of(own, "config.toml");
        files.included = Ok(vec![source("conf.d/1.toml", String::new()), source("conf.d/2.toml", text)]);
        let problems = files.parse_with(&|_| None).unwrap_err().0;
        prop_assert!(!problems.is_empty());
        for problem in problems {
            let is_located = problem.line.is_some_and(|line| (1..=lines).contains(&line));
            prop_assert!(is_located && problem.file == "conf.d/2.toml", "{problem}");
        }
    }
}
