//! The laws of fixed windows: see [the module above](super).

use super::{KEY, World, locked};
use crate::{
    clients::{Call, LIMIT, text},
    plan::SECOND,
};

/// A ms, in µs.
const MS: u64 = 1_000;

// === impl World ===

impl World {
    /// *Never over*. Returns the number of allowed takes.
    pub(super) fn judge_round(&mut self) -> Result<u64, String> {
        let (length, aligned) = self.window();
        let calls = self.clients.calls_of(1).remove(0);
        let allowed: Vec<Call> = calls.iter().filter(|call| call.is_allowed == Some(true)).copied().collect();
        let Some(first) = calls.iter().map(|call| call.sent).min() else { return Ok(0) };
        let mut begins = vec![first];
        if aligned {
            let next = first - first % length + length;
            begins =
                (next..).step_by(length as usize).take_while(|begin| *begin < self.clients.now()).collect();
            begins.push(next - length);
        }
        for begin in begins {
            // A window begins in the ms of its first take, or in the ms after its multiple of the length.
            let (begin, ends) =
                (if aligned { begin.next_multiple_of(MS) } else { begin }, begin - begin % MS + length);
            let within = allowed.iter().filter(|call| call.sent >= begin && call.received <= ends);
            let taken: u64 = within.map(|call| call.count).sum();
            let put_back: u64 = locked(&self.put_back, |all| {
                all.iter().filter(|one| one.sent <= ends).map(|one| one.count).sum()
            });
            let most = self.limit.terms.capacity.get() + put_back;
            if taken > most {
                return Err(format!("never over: {taken} of {most} from {begin} to {ends}"));
            }
        }
        Ok(allowed.len() as u64)
    }

    /// *Ends*.
    pub(super) async fn judge_end(&mut self) -> Result<(), String> {
        let (length, _) = self.window();
        // A window without an end begins at the first take that is denied.
        self.take_of_a_new_client(self.limit.terms.capacity.get() + 1).await?;
        for _ in 0..2 {
            self.pass(self.quiet()).await;
            let capacity = self.limit.terms.capacity.get();
            let taken = self.take_of_a_new_client(capacity).await?;
            // The last of them may be of the next window, and a late reply of no caller.
            if taken < capacity && self.clients.slowest < SECOND / 100 {
                return Err(format!("ends: {taken} of {capacity} in a new window of {length} µs"));
            }
        }
        Ok(())
    }

    /// *To the token*.
    pub(super) async fn judge_put_backs(&mut self) -> Result<(), String> {
        let (length, aligned) = self.window();
        if length < SECOND || aligned || self.clients.slowest >= SECOND / 100 {
            return Ok(());
        }
        let capacity = self.limit.terms.capacity.get();
        self.pass(self.quiet()).await;
        // All ask at once for more than is left.
        for client in &self.clients.all {
            (0..=capacity).for_each(|_| self.clients.take(client, (0, KEY), 1, None));
        }
        self.clients.advance(SECOND / 20).await;
        let put_back = self.dice.of(1..=capacity);
        let bucket = self.clients.all[0].limit(LIMIT).key(KEY);
        let refund = tokio::spawn(async move { bucket.refund(put_back).await });
        self.clients.advance(SECOND / 20).await;
        if !refund.is_finished() {
            return Err("to the token: a put-back takes too long".to_owned());
        }
        refund.await.map_err(text)?.map_err(text)?;
        let taken = self.take_of_a_new_client(put_back + 2).await?;
        match taken == put_back {
            true => Ok(()),
            false => Err(format!("to the token: {taken} of {put_back} put back, capacity {capacity}")),
        }
    }

    /// Has a new client take one token after the other, so many times. Returns the tokens that it gets.
    async fn take_of_a_new_client(&mut self, times: u64) -> Result<u64, String> {
        self.clients.replace(&mut self.dice, 0)?;
        locked(&self.clients.calls, Vec::clear);
        for _ in 0..times {
            self.clients.take(&self.clients.all[0], (0, KEY), 1, None);
            self.clients.advance(2 * self.clients.slowest + 1_000).await;
        }
        let calls = self.clients.calls_of(1).remove(0);
        Ok(calls.iter().filter(|call| call.is_allowed == Some(true)).map(|call| call.count).sum())
    }
}
