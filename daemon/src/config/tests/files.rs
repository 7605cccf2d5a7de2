//! Configs of several files, and variables in them.

use std::{fs, path::Path};

use tempfile::TempDir;
use topup_wire::limit::LimitName;

use crate::config::{Config, ConfigFiles, Problem};

const API: &str = "[limit.api]\ncapacity = 1\nrate = \"1/s\"\n";
const MAIN: &str = "include_dir = \"conf.d\"\n";

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("conf.d")).unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn problems(folder: &Path) -> Vec<String> {
    match Config::load(&folder.join("config.toml")) {
        Ok(config) => panic!("{config:?}"),
        Err(problems) => problems.0.iter().map(Problem::to_string).collect(),
    }
}

#[test]
fn limits_of_all_files_are_one_config() {
    let main = format!("{MAIN}[daemon]\ntick = \"1s\"\n{API}");
    let user = API.replace("api", "user");
    let foreign = "no TOML at all";
    let folder = folder(&[
        ("config.toml", main.as_str()),
        ("conf.d/20-user.toml", &user),
        ("conf.d/10-sms.toml", &API.replace("api", "sms")),
        ("conf.d/.20-user.toml.swp", foreign),
        ("conf.d/.#20-user.toml", foreign),
        ("conf.d/20-user.toml~", foreign),
        ("conf.d/README", foreign),
    ]);
    let config = Config::load(&folder.path().join("config.toml")).unwrap();
    let names: Vec<&str> = config.limits.keys().map(LimitName::as_str).collect();
    assert_eq!((names, config.warnings.len()), (vec!["api", "sms", "user"], 0));
    assert_eq!(
        config,
        Config {
            ..Config::parse(&format!("{main}{user}{}", API.replace("api", "sms")), "config.toml").unwrap()
        }
    );
}

#[test]
fn without_the_key_no_folder_is_read() {
    let folder = folder(&[("config.toml", API), ("conf.d/10-user.toml", "wrong")]);
    assert_eq!(Config::load(&folder.path().join("config.toml")).unwrap().limits.len(), 1);
}

#[test]
fn a_limit_in_two_files_is_an_error_that_names_both() {
    let folder = folder(&[
        ("config.toml", MAIN),
        ("conf.d/10.toml", &format!("\n\n{API}")),
        ("conf.d/20.toml", &format!("\n{API}")),
    ]);
    let expected = "conf.d/20.toml:2: limit.api: conf.d/10.toml:3 has a limit of that name: remove or rename one of the two";
    assert_eq!(problems(folder.path()), [expected]);
}

#[test]
fn each_problem_names_its_file() {
    let folder = folder(&[
        ("config.toml", &format!("{MAIN}[limit.a]\ncapacity = 0\nrate = \"1/s\"\n")),
        ("conf.d/1.toml", "[redis]\nurl = \"redis://:secret@host\"\n[limit.b]\ncapacity = 1\n"),
        ("conf.d/2.toml", "[limit.c]\ncapacity = 1\nrate = 1/s\n"),
        ("conf.d/3.toml", "name = \"x\"\n[limits.d]\n"),
    ]);
    fs::create_dir(folder.path().join("conf.d/4.toml")).unwrap();
    let found = problems(folder.path());
    let places: Vec<String> =
        found.iter().map(|line| line.split(": ").take(2).collect::<Vec<_>>().join(" ")).collect();
    let expected = [
        "config.toml:3 limit.a.capacity",
        "conf.d/1.toml:1 redis",
        "conf.d/1.toml:3 limit.b.rate",
        "conf.d/2.toml:3 1 is a text without quotes",
        "conf.d/3.toml:1 name",
        "conf.d/3.toml:2 limits",
    ];
    assert_eq!(places[..2], expected[..2], "{found:#?}");
    assert_eq!(places[2], expected[2], "{found:#?}");
    assert!(places[3].starts_with("conf.d/2.toml:3 "), "{found:#?}");
    assert_eq!(places[4..6], expected[4..], "{found:#?}");
    assert!(found[6].starts_with("conf.d/4.toml: cannot be read") && found.len() == 7, "{found:#?}");
    assert!(!found.join(" ").contains("secret"));
}

/// A folder that is gone for a moment must not look like one without limits.
#[test]
fn a_missing_folder_is_an_error_and_an_empty_one_is_none() {
    let folder = folder(&[("config.toml", &format!("{MAIN}{API}"))]);
    assert_eq!(Config::load(&folder.path().join("config.toml")).unwrap().limits.len(), 1);
    fs::remove_dir(folder.path().join("conf.d")).unwrap();
    let found = problems(folder.path());
    assert!(found[0].starts_with("config.toml:1: include_dir: the folder "), "{found:?}");
    // The commands that ask Redis need no limits.
    Config::load_without_limits(&folder.path().join("config.toml")).unwrap();
}

#[test]
fn files_are_equal_if_names_and_content_are() {
    let folder = folder(&[("config.toml", MAIN), ("conf.d/1.toml", API)]);
    let read = || ConfigFiles::read(&folder.path().join("config.toml"));
    let before = read();
    fs::write(folder.path().join("conf.d/1.toml"), API).unwrap();
    assert_eq!(read(), before);
    assert_eq!(before.blank(), None);
    fs::write(folder.path().join("conf.d/2.toml"), "").unwrap();
    assert_ne!(read(), before);
    // It may be half of a write, in which its limits are missing.
    let blank = read().blank().unwrap().to_string();
    assert!(blank.starts_with("conf.d/2.toml:1: the file is empty"), "{blank}");
}

#[test]
fn a_variable_stands_in_the_url_and_nowhere_else() {
    let text = "name = \"${A}\"\n[redis]\nurl = \"redis://:${TOPUP_TEST_UNSET}@host\"\nnamespace = \"${B}\"\n\
                [limit.x]\ncapacity = \"${C}\"\nrate = \"${D}\"\nkeyed = \"${E}\"\nlease = \"${F}\"\n";
    let found = Config::parse(text, "config.toml").unwrap_err();
    let lines: Vec<String> = found.0.iter().map(Problem::to_string).collect();
    assert_eq!(lines.len(), 7, "{lines:#?}");
    let unset = "config.toml:3: redis.url: the environment variable TOPUP_TEST_UNSET is not set: set it for this program, \
                 or write the value itself";
    assert_eq!(lines[1], unset);
    for (line, problem) in lines.iter().enumerate().filter(|(line, _)| *line != 1) {
        assert!(
            problem.contains("stands for an environment variable only in redis.url"),
            "{line}: {problem}"
        );
    }
}

#[test]
fn the_url_has_the_value_of_its_variable() {
    let files = ConfigFiles::of("[redis]\nurl = \"redis://u:${SECRET}@host\"\n", "config.toml");
    let variable = |value: &'static str| move |name: &str| (name == "SECRET").then(|| value.to_owned());
    let config = files.parse_with(&variable("p/w")).unwrap();
    assert_eq!(config.redis_url.as_str(), "redis://u:p%2Fw@host");
    assert!(!format!("{config:?}").contains("p%2Fw"));
    let whole = ConfigFiles::of("[redis]\nurl = \"${SECRET}\"\n", "config.toml");
    let wrong = whole.parse_with(&variable("redis://u:p/w@host:x")).unwrap_err().to_string();
    assert!(
        wrong.starts_with("config.toml:2: redis.url: not a Redis URL") && !wrong.contains("p/w"),
        "{wrong}"
    );
}
