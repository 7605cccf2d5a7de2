//! Walks `tests/config`: each `x.toml` stands beside `x.expected`, the problems that it must have.

use std::{fs, path::Path};

use crate::config::{Config, Problem};

/// Each config in `folder` with its name, its text and the expected lines.
pub(super) fn fixtures(folder: &str) -> Vec<(String, String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/config").join(folder);
    let paths = fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path());
    let (configs, others): (Vec<_>, Vec<_>) =
        paths.partition(|path| path.extension().is_some_and(|extension| extension == "toml"));
    assert!(!configs.is_empty() && configs.len() == others.len(), "every .toml has its .expected");
    let read =
        |path: &Path| fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    configs.iter().map(|path| (name(path), read(path), read(&path.with_extension("expected")))).collect()
}

#[test]
fn valid_configs_are_accepted_with_the_expected_warnings() {
    for (name, text, expected) in fixtures("valid") {
        let config = Config::parse(&text, &name).unwrap_or_else(|problems| panic!("{name}:\n{problems}"));
        let warnings: Vec<String> = config.warnings.iter().map(Problem::to_string).collect();
        assert_eq!(warnings.join("\n"), expected.trim_end(), "{name}");
    }
}

#[test]
fn invalid_configs_are_refused_with_all_the_expected_messages() {
    for (name, text, expected) in fixtures("invalid") {
        let problems = Config::parse(&text, &name).expect_err(&name).to_string();
        assert_eq!(problems, expected.trim_end(), "{name}:\n{problems}");
    }
}
