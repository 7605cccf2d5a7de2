//! Calls of clients, and what the daemon of a config does.

use std::{sync::PoisonError, time::Duration};

use topup::{Client, Defined, Error, Terms};
use topup_wire::{
    claims::{Claim, Fingerprint, Owner},
    limit::{Algorithm, Limit, Shards},
    publishing,
    scripts::{self, ClaimChange},
};

use super::{
    CONFIG, OWNERS, RULES, World,
    history::{Answer, Asked, Told},
};
use crate::clients::{LIMIT, Rule, text};

// === impl World ===

impl World {
    /// A client defines a limit.
    pub(super) fn define(&mut self, name: &str, owner: usize, rule: Rule, lasts: u64) {
        let rate = format!("{}/s", rule.rate);
        let terms = match self.algorithm {
            Algorithm::Gcra => Terms::gcra(rule.capacity, &rate),
            _ => Terms::token_bucket(rule.capacity, &rate),
        };
        let terms = terms.keyed().on_change(self.on_change);
        let client: Client = self.clients.any(&mut self.dice);
        let define = client.define(name, terms).owner(OWNERS[owner]).expires_in(Duration::from_micros(lasts));
        if name == LIMIT {
            self.tell(Asked::Define(owner, lasts), async move { define.await });
        } else {
            tokio::spawn(async move { define.await });
        }
    }

    /// Notes a call and its answer.
    pub(super) fn tell(
        &self,
        asked: Asked,
        call: impl Future<Output = Result<Defined, Error>> + Send + 'static,
    ) {
        let (told, redis) = (self.told.clone(), self.clients.topup.redis().clone());
        let sent = redis.now();
        let at = {
            let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
            told.push(Told { asked, sent, received: u64::MAX, answer: Answer::Unknown });
            told.len() - 1
        };
        tokio::spawn(async move {
            let answer = match call.await {
                Ok(_) => Answer::Done,
                Err(Error::DefinedByOther { .. } | Error::OfConfig { .. }) => Answer::Refused,
                Err(Error::TooManyDefined { .. }) => Answer::TooMany,
                Err(_) => Answer::Unknown,
            };
            if let Some(told) = told.lock().unwrap_or_else(PoisonError::into_inner).get_mut(at) {
                (told.received, told.answer) = (redis.now(), answer);
            }
        });
    }

    /// A config names the limit. Returns whether it has it, as its daemon decides.
    pub(super) async fn claim(&mut self) -> Result<bool, String> {
        let redis = &mut self.clients.redis;
        let seen = scripts::ownership(redis).await.map_err(text)?;
        let owner: Owner = CONFIG.parse().map_err(text)?;
        let claim = Claim { fingerprint: Fingerprint::of(CONFIG), loaded: seen.now };
        let change = ClaimChange { claim: vec![(self.name, owner, claim)], ..ClaimChange::default() };
        if !scripts::claim(redis, &seen.version, &change).await.map_err(text)? {
            return Ok(false);
        }
        let now = self.clients.now();
        let told = Told { asked: Asked::Config, sent: now, received: u64::MAX, answer: Answer::Done };
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push(told);
        let rule = self.dice.pick(&RULES);
        let limit = Limit { algorithm: self.algorithm, on_change: self.on_change, ..rule.limit(self.name)? };
        self.clients.publish(&limit).await?;
        // A change of a record that was left may have taken its time.
        self.still = None;
        Ok(true)
    }

    pub(super) async fn drop_config(&mut self) -> Result<(), String> {
        publishing::remove(&self.daemon, &self.name, Shards::ONE).await.map_err(text)?;
        let redis = &mut self.clients.redis;
        scripts::announce(redis).await.map_err(text)?;
        let seen = scripts::ownership(redis).await.map_err(text)?;
        let owner: Owner = CONFIG.parse().map_err(text)?;
        let change = ClaimChange { release: vec![(self.name, owner)], ..ClaimChange::default() };
        scripts::claim(redis, &seen.version, &change).await.map_err(text)?;
        let now = self.clients.now();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = told.iter_mut().rfind(|told| told.asked == Asked::Config) {
            config.received = now;
        }
        Ok(())
    }
}
