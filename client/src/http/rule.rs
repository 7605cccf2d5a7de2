//! Rules: limits that requests have to pass.

use std::{borrow::Cow, fmt, sync::Arc};

use http::{StatusCode, request::Parts, response};

use super::key::{KeyExtractor, NoKey};
use crate::take::Take;

type Cost = dyn Fn(&Parts) -> u64 + Send + Sync;
/// The cost of a request by the head of its response; `None` if that does not tell.
pub(super) type CostOfResponse = dyn Fn(&response::Parts) -> Option<u64> + Send + Sync;

/// A limit that requests have to pass, with the choice of the bucket and the cost of a request in tokens.
///
/// The name of a limit is a rule, too: for an unkeyed limit, at one token a request.
#[derive(Clone)]
#[must_use = "a rule limits nothing until it is given to a layer"]
pub struct Rule {
    limit: Cow<'static, str>,
    key: Option<Arc<dyn KeyExtractor>>,
    cost: Option<Arc<Cost>>,
    cost_of_response: Option<Arc<CostOfResponse>>,
    message: Option<Cow<'static, str>>,
}

// === impl Rule ===

impl Rule {
    /// The limit `name`, as in `[limit.name]` of the daemon's config.
    pub fn of(name: impl Into<Cow<'static, str>>) -> Self {
        Self { limit: name.into(), key: None, cost: None, cost_of_response: None, message: None }
    }

    /// Chooses the bucket of a keyed limit: see [`key`](super::key).
    pub fn key(self, key: impl KeyExtractor) -> Self {
        Self { key: Some(Arc::new(key)), ..self }
    }

    /// Tokens that a request costs, instead of one. A request that costs 0 passes without a take.
    pub fn cost(self, cost: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        Self { cost: Some(Arc::new(cost)), ..self }
    }

    /// Tokens that a request has cost, by the head of its response. [`Rule::cost`] is the estimate that is taken before.
    /// Unused tokens are put back, and tokens used beyond it are charged, as [`Hold::settle`](crate::Hold::settle) does.
    /// `None` leaves the estimate.
    ///
    /// A request without a response is an abandoned hold: `on_abandon` of the limit decides. For a cost that the end of
    /// the body tells, the handler has a [`Hold`](crate::Hold) of its own.
    pub fn cost_of_response(
        self,
        cost: impl Fn(&response::Parts) -> Option<u64> + Send + Sync + 'static,
    ) -> Self {
        Self { cost_of_response: Some(Arc::new(cost)), ..self }
    }

    /// Counts only requests whose response has a status for which `counts` holds. The tokens of others are put back.
    pub fn only(self, counts: impl Fn(StatusCode) -> bool + Send + Sync + 'static) -> Self {
        self.cost_of_response(move |response| if counts(response.status) { None } else { Some(0) })
    }

    /// Counts only failures: requests whose response has a status of 400 or more. For attempts to log in, say.
    pub fn only_failures(self) -> Self {
        self.only(|status| status.is_client_error() || status.is_server_error())
    }

    /// The cost of a request by its response, if that is to be asked.
    pub(super) const fn settles(&self) -> Option<&Arc<CostOfResponse>> {
        self.cost_of_response.as_ref()
    }

    /// The message for a sender whom this limit denies.
    pub fn message(self, message: impl Into<Cow<'static, str>>) -> Self {
        Self { message: Some(message.into()), ..self }
    }

    /// The take of `request`; `None` if it passes without one.
    pub(super) fn take(&self, request: &Parts) -> Result<Option<Take>, NoKey> {
        let count = self.cost.as_ref().map_or(1, |cost| cost(request));
        if count == 0 {
            return Ok(None);
        }
        let mut take = Take::of(self.limit.clone()).count(count);
        if let Some(key) = &self.key {
            let Some(key) = key.key(request)? else { return Ok(None) };
            take = take.key(key);
        }
        if let Some(message) = &self.message {
            take = take.message(message.clone());
        }
        Ok(Some(take))
    }
}

impl From<&'static str> for Rule {
    fn from(name: &'static str) -> Self {
        Self::of(name)
    }
}

impl From<String> for Rule {
    fn from(name: String) -> Self {
        Self::of(name)
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("limit", &self.limit)
            .field("keyed", &self.key.is_some())
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}
