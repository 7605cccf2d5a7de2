//! A page of the docs, run as a reader would: its shell snippets in order, against the output that follows each.

use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::{SOON, cargo};

/// The line that the shell prints after each snippet.
const END: &str = "-- end of the snippet --";
/// Stands in a page for what differs from run to run.
const ANYTHING: char = '…';

/// A snippet, and the output that the page shows for it.
#[derive(Debug, Default)]
struct Snippet {
    commands: String,
    output: String,
}

/// A shell whose children end with it.
struct Shell(Child);

/// Runs the snippets of the page at `path`, and compares their output.
///
/// # Panics
///
/// If an output is another, or the shell does not end in time.
pub async fn run(path: &Path) {
    let text = std::fs::read_to_string(path).expect("the page is there");
    let snippets = snippets(&text);
    assert!(!snippets.is_empty(), "{} has no snippet", path.display());
    let output = run_in_shell(&snippets).await;
    let outputs: Vec<&str> = output.split(END).map(str::trim).collect();
    for (at, snippet) in snippets.iter().enumerate() {
        let seen = outputs.get(at).copied().unwrap_or_default();
        assert!(
            is_like(seen, &snippet.output),
            "{}\ngave\n{seen}\nand not\n{}",
            snippet.commands,
            snippet.output
        );
    }
}

/// The output of the snippets, one after the other.
async fn run_in_shell(snippets: &[Snippet]) -> String {
    let dir = tempfile::tempdir().expect("a temp folder");
    let programs = cargo::topupd().parent().expect("the program is in a folder");
    let paths = std::env::var("PATH").unwrap_or_default();
    // In the environment of a daemon, since the shell starts one.
    let command = topup_lab::Daemon::command(Path::new("/bin/bash")).expect("bash is there");
    let mut command = Command::from(command);
    command.current_dir(dir.path()).env("PATH", format!("{}:{paths}", programs.display()));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).kill_on_drop(true);
    let mut shell = Shell(command.spawn().expect("bash is there"));
    let mut script = "exec 2>&1\n".to_owned();
    for snippet in snippets {
        script += &format!("{}\necho '{END}'\n", snippet.commands);
    }
    let mut stdin = shell.0.stdin.take().expect("stdin is piped");
    stdin.write_all(script.as_bytes()).await.expect("the shell reads");
    drop(stdin);
    let mut stdout = shell.0.stdout.take().expect("stdout is piped");
    let mut output = Vec::new();
    let read = tokio::io::AsyncReadExt::read_to_end(&mut stdout, &mut output);
    let ended = timeout(2 * SOON, read).await;
    let output = String::from_utf8_lossy(&output).into_owned();
    assert!(ended.is_ok(), "the page does not end:\n{output}");
    output
}

/// The shell snippets of a page, each with the text that follows it.
fn snippets(page: &str) -> Vec<Snippet> {
    let mut snippets: Vec<Snippet> = Vec::new();
    let mut kind = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), kind) {
            (Some(name), None) => {
                kind = Some(name);
                if name == "sh" {
                    snippets.push(Snippet::default());
                }
            }
            (Some(_), Some(_)) => kind = None,
            (None, Some("sh")) => push(snippets.last_mut().map(|snippet| &mut snippet.commands), line),
            (None, Some("text")) => push(snippets.last_mut().map(|snippet| &mut snippet.output), line),
            _ => {}
        }
    }
    snippets
}

fn push(text: Option<&mut String>, line: &str) {
    if let Some(text) = text {
        text.push_str(line);
        text.push('\n');
    }
}

/// Whether `seen` is `shown`, whatever stands for the dots.
fn is_like(seen: &str, shown: &str) -> bool {
    let mut rest = seen.trim();
    let parts: Vec<&str> = shown.trim().split(ANYTHING).collect();
    for (at, part) in parts.iter().enumerate() {
        let found = if at == 0 { rest.starts_with(part).then_some(0) } else { rest.find(part) };
        let Some(found) = found else { return false };
        rest = &rest[found + part.len()..];
    }
    rest.is_empty()
        || parts.len() > 1 && parts.last().is_some_and(|last| last.is_empty() || seen.ends_with(last))
}

impl Drop for Shell {
    fn drop(&mut self) {
        if let Some(group) = self.0.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            // It may have ended.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_what_the_page_shows_but_for_the_dots() {
        assert!(
            is_like("a\n", "a")
                && is_like("retry after 59s 9ms", "retry after 5…")
                && is_like("a1b2c", "a…b…c")
        );
        assert!(!is_like("ab", "a") && !is_like("b", "a") && !is_like("a1", "a…b") && !is_like("", "a"));
    }

    #[test]
    fn a_snippet_is_followed_by_its_output() {
        let found = snippets("x\n```sh\na\nb\n```\n```toml\nc\n```\n```text\nd\n```\n```sh\ne\n```\n");
        let found: Vec<_> = found.iter().map(|snippet| (&*snippet.commands, &*snippet.output)).collect();
        assert_eq!(found, [("a\nb\n", "d\n"), ("e\n", "")]);
    }
}
