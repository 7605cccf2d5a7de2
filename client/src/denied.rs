//! A denial as an error, for functions that return one.

use std::{borrow::Cow, fmt, time::Duration};

use topup_wire::limit::OnOutage;

use crate::{
    decision::Decision, error::Error, multi_decision::MultiDecision, outage::OutageReason, take::Take,
};

/// A denial of an [`Admission`](crate::Admission), and the error that `#[topup::limited]` returns. Nothing was taken.
#[derive(Clone, Debug)]
pub struct Denied(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    limit: String,
    key: Option<String>,
    retry_after: Option<Duration>,
    message: Cow<'static, str>,
    cause: Option<Error>,
    degraded: Option<(OutageReason, OnOutage)>,
}

// === impl Denied ===

impl Denied {
    /// The name of the limit that denies; of several, the one that denies for the longest.
    pub fn limit(&self) -> &str {
        &self.0.limit
    }

    /// The key of the bucket; `None` for an unkeyed limit.
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// Time until the same takes would be allowed, if no other caller takes meanwhile. `None` if Redis did not decide, or
    /// if no such take is ever allowed: [`cause`](Self::cause) tells the two apart.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// The message of the limit's [`Take`], or one that says when to try again.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The error in place of a decision; `None` if a limit denied.
    pub fn cause(&self) -> Option<&Error> {
        self.0.cause.as_ref()
    }

    /// The reason why Redis did not decide, if the outage policy denied.
    pub fn outage_reason(&self) -> Option<OutageReason> {
        self.0.degraded.map(|(reason, _)| reason)
    }

    /// Whether the outage policy denies every take.
    #[cfg(feature = "tower")]
    pub(crate) fn is_by_outage(&self) -> bool {
        self.0.degraded.is_some_and(|(_, by)| by == OnOutage::Deny)
    }

    /// The denial in `decided`, if there is one.
    pub(crate) fn by(decided: &MultiDecision, takes: &[Take]) -> Option<Self> {
        let limit = decided.denied_by()?;
        let name = (limit.limit(), limit.key());
        // A key that is denied without end is never allowed.
        let wait = limit.decision().retry_after().filter(|wait| *wait != Duration::MAX);
        let message = takes.iter().find(|take| take.name() == name).and_then(Take::denial_message).cloned();
        let message = message.unwrap_or_else(|| {
            if wait.is_none() {
                return format!("limit {:?} denies this key", name.0).into();
            }
            let wait = whole_millis(wait.unwrap_or_default());
            match limit.decision() {
                Decision::Degraded { reason, .. } => {
                    format!("limit {:?} cannot be decided, {reason}: try again in {wait:?}", name.0).into()
                }
                _ => format!("limit {:?} denies this: try again in {wait:?}", name.0).into(),
            }
        });
        let mut denied = Self::new(name, wait, message, None);
        if let Decision::Degraded { reason, on_outage, .. } = limit.decision() {
            denied.0.degraded = Some((reason, on_outage));
        }
        Some(denied)
    }

    /// A denial because of `cause`: Redis did not decide, or one of `takes` could never be allowed.
    pub(crate) fn because(cause: Error, takes: &[Take]) -> Self {
        let of_one = takes.iter().find(|take| match &cause {
            Error::ExceedsCapacity { limit, .. } => take.name().0 == limit,
            _ => true,
        });
        let name = of_one.map_or(("", None), Take::name);
        let message = format!("limit {:?} cannot allow this: {cause}", name.0);
        Self::new(name, None, message.into(), Some(cause))
    }

    /// A denial because the called service asked for a pause of `wait`.
    #[cfg(feature = "tower")]
    pub(crate) fn paused(take: &Take, wait: Duration) -> Self {
        let name = take.name();
        let host = name.1.unwrap_or("the other side");
        let message = format!("{host} asks to be left alone for {:?}", whole_millis(wait));
        Self::new(name, Some(wait), message.into(), None)
    }

    fn new(
        (limit, key): (&str, Option<&str>),
        retry_after: Option<Duration>,
        message: Cow<'static, str>,
        cause: Option<Error>,
    ) -> Self {
        let (limit, key) = (limit.to_owned(), key.map(str::to_owned));
        Self(Box::new(Inner { limit, key, retry_after, message, cause, degraded: None }))
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for Denied {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause().map(|cause| cause as _)
    }
}

/// A wait for a message: rounded up to whole ms.
fn whole_millis(wait: Duration) -> Duration {
    Duration::from_millis(wait.as_micros().div_ceil(1_000) as u64)
}
