//! The config against fixtures, the shipped reference and laws.

mod effective;
mod fixtures;
mod laws;
mod shipped;
mod values;
