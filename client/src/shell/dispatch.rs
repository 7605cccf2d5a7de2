//! Requests of the pipeline: a command of one bucket, built when the pipeline writes it, a correction, or expired keys.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use redis::RedisResult;
use topup_wire::{
    connection::is_elsewhere,
    pipeline,
    reply::{Settled, Verdict},
    scripts::{self, AtRestNumber, is_too_old},
};

use super::{BucketEntry, Handle, Published};
use crate::{
    error::Error,
    machine::{Command, Correction, Event, Micros, Reply, Terms},
    place::plan_changed,
};

/// A request in the pipeline.
#[derive(Debug)]
pub(crate) struct PipelineRequest {
    client: Handle,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Command {
        entry: Arc<BucketEntry>,
        number: u32,
        /// The terms of the command.
        published: Arc<Published>,
        /// The command itself, once it is written, and when that was.
        written: Option<(Command, Micros)>,
    },
    Correction(Arc<BucketEntry>, Correction),
    /// Names of keys that have expired, so that Redis removes them.
    Expired(Vec<String>),
}

/// A command whose reply has come.
#[derive(Debug)]
struct Completed {
    client: Handle,
    entry: Arc<BucketEntry>,
    number: u32,
    published: Arc<Published>,
    command: Command,
    sent: Micros,
}

/// The mean time from a command to its reply, with a weight of 1/16 for the last one.
#[derive(Debug, Default)]
pub(crate) struct RoundTrip(AtomicU64);

// === impl PipelineRequest ===

impl PipelineRequest {
    pub(crate) fn command(
        client: &Handle,
        entry: &Arc<BucketEntry>,
        number: u32,
        published: &Arc<Published>,
    ) -> Self {
        let (entry, published) = (entry.clone(), published.clone());
        Self { client: client.clone(), content: Content::Command { entry, number, published, written: None } }
    }

    pub(crate) fn correction(client: &Handle, entry: &Arc<BucketEntry>, correction: Correction) -> Self {
        Self { client: client.clone(), content: Content::Correction(entry.clone(), correction) }
    }

    /// Has Redis remove `keys` that have expired.
    pub(crate) fn expired(client: &Handle, keys: Vec<String>) -> Self {
        Self { client: client.clone(), content: Content::Expired(keys) }
    }
}

impl pipeline::Request for PipelineRequest {
    fn encode(&mut self, out: &mut Vec<u8>) -> usize {
        let Self { client, content } = self;
        let newer = client.shared().control.newer_schema();
        match content {
            // The bucket may no longer be where it was. Tokens of a correction are lost to it.
            Content::Correction(..) | Content::Expired(_) if newer.is_some() => 0,
            Content::Correction(entry, correction) => match entry.limit().last() {
                Some(published) => published.locate(entry).encode_correction(out, correction),
                None => 0,
            },
            Content::Expired(keys) => {
                let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
                pipeline::RedisCommand::Exists { keys: &keys }.encode(out);
                1
            }
            Content::Command { entry, number, published, written } => {
                if !entry.limit().is_current(published, client.shared().control.epoch())
                    && let Some(last) = entry.limit().last()
                {
                    *published = last;
                }
                let step = entry.step_under(Event::Ready(*number), published, client, None);
                let (Some(command), sent, number) = (step.command, step.at, *number) else { return 0 };
                let refused = match newer {
                    Some(newer) => Some(Error::NewerSchema(newer)),
                    None if entry.may_take_here(client) => None,
                    None => Some(plan_changed(entry)),
                };
                if let Some(error) = refused {
                    let (client, entry, published) = (client.clone(), entry.clone(), published.clone());
                    Completed { client, entry, number, published, command, sent }.end(Err(error));
                    return 0;
                }
                *written = Some((command, sent));
                let least_rights = client.shared().pipelines.has_least_rights();
                published.locate(entry).encode(out, command, least_rights)
            }
        }
    }

    fn complete(self, answer: RedisResult<pipeline::Reply>) {
        let Self { client, content } = self;
        match content {
            Content::Correction(entry, correction) => {
                complete_correction(&client, &entry, &correction, &answer);
            }
            Content::Command { entry, number, published, written: Some((command, sent)) } => {
                Completed { client, entry, number, published, command, sent }.complete(answer);
            }
            Content::Command { written: None, .. } | Content::Expired(_) => {}
        }
    }
}

fn complete_correction(
    client: &Handle,
    entry: &Arc<BucketEntry>,
    correction: &Correction,
    answer: &RedisResult<pipeline::Reply>,
) {
    let Some(published) = entry.limit().last() else { return };
    let reply = match answer {
        Ok(pipeline::Reply::Number(number)) => {
            Some(scripts::read_number_at_rest(*number, published.terms_id))
        }
        Ok(pipeline::Reply::Text(text)) => {
            let Terms { capacity, pace, .. } = published.terms;
            Some(scripts::read_text_at_rest(text, published.terms_id, capacity, pace))
        }
        Ok(_) => Some(AtRestNumber::NotAtRest),
        Err(error) if scripts::is_not_a_counter(error) => Some(AtRestNumber::NotAtRest),
        Err(error) => {
            if is_too_old(error) {
                client.shared().control.forbid_takes_at_rest();
            }
            None
        }
    };
    if let Some(in_doubt) = correction.in_doubt(reply, published.terms.pace) {
        entry.step(Event::NotCorrected(in_doubt), client, None);
    }
}

// === impl Completed ===

impl Completed {
    fn complete(self, answer: RedisResult<pipeline::Reply>) {
        let reply = match answer {
            Ok(reply) => read(reply, self.command, &self.published),
            Err(error) if scripts::is_not_loaded(&error) || scripts::is_not_permitted(&error) => {
                return self.again(false);
            }
            Err(error) if is_elsewhere(&error) => return self.again(true),
            Err(error) if scripts::is_not_a_counter(&error) => Ok(Reply::NotCounting),
            Err(error) => Err(Error::redis(error)),
        };
        match reply {
            Ok(Reply::Settled(settled))
                if matches!(settled.verdict, Verdict::Unknown | Verdict::ExceedsCapacity) =>
            {
                self.again(false);
            }
            reply => self.end(reply),
        }
    }

    /// Sends a command once more, outside the pipeline. The first one has done nothing. Redis had no script, the user may
    /// not write the record, the bucket is on another node (`elsewhere`), or the limit has changed.
    fn again(self, elsewhere: bool) {
        let runtime = self.client.shared().runtime.clone();
        runtime.spawn(async move {
            let sent = self.entry.send(self.command, elsewhere, &self.client);
            let reply = self.client.within_deadline(sent).await;
            self.end(reply);
        });
    }

    fn end(self, reply: Result<Reply, Error>) {
        let Self { client, entry, number, published, command, sent } = self;
        let was_full = match (command, &reply) {
            (Command::FirstTake { .. }, Ok(Reply::First(was_full))) => Some(*was_full),
            (Command::TakeAtRest { first_at: 1.., .. }, Ok(Reply::AtRest { was_full, .. })) => {
                Some(*was_full)
            }
            _ => None,
        };
        if let Some(was_full) = was_full {
            entry.limit().note_first_take(!was_full);
        }
        let (reply, error) = match reply {
            Ok(reply) => (Some(reply), None),
            Err(error) => (None, Some(error)),
        };
        if reply.is_none() {
            entry.keep_warm(&published, &client);
        }
        let event = Event::Completed { number, command, sent, reply };
        let step = entry.step_under(event, &published, &client, error.as_ref());
        let shared = client.shared();
        shared.round_trip.note(step.at.saturating_sub(sent), shared.deadline_micros / 2);
    }
}

// === impl RoundTrip ===

impl RoundTrip {
    pub(crate) fn get(&self) -> Micros {
        self.0.load(Relaxed)
    }

    /// Includes a command that took `took`. The mean stays below `most`, so that a take is still tried after slow ones.
    fn note(&self, took: Micros, most: Micros) {
        let before = self.0.load(Relaxed);
        self.0.store((before - before / 16 + took / 16).min(most), Relaxed);
    }
}

/// Reads the reply to a take at rest.
fn read_at_rest(number: i64, was_full: bool, published: &Published) -> Reply {
    match scripts::read_number_at_rest(number, published.terms_id) {
        AtRestNumber::Full(full_at) => Reply::AtRest { full_at, was_full },
        AtRestNumber::OtherTerms => Reply::OtherTerms,
        AtRestNumber::Held(_) | AtRestNumber::NotAtRest => Reply::NotAtRest,
    }
}

/// Reads the reply to a take of `count` tokens in a window of `capacity`.
fn read_in_window(number: i64, (count, capacity): (u64, u64), was_set: bool) -> Reply {
    let left = scripts::read_window(number, capacity, count);
    left.map_or(Reply::NotCounting, |left| Reply::InWindow { left, was_set })
}

/// Reads a reply of the pipeline to `command`.
fn read(reply: pipeline::Reply, command: Command, published: &Published) -> Result<Reply, Error> {
    let Terms { capacity, pace, .. } = published.terms;
    Ok(match (reply, command) {
        (pipeline::Reply::Done, _) => Reply::First(true),
        (pipeline::Reply::Nothing | pipeline::Reply::Text(_), _)
        | (pipeline::Reply::Number(_), Command::FirstTake { .. }) => Reply::First(false),
        (pipeline::Reply::Number(number), Command::TakeInWindow { count, .. }) => {
            read_in_window(number, (count, capacity), false)
        }
        (pipeline::Reply::NumberAfterSet(number), Command::TakeInWindow { count, .. }) => {
            read_in_window(number, (count, capacity), true)
        }
        (pipeline::Reply::Number(left), Command::Decrement { .. }) => {
            scripts::read_left(left, capacity, pace).map_or(Reply::NotCounting, Reply::Left)
        }
        (pipeline::Reply::Number(number), Command::TakeAtRest { .. }) => {
            read_at_rest(number, false, published)
        }
        (pipeline::Reply::NumberAfterSet(number), _) => read_at_rest(number, true, published),
        (pipeline::Reply::Number(number), Command::Settle { .. }) => {
            let number = u64::try_from(number).unwrap_or(0);
            let (algorithm, capacity) = (published.limit.algorithm, published.limit.terms.capacity);
            Reply::Settled(Settled::from_number(number, algorithm, capacity, pace, command.count()))
        }
        (pipeline::Reply::Numbers(numbers), _) => {
            Reply::Settled(Settled::try_from(numbers).map_err(|error| Error::redis(error.into()))?)
        }
    })
}
