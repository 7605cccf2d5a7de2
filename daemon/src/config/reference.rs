//! The reference page of all keys, as Markdown.

use super::keys::{self, ConfigKey, Kind};

const PREFACE: &str = "# Keys of a config

Made by `topupd schema --markdown` from the tables that the parser reads by. [config.toml](../config.toml) shows the keys in
use, [limits.md](limits.md) helps to choose. `topupd check` tells what is wrong with a file, and `topupd plan` what a reload
would change.

## In an editor

`topupd schema` prints a JSON Schema. Editors with Taplo, such as VS Code with Even Better TOML, then complete and check:

```sh
topupd schema > topup.schema.json
```

```toml
#:schema ./topup.schema.json
```

The second is the first line of the config.
";

/// The page.
pub fn reference() -> String {
    let mut page = PREFACE.to_owned();
    add(&mut page, "The file", keys::ROOT);
    for key in keys::ROOT {
        let (title, keys) = match key.kind {
            Kind::Table(keys) => (format!("[{}]", key.name), keys),
            Kind::Limits(keys) => (format!("[{}.NAME]", key.name), keys),
            _ => continue,
        };
        add(&mut page, &format!("`{title}`"), keys);
        for inner in keys {
            match inner.kind {
                Kind::Table(keys) => add(&mut page, &format!("`{}` of a limit", inner.name), keys),
                Kind::Tables(keys) | Kind::Plans(keys) => {
                    add(&mut page, &format!("Each of `{}` of a limit", inner.name), keys);
                }
                Kind::Assigned(keys) => {
                    add(&mut page, &format!("Each of `{}` of a limit, if it is no text", inner.name), keys);
                }
                _ => {}
            }
        }
    }
    page
}

fn add(page: &mut String, title: &str, keys: &[ConfigKey]) {
    page.push_str(&format!("\n## {title}\n\n| key | value | default | meaning |\n|---|---|---|---|\n"));
    for key in keys {
        let absent = if key.is_needed { "required" } else { "" };
        let default = key.default.map_or(absent.to_owned(), |default| format!("`{default}`"));
        page.push_str(&format!("| `{}` | {} | {default} | {} |\n", key.name, kind(key), key.about));
    }
}

fn kind(key: &ConfigKey) -> String {
    match key.kind {
        Kind::Text | Kind::Form(_) => "text".to_owned(),
        Kind::Words(words) => words().iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Kind::Whole(least, most) => format!("{least} to {most}"),
        Kind::Flag => "`true`, `false`".to_owned(),
        Kind::Table(_) => "table".to_owned(),
        Kind::Tables(_) => "list of tables".to_owned(),
        Kind::Limits(_) | Kind::Plans(_) => "tables".to_owned(),
        Kind::Assigned(_) => "texts or tables".to_owned(),
        Kind::Weights(most) => format!("1 to {most} each"),
        Kind::Instant => "date".to_owned(),
    }
}
