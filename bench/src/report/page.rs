//! A page of docs: what was run, on what, when, and the tables.

use std::{fs, path::Path, process::Command};

use topup_measure::{Table, wrapped};

use crate::{cli::Choices, cpu};

/// The lockfile that this program was built with: it knows the versions of what is compared.
const LOCK: &str = include_str!("../../Cargo.lock");
const COMPARED: [&str; 6] = ["topup", "redis", "limitador", "trypema", "governor", "tokio"];

/// What the figures depend on.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    pub(crate) redis: String,
    /// What could not be measured, and why.
    pub(crate) left_out: Vec<String>,
}

/// A page in the making.
#[derive(Debug)]
pub(crate) struct Page {
    text: String,
}

// === impl Page ===

impl Page {
    pub(crate) fn new(preface: &str, choices: &Choices, around: &Surroundings) -> Self {
        let command = format!("scripts/bench {}", choices.options(choices.rounds));
        let mut page = Self { text: format!("{preface}\n") };
        page.say(&written(&command, &around.redis, &COMPARED, &choices.found.versions));
        if !around.left_out.is_empty() {
            page.say(&format!("Left out: {}.", around.left_out.join("; ")));
        }
        page
    }

    /// Adds a paragraph's worth of words.
    pub(crate) fn say(&mut self, sentence: &str) {
        self.text.push_str(&wrapped(sentence));
    }

    /// Adds a table.
    pub(crate) fn add(&mut self, table: &Table) {
        self.text.push_str(&format!("\n{table}"));
    }

    /// Writes it to `name` in `docs`.
    pub(crate) fn write(&self, docs: &Path, name: &str) -> anyhow::Result<()> {
        Ok(fs::write(docs.join(name), &self.text)?)
    }
}

/// What wrote a page, when, and where: `crates` are of the lockfile, `versions` of what is in none.
pub(crate) fn written(command: &str, redis: &str, crates: &[&str], versions: &[String]) -> String {
    let mut all: Vec<String> = crates.iter().filter_map(|name| version(name)).collect();
    all.extend_from_slice(versions);
    format!(
        "Written by `{command}` on {date}: Redis {redis}, {versions}; {cpus} CPUs ({model}), Linux {kernel}.",
        date = output("date", &["-u", "+%Y-%m-%d"]),
        versions = all.join(", "),
        cpus = cpu::count(),
        model = cpu_model(),
        kernel = output("uname", &["-r"]),
    )
}

/// The version of the `redis-server` that is started here.
pub(crate) fn installed_redis() -> String {
    let said = output("redis-server", &["--version"]);
    let version = said.split_whitespace().find_map(|word| word.strip_prefix("v="));
    version.unwrap_or("of unknown version").to_owned()
}

fn version(package: &str) -> Option<String> {
    let entry = LOCK.split("[[package]]").filter(|entry| entry.contains(&format!("name = \"{package}\"\n")));
    // The newest, where there are several: the others are somebody's dependency.
    let versions = entry.filter_map(|entry| entry.split("version = \"").nth(1)?.split('"').next());
    Some(format!("{package} {}", versions.last()?))
}

fn output(program: &str, args: &[&str]) -> String {
    let said = Command::new(program).args(args).output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&said).trim().to_owned()
}

fn cpu_model() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or_else(|| "of unknown model".to_owned(), |(_, name)| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_lockfile() {
        assert!(COMPARED.iter().all(|name| version(name).is_some()));
    }
}
