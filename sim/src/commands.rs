//! Commands on their way to Redis and back.

use topup::machine::{Command, Event, Reply};
use topup_wire::bucket::Operation;

use crate::{
    fault::Fault,
    in_flight::{Fate, SentCommand, Taken},
    oracle::Note,
    server::Executed,
    world::{Happening, World},
};

// === impl World ===

impl World {
    /// The pipeline is ready: the machine builds the command.
    pub(crate) fn write(&mut self, worker: usize, bucket: usize, number: u32) {
        let Some(published) = self.workers[worker].published.clone() else { return };
        let outcome = self.step(worker, bucket, Event::Ready(number), &published, None);
        let Some(command) = outcome.command else { return };
        self.corrects(worker);
        let (sent, at, connection) = (self.local(worker), self.now, self.connection);
        let fate = self.fate();
        self.tell(bucket, || format!("worker {worker} writes {command:?}, number {number}"));
        let arrives = (self.now + self.long_trip()).max(self.workers[worker].carried_until);
        self.workers[worker].carried_until = arrives;
        let settles = match command {
            Command::Settle { .. } => std::mem::take(&mut self.workers[worker].entries[bucket].doubts),
            _ => Vec::new(),
        };
        let executed = None;
        let sent = SentCommand {
            worker,
            bucket,
            number,
            command,
            sent,
            at,
            published,
            fate,
            connection,
            settles,
            executed,
        };
        self.push(arrives, Happening::Execute(Box::new(sent)));
    }

    pub(crate) fn fate(&mut self) -> Fate {
        if !self.delays.chance(self.plan.network.lost, 10_000) {
            return Fate::Answered;
        }
        self.delays.pick(&[Fate::Lost, Fate::Unanswered, Fate::Silent])
    }

    /// Redis carries a command out.
    pub(crate) fn execute(&mut self, mut sent: Box<SentCommand>) {
        let SentCommand { worker, bucket, command, at, .. } = *sent;
        let back = self.now + self.long_trip();
        if sent.fate == Fate::Lost || sent.connection != self.connection {
            sent.fate = Fate::Lost;
            self.push(back, Happening::Completed(sent));
            return;
        }
        self.see(bucket);
        let executed = self.server.execute(bucket, command, sent.published.written(), at, self.now);
        let order = self.next_order();
        self.tell(bucket, || {
            let reply = match executed.reply {
                Reply::Settled(settled) => format!(
                    "{:?}, {} granted, {} left, {}, full in {} µs",
                    settled.verdict,
                    settled.granted,
                    settled.tokens,
                    if settled.counting { "counting" } else { "at rest" },
                    settled.headroom,
                ),
                reply => format!("{reply:?}"),
            };
            let before = executed.before;
            format!("REDIS executes {command:?} of worker {worker}: {reply} (held {before})")
        });
        self.books[bucket].granted += executed.granted;
        match command {
            Command::FirstTake { .. } => self.counts.first_takes += 1,
            Command::TakeAtRest { .. } => self.counts.takes_at_rest += 1,
            Command::Decrement { .. } | Command::TakeInWindow { .. } => self.counts.decrements += 1,
            Command::Settle { operation, .. } => {
                let reserves = matches!(operation, Operation::Reserve(_)) && executed.granted > 0;
                self.counts.settles += 1;
                self.counts.reservations += u64::from(reserves);
            }
        }
        if executed.charged > 0 {
            self.books[bucket].charged += executed.charged;
        }
        if !executed.refused {
            for doubt in std::mem::take(&mut sent.settles) {
                self.books[bucket].notes.push((self.now, order, Note::Paid(doubt, executed.unpaid)));
            }
        }
        if executed.granted > 0 {
            self.books[bucket].granted_at = order;
        }
        sent.executed = Some((self.now, order, executed));
        if sent.fate != Fate::Silent {
            // The shell asks once more beside the pipeline.
            let again = if executed.refused { self.trip() + self.trip() } else { 0 };
            self.push(back + again, Happening::Completed(sent));
        }
    }

    /// Law 3: tokens in the bucket, and those that are elsewhere.
    pub(crate) fn see(&mut self, bucket: usize) {
        let now = self.server.time(self.now);
        self.server.expire(bucket, now);
        let tokens = self.server.tokens(bucket, now);
        let elsewhere = self.books[bucket].elsewhere();
        self.note(bucket, Note::Seen(tokens, elsewhere));
    }

    /// A command has come to an end.
    pub(crate) fn completed(&mut self, sent: &SentCommand) {
        let &SentCommand {
            worker,
            bucket,
            number,
            command,
            sent: mut when,
            ref published,
            fate,
            connection,
            ..
        } = sent;
        let now = self.local(worker);
        self.workers[worker].entries[bucket].doubts.extend(&sent.settles);
        self.workers[worker].note_round_trip(now.saturating_sub(when));
        let executed = sent.executed.filter(|(.., executed)| {
            fate == Fate::Answered && connection == self.connection && !executed.refused
        });
        let reply = executed.map(|(.., executed)| executed.reply);
        if let Some(was_full) = was_full(command, reply) {
            self.workers[worker].note_first_take(!was_full);
        }
        let taken =
            executed.map(|(at, order, Executed { granted, born, .. })| Taken { at, order, granted, born });
        if let Some((at, order, executed)) = executed
            && executed.overflow > 0
        {
            self.tell(bucket, || format!("({} tokens of them were taken late)", executed.overflow));
            self.counts.late += executed.overflow;
            if matches!(command, Command::Decrement { .. }) {
                self.workers[worker].entries[bucket].doubts.push(order);
            }
            self.books[bucket].notes.push((at, order, Note::Doubtful(order, executed.overflow)));
        }
        self.tell(bucket, || match reply {
            Some(_) => format!("worker {worker} has the reply to number {number}"),
            None => format!("worker {worker} has no reply to number {number}"),
        });
        let refused = match reply {
            // The machine judges takes at rest. Refused tokens are given back, or lost to the bucket.
            Some(Reply::AtRest { full_at, .. }) => {
                let earliest = self.workers[worker].control.redis.parts()[0].saturating_add(when);
                !published.terms.grants_at_rest(command.count(), full_at, earliest)
            }
            reply => reply == Some(Reply::OtherTerms),
        };
        if let Some((_, order, Executed { granted: tokens @ 1.., .. })) = executed.filter(|_| !refused) {
            self.workers[worker].entries[bucket].untold.push_back((order, tokens));
        }
        if self.fault == Some(Fault::FreshIgnored) && matches!(command, Command::Decrement { .. }) {
            when += 10_000_000;
        }
        let event = Event::Completed { number, command, sent: when, reply };
        self.step(worker, bucket, event, &published.clone(), taken);
    }
}

/// Whether a command that takes of a bucket without a key has found none.
fn was_full(command: Command, reply: Option<Reply>) -> Option<bool> {
    match (command, reply?) {
        (Command::FirstTake { .. }, Reply::First(was_full)) => Some(was_full),
        (Command::TakeAtRest { first_at: 1.., .. }, Reply::AtRest { was_full, .. }) => Some(was_full),
        _ => None,
    }
}
