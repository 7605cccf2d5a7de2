//! The twin of `permits.lua`: holders and waiters of one key.

use topup_wire::{
    constants::{MOST_WAITERS, WAITER_LEASE},
    scripts::PermitState,
};

/// The terms of permits, as a record has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitTerms {
    /// The most places.
    pub limit: u64,
    /// The time for which a renewal holds, in µs.
    pub ttl: u64,
    /// The longest such time that may still be in force.
    pub longest: u64,
}

/// A mistake to be found by a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitFault {
    /// A holder whose time is over keeps its place until it is released.
    CountsTheDead,
    /// A renewal gives a place back to a holder whose time is over.
    RevivesTheDead,
    /// The release of a permit that is not held frees a place.
    FreesTwice,
    /// A call without patience takes a place that waiters are entitled to.
    Overtakes,
    /// A place that is given to a waiter is good for a whole ttl, though the waiter may be dead.
    TrustsWaiters,
    /// A lowered ttl shortens leases that were told before.
    Shortens,
}

/// The permits of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permits {
    /// Id, places and the end of the lease.
    pub holders: Vec<(String, u64, u64)>,
    /// The same of waiters, in order.
    pub waiters: Vec<(String, u64, u64)>,
    /// Places that a fault has freed twice.
    freed: u64,
    fault: Option<PermitFault>,
}

// === impl Permits ===

impl Permits {
    /// Permits of a key that nobody holds, with a mistake.
    pub fn with_fault(fault: Option<PermitFault>) -> Self {
        Self { fault, ..Self::default() }
    }

    /// The places that are held.
    pub fn held(&self) -> u64 {
        self.holders.iter().map(|(_, places, _)| places).sum::<u64>().saturating_sub(self.freed)
    }

    /// Takes `places` for `id`, or a turn among the waiters.
    pub fn acquire(
        &mut self,
        terms: PermitTerms,
        id: &str,
        places: u64,
        waits: bool,
        now: u64,
    ) -> PermitState {
        self.tidy(terms, now);
        self.grant(terms, now);
        match self.renew_one(terms, id, places, now) {
            PermitState::Absent => {}
            known => return known,
        }
        if places > terms.limit || places == 0 {
            return PermitState::ExceedsLimit;
        }
        let is_first = self.waiters.is_empty() || self.fault == Some(PermitFault::Overtakes);
        if is_first && self.held() + places <= terms.limit {
            self.holders.push((id.to_owned(), places, now + terms.ttl));
            return PermitState::Held;
        }
        if waits && (self.waiters.len() as u64) < MOST_WAITERS {
            self.waiters.push((id.to_owned(), places, now + terms.ttl.min(WAITER_LEASE)));
            return PermitState::Waiting;
        }
        PermitState::Absent
    }

    /// Prolongs the lease of `id`.
    pub fn renew(&mut self, terms: PermitTerms, id: &str, places: u64, now: u64) -> PermitState {
        self.tidy(terms, now);
        self.grant(terms, now);
        match self.renew_one(terms, id, places, now) {
            PermitState::Absent if self.fault == Some(PermitFault::RevivesTheDead) => {
                self.holders.push((id.to_owned(), places, now + terms.ttl));
                PermitState::Held
            }
            state => state,
        }
    }

    /// Gives the places or the turns of `ids` back. Returns their states before.
    pub fn release<'i>(
        &mut self,
        terms: PermitTerms,
        ids: impl IntoIterator<Item = &'i str>,
        now: u64,
    ) -> Vec<PermitState> {
        self.tidy(terms, now);
        let states = ids.into_iter().map(|id| self.release_one(id)).collect();
        self.grant(terms, now);
        states
    }

    fn release_one(&mut self, id: &str) -> PermitState {
        let before = (self.holders.len(), self.waiters.len());
        self.holders.retain(|(holder, ..)| holder != id);
        self.waiters.retain(|(waiter, ..)| waiter != id);
        match (before.0 > self.holders.len(), before.1 > self.waiters.len()) {
            (true, _) => PermitState::Held,
            (_, true) => PermitState::Waiting,
            _ => {
                self.freed += u64::from(self.fault == Some(PermitFault::FreesTwice));
                PermitState::Absent
            }
        }
    }

    fn renew_one(&mut self, terms: PermitTerms, id: &str, _places: u64, now: u64) -> PermitState {
        let shortens = self.fault == Some(PermitFault::Shortens);
        let find = |all: &mut Vec<(String, u64, u64)>, by: u64| {
            let found = all.iter_mut().find(|(one, ..)| one == id);
            found
                .map(|(_, _, till)| *till = if shortens { now + by } else { (*till).max(now + by) })
                .is_some()
        };
        if find(&mut self.holders, terms.ttl) {
            return PermitState::Held;
        }
        match find(&mut self.waiters, terms.ttl.min(WAITER_LEASE)) {
            true => PermitState::Waiting,
            false => PermitState::Absent,
        }
    }

    /// Removes what is over. No lease ends later than the longest one can.
    fn tidy(&mut self, terms: PermitTerms, now: u64) {
        if self.fault != Some(PermitFault::CountsTheDead) {
            self.holders.retain(|(.., till)| *till > now);
        }
        self.waiters.retain(|(.., till)| *till > now);
        for (.., till) in self.holders.iter_mut().chain(&mut self.waiters) {
            *till = (*till).min(now + terms.longest);
        }
    }

    /// Gives free places to the first waiters.
    fn grant(&mut self, terms: PermitTerms, now: u64) {
        while let Some((_, places, _)) = self.waiters.first() {
            let fits = *places <= terms.limit;
            if fits && self.held() + places > terms.limit {
                return;
            }
            let (id, places, till) = self.waiters.remove(0);
            if fits {
                let trusts = self.fault == Some(PermitFault::TrustsWaiters);
                self.holders.push((id, places, if trusts { now + terms.ttl } else { till }));
            }
        }
    }
}
