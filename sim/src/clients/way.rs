//! Ways to Redis: commands and replies take time, are late, refused or lost.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use topup_wire::in_memory::Way;

use crate::dice::Dice;

/// The longest time that most commands take to Redis, and their replies back, in µs.
pub(super) const QUICK: u64 = 400;
/// A time that no run takes.
const NEVER: u64 = 1 << 50;

/// The ways of clients to Redis.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ways {
    /// Commands and replies are late by up to so many µs each.
    pub(crate) late: u64,
    /// Redis refuses each third command with this word.
    pub(crate) refused: Option<&'static [u8]>,
    /// First takes write another key.
    pub(super) misplaces_first_takes: bool,
    refusals: Arc<AtomicU64>,
}

// === impl Ways ===

impl Ways {
    pub(crate) fn refusing(self, word: &'static [u8]) -> Self {
        Self { refused: Some(word), ..self }
    }
}

impl From<u64> for Ways {
    fn from(late: u64) -> Self {
        Self { late, ..Self::default() }
    }
}

/// A way to Redis that takes some 100 µs, and sometimes longer. A slow client has many such times.
pub(super) fn way(
    dice: &mut Dice,
    ways: &Ways,
    unheard: Option<&'static [u8]>,
    is_dead: &Arc<AtomicBool>,
) -> Arc<Way> {
    let is_dead = is_dead.clone();
    let (often, dice) = (dice.pick(&[3, 30]), Mutex::new(dice.branch()));
    let Ways { late, refused, misplaces_first_takes, refusals } = ways.clone();
    Arc::new(move |words| {
        if words.iter().any(|word| Some(word.as_slice()) == refused)
            && refusals.fetch_add(1, Relaxed).is_multiple_of(3)
        {
            *words = vec![b"REFUSED".to_vec()];
        }
        if misplaces_first_takes && words[0] == b"SET" && words.last().is_some_and(|word| word == b"NX") {
            words[1].extend(b":elsewhere");
        }
        if let Some(key) = unheard {
            words.iter_mut().filter(|word| *word == key).for_each(|word| word.extend(b":unheard"));
        }
        if is_dead.load(Relaxed) {
            return (NEVER, NEVER);
        }
        let mut dice = dice.lock().unwrap_or_else(PoisonError::into_inner);
        let mut trip = || dice.of(50..=QUICK) + if dice.chance(often, 1_000) { dice.of(0..=late) } else { 0 };
        (trip(), trip())
    })
}
