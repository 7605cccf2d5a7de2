//! Processes whose tasks take permits: they ask, wait, renew, release, and die.

use topup::machine::{Micros, PermitAnswer, PermitLease};

use super::{
    PermitMistake, TASKS, TIMEOUT, World,
    task::{Doing, Event, Word},
};

const POLL: Micros = 50_000;

// === impl World ===

impl World {
    pub(super) fn wake(&mut self, task: usize) {
        let now = self.now;
        match self.tasks[task].doing {
            Doing::Nothing => {
                self.count += 1;
                let places = if self.dice.chance(1, 5) { self.dice.of(1..=self.terms.limit) } else { 1 };
                let of_task = &mut self.tasks[task];
                (of_task.id, of_task.places) = (format!("{task}.{}-{places}", self.count), places);
                (of_task.doing, of_task.lease) = (Doing::Asks, PermitLease::Forgotten);
                let waits = self.dice.chance(3, 4);
                self.send(task, Word::Acquire { waits });
                let id = self.tasks[task].id.clone();
                self.at(now + TIMEOUT, Event::Late { task, id });
            }
            Doing::Asks => {}
            Doing::Waits => {
                if self.dice.chance(1, 30) {
                    self.send(task, Word::Release);
                    return self.rest(task);
                }
                self.send(task, Word::Renew);
                self.at(now + POLL, Event::Wake(task));
            }
            Doing::Holds { until } => {
                let PermitLease::Held { renew_at, .. } = self.tasks[task].lease.at(now) else {
                    self.send(task, Word::Release);
                    return self.rest(task);
                };
                if now >= until {
                    self.send(task, Word::Release);
                    return self.rest(task);
                }
                if now >= renew_at {
                    self.send(task, Word::Renew);
                }
                self.at((now + POLL).min(until.max(now + 1)), Event::Wake(task));
            }
        }
    }

    /// The task does nothing for a while.
    pub(super) fn rest(&mut self, task: usize) {
        self.tasks[task].doing = Doing::Nothing;
        let at = self.now + self.dice.gap(20_000);
        self.at(at, Event::Wake(task));
    }

    pub(super) fn send(&mut self, task: usize, word: Word) {
        let (id, places, sent) = (self.tasks[task].id.clone(), self.tasks[task].places, self.now);
        if !self.dice.chance(1, 40) {
            let at = sent + self.latency();
            self.at(at, Event::Arrives { task, id, places, word, sent });
        }
    }

    pub(super) fn answered(
        &mut self,
        task: usize,
        id: &str,
        word: Word,
        sent: Micros,
        state: i8,
        ttl: u64,
    ) -> Result<(), String> {
        let now = self.now;
        let of_task = &mut self.tasks[task];
        // A call gives up after its deadline.
        if of_task.id != id || of_task.doing == Doing::Nothing || now > sent + TIMEOUT {
            return Ok(());
        }
        let counts_from = if self.mistake == Some(PermitMistake::CountsFromAnswer) { now } else { sent };
        let answer = match state {
            1 => PermitAnswer::Held { ttl },
            2 => PermitAnswer::Waiting,
            _ => PermitAnswer::Absent,
        };
        let was_held = matches!(of_task.lease.at(now), PermitLease::Held { .. });
        of_task.lease = of_task.lease.answered(answer, counts_from, now);
        let is_held = matches!(of_task.lease, PermitLease::Held { .. });
        match (word, state) {
            _ if is_held && !matches!(of_task.doing, Doing::Holds { .. }) => {
                let until = now + self.dice.gap(300_000);
                self.tasks[task].doing = Doing::Holds { until };
                self.at(now + 1, Event::Wake(task));
            }
            (Word::Acquire { .. }, 2) => {
                of_task.doing = Doing::Waits;
                self.at(now + POLL, Event::Wake(task));
            }
            (_, 0) if !matches!(of_task.doing, Doing::Holds { .. }) => self.rest(task),
            _ => {}
        }
        if is_held && !was_held { self.never_one_too_many() } else { Ok(()) }
    }

    pub(super) fn dies(&mut self, process: usize) {
        for task in process * TASKS..(process + 1) * TASKS {
            let (one, now) = (&mut self.tasks[task], self.now);
            if let (Doing::Holds { .. }, PermitLease::Held { until, .. }) = (one.doing, one.lease.at(now)) {
                self.ghosts.push((one.places, until));
            }
            // Its successor begins anew.
            one.id.clear();
            if !matches!(one.doing, Doing::Nothing) {
                one.doing = Doing::Nothing;
                self.at(now + 1_000, Event::Wake(task));
            }
        }
        let (next, at) = (self.dice.index(self.tasks.len() / TASKS), self.now + self.dice.gap(1_000_000));
        self.at(at, Event::Dies(next));
    }
}
