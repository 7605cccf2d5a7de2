//! The config against fixtures, the shipped reference and laws.

mod effective;
mod files;
mod fixtures;
mod laws;
mod schema;
mod shipped;
mod values;
