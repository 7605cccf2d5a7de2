//! The config against fixtures, the shipped reference and laws.

mod fixtures;
mod in_force;
mod laws;
mod shipped;
mod values;
