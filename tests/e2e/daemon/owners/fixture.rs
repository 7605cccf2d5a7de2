//! Plays a scenario: a Redis, daemons that come and go, and the limits that must be there after each event.

use std::{collections::BTreeMap, fmt::Write};

use topup_tests::{Cli, Daemon, Launch, Redis, SOON, Signal, eventually};

use super::super::bucket::Bucket;

/// A scenario under way.
pub(super) struct Fixture {
    redis: Redis,
    daemons: BTreeMap<String, Daemon>,
    /// Limits of which a token has been taken. It must never come back: no limit is published anew.
    taken: Vec<String>,
    story: String,
}

// === impl Fixture ===

impl Fixture {
    pub(super) async fn open(name: &str) -> Self {
        Self {
            redis: Redis::start().await,
            daemons: BTreeMap::new(),
            taken: Vec::new(),
            story: name.to_owned(),
        }
    }

    /// Makes one event happen. Waits until exactly these limits are published, with these rates. Then waits for the words
    /// that daemons, `topupd status` or the command must say.
    pub(super) async fn play(&mut self, event: &str, published: &str, said: &[&str]) {
        write!(self.story, "\n      {event:46} -> {published}").unwrap();
        let marks: BTreeMap<String, usize> =
            self.daemons.iter().map(|(who, daemon)| (who.clone(), daemon.lines().len())).collect();
        let told = self.happen(event).await;
        let expected: BTreeMap<String, String> = published
            .split_whitespace()
            .map(|word| word.split_once('=').unwrap())
            .map(|(limit, rate)| (limit.to_owned(), rate.to_owned()))
            .collect();
        eventually(SOON, async || {
            let rates = self.rates().await;
            if rates == expected { Ok(()) } else { Err(format!("{}\npublished: {rates:?}", self.story)) }
        })
        .await;
        for words in said {
            write!(self.story, "\n        {words}").unwrap();
            let (who, words) = words.split_once(": ").unwrap();
            match who {
                "status" => self.wait_for_status(words).await,
                "command" => assert!(told.contains(words), "{}\nsaid: {told}", self.story),
                who => self.wait_for_daemon(who, marks.get(who).copied().unwrap_or(0), words).await,
            }
        }
        self.taken.retain(|limit| expected.contains_key(limit));
        for limit in expected.keys() {
            let bucket = Bucket::of(&self.redis, limit);
            if !self.taken.contains(limit) {
                bucket.take(1).await;
                self.taken.push(limit.clone());
            }
            // A change of rate may count a token that is nearly there as missing.
            let tokens = bucket.peek().await.tokens;
            assert!((7..=9).contains(&tokens), "{}\nlimit {limit} was lost: {tokens} tokens", self.story);
        }
    }

    /// The events, with the words that were said.
    pub(super) fn story(self) -> String {
        self.story
    }

    async fn happen(&mut self, event: &str) -> String {
        if let Some((who, limits)) = event.split_once(": ") {
            self.load(who, limits).await;
        } else if let Some(who) = event.strip_suffix(" stops") {
            let mut daemon = self.daemons.remove(who).unwrap();
            daemon.end(Signal::TERM, SOON).await;
        } else if let Some(who) = event.strip_suffix(" is killed") {
            self.kill(who).await;
            let alive = self.daemons.len();
            eventually(SOON, async || self.alive().await == alive).await;
        } else if let Some(who) = event.strip_suffix(" dies") {
            // As far as the others know, it is alive for another second.
            self.kill(who).await;
        } else if let Some(who) = event.strip_suffix(" hangs") {
            self.daemons[who].signal(Signal::STOP);
            let alive = self.daemons.len() - 1;
            eventually(SOON, async || self.alive().await == alive).await;
        } else if let Some(who) = event.strip_suffix(" goes on") {
            self.daemons[who].signal(Signal::CONT);
        } else if event == "FLUSHALL" {
            self.taken.clear();
            self.redis.ask::<()>(&["FLUSHALL"]).await;
        } else {
            let words: Vec<&str> = event.split(' ').collect();
            let ended = Cli::new(&words[1..]).redis(&self.redis).run().await;
            return format!("{} {}{}", ended.code.unwrap(), ended.stdout, ended.stderr);
        }
        String::new()
    }

    /// Starts a daemon, or has it reload. `a1` and `a2` are two daemons of the config `a`.
    async fn load(&mut self, who: &str, limits: &str) {
        let (who, consent) = who.split_once(" takes over ").unwrap_or((who, ""));
        let mut config = format!("name = \"{}\"\n", &who[..1]);
        for (limit, rate) in limits.split_whitespace().filter_map(|word| word.split_once('=')) {
            write!(config, "[limit.{limit}]\ncapacity = 10\nrate = \"{rate}\"\n").unwrap();
        }
        if let Some(daemon) = self.daemons.get_mut(who) {
            super::super::reload(daemon, &config).await;
            return;
        }
        let mut launch = Launch::new(&config).redis(&self.redis);
        if !consent.is_empty() {
            launch = launch.arg("--take-over").arg(consent);
        }
        let mut daemon = launch.run();
        daemon.wait_for_line("ready", SOON).await;
        self.daemons.insert(who.to_owned(), daemon);
    }

    async fn kill(&mut self, who: &str) {
        let mut daemon = self.daemons.remove(who).unwrap();
        daemon.end(Signal::KILL, SOON).await;
    }

    /// Waits until a daemon has said `words` in a line after its first `mark` ones.
    async fn wait_for_daemon(&self, who: &str, mark: usize, words: &str) {
        eventually(SOON, async || {
            let lines = self.daemons[who].lines();
            if lines.iter().skip(mark).any(|line| line.contains(words)) {
                return Ok(());
            }
            Err(format!("{}\n{who} said:\n{}", self.story, lines.join("\n")))
        })
        .await;
    }

    async fn wait_for_status(&self, words: &str) {
        eventually(SOON, async || {
            let told = Cli::new(&["status"]).redis(&self.redis).run().await.stdout;
            if told.contains(words) { Ok(()) } else { Err(format!("{}\nstatus: {told}", self.story)) }
        })
        .await;
    }

    /// Daemons whose heartbeat is good.
    async fn alive(&self) -> usize {
        let now = super::super::now(&self.redis).await.to_string();
        self.redis.ask(&["ZCOUNT", "topup:{topup}:daemons", &now, "+inf"]).await
    }

    /// The rates of all limits in the registry, by their records.
    async fn rates(&self) -> BTreeMap<String, String> {
        let mut rates = BTreeMap::new();
        for limit in self.redis.ask::<Vec<String>>(&["HKEYS", "topup:{topup}:limits"]).await {
            let record = format!("topup:{{{limit}:0}}:limit");
            let rate: Option<String> = self.redis.ask(&["HGET", &record, "rate"]).await;
            rates.insert(limit, rate.unwrap_or_default());
        }
        rates
    }
}
