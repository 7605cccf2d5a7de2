//! A denial as an error, for functions that end with one.

use std::{borrow::Cow, fmt, time::Duration};

use crate::{error::Error, joint::Joint, take::Take};

/// A limit said no, and nothing was taken. What an [`Admission`](crate::Admission) gives instead of leave to go on, and
/// the attribute `#[topup::limited]` returns.
#[derive(Clone)]
pub struct Denied(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    limit: String,
    key: Option<String>,
    retry_after: Option<Duration>,
    message: Cow<'static, str>,
    cause: Option<Error>,
}

// === impl Denied ===

impl Denied {
    /// The level of `joint` that denies for the longest, if one does.
    pub(crate) fn by(joint: &Joint, takes: &[Take]) -> Option<Self> {
        let level = joint.denied_by()?;
        let (name, wait) = ((level.limit(), level.key()), level.decision().retry_after());
        let wording = takes.iter().find(|take| take.name() == name).and_then(Take::wording).cloned();
        let message = wording.unwrap_or_else(|| {
            let wait = shown(wait.unwrap_or_default());
            format!("limit {:?} denies this: try again in {wait:?}", name.0).into()
        });
        Some(Self::new(name, wait, message, None))
    }

    /// Nothing could be decided, or one of `takes` is such that it can never be allowed.
    pub(crate) fn because(cause: Error, takes: &[Take]) -> Self {
        let of_one = takes.iter().find(|take| match &cause {
            Error::ExceedsCapacity { limit, .. } => take.name().0 == limit,
            _ => true,
        });
        let name = of_one.map_or(("", None), Take::name);
        let message = format!("limit {:?} cannot allow this: {cause}", name.0);
        Self::new(name, None, message.into(), Some(cause))
    }

    /// The other side of a call has asked to be left alone for `wait`.
    #[cfg(feature = "tower")]
    pub(crate) fn paused(take: &Take, wait: Duration) -> Self {
        let name = take.name();
        let who = name.1.unwrap_or("the other side");
        let message = format!("{who} asks to be left alone for {:?}", shown(wait));
        Self::new(name, Some(wait), message.into(), None)
    }

    fn new(
        (limit, key): (&str, Option<&str>),
        retry_after: Option<Duration>,
        message: Cow<'static, str>,
        cause: Option<Error>,
    ) -> Self {
        let (limit, key) = (limit.to_owned(), key.map(str::to_owned));
        Self(Box::new(Inner { limit, key, retry_after, message, cause }))
    }

    /// The limit that denies; of several, the one that does so for the longest.
    pub fn limit(&self) -> &str {
        &self.0.limit
    }

    /// Whose bucket it is, of a keyed limit.
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// How long until the same would be allowed, if nobody else takes meanwhile. `None` where nothing could be decided,
    /// and where it never would be: [`cause`](Self::cause) says which.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// What went wrong, if it was not the limit that denied.
    pub fn cause(&self) -> Option<&Error> {
        self.0.cause.as_ref()
    }

    /// The message of the limit's [`Take`], or one that says when to try again.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl fmt::Debug for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { limit, key, retry_after, message, cause } = &*self.0;
        f.debug_struct("Denied")
            .field("limit", limit)
            .field("key", key)
            .field("retry_after", retry_after)
            .field("message", message)
            .field("cause", cause)
            .finish()
    }
}

impl std::error::Error for Denied {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause().map(|cause| cause as _)
    }
}

/// A wait for people: whole milliseconds, and never too short.
fn shown(wait: Duration) -> Duration {
    Duration::from_millis(wait.as_micros().div_ceil(1_000) as u64)
}
