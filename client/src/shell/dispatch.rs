//! What goes through the pipeline: a command of one bucket, built when it is written and completed by its reply; or a
//! correction of one.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use redis::RedisResult;
use topup_wire::{
    bucket::Operation,
    connection::is_elsewhere,
    limit::Capacity,
    pipeline,
    reply::{Settled, Verdict},
    scripts::{self, AtRestNumber, is_at_rest, is_too_old},
};

use super::{BucketEntry, Handle, Published};
use crate::{
    error::Error,
    machine::{Adjust, Command, Event, Micros, Reply, Terms},
};

/// A command of one bucket, dispatched under a number.
#[derive(Debug)]
pub(crate) struct Dispatched {
    client: Handle,
    entry: Arc<BucketEntry>,
    number: u32,
    /// What was written, when, and under which terms.
    written: Option<(Command, Micros, Arc<Published>)>,
}

/// A correction of a bucket at rest.
#[derive(Debug)]
pub(crate) struct Correction {
    client: Handle,
    entry: Arc<BucketEntry>,
    adjust: Adjust,
}

/// What goes through the pipeline.
#[derive(Debug)]
pub(crate) enum LaneRequest {
    Command(Dispatched),
    Correction(Box<Correction>),
}

/// The time from a command to its reply of late.
#[derive(Debug, Default)]
pub(crate) struct RoundTrip(AtomicU64);

// === impl RoundTrip ===

impl RoundTrip {
    /// The weight of the last command.
    const WEIGHT: u64 = 16;

    pub(crate) fn get(&self) -> Micros {
        self.0.load(Relaxed)
    }

    /// Takes note of a command that took so long. Nothing counts for more than `most`, so that it is tried again.
    fn note(&self, took: Micros, most: Micros) {
        let before = self.0.load(Relaxed);
        let now = before - before / Self::WEIGHT + took / Self::WEIGHT;
        self.0.store(now.min(most), Relaxed);
    }
}

// === impl Dispatched ===

impl Dispatched {
    /// Ends with `reply`, or with `error`.
    fn end(self, reply: Result<Reply, Error>) {
        let Some((command, sent, published)) = self.written else { return };
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
        let event = Event::Completed { number: self.number, command, sent, reply };
        let outcome = self.entry.step_under(event, &published, &self.client, error.as_ref());
        let shared = self.client.shared();
        shared.round_trip.note(outcome.at.saturating_sub(sent), shared.deadline_micros / 2);
    }

    /// Asks once more, by itself: nothing was done. The script has to be loaded, the bucket is on another node
    /// (`elsewhere`), or the limit has changed.
    fn again(self, elsewhere: bool) {
        let Some((command, ..)) = self.written else { return };
        let runtime = self.client.shared().runtime.clone();
        runtime.spawn(async move {
            let sent = self.entry.send(command, elsewhere, &self.client);
            let reply = self.client.within_deadline(sent).await;
            self.end(reply);
        });
    }
}

// === impl LaneRequest ===

impl LaneRequest {
    pub(crate) fn command(client: &Handle, entry: &Arc<BucketEntry>, number: u32) -> Self {
        Self::Command(Dispatched { client: client.clone(), entry: entry.clone(), number, written: None })
    }

    pub(crate) fn adjust(client: &Handle, entry: &Arc<BucketEntry>, adjust: Adjust) -> Self {
        Self::Correction(Box::new(Correction { client: client.clone(), entry: entry.clone(), adjust }))
    }
}

impl pipeline::Request for LaneRequest {
    fn encode(&mut self, out: &mut Vec<u8>) -> usize {
        match self {
            Self::Command(command) => command.encode(out),
            Self::Correction(correction) => correction.encode(out),
        }
    }

    fn complete(self, answer: RedisResult<pipeline::Reply>) {
        match self {
            Self::Command(command) => command.complete(answer),
            Self::Correction(correction) => correction.complete(&answer),
        }
    }
}

// === impl Correction ===

impl Correction {
    fn encode(&self, out: &mut Vec<u8>) -> usize {
        let Some(published) = self.entry.limit().last() else { return 0 };
        published.locate(self.entry.key()).encode_adjust(out, &self.adjust)
    }

    fn complete(self, answer: &RedisResult<pipeline::Reply>) {
        let Some(published) = self.entry.limit().last() else { return };
        let reply = match answer {
            Ok(pipeline::Reply::Number(number)) => {
                Some(scripts::read_number_at_rest(*number, published.terms_id))
            }
            Ok(_) => Some(AtRestNumber::NotAtRest),
            Err(error) if scripts::is_not_a_counter(error) => Some(AtRestNumber::NotAtRest),
            Err(error) => {
                if is_too_old(error) {
                    self.client.shared().control.forbid_takes_at_rest();
                }
                None
            }
        };
        if let Some(tokens) = self.adjust.in_doubt(reply, published.terms.pace) {
            self.entry.step(Event::NotAdjusted(tokens), &self.client, None);
        }
    }
}

impl Dispatched {
    fn encode(&mut self, out: &mut Vec<u8>) -> usize {
        let Some(published) = self.entry.limit().last() else { return 0 };
        let outcome = self.entry.step_under(Event::Ready(self.number), &published, &self.client, None);
        let Some(command) = outcome.command else { return 0 };
        let replies = published.locate(self.entry.key()).encode(out, command);
        self.written = Some((command, outcome.at, published));
        replies
    }

    fn complete(self, answer: RedisResult<pipeline::Reply>) {
        let Some((command, _, published)) = &self.written else { return };
        let reply = match answer {
            Ok(reply) => read(reply, *command, published),
            Err(error) if scripts::is_not_loaded(&error) => return self.again(false),
            Err(error) if is_elsewhere(&error) => return self.again(true),
            Err(error) if scripts::is_not_a_counter(&error) => Ok(Reply::NotCounting),
            Err(error) => Err(Error::Redis(error)),
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
}

/// The tokens that a bare command has left.
fn left_in_counter(left: i64, published: &Published) -> Reply {
    let Terms { capacity, pace, .. } = published.terms;
    let strange = is_at_rest(left)
        || published.terms.rests_as_number() && !scripts::is_clean_counter(left, capacity, pace);
    if strange { Reply::NotCounting } else { Reply::Left(left) }
}

/// What a reply of the pipeline says.
fn read(reply: pipeline::Reply, command: Command, published: &Published) -> Result<Reply, Error> {
    Ok(match (reply, command) {
        (pipeline::Reply::Done, _) => Reply::First(true),
        (pipeline::Reply::Nothing, _) => Reply::First(false),
        (pipeline::Reply::Number(left), Command::Decrement { .. }) => left_in_counter(left, published),
        (pipeline::Reply::Number(number), Command::TakeAtRest { .. }) => {
            match scripts::read_number_at_rest(number, published.terms_id) {
                AtRestNumber::Full(full_at) => Reply::AtRest(full_at),
                AtRestNumber::OtherTerms => Reply::OtherTerms,
                AtRestNumber::NotAtRest => Reply::NotAtRest,
            }
        }
        (pipeline::Reply::Number(number), Command::Settle { operation, .. }) => {
            let capacity: Capacity = published.limit.terms.capacity;
            let count = match operation {
                Operation::Take(count) | Operation::Share(count) | Operation::Lease(count) => count,
                _ => 0,
            };
            let number = u64::try_from(number).unwrap_or(0);
            Reply::Settled(Settled::from_headroom(number, capacity, published.terms.pace, count))
        }
        (pipeline::Reply::Number(_), Command::FirstTake { .. }) => Reply::First(false),
        (pipeline::Reply::Numbers(numbers), _) => {
            Reply::Settled(Settled::try_from(numbers).map_err(|error| Error::Redis(error.into()))?)
        }
    })
}
