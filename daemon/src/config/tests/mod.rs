//! The config against fixtures, the shipped reference and laws.

mod effective;
mod files;
mod fixtures;
mod laws;
mod shipped;
mod values;
