//! What the scripts cost Redis, and what they would cost in other ways.

mod credit;
mod settle;
