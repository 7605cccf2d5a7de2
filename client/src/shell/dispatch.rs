//! Requests of the pipeline: a command of one bucket, built when the pipeline writes it, or a correction.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use redis::RedisResult;
use topup_wire::{
    connection::is_elsewhere,
    pipeline,
    reply::{Settled, Verdict},
    scripts::{self, AtRestNumber, is_at_rest, is_too_old},
};

use super::{BucketEntry, Handle, Published};
use crate::{
    error::Error,
    machine::{Command, Correction, Event, Micros, Reply, Terms},
    place::plan_changed,
};

/// A request of one bucket in the pipeline.
#[derive(Debug)]
pub(crate) struct PipelineRequest {
    client: Handle,
    entry: Arc<BucketEntry>,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// A command by its number, with the command itself once it is written.
    Command(u32, Option<Written>),
    Correction(Correction),
}

/// A written command: when that was, and under which terms.
#[derive(Debug)]
struct Written {
    command: Command,
    sent: Micros,
    published: Arc<Published>,
}

/// A command whose reply has come.
#[derive(Debug)]
struct Completed {
    client: Handle,
    entry: Arc<BucketEntry>,
    number: u32,
    written: Written,
}

/// The mean time from a command to its reply, with a weight of 1/16 for the last one.
#[derive(Debug, Default)]
pub(crate) struct RoundTrip(AtomicU64);

// === impl PipelineRequest ===

impl PipelineRequest {
    pub(crate) fn command(client: &Handle, entry: &Arc<BucketEntry>, number: u32) -> Self {
        Self { client: client.clone(), entry: entry.clone(), content: Content::Command(number, None) }
    }

    pub(crate) fn correction(client: &Handle, entry: &Arc<BucketEntry>, correction: Correction) -> Self {
        Self { client: client.clone(), entry: entry.clone(), content: Content::Correction(correction) }
    }
}

impl pipeline::Request for PipelineRequest {
    fn encode(&mut self, out: &mut Vec<u8>) -> usize {
        let Some(published) = self.entry.limit().last() else { return 0 };
        let location = published.locate(self.entry.key());
        let newer = self.client.shared().control.newer_schema();
        match &mut self.content {
            // Its tokens are lost to a bucket that may no longer be where it was.
            Content::Correction(_) if newer.is_some() => 0,
            Content::Correction(correction) => location.encode_correction(out, correction),
            Content::Command(number, written) => {
                let event = Event::Ready(*number);
                let step = self.entry.step_under(event, &published, &self.client, None);
                let Some(command) = step.command else { return 0 };
                let refused = match newer {
                    Some(newer) => Some(Error::NewerSchema(newer)),
                    None if self.entry.may_take_here(&self.client) => None,
                    None => Some(plan_changed(&self.entry)),
                };
                if let Some(error) = refused {
                    let written = Written { command, sent: step.at, published };
                    let (client, entry) = (self.client.clone(), self.entry.clone());
                    Completed { client, entry, number: *number, written }.end(Err(error));
                    return 0;
                }
                let least_rights = self.client.shared().pipelines.has_least_rights();
                let replies = location.encode(out, command, least_rights);
                *written = Some(Written { command, sent: step.at, published });
                replies
            }
        }
    }

    fn complete(self, answer: RedisResult<pipeline::Reply>) {
        let Self { client, entry, content } = self;
        match content {
            Content::Correction(correction) => complete_correction(&client, &entry, &correction, &answer),
            Content::Command(number, Some(written)) => {
                Completed { client, entry, number, written }.complete(answer);
            }
            Content::Command(_, None) => {}
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
    if let Some(tokens) = correction.in_doubt(reply, published.terms.pace) {
        entry.step(Event::NotCorrected(tokens), client, None);
    }
}

// === impl Completed ===

impl Completed {
    fn complete(self, answer: RedisResult<pipeline::Reply>) {
        let reply = match answer {
            Ok(reply) => read(reply, self.written.command, &self.written.published),
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
            let sent = self.entry.send(self.written.command, elsewhere, &self.client);
            let reply = self.client.within_deadline(sent).await;
            self.end(reply);
        });
    }

    fn end(self, reply: Result<Reply, Error>) {
        let Written { command, sent, published } = self.written;
        let was_full = match (command, &reply) {
            (Command::FirstTake { .. }, Ok(Reply::First(was_full))) => Some(*was_full),
            (Command::TakeAtRest { count, first_at }, Ok(Reply::AtRest(full_at))) if first_at > 0 => {
                Some(*full_at == first_at + count * published.terms.pace.p)
            }
            _ => None,
        };
        if let Some(was_full) = was_full {
            self.entry.limit().note_first_take(!was_full);
        }
        let (reply, error) = match reply {
            Ok(reply) => (Some(reply), None),
            Err(error) => (None, Some(error)),
        };
        if reply.is_none() {
            self.entry.keep_warm(&published, &self.client);
        }
        let event = Event::Completed { number: self.number, command, sent, reply };
        let step = self.entry.step_under(event, &published, &self.client, error.as_ref());
        let shared = self.client.shared();
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

/// Reads a reply of the pipeline to `command`.
fn read(reply: pipeline::Reply, command: Command, published: &Published) -> Result<Reply, Error> {
    let Terms { capacity, pace, .. } = published.terms;
    Ok(match (reply, command) {
        (pipeline::Reply::Done, _) => Reply::First(true),
        (pipeline::Reply::Nothing | pipeline::Reply::Text(_), _)
        | (pipeline::Reply::Number(_), Command::FirstTake { .. }) => Reply::First(false),
        (pipeline::Reply::Number(left), Command::Decrement { .. }) => {
            let is_counter = !is_at_rest(left)
                && (!published.terms.rests_as_number() || scripts::is_clean_counter(left, capacity, pace));
            if is_counter { Reply::Left(left) } else { Reply::NotCounting }
        }
        (pipeline::Reply::Number(number), Command::TakeAtRest { .. }) => {
            match scripts::read_number_at_rest(number, published.terms_id) {
                AtRestNumber::Full(full_at) => Reply::AtRest(full_at),
                AtRestNumber::OtherTerms => Reply::OtherTerms,
                AtRestNumber::Held(_) | AtRestNumber::NotAtRest => Reply::NotAtRest,
            }
        }
        (pipeline::Reply::Number(number), Command::Settle { .. }) => {
            let number = u64::try_from(number).unwrap_or(0);
            let capacity = published.limit.terms.capacity;
            Reply::Settled(Settled::from_number(number, capacity, pace, command.count()))
        }
        (pipeline::Reply::Numbers(numbers), _) => {
            Reply::Settled(Settled::try_from(numbers).map_err(|error| Error::redis(error.into()))?)
        }
    })
}
