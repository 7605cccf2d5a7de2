//! A command of one bucket in the pipeline: built when it is written, and completed by its reply.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use redis::RedisResult;
use topup_wire::{
    bucket::Operation,
    connection::is_elsewhere,
    lane,
    limit::Capacity,
    reply::{Settled, Verdict},
    scripts,
};

use super::{BucketEntry, Handle, Published};
use crate::{
    error::Error,
    machine::{Command, Event, Micros, Reply},
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
    pub(crate) fn new(client: &Handle, entry: &Arc<BucketEntry>, number: u32) -> Self {
        Self { client: client.clone(), entry: entry.clone(), number, written: None }
    }

    /// Ends with `reply`, or with `error`.
    fn end(self, reply: Result<Reply, Error>) {
        let Some((command, sent, published)) = self.written else { return };
        let shared = self.client.shared();
        shared.round_trip.note(shared.clock.now().saturating_sub(sent), shared.deadline_micros / 2);
        if let (Command::FirstTake { .. }, Ok(Reply::First(was_full))) = (command, &reply) {
            self.entry.limit().note_first_take(!was_full);
        }
        let (reply, error) = match reply {
            Ok(reply) => (Some(reply), None),
            Err(error) => (None, Some(error)),
        };
        let event = Event::Completed { number: self.number, command, sent, reply };
        self.entry.step_under(event, &published, &self.client, error.as_ref());
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

impl lane::Request for Dispatched {
    fn encode(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(published) = self.entry.limit().last() else { return false };
        let outcome = self.entry.step_under(Event::Ready(self.number), &published, &self.client, None);
        let Some(command) = outcome.command else { return false };
        // Before the command goes, and after everyone came whom it is for.
        let sent = self.client.shared().clock.now();
        published.locate(self.entry.key()).encode(out, command);
        self.written = Some((command, sent, published));
        true
    }

    fn complete(self, answer: RedisResult<lane::Reply>) {
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

/// What a reply of the pipeline says.
fn read(reply: lane::Reply, command: Command, published: &Published) -> Result<Reply, Error> {
    Ok(match (reply, command) {
        (lane::Reply::Done, _) => Reply::First(true),
        (lane::Reply::Nothing, _) => Reply::First(false),
        (lane::Reply::Number(left), Command::Decrement { .. }) => Reply::Left(left),
        (lane::Reply::Number(number), Command::Settle { operation, .. }) => {
            let capacity: Capacity = published.limit.terms.capacity;
            let count = match operation {
                Operation::Take(count) | Operation::Share(count) | Operation::Lease(count) => count,
                _ => 0,
            };
            let number = u64::try_from(number).unwrap_or(0);
            Reply::Settled(Settled::from_headroom(number, capacity, published.terms.pace, count))
        }
        (lane::Reply::Number(_), Command::FirstTake { .. }) => Reply::First(false),
        (lane::Reply::Numbers(numbers), _) => {
            Reply::Settled(Settled::try_from(numbers).map_err(|error| Error::Redis(error.into()))?)
        }
    })
}
