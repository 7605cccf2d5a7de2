//! Sends commands to the node of their keys, and follows its redirections.

use std::time::Duration;

use redis::{Cmd, RedisError, RedisResult, Value};
use tokio::time::sleep;

use super::{
    Connection,
    node::Commands,
    redirect::{Redirect, error_in, is_elsewhere},
};
use crate::{
    hash_slot::HashSlot,
    least_rights::{is_not_permitted, permitted},
};

/// Most redirections of one command. After more of them, the nodes do not agree on the owner of its keys.
const MOST_REDIRECTS: u32 = 5;

/// First and longest pause before a command is repeated whose keys are being moved. Each pause is twice as long as the
/// one before, 1.3 s in all.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(640));

impl Connection {
    /// Sends a command as the user may send it. A command that is not permitted has done nothing.
    pub(super) async fn ask_permitted(
        &mut self,
        command: &Cmd,
        hash_slot: Option<HashSlot>,
    ) -> RedisResult<Vec<Value>> {
        if !self.router.has_least_rights() {
            let answer = self.ask(Commands::One(command), hash_slot).await;
            if !first_error(&answer).is_some_and(|error| is_not_permitted(&error)) {
                return answer;
            }
        }
        let Some((call, load)) = permitted(command) else {
            return self.ask(Commands::One(command), hash_slot).await;
        };
        let mut answer = self.ask(Commands::One(&call), hash_slot).await;
        let is_not_loaded = |error: RedisError| error.code() == Some("NOSCRIPT");
        if let Some(load) = load.filter(|_| first_error(&answer).is_some_and(is_not_loaded)) {
            self.ask(Commands::One(&load), None).await?;
            answer = self.ask(Commands::One(&call), hash_slot).await;
        }
        // A user without any of the rights may get all of them back.
        if !first_error(&answer).is_some_and(|error| is_not_permitted(&error)) {
            self.router.note_least_rights();
        }
        answer
    }

    pub(super) async fn ask(
        &mut self,
        commands: Commands<'_>,
        hash_slot: Option<HashSlot>,
    ) -> RedisResult<Vec<Value>> {
        let mut node = match (hash_slot, &self.last) {
            (None, Some(last)) => last.clone(),
            _ => self.router.node_for(hash_slot).await?,
        };
        let (mut asking, mut redirects, mut pause) = (false, 0, PAUSE.0);
        loop {
            let answer = self.router.ask(&node, commands, asking).await;
            self.last = Some(node.clone());
            let Some(error) = refusal(&answer) else {
                self.router.check_for_cluster();
                return answer;
            };
            match self.router.note_error(&error, &node) {
                Some(Redirect::Moved(_, address)) if redirects < MOST_REDIRECTS => {
                    (node, asking) = (self.router.node_at(&address), false);
                }
                Some(Redirect::Ask(address)) if redirects < MOST_REDIRECTS => {
                    (node, asking) = (self.router.node_at(&address), true);
                }
                Some(Redirect::Later) if pause <= PAUSE.1 => {
                    sleep(pause).await;
                    (node, asking, redirects) = (self.router.node_for(hash_slot).await?, false, 0);
                    pause *= 2;
                    continue;
                }
                _ => return answer,
            }
            redirects += 1;
        }
    }
}

/// The error of the first reply, if it is one.
fn first_error(answer: &RedisResult<Vec<Value>>) -> Option<RedisError> {
    match answer {
        Err(error) => Some(error.clone()),
        Ok(answers) => answers.first().and_then(error_in).map(Into::into),
    }
}

/// The first error, if all replies are errors that say that nothing was done.
fn refusal(answer: &RedisResult<Vec<Value>>) -> Option<RedisError> {
    match answer {
        Err(error) => Some(error.clone()),
        Ok(answers) => {
            let mut errors = answers.iter().map(error_in);
            let first = RedisError::from(errors.next()??);
            errors.all(|error| error.is_some_and(|error| is_elsewhere(&error.into()))).then_some(first)
        }
    }
}
