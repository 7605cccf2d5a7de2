//! Whether the server has the module redis-cell.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use topup_wire::{connection::Connection, scripts};

/// Whether the server has the module redis-cell.
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
                Ok(has) => self.0.store(if has { PRESENT } else { ABSENT }, Relaxed),
                // Away, or not to be asked by everyone: the script will do, and another call asks again.
                Err(_) => return false,
            }
        }
        self.0.load(Relaxed) == PRESENT
    }

    /// The server has it no more.
    pub(crate) fn is_gone(&self) {
        self.0.store(ABSENT, Relaxed);
    }
}
