//! The keys of a limit beside those of its shards, and the keys of throttles.

use crate::{limit::LimitName, namespace::Namespace};

/// Slices of the most denied keys: one begins, one is on its way out, and four are told as a whole.
const TOP_SLICES: usize = 6;

// === impl Namespace ===

impl Namespace {
    /// Trial metrics of the limit `name`.
    pub(crate) fn counts_of(self, name: &LimitName) -> String {
        format!("{self}:{{{name}:0}}:counts")
    }

    /// The most denied keys of the limit `name`, in slices of time that take turns.
    pub(crate) fn top_slices(self, name: &LimitName) -> [String; TOP_SLICES] {
        std::array::from_fn(|slice| format!("{self}:{{{name}:0}}:top{slice}"))
    }

    /// The denied takes and the blocks of `key`, of the limit `name`.
    pub(crate) fn penalty_of(self, name: &LimitName, key: &str) -> String {
        format!("{self}:{{{name}:0}}:penalty:{key}")
    }

    /// The state of a throttle. No key of a limit begins so.
    pub fn throttle_state(self, key: &str) -> String {
        format!("{self}:throttle:{{{key}}}")
    }

    /// The key of a throttle that the module redis-cell decides. In the default namespace it is `key` itself, so that
    /// other clients of the module share it.
    pub(crate) fn cell_key(self, key: &str) -> String {
        if self.is_default() { key.to_owned() } else { format!("{self}:cell:{{{key}}}") }
    }
}
