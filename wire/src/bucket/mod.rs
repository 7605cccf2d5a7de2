//! Operations on a bucket, and the arithmetic of its rate.

mod operation;
mod pace;

pub use operation::Operation;
pub use pace::{Pace, refill_period};
