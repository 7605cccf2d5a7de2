//! Rejections of requests.

use std::{borrow::Cow, time::Duration};

use http::StatusCode;

use super::key::NoKey;
use crate::{denied::Denied, error::Error};

/// The rejection of a request: status, message, and when to try again.
#[derive(Clone, Debug)]
pub struct Rejection {
    status: StatusCode,
    message: Cow<'static, str>,
    limit: Option<String>,
    retry_after: Option<Duration>,
}

// === impl Rejection ===

impl Rejection {
    /// A rejection by a limit.
    pub(super) fn denied(denied: &Denied) -> Self {
        if denied.is_by_outage() {
            return Self { retry_after: denied.retry_after(), ..Self::undecided() };
        }
        Self {
            status: StatusCode::TOO_MANY_REQUESTS,
            message: denied.message().to_owned().into(),
            limit: Some(denied.limit().to_owned()),
            retry_after: denied.retry_after(),
        }
    }

    /// A rejection because of an error: Redis did not decide, or no limit could ever allow the request.
    pub(super) fn because(error: &Error) -> Self {
        let (status, message) = match error {
            Error::InvalidKey(_) => (StatusCode::BAD_REQUEST, error.to_string().into()),
            error if error.is_of_the_take() => (StatusCode::TOO_MANY_REQUESTS, error.to_string().into()),
            _ => return Self::undecided(),
        };
        Self { status, message, limit: None, retry_after: None }
    }

    /// The same with another status.
    pub(super) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// A rejection by the outage policy. The details are for the log, not for the sender.
    fn undecided() -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            message: "limits cannot be decided at the moment".into(),
            limit: None,
            retry_after: None,
        }
    }

    /// The status: 429 for a denial, or for a cost above the capacity. It is 503 without a decision, under
    /// [`Deny`](crate::OnOutage::Deny), and 400, 401 or 500 for a request without a key.
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// The message for the sender.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The name of the limit that denied.
    pub fn limit(&self) -> Option<&str> {
        self.limit.as_deref()
    }

    /// Time until the same request would be allowed, if no other takes meanwhile.
    pub const fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl From<NoKey> for Rejection {
    fn from(no_key: NoKey) -> Self {
        let (status, message) = no_key.into_parts();
        Self { status, message, limit: None, retry_after: None }
    }
}
