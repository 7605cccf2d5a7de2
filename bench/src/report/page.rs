//! Pages of docs: what was run, on what, when, and the tables.

use std::{fs, path::Path, process::Command};

use topup_lab::output::tell;

use super::sections::replaced;
use crate::cpu;

/// The lockfile of the program with the rivals: it knows the versions of what is compared.
const LOCK: &str = include_str!("../../rivals/Cargo.lock");

/// Facts on which the figures depend.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    pub(crate) redis: String,
    /// Limiters that could not be measured, and why.
    pub(crate) left_out: Vec<String>,
}

/// Puts `sections` on the page `name` in `docs`, in place of those of the same titles, in the order of `titles`.
pub(crate) fn put(
    docs: &Path,
    name: &str,
    preface: &str,
    sections: &[String],
    titles: &[&str],
) -> anyhow::Result<()> {
    let path = docs.join(name);
    let old = fs::read_to_string(&path).unwrap_or_default();
    fs::write(&path, replaced(preface, &old, sections, titles))?;
    tell(&format!("written: docs/{name}"));
    Ok(())
}

/// The command, the day, the versions and the machine of a page. `crates` are in the lockfile, `versions` are not.
pub(crate) fn written(command: &str, redis: &str, crates: &[&str], versions: &[String]) -> String {
    let mut all: Vec<String> = crates.iter().filter_map(|name| version(name)).collect();
    all.extend_from_slice(versions);
    format!(
        "Written by `{command}` on {date}. Versions: Redis {redis}, {versions}. Machine: {cpus} CPUs ({model}), Linux {kernel}.",
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
        assert!(
            ["topup", "redis", "limitador", "trypema", "governor", "tokio"]
                .iter()
                .all(|name| version(name).is_some())
        );
    }
}
