//! When to publish: at the start, after a reload, at a boundary of a schedule, and when Redis has lost the records.
//!
//! A change of a token bucket's capacity or rate takes two rounds. The first freezes it and tells workers. The second
//! makes it once all workers know, which is [`FREEZE`](topup_wire::scripts::FREEZE) later. Between the two, all other
//! work goes on. A schedule is known in advance: its first round comes [`AHEAD`](state::AHEAD) of the boundary, and the
//! second at the boundary.
//!
//! Lower terms apply from their boundary on, even if no daemon ran then. Higher terms apply from the instant at which
//! they are published: until then the old terms were in force.

mod due;
mod progress;
mod round;
mod state;

pub(super) use round::EndedRound;
pub(super) use state::Publication;
