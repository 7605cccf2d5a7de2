//! The run itself: the instant, the events to come, and all participants.

use std::{cmp::Ordering, collections::BinaryHeap};

use crate::{
    dice::Dice,
    fault::Fault,
    in_flight::{Call, Poll, SentCommand, SentCorrection, SentPutIn},
    oracle::{Broken, Law, Note},
    plan::{Ask, Plan, SECOND},
    publisher::Publisher,
    read_limit::ReadLimit,
    server::Server,
    worker::Worker,
};

/// Workers poll for so long after the traffic, in µs.
const POLLS_AFTER: u64 = 3 * SECOND;

/// Something that is still to happen.
pub(crate) enum Happening {
    /// The next caller of a stream.
    Traffic(usize),
    /// A caller asks a worker for a bucket; it asks again when it is answered, until the instant.
    Asks { worker: usize, bucket: usize, ask: Ask, until: u64 },
    /// A caller goes away.
    Leaves(usize),
    /// A caller has no use for its answer.
    Unheard(usize),
    /// The pipeline is ready for a command.
    Ready { worker: usize, bucket: usize, number: u32 },
    /// Redis carries a command out.
    Execute(Box<SentCommand>),
    /// A command has come to an end.
    Completed(Box<SentCommand>),
    /// A worker's corrections have waited for a command for long enough.
    Corrects(usize),
    /// Redis corrects a bucket at rest.
    Adjusts(Box<SentCorrection>),
    /// A correction has come to an end.
    Adjusted(Box<SentCorrection>),
    /// A worker looks at its timers.
    Looks(usize),
    /// A worker polls.
    Polls(usize),
    /// Redis is polled, and then the worker has the reply.
    Polled(Poll),
    /// A worker's poll has ended.
    PollEnds(Poll),
    /// Redis is asked for the limit.
    Reads(usize, u64),
    /// A worker has the limit, or an error.
    HasRead(usize, Option<ReadLimit>),
    /// Tokens reach Redis.
    PutsIn(Box<SentPutIn>),
    /// A charge of so many tokens reaches Redis.
    Charges(usize, u64),
    /// The wait for a put-in ends.
    PutInEnds(Box<SentPutIn>),
    /// A daemon's pass.
    Pass(u64),
    /// A daemon says that it lives.
    Beat,
    /// A daemon looks whether the terms are as they should be.
    Publishes,
    /// A bucket at rest is migrated over a change.
    Touch(usize),
    /// The state that a replica has.
    Replicates,
    /// A mishap of the plan.
    Mishap(usize),
    /// A scheduled change of terms.
    Boundary(usize),
}

/// A happening at its instant.
struct Event {
    at: u64,
    order: u64,
    what: Happening,
}

/// A bucket's notes and sums.
#[derive(Clone, Debug, Default)]
pub(crate) struct Books {
    /// Notes with their instants and their order.
    pub(crate) notes: Vec<(u64, u64, Note)>,
    /// Tokens that Redis has granted.
    pub(crate) granted: u64,
    /// The number, in order, of the last command that took tokens.
    pub(crate) granted_at: u64,
    /// Tokens that callers were told of.
    pub(crate) told: u64,
    /// Tokens taken ahead or granted in vain that were put back.
    pub(crate) returned: u64,
    /// Tokens in doubt that were paid.
    pub(crate) charged: u64,
}

/// The ingredients of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Happenings of all kinds.
    pub happenings: u64,
    /// First takes that Redis carried out.
    pub first_takes: u64,
    /// Native takes of buckets at rest.
    pub takes_at_rest: u64,
    /// Corrections of buckets at rest.
    pub corrections: u64,
    /// Bare commands.
    pub decrements: u64,
    /// Settles.
    pub settles: u64,
    /// Steps of put-ins.
    pub put_ins: u64,
    /// Charges.
    pub charges: u64,
    /// Tokens spent from those in hand.
    pub spent_in_hand: u64,
    /// Tokens taken by bare commands of a bucket that had become full on the way.
    pub late: u64,
    /// Tokens that callers were told of.
    pub admitted: u64,
}

/// Everybody.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) fault: Option<Fault>,
    pub(crate) now: u64,
    order: u64,
    queue: BinaryHeap<Event>,
    /// Numbers for callers and mishaps.
    pub(crate) dice: Dice,
    /// Numbers for delays and losses.
    pub(crate) delays: Dice,
    pub(crate) server: Server,
    pub(crate) replica: Option<(Server, Vec<u64>)>,
    /// Counts the connections that were broken: replies of earlier ones are lost.
    pub(crate) connection: u32,
    pub(crate) workers: Vec<Worker>,
    pub(crate) publisher: Publisher,
    pub(crate) calls: Vec<Call>,
    pub(crate) books: Vec<Books>,
    pub(crate) broken: Vec<Broken>,
    story: Option<Vec<(u64, usize, String)>>,
    pub(crate) counts: Counts,
}

// === impl Counts ===

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.happenings += other.happenings;
        self.first_takes += other.first_takes;
        self.takes_at_rest += other.takes_at_rest;
        self.corrections += other.corrections;
        self.decrements += other.decrements;
        self.settles += other.settles;
        self.put_ins += other.put_ins;
        self.charges += other.charges;
        self.spent_in_hand += other.spent_in_hand;
        self.late += other.late;
        self.admitted += other.admitted;
    }
}

// === impl Event ===

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    /// The earliest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

// === impl World ===

impl World {
    pub(crate) fn new(plan: Plan, fault: Option<Fault>, with_story: bool) -> Self {
        let mut dice = Dice::new(!plan.seed);
        let delays = dice.branch();
        let workers = (0..plan.workers).map(|_| Worker::new(&plan, &mut dice)).collect();
        let mut world = Self {
            fault,
            now: 0,
            order: 0,
            queue: BinaryHeap::new(),
            dice,
            delays,
            server: Server::new(&plan, fault),
            replica: None,
            connection: 0,
            workers,
            publisher: Publisher::new(plan.terms),
            calls: Vec::new(),
            books: vec![Books::default(); plan.buckets],
            broken: Vec::new(),
            story: with_story.then(Vec::new),
            counts: Counts::default(),
            plan,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        self.beat();
        for worker in 0..self.workers.len() {
            let at = self.dice.of(0..=250_000);
            self.settled_in(worker);
            self.push(at, Happening::Polls(worker));
        }
        for stream in 0..self.plan.traffic.len() {
            self.next_of(stream);
        }
        for daemon in 0..self.plan.daemons.many.max(1) {
            let at = self.dice.of(0..=self.plan.daemons.pass.1);
            self.push(at, Happening::Pass(daemon));
        }
        for i in 0..self.plan.mishaps.len() {
            self.plan_mishap(i);
        }
        for i in 0..self.plan.schedule.len() {
            self.push(self.plan.schedule[i].0, Happening::Boundary(i));
        }
    }

    /// When the traffic is over and every bucket has been full for seconds.
    pub(crate) fn ends(&self) -> u64 {
        let full = self.plan.longest_filling();
        let back = self.plan.mishaps.iter().map(|(_, mishap)| match mishap {
            crate::plan::Mishap::Step(by) => by.unsigned_abs(),
            _ => 0,
        });
        let each = self.plan.promises().map(crate::plan::Promise::each).max().unwrap_or(0);
        self.plan.lasts + full + back.sum::<u64>() + 3 * each + 12 * SECOND
    }

    /// Whether the traffic is on.
    pub(crate) fn is_open(&self) -> bool {
        self.now < self.plan.lasts
    }

    /// Whether workers go on polling.
    pub(crate) fn polls(&self) -> bool {
        self.now < self.plan.lasts + POLLS_AFTER
    }

    pub(crate) fn push(&mut self, at: u64, what: Happening) {
        self.order += 1;
        self.queue.push(Event { at: at.max(self.now), order: self.order, what });
    }

    /// A number for the order of what happens at one instant.
    pub(crate) fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// Lets everything happen.
    pub(crate) fn run(&mut self) {
        let ends = self.ends();
        while let Some(Event { at, what, .. }) = self.queue.pop() {
            if at > ends {
                break;
            }
            self.now = at;
            self.counts.happenings += 1;
            self.happen(what);
            self.note_gifts();
        }
        self.now = ends;
        self.close();
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::Traffic(stream) => self.traffic(stream),
            Happening::Asks { worker, bucket, ask, until } => self.asks(worker, bucket, ask, until),
            Happening::Leaves(call) => self.leaves(call),
            Happening::Unheard(call) => self.unheard(call),
            Happening::Ready { worker, bucket, number } => self.write(worker, bucket, number),
            Happening::Execute(sent) => self.execute(sent),
            Happening::Completed(sent) => self.completed(&sent),
            Happening::Corrects(worker) => self.corrects(worker),
            Happening::Adjusts(adjusting) => self.adjust(adjusting),
            Happening::Adjusted(adjusting) => self.adjusted(*adjusting),
            Happening::Looks(worker) => self.looks(worker),
            Happening::Polls(worker) => self.poll(worker),
            Happening::Polled(poll) => self.polled(poll),
            Happening::PollEnds(poll) => self.poll_ends(poll),
            Happening::Reads(worker, epoch) => self.reads(worker, epoch),
            Happening::HasRead(worker, published) => self.has_read(worker, published),
            Happening::PutsIn(putting) => self.puts_in(*putting),
            Happening::Charges(bucket, count) => self.charges(bucket, count),
            Happening::PutInEnds(putting) => self.put_in_ends(&putting),
            Happening::Pass(daemon) => self.pass(daemon),
            Happening::Beat => self.beat(),
            Happening::Publishes => self.publishes(),
            Happening::Touch(bucket) => self.touch(bucket),
            Happening::Replicates => self.replicates(),
            Happening::Mishap(i) => self.mishap(i),
            Happening::Boundary(i) => self.boundary(i),
        }
    }

    /// Allows the tokens of keys that ended too soon once more. Such a key ended before a change of terms reached it,
    /// or while no limit was known after a flush.
    fn note_gifts(&mut self) {
        for (bucket, tokens, by_itself) in std::mem::take(&mut self.server.gifts) {
            // Before whatever else happened at this instant, if it was not the command itself.
            let order = if by_itself { self.next_order() } else { 0 };
            self.books[bucket].notes.push((self.now, order, Note::Given(tokens)));
            self.tell(bucket, || format!("REDIS has let a key go too soon: {tokens} tokens too many"));
        }
    }

    /// Law 4, and that every caller was answered.
    fn close(&mut self) {
        for bucket in 0..self.books.len() {
            let now = self.server.time(self.now);
            self.server.expire(bucket, now);
            let key = self.server.keys[bucket];
            // The daemon's slow sweep removes a stray that no worker knows of: its reply was lost, or a failover lost the
            // settle that removed it.
            let fails_over =
                |mishap: &crate::plan::Mishap| matches!(mishap, crate::plan::Mishap::Failover(_));
            let unknown =
                self.plan.network.lost > 0 || self.plan.mishaps.iter().any(|(_, mishap)| fails_over(mishap));
            let swept = unknown && key.bucket == topup_twin::Bucket::Absent && key.stray.is_some();
            if !key.is_absent() && !swept {
                self.breaks(bucket, Law::KeyStays(format!("{:?}, stray {:?}", key.bucket, key.stray)));
            }
        }
        for call in 0..self.calls.len() {
            if !self.calls[call].is_over {
                let bucket = self.calls[call].bucket;
                self.breaks(bucket, Law::Unanswered(None));
            }
        }
    }

    pub(crate) fn breaks(&mut self, bucket: usize, law: Law) {
        self.broken.push(Broken { bucket, at: self.now, law });
    }

    /// Notes what happened to a bucket now.
    pub(crate) fn note(&mut self, bucket: usize, note: Note) {
        let order = self.next_order();
        self.books[bucket].notes.push((self.now, order, note));
    }

    /// Notes what happened to every bucket.
    pub(crate) fn note_all(&mut self, note: Note) {
        for bucket in 0..self.books.len() {
            self.note(bucket, note);
        }
    }

    /// Adds a line to the story of a bucket.
    pub(crate) fn tell(&mut self, bucket: usize, line: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push((self.now, bucket, line()));
        }
    }

    /// The story of everything.
    pub(crate) fn story(&mut self) -> Vec<(u64, usize, String)> {
        self.story.take().unwrap_or_default()
    }

    /// µs that something takes one way.
    pub(crate) fn trip(&mut self) -> u64 {
        let (from, to) = self.plan.network.trip;
        self.delays.of(from..=to)
    }

    /// The same of a command that may be late.
    pub(crate) fn long_trip(&mut self) -> u64 {
        let late = self.plan.network.late;
        let more = if self.delays.chance(late, 10_000) { self.plan.network.late_by } else { 0 };
        self.trip() + self.delays.of(0..=more)
    }
}
