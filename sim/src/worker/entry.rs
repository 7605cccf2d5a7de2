//! A bucket in a worker, and the callers that wait for it.

use std::{cell::Cell, collections::VecDeque, rc::Rc};

use topup::machine::{BucketState, Hot, HotCell, Micros, Waiter};

/// A caller that waits for an answer.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) id: usize,
    pub(crate) left: Rc<Cell<bool>>,
}

/// A bucket in a worker.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub(crate) machine: BucketState<Caller>,
    pub(crate) hot: HotCell<[Hot; 0]>,
    /// Instant of the next timer. 0 where there is none.
    pub(crate) armed_at: Micros,
    /// Doubts of the judge for which no settle has been written.
    pub(crate) doubts: Vec<u64>,
    /// Tokens that no caller was told of yet, the oldest first: the order of their command, and how many.
    pub(crate) untold: VecDeque<(u64, u64)>,
}

// === impl Caller ===

impl Waiter for Caller {
    fn has_left(&self) -> bool {
        self.left.get()
    }
}

// === impl Entry ===

impl Entry {
    /// Takes out so many of the tokens that no caller was told of, those of the command with the order `of` first.
    pub(crate) fn tell_of(&mut self, count: u64, of: Option<u64>) {
        let mut rest = count;
        if let Some((_, tokens)) = self.untold.iter_mut().find(|(order, _)| Some(*order) == of) {
            let some = rest.min(*tokens);
            (*tokens, rest) = (*tokens - some, rest - some);
        }
        self.take_untold(rest);
    }

    /// Takes out so many of the tokens that no caller was told of, the oldest first. Returns how many there were.
    pub(crate) fn take_untold(&mut self, count: u64) -> u64 {
        let mut rest = count;
        while rest > 0
            && let Some((_, tokens)) = self.untold.front_mut()
        {
            let some = rest.min(*tokens);
            (*tokens, rest) = (*tokens - some, rest - some);
            if *tokens == 0 {
                self.untold.pop_front();
            }
        }
        count - rest
    }
}
