//! From the files of a config to the checked config.

use std::collections::BTreeMap;

use topup_wire::{limit::LimitName, namespace::Namespace};

use super::{
    Config, admin, check_limit,
    diagnostics::Diagnostics,
    files::{ConfigFiles, SourceFile},
    keys,
    problem::{Problem, Problems},
    raw_limit::RawLimit,
    raw_table::{Located, RawTable},
    redis_url::RedisUrl,
    syntax, times,
    variables::{self, Variables},
};

/// The limits of all files read so far, checked or not, with file and line.
type Places = BTreeMap<LimitName, String>;

// === impl ConfigFiles ===

impl ConfigFiles {
    /// Parses and checks the files. Variables are those of this process.
    ///
    /// # Errors
    /// All problems of all files, each file's in order of lines.
    pub fn parse(&self) -> Result<Config, Problems> {
        self.parse_with(&variables::of_process)
    }

    pub(super) fn parse_with(&self, variables: Variables<'_>) -> Result<Config, Problems> {
        let text = self.main_text()?;
        let (entries, syntax_errors) = syntax::parse(text);
        let diagnostics = Diagnostics::new(text, &self.main.name, syntax_errors);
        let mut places = Places::new();
        let (mut errors, mut warnings) = (Vec::new(), Vec::new());
        let mut config = Config::default();
        if !diagnostics.has_unclosed_bracket() {
            let root = RawTable::root(&entries, &diagnostics);
            config = read(&root, variables);
            // Its value names the folder that has been read.
            let include_dir = root.text::<String>("include_dir");
            read_limits(&root, &mut config, &mut places, variables);
            match (&self.included, include_dir) {
                (Ok(files), _) => {
                    for file in files {
                        include(file, &mut config, &mut places, (&mut errors, &mut warnings), variables);
                    }
                }
                (Err(unreadable), Some(key)) => root.error(&key.location, unreadable),
                (Err(_), None) => {}
            }
            if places.is_empty() && config.limits.is_empty() {
                let advice = "add a table such as [limit.api]";
                root.warn(format!("no limit is defined, so there is nothing to top up: {advice}"));
            }
        }
        let (mut all_errors, mut all_warnings) = diagnostics.finish();
        all_errors.append(&mut errors);
        all_warnings.append(&mut warnings);
        if all_errors.is_empty() {
            Ok(Config { warnings: all_warnings, ..config })
        } else {
            Err(Problems(all_errors))
        }
    }

    /// As [`Config::load_without_limits`].
    pub(super) fn parse_without_limits(&self) -> Result<Config, Problems> {
        let text = self.main_text()?;
        // Files of the folder say nothing of Redis.
        let alone = Self { included: Ok(Vec::new()), ..self.clone() };
        let problems = match alone.parse() {
            Ok(config) => return Ok(without_limits(config)),
            Err(Problems(problems)) => problems,
        };
        let (entries, syntax_errors) = syntax::parse(text);
        let diagnostics = Diagnostics::new(text, "", syntax_errors);
        let url = entries.get("redis").and_then(|redis| redis.get_ref().as_table()?.get_key_value("url"));
        let names_redis = url.is_some_and(|(key, _)| !diagnostics.is_broken_at(key.span().start));
        // A line that is no TOML may be the one with the URL.
        let is_known = names_redis || diagnostics.is_all_toml();
        let is_of_redis = |problem: &Problem| problem.key.starts_with("redis");
        if diagnostics.has_unclosed_bracket() || !is_known || problems.iter().any(is_of_redis) {
            return Err(Problems(problems));
        }
        Ok(without_limits(read(&RawTable::root(&entries, &diagnostics), &variables::of_process)))
    }

    fn main_text(&self) -> Result<&str, Problems> {
        let unreadable = |message| Problems(vec![Problem::of_file(&self.main.name, message)]);
        self.main.text.as_deref().map_err(|message| unreadable(message))
    }
}

fn without_limits(config: Config) -> Config {
    Config { limits: BTreeMap::new(), warnings: Vec::new(), ..config }
}

/// Everything but limits.
fn read(root: &RawTable<'_>, variables: Variables<'_>) -> Config {
    let redis = root.table("redis", keys::REDIS);
    let daemon = root.table("daemon", keys::DAEMON);
    let tick = daemon.as_ref().and_then(|daemon| daemon.text_by("tick", times::tick));
    Config {
        name: root.text("name").map(|name| name.value),
        redis_url: redis.as_ref().map(|redis| redis_url(redis, variables)).unwrap_or_default(),
        tls_files: redis.as_ref().map(tls_files).unwrap_or_default(),
        tick: tick.map_or(times::DEFAULT_TICK, |tick| tick.value),
        watch: daemon.and_then(|daemon| daemon.flag("watch")).is_some_and(|watch| watch.value),
        admin: admin::read(root),
        ..Config::default()
    }
}

/// Adds the limits of one file to `config`.
fn read_limits(root: &RawTable<'_>, config: &mut Config, places: &mut Places, variables: Variables<'_>) {
    for (name, table) in root.children::<LimitName>("limit", keys::LIMIT) {
        let twin = name.and_then(|name| places.insert(name, root.place(table.location())));
        if let Some(twin) = twin {
            table.error(
                table.location(),
                format!("{twin} has a limit of that name: remove or rename one of the two"),
            );
        }
        if let Some(limit) = check_limit::check(RawLimit::read(&table, variables), &table, name, config.tick)
        {
            config.limits.insert(limit.name, limit);
        }
    }
}

/// Adds the limits of a file of the folder. Other tables belong into the config file.
fn include(
    file: &SourceFile,
    config: &mut Config,
    places: &mut Places,
    (errors, warnings): (&mut Vec<Problem>, &mut Vec<Problem>),
    variables: Variables<'_>,
) {
    let text = match &file.text {
        Ok(text) => text,
        Err(message) => return errors.push(Problem::of_file(&file.name, message)),
    };
    let (entries, syntax_errors) = syntax::parse(text);
    let diagnostics = Diagnostics::new(text, &file.name, syntax_errors);
    if !diagnostics.has_unclosed_bracket() {
        let root = RawTable::root(&entries, &diagnostics);
        for key in keys::ROOT.iter().filter(|key| key.name != "limit") {
            if let Some(location) = root.find(key.name) {
                root.error(
                    &location,
                    "a file of include_dir has limits only: write this into the config file",
                );
            }
        }
        read_limits(&root, config, places, variables);
    }
    let (mut found, mut warned) = diagnostics.finish();
    errors.append(&mut found);
    warnings.append(&mut warned);
}

/// The Redis of the table, with its namespace: named beside the URL or in it.
fn redis_url(redis: &RawTable<'_>, variables: Variables<'_>) -> RedisUrl {
    let url = redis.url::<RedisUrl>("url", variables).map_or_else(RedisUrl::default, |url| url.value);
    let Some(Located { value: namespace, location }) = redis.text::<Namespace>("namespace") else {
        return url;
    };
    if let Some(other) = url.named_namespace().filter(|other| *other != namespace) {
        redis.error(&location, format!("the url names another, {other}: name one, in one place"));
    }
    url.or_namespace(Some(namespace))
}

/// The files of TLS in `[redis]`.
fn tls_files(redis: &RawTable<'_>) -> Vec<(&'static str, String)> {
    let file = |key| Some((key, redis.text::<String>(key)?.value));
    for (key, other) in [("tls_cert", "tls_key"), ("tls_key", "tls_cert")] {
        if redis.has(key) {
            redis.require(other, &format!(", which belongs to {key}"));
        }
    }
    ["tls_ca", "tls_cert", "tls_key"].into_iter().filter_map(file).collect()
}
