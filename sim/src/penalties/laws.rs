//! The laws of penalties: see [the module above](super).

use topup_wire::limit::Penalty;

use super::{LONGEST, SHORTEST, STEP, World, block::Block};
use crate::{clients::Call, plan::SECOND};

/// From a poll to the next one.
const POLL: u64 = SECOND / 4;
/// An outage is over for a client so long after it. A client without answers hands over and asks anew.
const RECOVERS: u64 = 3 * SECOND;
/// A block is told again for so long.
const TOLD_AGAIN: u64 = 5 * SECOND;

// === impl World ===

impl World {
    pub(super) fn judge(&self, blocks: &[Block], calls: &[Call]) -> Result<(), String> {
        let denied: Vec<&Call> = calls.iter().filter(|call| call.is_allowed == Some(false)).collect();
        for (i, block) in blocks.iter().enumerate() {
            self.earned(&blocks[..i], block, &denied)?;
            self.length(&blocks[..i], block)?;
        }
        self.blocked(blocks, &denied)?;
        self.held(blocks, calls)?;
        self.told(blocks, &denied)
    }

    /// Every worker knows of what was so long ago.
    fn known(&self) -> u64 {
        if self.is_late { 3 * SECOND } else { POLL + STEP + 8 * self.clients.slowest }
    }

    /// Every worker has handed over what it counted so long ago.
    fn handed_over(&self) -> u64 {
        if self.is_late { 4 * SECOND } else { 4 * (POLL + STEP + 5 * self.clients.slowest) }
    }

    /// The penalties that workers may apply at an instant.
    fn terms(&self, from: u64, until: u64) -> Vec<Penalty> {
        let before = self.terms.iter().rfind(|(at, _)| at + self.handed_over() <= from);
        let since = self.terms.iter().filter(|(at, _)| at + self.handed_over() > from && *at <= until);
        before.into_iter().chain(since).map(|(_, penalty)| *penalty).collect()
    }

    /// Whether a client may have lost something between two instants.
    fn is_disturbed(&self, from: u64, until: u64) -> bool {
        let away = self.outages.iter().any(|(began, ended)| *began <= until && from <= ended + RECOVERS);
        away || self.flushes.iter().any(|at| *at <= until && from <= at + RECOVERS)
    }

    /// Whether a block may have been told before, to a worker that could not begin it.
    fn is_again(&self, block: &Block) -> bool {
        self.is_late || self.is_refused || self.is_disturbed(block.after, block.from)
    }

    /// A block may have been told so long before it begins.
    fn told_again(&self, block: &Block) -> u64 {
        if self.is_again(block) { TOLD_AGAIN } else { 0 }
    }

    /// The penalties of which one has begun a block. One that was told before may have been of an earlier penalty.
    fn terms_of(&self, block: &Block) -> Vec<Penalty> {
        self.terms(block.after.saturating_sub(self.told_again(block)), block.from)
    }

    fn earned(&self, before: &[Block], block: &Block, denied: &[&Call]) -> Result<(), String> {
        let told_again = self.told_again(block);
        let is_enough = |penalty: &Penalty| {
            let within = penalty.within().as_micros() as u64 + self.handed_over() + told_again;
            let from = block.from.saturating_sub(within);
            let counts = |call: &&&Call| {
                let is_blocked = before.iter().any(|one| one.has(call, one.ended.unwrap_or(one.until)));
                call.received >= from && call.sent <= block.from && !is_blocked
            };
            denied.iter().filter(counts).count() as u64 >= penalty.after()
        };
        match self.terms_of(block).iter().any(is_enough) {
            true => Ok(()),
            false => Err(format!("earned: {block:?}")),
        }
    }

    fn length(&self, before: &[Block], block: &Block) -> Result<(), String> {
        let slowest = self.clients.slowest;
        // A block that is begun once more has its first end.
        let is_again = self.is_again(block);
        let fits = |penalty: &Penalty| {
            let micros = |time: std::time::Duration| time.as_micros() as u64;
            // After which blocks in a row it may be.
            let mut rows = self.row(before, block);
            if is_again {
                // One before it may never have begun.
                rows.extend(rows.clone().into_iter().map(|row| row + 1));
            }
            let lengths = rows.into_iter().map(|row| {
                let grown = micros(penalty.block()).saturating_mul(penalty.factor().saturating_pow(row));
                grown.min(micros(penalty.longest()))
            });
            lengths.into_iter().any(|length| {
                let from = block.until.saturating_sub(length);
                // A worker knows Redis `TIME` to the time of an answer, and its poll was one.
                from <= block.from + 2 * slowest && (is_again || from + slowest >= block.after)
            })
        };
        match self.terms_of(block).iter().any(fits) {
            true => Ok(()),
            false => Err(format!("length: {block:?}")),
        }
    }

    /// The numbers of blocks that may be before a block, without so much time between two that the key began anew.
    fn row(&self, before: &[Block], block: &Block) -> Vec<u32> {
        let Some((last, before)) = before.split_last() else { return vec![0] };
        // A block that was first seen by the look after a flush began after it.
        if self.flushes.iter().any(|at| last.after < *at && *at <= block.from) {
            return if self.is_disturbed(block.after, block.from) { vec![0, 1] } else { vec![0] };
        }
        let (length, slack) = (last.until - last.from, 2 * STEP + 2 * self.clients.slowest);
        let free = block.from.saturating_sub(last.until);
        let more = || self.row(before, last).into_iter().map(|row| row + 1);
        // Blocks that Redis refused to begin, and that nobody saw. The row goes on after them.
        let unseen = if self.is_refused { (free / SHORTEST) as u32 } else { 0 };
        match free {
            _ if unseen > 0 => {
                let most = more().max().unwrap_or_default() + unseen;
                (0..=most).collect()
            }
            _ if free > LONGEST * SECOND + slack => vec![0],
            // The length of a block that is begun once more is not what it shows.
            _ if self.is_again(last) => more().chain([0]).collect(),
            _ if free > length + slack => vec![0],
            _ if free + slack < length => more().collect(),
            _ => more().chain([0]).collect(),
        }
    }

    fn blocked(&self, blocks: &[Block], denied: &[&Call]) -> Result<(), String> {
        // A worker ends a block later by the time of a poll at most.
        let slack = self.clients.slowest + STEP;
        let free: Vec<&&Call> =
            denied.iter().filter(|call| !blocks.iter().any(|one| one.has(call, one.until + slack))).collect();
        for (i, first) in free.iter().enumerate() {
            let [penalty] = self.terms(first.sent, first.received + 8 * SECOND)[..] else { continue };
            let Some(last) = free.get(i + 2 * penalty.after() as usize - 2) else { continue };
            let within = (penalty.within().as_micros() as u64).saturating_sub(self.handed_over());
            let mut by = last.received + self.handed_over() + self.known();
            if self.is_refused {
                // The denied takes of each hand-over have it begin again, while it lasts.
                by += 3 * self.handed_over();
                let goes_on = |half: u64| {
                    let from = last.received + half * SECOND / 2;
                    free.iter().any(|call| call.sent >= from && call.sent < from + SECOND / 2)
                };
                if !(0..8).all(goes_on) {
                    continue;
                }
            }
            let is_close = last.received - first.sent <= within;
            if !is_close || self.is_disturbed(first.sent, by) || by > self.clients.now() {
                continue;
            }
            if !blocks.iter().any(|block| block.from >= first.sent && block.after <= by) {
                let many = 2 * penalty.after() - 1;
                return Err(format!("blocked: {many} denied takes, {first:?} to {last:?}"));
            }
        }
        Ok(())
    }

    fn held(&self, blocks: &[Block], calls: &[Call]) -> Result<(), String> {
        for call in calls.iter().filter(|call| call.is_allowed == Some(true)) {
            let holds = |block: &&Block| {
                let away = self.outages.iter().filter(|(from, _)| *from <= call.received);
                let from = away.map(|(_, until)| *until).fold(block.from, u64::max) + self.known();
                call.sent >= from && call.received < block.ended.unwrap_or(block.until)
            };
            if let Some(block) = blocks.iter().find(holds) {
                return Err(format!("held: {call:?} in {block:?}"));
            }
        }
        Ok(())
    }

    fn told(&self, blocks: &[Block], denied: &[&Call]) -> Result<(), String> {
        let longest = self.rule.time_of(self.rule.capacity);
        let slack = 2 * self.clients.slowest + STEP;
        for call in denied.iter().filter(|call| call.retry_after > longest + slack) {
            let end = call.received + call.retry_after;
            let tells = |block: &Block| {
                let ended = block.ended.map_or(u64::MAX, |at| at + self.known());
                end.abs_diff(block.until) <= slack + longest && call.sent <= ended
            };
            let is_away = self
                .outages
                .iter()
                .any(|(from, until)| *from <= call.received && call.sent <= until + self.known());
            if !is_away && !blocks.iter().any(tells) {
                return Err(format!("told: {call:?}"));
            }
        }
        Ok(())
    }
}

// === impl Block ===

impl Block {
    /// Whether a call was decided within the block, up to an end.
    fn has(&self, call: &Call, until: u64) -> bool {
        call.sent > self.from && call.received < until
    }
}
