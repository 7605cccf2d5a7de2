//! What whoever measures needs, whatever is measured: what Redis has done by its own count, and figures as people read
//! them.

mod meter;
mod number;
mod spread;
mod table;
mod words;

pub use meter::Meter;
pub use number::{count, fine, short};
pub use spread::{Quantiles, Spread};
pub use table::Table;
pub use words::wrapped;
