//! Advice as a change of the config: its text with other values, comments kept, and the difference as a patch.

use anyhow::{Context, bail};
use similar::TextDiff;
use toml_edit::{DocumentMut, Item, TableLike, Value};
use topup_daemon::config::Config;
use topup_wire::limit::LimitName;

use super::{Advice, Change};

/// Lines around a change, as `diff -u` has.
const CONTEXT: usize = 3;

/// The patch of `text`, the content of the config `file`, that follows `advice`. Empty if there is nothing to change.
/// A change that the config would then be refused for is left out.
///
/// # Errors
/// If the file is no TOML.
pub fn patch(file: &str, text: &str, advice: &[Advice]) -> anyhow::Result<String> {
    let mut changed = text.to_owned();
    for Advice { limit, changes, .. } in advice {
        for change in changes {
            let next = with(&changed, limit, change).with_context(|| file.to_owned())?;
            if Config::parse(&next, file).is_ok() {
                changed = next;
            }
        }
    }
    let patch = TextDiff::from_lines(text, changed.as_str());
    Ok(patch.unified_diff().context_radius(CONTEXT).header(file, file).to_string())
}

/// `text` with a key of the limit changed or added.
fn with(text: &str, limit: &str, change: &Change) -> anyhow::Result<String> {
    let mut config: DocumentMut = text.parse()?;
    let Some(table) = table(&mut config, limit) else {
        bail!("limit {limit} has no table in this file: name the file that has it")
    };
    let mut value: Value = change.value.parse()?;
    match table.get_mut(change.key).and_then(Item::as_value_mut) {
        Some(before) => {
            *value.decor_mut() = before.decor().clone();
            *before = value;
        }
        None => drop(table.insert(change.key, value.into())),
    }
    Ok(config.to_string())
}

fn table<'c>(config: &'c mut DocumentMut, limit: &str) -> Option<&'c mut dyn TableLike> {
    let name: LimitName = limit.parse().ok()?;
    config.get_mut("limit")?.as_table_like_mut()?.get_mut(name.as_str())?.as_table_like_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# All of it.\n[redis]\nurl = \"redis://a\"\n\n[limit.api] # ours\ncapacity = 8 # at once\nrate = \"1/s\"\n\
                        algorithm = \"token-bucket\" # why not\n\n[[limit.api.schedule]]\ncron = \"0 0 22 * * *\"\nrate = \"2/s\"\n\n\
                        # Last.\n[limit.\"a.b\"]\ncapacity = 5\nrate = \"1/s\"\n# The end.\n";

    fn advice(limit: &str, changes: &[(&'static str, &str)]) -> Vec<Advice> {
        let change = |(key, value): &(&'static str, &str)| Change { key, value: (*value).to_owned() };
        vec![Advice {
            limit: limit.to_owned(),
            changes: changes.iter().map(change).collect(),
            ..Advice::default()
        }]
    }

    #[test]
    fn a_value_changes_and_everything_around_it_stays() {
        let patch = patch("config.toml", TEXT, &advice("api", &[("algorithm", "\"gcra\"")])).unwrap();
        let lines: Vec<&str> = patch.lines().filter(|line| !line.starts_with(' ')).collect();
        let expected = [
            "--- config.toml",
            "+++ config.toml",
            "@@ -5,7 +5,7 @@",
            "-algorithm = \"token-bucket\" # why not",
            "+algorithm = \"gcra\" # why not",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_new_key_stands_at_the_end_of_its_table() {
        let both = [("algorithm", "\"gcra\""), ("lease", "{ max = 2 }")];
        let patch = patch("config.toml", TEXT, &advice("a.b", &both)).unwrap();
        // With gcra there is no lease.
        let lines: Vec<&str> = patch.lines().filter(|line| line.starts_with('+')).collect();
        assert_eq!(lines, ["+++ config.toml", "+algorithm = \"gcra\""]);
        assert!(patch.contains(" rate = \"1/s\"\n+algorithm"), "{patch}");
    }

    #[test]
    fn nothing_to_change_is_an_empty_patch() {
        assert_eq!(patch("config.toml", TEXT, &advice("api", &[])).unwrap(), "");
        assert_eq!(patch("config.toml", TEXT, &advice("api", &[("capacity", "0")])).unwrap(), "");
        let error = patch("config.toml", TEXT, &advice("c", &[("capacity", "1")])).unwrap_err();
        assert!(format!("{error:#}").contains("limit c has no table in this file"), "{error:#}");
    }
}
