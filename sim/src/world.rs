//! The run itself: the instant, the events to come, and all participants.

mod books;
mod close;
mod counts;
mod happening;
mod notes;

use std::collections::BinaryHeap;

pub use self::counts::Counts;
use self::happening::Event;
pub(crate) use self::{books::Books, happening::Happening};
use crate::{
    dice::Dice,
    fault::Fault,
    in_flight::Call,
    oracle::Broken,
    plan::{Mishap, Plan, Promise, SECOND},
    publisher::Publisher,
    server::Server,
    worker::Worker,
};

/// Workers poll for so long after the traffic, in µs.
const POLLS_AFTER: u64 = 3 * SECOND;

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
            Mishap::Step(by) => by.unsigned_abs(),
            _ => 0,
        });
        let each = self.plan.promises().map(Promise::each).max().unwrap_or(0);
        // The last waiters come and reserve, and put-ins wait for these.
        let waits = self.plan.patience() + 2 * self.plan.longest_delay();
        self.plan.lasts + waits + full + back.sum::<u64>() + 3 * each + 12 * SECOND
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
            Happening::PollEnds(poll) => self.poll_ends(&poll),
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
