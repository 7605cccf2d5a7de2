//! Commands, polls and tokens on their way between workers and Redis, and the calls that wait for them.

use std::{cell::Cell, rc::Rc};

use topup::machine::{Command, Correction, Micros};
use topup_wire::scripts::PutIn;

use crate::{
    oracle::Note,
    read_limit::ReadLimit,
    server::{Corrected, Executed},
};

/// A caller's question.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) worker: usize,
    pub(crate) bucket: usize,
    pub(crate) count: u64,
    /// Longest wait for tokens, in µs. 0 for a take.
    pub(crate) patience: u64,
    pub(crate) asked: u64,
    /// When its worker's machine was asked, by that one's clock.
    pub(crate) since: Micros,
    /// It asks again until then.
    pub(crate) until: u64,
    /// Whether it has just waited as told, of a caller that does.
    pub(crate) as_told: Option<bool>,
    pub(crate) is_over: bool,
    pub(crate) left: Rc<Cell<bool>>,
}

/// The fate of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Carried out and answered.
    Answered,
    /// Never carried out; an error.
    Lost,
    /// Carried out, and the reply is lost; an error.
    Unanswered,
    /// Carried out, and nothing is ever heard of it.
    Silent,
}

/// A command on its way.
#[derive(Clone, Debug)]
pub(crate) struct SentCommand {
    pub(crate) worker: usize,
    pub(crate) bucket: usize,
    pub(crate) number: u32,
    pub(crate) command: Command,
    /// When it was written, by the worker's clock, and of the run.
    pub(crate) sent: Micros,
    pub(crate) at: u64,
    pub(crate) published: Rc<ReadLimit>,
    pub(crate) fate: Fate,
    pub(crate) connection: u32,
    /// The doubts that it settles.
    pub(crate) settles: Vec<u64>,
    /// Instant of its execution in the run, its order, and the result.
    pub(crate) executed: Option<(u64, u64, Executed)>,
}

/// The execution of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) at: u64,
    pub(crate) order: u64,
    /// Tokens that Redis granted. Without any, callers are told of tokens that were in hand.
    pub(crate) granted: u64,
    /// When the key of a bucket at rest was made, in µs of Redis.
    pub(crate) born: u64,
}

/// A correction on its way.
#[derive(Clone, Debug)]
pub(crate) struct SentCorrection {
    pub(crate) worker: usize,
    pub(crate) bucket: usize,
    pub(crate) adjust: Correction,
    pub(crate) published: Rc<ReadLimit>,
    /// The command that it corrects.
    pub(crate) taken: Taken,
    pub(crate) fate: Fate,
    pub(crate) connection: u32,
    /// The instant of its writing in the run.
    pub(crate) written_at: u64,
    /// Instant of its execution in the run, its order, and the result.
    pub(crate) corrected: Option<(u64, u64, Corrected)>,
}

/// A control poll on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Poll {
    pub(crate) worker: usize,
    /// When it was sent, by the worker's clock, and of the run.
    pub(crate) sent: Micros,
    pub(crate) at: u64,
    pub(crate) fate: PollFate,
    pub(crate) connection: u32,
    /// The generation, whether a daemon lives, and the instant of Redis.
    pub(crate) told: Option<(u64, bool, u64)>,
}

/// The fate of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PollFate {
    Answered,
    Refused,
    Silent,
}

/// Tokens on their way back.
#[derive(Clone, Debug)]
pub(crate) struct SentPutIn {
    pub(crate) worker: usize,
    pub(crate) bucket: usize,
    pub(crate) request: PutIn,
    /// The tokens among them that no caller was told of.
    pub(crate) untold: u64,
    /// The tokens that a caller puts in and waits for.
    pub(crate) by_caller: Option<Note>,
    /// Until then.
    pub(crate) until: u64,
    pub(crate) connection: u32,
}
