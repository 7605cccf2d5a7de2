//! Redis: it executes commands, and its limit and its clock change.

use topup::machine::Micros;
use topup_wire::scripts::PermitState;

use super::{
    World,
    task::{Event, Word},
};

// === impl World ===

impl World {
    /// Redis executes a command.
    pub(super) fn arrives(
        &mut self,
        task: usize,
        id: String,
        places: u64,
        word: Word,
        sent: Micros,
    ) -> Result<(), String> {
        self.change();
        let (now, terms) = (self.redis_now(), self.terms);
        let before: Vec<String> = self.redis.holders.iter().map(|(id, ..)| id.clone()).collect();
        let state = match word {
            Word::Acquire { waits } => self.redis.acquire(terms, &id, places, waits, now),
            Word::Renew => self.redis.renew(terms, &id, places, now),
            Word::Release => self.redis.release(terms, [&id[..]], now)[0],
        };
        self.heard.insert(id.clone(), now);
        self.count += 1;
        if state == PermitState::Waiting {
            self.turns.entry(id.clone()).or_insert(self.count);
        }
        self.in_order(&before)?;
        self.none_lost()?;
        if word != Word::Release && !self.dice.chance(1, 40) {
            let state = match state {
                PermitState::Held => 1,
                PermitState::Waiting => 2,
                PermitState::Absent | PermitState::ExceedsLimit => 0,
            };
            let at = self.now + self.latency();
            self.at(at, Event::Answered { task, id, word, sent, state, ttl: terms.ttl });
        }
        Ok(())
    }

    /// The config or the clock of Redis changes now and then.
    fn change(&mut self) {
        let now = self.now;
        match self.dice.of(0..=599) {
            0 => {
                let limit = self.dice.of(1..=4);
                if let Some((_, ended)) = self.limits.last_mut() {
                    *ended = now;
                }
                self.limits.push((limit, u64::MAX));
                self.terms.limit = limit;
            }
            1 => {
                self.terms.ttl = self.dice.pick(&[500_000, 1_000_000, 3_000_000]);
                self.terms.longest = self.terms.longest.max(self.terms.ttl);
            }
            // Back only: a step forward ends leases early.
            2 => self.ahead -= self.dice.of(1..=5_000_000),
            _ => {}
        }
    }
}
