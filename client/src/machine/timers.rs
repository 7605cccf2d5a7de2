//! A timer wheel: the deadlines and wake-ups of all buckets, each at constant cost. Time is an argument.

use super::Micros;

/// µs of a step.
const STEP: Micros = 1_000;
/// Places of the wheel. An entry beyond its end comes at the end, and is armed again.
const STEPS: usize = 512;

/// Entries by the ms at which they are due.
#[derive(Debug)]
pub struct Timers<T> {
    steps: Box<[Vec<T>]>,
    /// One bit for each step that has entries.
    occupied: [u64; STEPS / 64],
    /// The first step that has not been handed out, counted from the beginning of time.
    next: u64,
}

// === impl Timers ===

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self { steps: (0..STEPS).map(|_| Vec::new()).collect(), occupied: [0; STEPS / 64], next: 0 }
    }
}

impl<T> Timers<T> {
    /// Has `entry` handed out at the instant `at`, or up to 1 ms later. An entry beyond the wheel's half second comes early.
    pub fn arm(&mut self, at: Micros, entry: T) {
        let step = at.div_ceil(STEP).clamp(self.next, self.next + STEPS as u64 - 1);
        let index = step as usize % STEPS;
        self.steps[index].push(entry);
        self.occupied[index / 64] |= 1 << (index % 64);
    }

    /// When the first entry is due.
    pub fn due_at(&self) -> Option<Micros> {
        // From the word of the next step on, and in the end that word again, for its lower bits.
        let from = self.next as usize % STEPS;
        for turn in 0..=self.occupied.len() {
            let word = (from / 64 + turn) % self.occupied.len();
            let bits = match turn {
                0 => self.occupied[word] & (u64::MAX << (from % 64)),
                _ => self.occupied[word],
            };
            if bits > 0 {
                let index = word * 64 + bits.trailing_zeros() as usize;
                let ahead = (index + STEPS - from) % STEPS;
                return Some((self.next + ahead as u64) * STEP);
            }
        }
        None
    }

    /// Hands out all entries that are due at `now`.
    pub fn take_due(&mut self, now: Micros, due: &mut Vec<T>) {
        while let Some(at) = self.due_at().filter(|at| *at <= now) {
            let index = (at / STEP) as usize % STEPS;
            due.append(&mut self.steps[index]);
            self.occupied[index / 64] &= !(1 << (index % 64));
        }
        self.next = self.next.max(now / STEP + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(timers: &mut Timers<u32>, now: Micros) -> Vec<u32> {
        let mut due = Vec::new();
        timers.take_due(now, &mut due);
        due
    }

    #[test]
    fn entries_come_in_their_ms_and_never_early() {
        let mut timers = Timers::default();
        assert_eq!(timers.due_at(), None);
        for (at, entry) in [(2_500, 1), (1_000, 2), (400_000, 3)] {
            timers.arm(at, entry);
        }
        assert_eq!(timers.due_at(), Some(1_000));
        assert_eq!(due(&mut timers, 999), Vec::<u32>::new());
        assert_eq!(due(&mut timers, 1_000), [2]);
        assert_eq!(due(&mut timers, 2_999), Vec::<u32>::new());
        assert_eq!(due(&mut timers, 3_000), [1]);
        assert_eq!(due(&mut timers, 399_999), Vec::<u32>::new());
        assert_eq!(due(&mut timers, 500_000), [3]);
    }

    #[test]
    fn an_entry_in_the_past_is_due_at_once_and_one_far_off_comes_within_the_wheel() {
        let mut timers = Timers::default();
        assert_eq!(due(&mut timers, 10_000_000), Vec::<u32>::new());
        timers.arm(5, 1);
        timers.arm(99_000_000, 2);
        assert_eq!(due(&mut timers, 10_001_000), [1]);
        assert!(timers.due_at().is_some_and(|at| at > 10_500_000 && at <= 10_512_000 + 1_000));
        assert_eq!(due(&mut timers, 10_600_000), [2]);
    }

    #[test]
    fn no_entry_is_lost_however_time_goes() {
        let mut timers = Timers::default();
        let (mut now, mut armed, mut seen) = (0, 0, 0);
        for step in 0..20_000_u64 {
            now += step * 7_919 % 9_001;
            timers.arm(now + step * 104_729 % 700_000, 0_u32);
            armed += 1;
            seen += due(&mut timers, now).len();
        }
        seen += due(&mut timers, now + 1_000_000).len();
        assert_eq!(seen, armed);
    }
}
