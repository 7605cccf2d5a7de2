//! Looks at the blocks that Redis has.

use topup_wire::scripts;

use super::{KEYS, World, block::Block};
use crate::clients::text;

// === impl World ===

impl World {
    /// Notes the blocks that Redis has.
    pub(super) async fn look(&mut self) -> Result<(), String> {
        let (now, paused) =
            (self.clients.now(), scripts::paused(&mut self.clients.redis).await.map_err(text)?.pauses);
        let (slowest, is_late) = (self.clients.slowest, self.is_late);
        for (key, blocks) in self.blocks.iter_mut().enumerate() {
            let until =
                paused.iter().find(|pause| pause.key.as_deref() == Some(KEYS[key])).map(|one| one.until);
            let after = self.looked_at;
            let was_ended =
                blocks.last().is_some_and(|last| last.ended.is_some() && Some(last.until) == until);
            if was_ended && !is_late {
                return Err(format!("told: {:?} is there at {now}", blocks.last()));
            }
            match (blocks.last_mut().filter(|last| last.until > now && last.ended.is_none()), until) {
                (None, Some(until)) if until > now => {
                    blocks.push(Block { after, from: now, until, ended: None })
                }
                // A block that is begun once more, by a worker without an answer, ends as late as the second time.
                (Some(last), Some(until)) if until.abs_diff(last.until) <= 2 * slowest => last.until = until,
                // A block ends later by as much as its command was late. By then, the next one may have been earned.
                (Some(last), Some(until)) if is_late && last.until <= now + slowest => {
                    last.ended = Some(now);
                    blocks.push(Block { after, from: now, until, ended: None });
                }
                (Some(last), Some(until)) => return Err(format!("length: {last:?} ends at {until}")),
                (Some(last), None) => return Err(format!("held: {last:?} is gone at {now}")),
                _ => {}
            }
        }
        self.looked_at = now;
        Ok(())
    }
}
