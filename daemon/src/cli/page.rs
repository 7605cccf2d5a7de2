//! The page `docs/cli.md`, from the texts of the help. A test says when it is out of date, and writes it anew.

use std::{env, fs, path::Path};

use clap::{Command, CommandFactory};

use super::command::Cli;

const HEAD: &str = "\
# Command line

The help of each command of `topupd`, as `topupd COMMAND --help` prints it. A test compares this page with the program, and
writes it if `TOPUP_WRITE_PAGES` is set: `TOPUP_WRITE_PAGES=1 cargo test -p topupd --lib cli::page`.

With `--json`, answers and errors are one JSON value on standard output, and standard error stays empty. An error is

```json
{\"error\": {\"kind\": \"undecided\", \"exit_code\": 2, \"message\": \"no limit usr is published: did you mean user? …\"}}
```

`kind` is `usage`, `config` or `undecided`. An error of `check` and `plan` has all `problems`, each with `file`, `line`, `key` and `message`.
";

fn page() -> String {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut page = HEAD.to_owned();
    add(&mut page, "topupd", &mut command);
    for command in command.get_subcommands_mut() {
        let title = format!("topupd {}", command.get_name());
        add(&mut page, &title, command);
    }
    page
}

fn add(page: &mut String, title: &str, command: &mut Command) {
    let help = command.clone().term_width(100).render_long_help().to_string();
    let help: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    *page += &format!("\n## {title}\n\n```text\n{}\n```\n", help.join("\n"));
}

#[test]
fn the_page_of_the_command_line_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cli.md");
    if env::var_os("TOPUP_WRITE_PAGES").is_some() {
        fs::write(&path, page()).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page(), "docs/cli.md is out of date: set TOPUP_WRITE_PAGES=1 and run this test again");
}

#[test]
fn every_command_has_an_example_and_no_line_is_wider_than_a_page() {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    for command in command.get_subcommands_mut() {
        let help = command.clone().term_width(100).render_long_help().to_string();
        let example = format!("  topupd {}", command.get_name());
        assert!(help.contains("Example") && help.contains(&example), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
}
