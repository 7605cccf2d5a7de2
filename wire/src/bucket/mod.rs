//! Operations on a bucket, and the arithmetic of its rate.

mod operation;
mod pace;

pub use operation::{Operation, Reservation};
pub use pace::{Pace, refill_period};
