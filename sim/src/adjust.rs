//! Corrections of buckets at rest on their way to Redis and back.

use topup::machine::{Correction, Event};

use crate::{
    in_flight::{Fate, SentCorrection, Taken},
    oracle::Note,
    server::Corrected,
    worker::DEADLINE,
    world::{Happening, World},
};

/// A correction waits for a command that it goes with, in µs at most.
const WAITS: u64 = 1_000;

// === impl World ===

impl World {
    /// A machine corrects a bucket at rest.
    pub(crate) fn adjusts(&mut self, worker: usize, bucket: usize, adjust: Correction, taken: Option<Taken>) {
        let it = &mut self.workers[worker];
        let (Some(taken), Some(published)) = (taken, it.published.clone()) else { return };
        let (fate, connection) = (Fate::Answered, self.connection);
        it.corrections.push(SentCorrection {
            worker,
            bucket,
            adjust,
            published,
            taken,
            fate,
            connection,
            written_at: 0,
            corrected: None,
        });
        if adjust.is_urgent() {
            self.corrects(worker);
        } else {
            let waits = self.delays.of(0..=WAITS);
            self.push(self.now + waits, Happening::Corrects(worker));
        }
    }

    /// A worker writes its corrections.
    pub(crate) fn corrects(&mut self, worker: usize) {
        for mut adjusting in std::mem::take(&mut self.workers[worker].corrections) {
            (adjusting.fate, adjusting.written_at) = (self.fate(), self.now);
            adjusting.connection = self.connection;
            let adjust = adjusting.adjust;
            self.tell(adjusting.bucket, || format!("worker {worker} writes {adjust:?}"));
            let arrives = (self.now + self.long_trip()).max(self.workers[worker].carried_until);
            self.workers[worker].carried_until = arrives;
            self.push(arrives, Happening::Adjusts(Box::new(adjusting)));
        }
    }

    /// Redis carries a correction out.
    pub(crate) fn adjust(&mut self, mut adjusting: Box<SentCorrection>) {
        let SentCorrection { worker, bucket, adjust, taken, .. } = *adjusting;
        let back = self.now + self.long_trip();
        if adjusting.fate == Fate::Lost || adjusting.connection != self.connection {
            adjusting.fate = Fate::Lost;
            return self.push(back, Happening::Adjusted(adjusting));
        }
        self.see(bucket);
        self.counts.corrections += 1;
        let (written, now) = (adjusting.published.written(), self.server.time(self.now));
        let corrected = self.server.adjust(bucket, adjust, written, taken.born, now);
        self.tell(bucket, || format!("REDIS corrects for worker {worker}: {adjust:?}: {corrected:?}"));
        let order = self.next_order();
        let books = &mut self.books[bucket];
        let (give, later) = adjust.shift();
        if corrected.shifted {
            books.returned += give;
            books.charged += later;
        }
        // The tokens were away for so long that they may be some that would not have fitted meanwhile. Or they went to a
        // bucket made anew, and the worker does not hear of it.
        let is_late = self.now > taken.at + written.time_of(1);
        let is_unheard = corrected.is_another && adjusting.fate != Fate::Answered;
        if corrected.shifted && give > 0 && (is_late || is_unheard) {
            let until = self.now + written.time_of(written.capacity.get());
            books.notes.push((self.now, order, Note::Pardoned(give, until)));
        }
        if corrected.shifted && later > 0 {
            // The surplus of a late first take is a debt of the bucket now.
            let others = books.granted_at > taken.order;
            let unpaid = if others { u64::MAX } else { corrected.debt };
            books.notes.push((self.now, order, Note::Paid(taken.order, unpaid)));
        }
        adjusting.corrected = Some((self.now, order, corrected));
        let ends = if adjusting.fate == Fate::Silent { self.now + DEADLINE } else { back };
        self.push(ends, Happening::Adjusted(adjusting));
    }

    /// A correction has come to an end.
    pub(crate) fn adjusted(&mut self, adjusting: SentCorrection) {
        let SentCorrection { worker, bucket, adjust, published, taken, fate, connection, corrected, .. } =
            adjusting;
        let pace = published.terms.pace;
        let answered = corrected.filter(|_| fate == Fate::Answered && connection == self.connection);
        let Some(in_doubt) = adjust.in_doubt(answered.map(|(.., corrected)| corrected.reply), pace) else {
            return;
        };
        let (give, later) = adjust.shift();
        if later > 0 {
            // The surplus of a late first take is noted. A settle pays for it, if no correction has.
            let shifted = corrected.is_some_and(|(.., corrected)| corrected.shifted);
            self.workers[worker].entries[bucket].doubts.extend((!shifted).then_some(taken.order));
        }
        let went_wrong = |corrected: Corrected| adjust.in_doubt(Some(corrected.reply), pace).is_some();
        let doubtful = match corrected {
            _ if later > 0 => None,
            // Tokens that were given to a bucket made anew.
            Some((at, order, corrected)) if give > 0 => {
                (corrected.shifted && went_wrong(corrected)).then_some((at, order))
            }
            // Tokens that were forgotten with their key, or will be.
            Some((.., corrected)) if !corrected.is_another && answered.is_some() => None,
            _ => (adjust.lives_until() > 0).then_some((taken.at, taken.order)),
        };
        if let Some((at, order)) = doubtful {
            self.workers[worker].entries[bucket].doubts.push(order);
            self.books[bucket].notes.push((at, order, Note::Doubtful(order, adjust.tokens())));
        }
        self.tell(bucket, || format!("worker {worker} has not corrected: {in_doubt:?}"));
        self.step(worker, bucket, Event::NotCorrected(in_doubt), &published, None);
    }
}
