//! Cost of the scripts, as they are and in other ways.

mod credit;
mod look;
mod settle;
