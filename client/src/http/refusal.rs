//! Why a request is not let through.

use std::{borrow::Cow, time::Duration};

use http::StatusCode;

use super::key::NoKey;
use crate::{denied::Denied, error::Error};

/// A request that is not let through, and what it is told.
#[derive(Clone, Debug)]
pub struct Refusal {
    status: StatusCode,
    message: Cow<'static, str>,
    limit: Option<String>,
    retry_after: Option<Duration>,
}

// === impl Refusal ===

impl Refusal {
    /// A limit said no.
    pub(super) fn denied(denied: &Denied) -> Self {
        Self {
            status: StatusCode::TOO_MANY_REQUESTS,
            message: denied.message().to_owned().into(),
            limit: Some(denied.limit().to_owned()),
            retry_after: denied.retry_after(),
        }
    }

    /// No limit could be asked whether it allows this, or none ever would.
    pub(super) fn because(error: &Error) -> Self {
        let (status, message) = match error {
            Error::InvalidKey(_) => (StatusCode::BAD_REQUEST, error.to_string().into()),
            error if error.is_of_the_take() => (StatusCode::TOO_MANY_REQUESTS, error.to_string().into()),
            // What is wrong inside is told to the log.
            _ => (StatusCode::SERVICE_UNAVAILABLE, "limits cannot be decided at the moment".into()),
        };
        Self { status, message, limit: None, retry_after: None }
    }

    /// 429 for a denial, and for a cost no bucket can hold; 503 when nothing could be decided and that means
    /// [`Deny`](crate::OnError::Deny); 400, 401 or 500 when nobody knows whose request it is.
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// What to tell.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The limit that denied.
    pub fn limit(&self) -> Option<&str> {
        self.limit.as_deref()
    }

    /// When the same request would be allowed, if nobody else takes meanwhile.
    pub const fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl From<NoKey> for Refusal {
    fn from(no_key: NoKey) -> Self {
        let (status, message) = no_key.into_parts();
        Self { status, message, limit: None, retry_after: None }
    }
}
