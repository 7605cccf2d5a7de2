//! Errors: the reasons why a call has no decision.

mod causes;
mod redis_error;

use std::time::{Duration, SystemTime};

use topup_wire::{
    limit::{KeyError, NameError, PlanNameError, ThrottleError},
    namespace::NamespaceError,
    schema::NewerSchema,
};

use crate::decision::Decision;
pub use redis_error::RedisError;

/// The answer to a take.
pub(crate) type Answered = Result<Decision, Error>;

/// The reason why a call has no answer. A denial is no error: it is a [`Decision`](crate::Decision).
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No limit of this name is published: no daemon has started yet, or its config has no such limit.
    #[error("no limit {limit:?} is published: is topupd running, and is [limit.{limit}] in its config?")]
    UnknownLimit {
        /// The name as given.
        limit: String,
    },
    /// Redis holds no limits at all in this namespace: it lost its data, or no daemon has published any yet. A daemon
    /// that is alive publishes them at once.
    #[error(
        "nothing is published in the namespace {namespace:?}, so limit {limit:?} is not known: is topupd running?"
    )]
    NothingPublished {
        /// The name as given.
        limit: String,
        /// The namespace of the client.
        namespace: String,
    },
    /// This version cannot read the limit's record. A newer daemon has published an algorithm or a mode that this version
    /// does not know, or the record is corrupt.
    #[error(
        "limit {limit:?} is published in a form that this version cannot read ({problem}): upgrade this worker"
    )]
    UnreadableLimit {
        /// The name of the limit.
        limit: String,
        /// The field that is not known.
        problem: String,
    },
    /// A newer daemon keeps its keys in a way that this version does not know. Nothing is taken.
    #[error("{0}: upgrade this worker")]
    NewerSchema(NewerSchema),
    /// A text that is not a valid namespace.
    #[error(transparent)]
    InvalidNamespace(#[from] NamespaceError),
    /// The limit is registered, and Redis has no record of it: the record was lost, or it is about to be written. A daemon
    /// that is alive writes it within seconds.
    #[error("the record of limit {limit:?} is lost: topupd restores it within seconds if it runs")]
    LimitLost {
        /// The name as given.
        limit: String,
    },
    /// A text that is not a valid name of a limit.
    #[error(transparent)]
    InvalidName(#[from] NameError),
    /// A text that is not a valid key.
    #[error(transparent)]
    InvalidKey(#[from] KeyError),
    /// The limit has a bucket for each key, and the call named no key.
    #[error("limit {limit:?} is keyed: name the bucket with .key(...)")]
    KeyRequired {
        /// The name of the limit.
        limit: String,
    },
    /// The limit has one bucket for all callers, and the call named a key.
    #[error("limit {limit:?} has one bucket for all: leave .key(...) out, or set keyed = true in its config")]
    KeyUnexpected {
        /// The name of the limit.
        limit: String,
    },
    /// More tokens than the bucket can hold: no such take is ever allowed.
    #[error("limit {limit:?} holds at most {capacity} tokens, {count} can never be taken at once")]
    ExceedsCapacity {
        /// The name of the limit.
        limit: String,
        /// Tokens asked for.
        count: u64,
        /// Most tokens in the bucket.
        capacity: u64,
    },
    /// There is no room for another pause, since very many limits and keys are paused.
    #[error("{most} limits and keys are paused already: this one is paused in this process only")]
    TooManyPauses {
        /// Most pauses.
        most: usize,
    },
    /// A take or refund of 0 tokens, or of more than 2^53.
    #[error("{count} is no number of tokens: use 1 to 9007199254740992 (2^53)")]
    InvalidCount {
        /// Tokens asked for.
        count: u64,
    },
    /// Terms that cannot be, of a limit that code defines.
    #[error("limit {limit:?}: {problem}")]
    InvalidLimit {
        /// The name as given.
        limit: String,
        /// The mistake in its terms, as the daemon tells it of a config.
        problem: String,
    },
    /// A text that is not a valid name of an owner.
    #[error("{given:?} is not an owner's name: use 1 to 64 of the characters A-Z a-z 0-9 . _ -")]
    InvalidOwner {
        /// The text as given.
        given: String,
    },
    /// A time for which no limit can be defined.
    #[error("a limit is defined for 1s to 366d, not for {given:?}")]
    InvalidExpiry {
        /// The time as given.
        given: Duration,
    },
    /// Another owner has defined the limit, and it goes on as it is.
    #[error(
        "limit {limit:?} is defined by {owner}: take another name, or have {owner} undefine it or let it expire"
    )]
    DefinedByOther {
        /// The name as given.
        limit: String,
        /// The other owner.
        owner: String,
        /// The end of its definition unless it is renewed, by Redis `TIME`.
        until: SystemTime,
    },
    /// A config of a daemon has a limit of this name, and it goes on as it is.
    #[error(
        "limit {limit:?} is of {}, and code does not change it: take another name",
        .config.as_ref().map_or_else(|| "a config".to_owned(), |config| format!("config {config}"))
    )]
    OfConfig {
        /// The name as given.
        limit: String,
        /// The config, if it is known.
        config: Option<String>,
    },
    /// Several programs of one owner define the limit at once, with different terms.
    #[error("limit {limit:?} is defined with different terms all the time: have one program define it")]
    DefinitionContested {
        /// The name as given.
        limit: String,
    },
    /// There is no room for another limit that code defines.
    #[error("{most} limits are defined by code already: undefine some, or make one keyed limit of many")]
    TooManyDefined {
        /// Most such limits in one namespace.
        most: usize,
    },
    /// The Redis user may take tokens, and may not define limits.
    #[error(
        "the Redis user may not define limits: give it the rights of topup-definer, as \"topupd acl\" prints them"
    )]
    MayNotDefine,
    /// The call named no client, and the process has no default client.
    #[error("no client is the default: call topup::set_default(client) where the program starts")]
    NoDefault,
    /// The process has a default client already, and keeps it.
    #[error("a client is the default already: call topup::set_default once")]
    DefaultIsSet,
    /// Numbers that are no valid arguments of [`Client::throttle`](crate::Client::throttle).
    #[error(transparent)]
    InvalidThrottle(#[from] ThrottleError),
    /// A reservation of a limit that is not a leaky bucket.
    #[error("limit {limit:?} is a {algorithm}, and only a leaky-bucket is a queue: call take or wait")]
    NoQueue {
        /// The name of the limit.
        limit: String,
        /// Its algorithm.
        algorithm: &'static str,
    },
    /// A hold that was first settled so long ago that Redis may have forgotten it. It may have been settled all the same.
    #[error(
        "the hold on limit {limit:?} was first settled {since:?} ago: Redis no longer knows whether it is done"
    )]
    SettledTooLate {
        /// The name of the limit.
        limit: String,
        /// Time since the first attempt.
        since: Duration,
    },
    /// An operation on tokens of a limit that has permits.
    #[error("limit {limit:?} has permits in place of tokens (algorithm = \"concurrency\"): call acquire")]
    NotTokens {
        /// The name of the limit.
        limit: String,
    },
    /// An acquisition of permits of a limit that has tokens.
    #[error(
        "limit {limit:?} is a {algorithm}, and only a limit with algorithm = \"concurrency\" has permits: call take"
    )]
    NoPermits {
        /// The name of the limit.
        limit: String,
        /// Its algorithm.
        algorithm: &'static str,
    },
    /// A text that is not a valid name of a plan.
    #[error(transparent)]
    InvalidPlan(PlanNameError),
    /// The limit has no such plan.
    #[error(
        "limit {limit:?} has no plan {plan:?}: write [limit.{limit}.plan.{plan}] into the config of topupd"
    )]
    UnknownPlan {
        /// The name of the limit.
        limit: String,
        /// The name of the plan.
        plan: String,
    },
    /// The plan of the key changed again and again while a take was under way. Nothing was taken.
    #[error("the plan of a key of limit {limit:?} changes all the time")]
    PlanChanged {
        /// The name of the limit.
        limit: String,
    },
    /// Redis did not answer in time. A take may have been carried out all the same.
    #[error("Redis did not answer within {deadline:?}")]
    DeadlineExceeded {
        /// The deadline of the call.
        deadline: Duration,
    },
    /// Redis has left the last calls without a reply, so this call was not sent. A probe asks Redis ten times a second.
    #[error("Redis does not reply, and was not asked: calls go to it again once it does")]
    CircuitOpen,
    /// Redis could not be reached, or replied with an error. Unless the connection was refused, a take may have been
    /// carried out.
    #[error("Redis: {0}")]
    Redis(#[source] RedisError),
}
