//! The laws of the design, checked by oracles that know nothing of how the scripts compute.

mod at_rest;
mod burst;
mod change;
mod clock;
mod free;
mod level;
mod once;
mod oracle;
mod over;
mod refused;
mod scene;
mod sliding;
mod starved;
mod worker;

pub(crate) use scene::Scene;
