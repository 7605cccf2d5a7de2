//! One bucket as this worker sees it: what is known of it, and who waits for its tokens.
//!
//! Takes of one token that come while a command for the bucket is under way wait for its answer and then go together,
//! as one command: `DECRBY k`, or one script. Nobody waits for company; order is kept. When many wait, and the bucket has
//! tokens for all, a second command follows the first, so that Redis and those who are served already work side by side. Those who are willing to wait
//! for tokens stand in a queue of their own and are served first, each in turn.

mod alarm;
mod appetite;
mod back;
mod crowd;
mod flight;
mod lease;
mod line;
mod memory;
mod outcome;
mod pending;
mod ticket;

use std::sync::{Arc, Mutex, PoisonError};

use arrayvec::ArrayVec;
use smol_str::SmolStr;
use topup_wire::{
    bucket::Operation,
    limit::{LimitName, Mode},
    reply::Settled,
};

use crate::{
    bucket::Bucket,
    client::Client,
    clock::Micros,
    decision::Decision,
    error::Error,
    known::{Asked, Denial, Known, Refusal},
    published::Place,
    rollout::Special,
    slots::HashedName,
};

use appetite::Appetite;
pub(crate) use back::Back;
pub(crate) use crowd::outlast;
use lease::{Good, Lease, Spent};
pub(crate) use outcome::Outcome;
pub(crate) use pending::Pending;
pub(crate) use ticket::Ticket;

use flight::{Flight, Sent};
use line::{Line, Taker};
use memory::{Held, Memory};

/// A bucket of a limit. Of very many slots, each is looked up in main memory: what is needed to find it, and to spend what
/// was taken ahead or tell a denial, lies side by side.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Slot {
    key: Option<SmolStr>,
    limit: Arc<HashedName>,
    special: Special,
    lease: Lease,
    memory: Memory,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Where it is, once that has been read.
    place: Option<Place>,
    known: Known,
    /// Those who want a token now.
    takers: Line,
    /// Those who wait for tokens.
    waiters: Line,
    /// The commands under way.
    flights: ArrayVec<Box<Flight>, 2>,
    /// Commands so far.
    flown: u32,
    /// Someone will look at the waiters again.
    alarm: bool,
    /// How much to take ahead.
    appetite: Appetite,
    /// What was taken ahead last.
    last: Good,
    /// More is to be taken ahead.
    hungry: bool,
    /// Someone will give back what was taken ahead and is not spent in time.
    reclaimed: bool,
    /// A bare command has found less than nothing. Of a bucket that was full by then it has made a key that is none.
    unsettled: bool,
    /// Someone is finding out where the bucket is.
    searched: bool,
}

/// An answer, or where it will be.
pub(crate) enum Told<'b> {
    Now(Decision),
    Later(Pending<'b>),
    /// Not before it is known where the bucket is.
    Misplaced,
}

// === impl Slot ===

impl Slot {
    pub(crate) fn new(limit: Arc<HashedName>, key: Option<&str>) -> Self {
        let key = key.map(SmolStr::new);
        Self {
            key,
            limit,
            special: Special::default(),
            lease: Lease::default(),
            memory: Memory::default(),
            state: Mutex::default(),
        }
    }

    /// Whether it is the bucket of `limit`, or of its `key`.
    pub(crate) fn is_of(&self, limit: &LimitName, key: Option<&str>) -> bool {
        self.limit.name == *limit && self.key() == key
    }

    /// The same, as it is looked up.
    pub(crate) fn is_named(&self, limit: &Arc<HashedName>, key: Option<&str>) -> bool {
        self.key() == key && (Arc::ptr_eq(&self.limit, limit) || self.limit.name == limit.name)
    }

    pub(crate) fn limit(&self) -> &LimitName {
        &self.limit.name
    }

    /// The limit as its buckets are looked up.
    pub(crate) fn hashed_limit(&self) -> &Arc<HashedName> {
        &self.limit
    }

    pub(crate) fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Where the bucket is by what is published now, if that has been read.
    pub(crate) fn place(&self, client: &Client) -> Option<Place> {
        self.lock().placed(client.shared().watch.epoch()).cloned()
    }

    /// The same, however long ago that was.
    pub(crate) fn last_place(&self) -> Option<Place> {
        self.lock().place.clone()
    }

    pub(crate) fn put(&self, place: Place) {
        let mut state = self.lock();
        self.special.note(&place);
        if place.mode != Mode::Enforce {
            state.dismiss();
        }
        state.place = Some(place);
    }

    /// Whether there is more to it than its own decisions, by what was read last.
    pub(crate) fn is_special(&self) -> bool {
        self.special.is_set()
    }

    /// Forgets where the bucket is: it is not there.
    pub(crate) fn displace(&self) {
        if let Some(place) = &mut self.lock().place {
            place.mislay();
        }
    }

    /// Whether there may be something to tell at once, as far as can be said without a clock.
    #[inline]
    pub(crate) fn may_know(&self) -> bool {
        !self.lease.is_empty() || !self.memory.is_empty()
    }

    /// What can be told of a take of one token at once, without a lock: a token taken ahead, or a denial.
    #[inline]
    pub(crate) fn at_once(self: &Arc<Self>, client: &Client) -> Option<Decision> {
        let shared = client.shared();
        let (now, epoch) = (shared.clock.now(), shared.watch.epoch());
        match self.lease.spend(now, epoch) {
            Spent::Nothing => self.memory.denial(now, epoch).map(Decision::from),
            Spent::Token(decision, few) => {
                if few {
                    self.take_ahead(client);
                }
                Some(decision)
            }
        }
    }

    /// The same, of what was taken ahead last, where that has seemed to be over.
    #[cold]
    pub(crate) fn of_last(&self, client: &Client) -> Option<Decision> {
        if self.lease.is_empty() {
            return None;
        }
        let shared = client.shared();
        match self.spend_of_last(&self.lock(), shared.clock.now(), shared.watch.epoch()) {
            Spent::Token(decision, _) => Some(decision),
            Spent::Nothing => None,
        }
    }

    /// Takes tokens ahead, if the limit is leased, or a crowd has almost spent what was taken for it.
    #[cold]
    pub(crate) fn take_ahead(self: &Arc<Self>, client: &Client) {
        let mut state = self.lock();
        match state.placed(client.shared().watch.epoch()) {
            Some(place) if place.published.limit.lease.is_none() && self.lease.is_empty() => {}
            Some(_) => {
                state.hungry = true;
                self.launch(&mut state, client);
            }
            None => self.search(&mut state, client),
        }
    }

    /// Has someone find out where the bucket is.
    fn search(self: &Arc<Self>, state: &mut State, client: &Client) {
        if !std::mem::replace(&mut state.searched, true) {
            let bucket = Bucket::of(client, self);
            client.shared().runtime.spawn(async move { bucket.search().await });
        }
    }

    /// Ends a search for where the bucket is.
    pub(crate) fn searched(&self) {
        self.lock().searched = false;
    }

    /// Tokens taken ahead that are still good.
    pub(crate) fn held(&self, client: &Client) -> u64 {
        let shared = client.shared();
        if self.lease.is_over(shared.clock.now(), shared.watch.epoch()) { 0 } else { self.lease.left() }
    }

    /// Takes one token.
    pub(crate) fn take<'b>(self: &'b Arc<Self>, client: &'b Client) -> Told<'b> {
        let mut state = self.lock();
        let Some(asked) = state.asked_in_place(1, client) else { return Told::Misplaced };
        if let Some(free) = state.free() {
            return Told::Now(free);
        }
        if let Spent::Token(decision, _) = self.spend_of_last(&state, asked.sent, asked.epoch) {
            return Told::Now(decision);
        }
        if let Some(denial) = state.known.denial(Asked { count: 1 + state.spoken_for(), ..asked }) {
            return Told::Now(denial.into());
        }
        let (taker, pending) = Taker::new(1, asked.sent, asked.sent, client, self);
        state.takers.push(taker);
        self.launch(&mut state, client);
        Told::Later(pending)
    }

    /// Takes `count` tokens when they are there, and all who waited before have theirs; denied at once when that cannot
    /// be by `until`.
    pub(crate) fn wait<'b>(self: &'b Arc<Self>, count: u64, until: Micros, client: &'b Client) -> Told<'b> {
        let mut state = self.lock();
        let Some(asked) = state.asked_in_place(count, client) else { return Told::Misplaced };
        if let Some(free) = state.free() {
            return Told::Now(free);
        }
        // Where a denial stops nobody, nobody waits.
        let until = if state.is_enforced() { until } else { asked.sent };
        if let Some(denial) = state.turn(state.waiters.tokens(), asked)
            && asked.sent.saturating_add(denial.wait) > until
        {
            return Told::Now(denial.into());
        }
        let (taker, pending) = Taker::new(count, asked.sent, until, client, self);
        state.waiters.push(taker);
        self.go_on(&mut state, client);
        Told::Later(pending)
    }

    /// What can be told of a take of `count` tokens without Redis: that nobody asks, or a denial that is remembered.
    pub(crate) fn remembered(&self, count: u64, client: &Client) -> Option<Decision> {
        let state = self.lock();
        let asked = state.asked_in_place(count, client)?;
        state.free().or_else(|| state.known.denial(asked).map(Decision::from))
    }

    /// Learns from the answer of a script to `operation`, here since `received`.
    pub(crate) fn learn(&self, settled: &Settled, operation: Operation, asked: Asked, received: Micros) {
        match operation {
            Operation::Take(_) | Operation::Share(_) | Operation::Lease(_) => {
                self.lock().known = Known::learned(settled, asked, received);
            }
            Operation::Refund(_) | Operation::Reset => self.lock().known = Known::default(),
            Operation::Peek(_) | Operation::Reserve { .. } => {}
        }
    }

    /// Tells whoever waits that there may be tokens now.
    pub(crate) fn look_again(self: &Arc<Self>, client: &Client) {
        self.go_on(&mut self.lock(), client);
    }

    fn lock(&self) -> Held<'_> {
        // A panic elsewhere leaves at worst what was known before.
        Held::new(self, self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

// === impl State ===

impl State {
    /// Where the bucket is, if that was read under `epoch`.
    fn placed(&self, epoch: u64) -> Option<&Place> {
        self.place.as_ref().filter(|place| place.is_current(epoch))
    }

    /// A question asked now; `None` when it is not known where.
    fn asked_in_place(&self, count: u64, client: &Client) -> Option<Asked> {
        let epoch = client.shared().watch.epoch();
        self.placed(epoch).map(|place| Self::question(place, count, epoch, client))
    }

    /// The same, where the bucket was when that was last read.
    fn asked(&self, count: u64, client: &Client) -> Option<Asked> {
        let place = self.place.as_ref()?;
        Some(Self::question(place, count, client.shared().watch.epoch(), client))
    }

    /// Tokens that commands under way, or about to be sent, will take: the next ones are not there before others have come.
    fn spoken_for(&self) -> u64 {
        if self.flights.is_empty() {
            return 0;
        }
        let beside_takers = |sent: &Sent| sent.wanted.saturating_sub(sent.aboard.1 as u64);
        let sent = self.flights.iter().filter_map(|flight| flight.sent.as_ref());
        let others: u64 = sent.map(beside_takers).sum();
        others.saturating_add(self.takers.len() as u64)
    }

    /// What to tell of a take of one token without a further look.
    fn refusal(&self) -> Option<Refusal> {
        let place = self.placed(self.known.denied_under()?).filter(|place| place.mode != Mode::Off)?;
        self.known.refusal(self.spoken_for(), place.published.terms)
    }

    /// What is told of a limit that is off.
    fn free(&self) -> Option<Decision> {
        self.place.as_ref().and_then(Place::free)
    }

    /// Whether a denial holds.
    fn is_enforced(&self) -> bool {
        self.place.as_ref().is_none_or(|place| place.mode == Mode::Enforce)
    }

    /// Tells those who wait for tokens that it is not their turn: what comes of that is no longer for the bucket to say.
    fn dismiss(&mut self) {
        let (tokens, capacity) = (self.known.tokens(), self.known.capacity());
        let denial = Denial { tokens, capacity, wait: 0 };
        while let Some(waiter) = self.waiters.pop() {
            waiter.tell(Ok(denial.into()));
        }
    }

    fn question(place: &Place, count: u64, epoch: u64, client: &Client) -> Asked {
        Asked { count, sent: client.shared().clock.now(), terms: place.published.terms, epoch }
    }
}

/// What cannot be answered any more: its client is gone.
fn given_up() -> Error {
    Error::Redis(redis::RedisError::from((redis::ErrorKind::Io, "the client was dropped")))
}
