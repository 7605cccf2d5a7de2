//! Whether the server has the module redis-cell.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use topup_wire::{connection::Connection, scripts};

/// Whether the server has the module redis-cell, as far as the worker knows.
#[derive(Debug, Default)]
pub(crate) struct Module(AtomicU8);

const UNKNOWN: u8 = 0;
const ABSENT: u8 = 1;
const PRESENT: u8 = 2;

// === impl Module ===

impl Module {
    pub(crate) async fn is_present(&self, connection: &mut Connection) -> bool {
        if self.0.load(Relaxed) == UNKNOWN {
            match scripts::has_cell(connection).await {
                Ok(present) => self.0.store(if present { PRESENT } else { ABSENT }, Relaxed),
                // Redis is unreachable, or does not allow the question: the script decides, and the next call asks again.
                Err(_) => return false,
            }
        }
        self.0.load(Relaxed) == PRESENT
    }

    pub(crate) fn set_absent(&self) {
        self.0.store(ABSENT, Relaxed);
    }
}
