//! Admissions: leave to go on, from one limit or several.

use std::time::Duration;

use topup_wire::limit::OnOutage;

use crate::{
    bucket::Bucket, client::Client, default::default_client, denied::Denied, error::Error,
    multi_decision::MultiDecision, outage::Policies, shell::clock::micros, take::Take,
};

/// Leave to go on with a piece of work, from all its limits or from none. The attribute `#[topup::limited]` and the HTTP
/// layers are built on it.
///
/// # Examples
/// ```no_run
/// use std::time::Duration;
/// use topup::{Admission, Take};
///
/// # async fn example(topup: topup::Client) -> Result<(), Box<dyn std::error::Error>> {
/// Admission::of(&topup)
///     .take(Take::of("api"))
///     .take(Take::of("user").key("alice").message("not so fast, Alice"))
///     .wait(Duration::from_secs(2))
///     .decide()
///     .await??; // the first ? is for topup::Error, the second for topup::Denied
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is decided until `decide` or `decide_or`"]
pub struct Admission<'c> {
    client: Option<&'c Client>,
    takes: Vec<Take>,
    longest: Duration,
    policies: Policies,
}

// === impl Admission ===

impl<'c> Admission<'c> {
    /// An admission that `client` decides.
    pub const fn of(client: &'c Client) -> Self {
        Self::with(Some(client))
    }

    /// An admission that the default client decides: see [`set_default`](crate::set_default).
    pub fn by_default() -> Self {
        Self::with(default_client())
    }

    const fn with(client: Option<&'c Client>) -> Self {
        let policies = Policies { call: None, fallback: None };
        Self { client, takes: Vec::new(), longest: Duration::ZERO, policies }
    }

    /// Adds a limit. Several are one decision: tokens are taken from all limits or from none.
    pub fn take(mut self, take: Take) -> Self {
        self.takes.push(take);
        self
    }

    /// Waits up to `longest` for tokens. Without it, a denial is immediate.
    pub fn wait(self, longest: Duration) -> Self {
        Self { longest, ..self }
    }

    /// Has `on_outage` decide while Redis gives no decision. It goes before the policies of the limits and of the client.
    pub fn on_outage(mut self, on_outage: OnOutage) -> Self {
        self.policies.call = Some(on_outage);
        self
    }

    /// Has `on_outage` decide where no other policy is set.
    #[cfg(feature = "tower")]
    pub(crate) fn or_else(mut self, on_outage: OnOutage) -> Self {
        self.policies.fallback = Some(on_outage);
        self
    }

    /// Takes all tokens or none.
    ///
    /// # Errors
    /// The inner error is a denial. The outer one is that of [`Bucket::take`](crate::Bucket::take), or
    /// [`Error::NoDefault`].
    pub async fn decide(self) -> Result<Result<(), Denied>, Error> {
        let decided = self.multi_decision().await?;
        Ok(Denied::by(&decided, &self.takes).map_or(Ok(()), Err))
    }

    /// Takes all tokens or none. If Redis does not decide, `on_outage` does, and [`Client::undecided`] counts it. A
    /// limit that is not published is denied, too, unless `on_outage` is [`Allow`](OnOutage::Allow).
    ///
    /// # Errors
    /// A denial. A take that could never be allowed is denied whatever `on_outage` says: more tokens than the capacity, or
    /// an invalid key.
    pub async fn decide_or(self, on_outage: OnOutage) -> Result<(), Denied> {
        self.on_outage(on_outage).decide_or_deny().await
    }

    /// [`decide_or`](Self::decide_or) by the policies of this admission.
    pub(crate) async fn decide_or_deny(self) -> Result<(), Denied> {
        match self.multi_decision().await {
            Ok(decided) => Denied::by(&decided, &self.takes).map_or(Ok(()), Err),
            Err(error) if self.denies_on(&error) => Err(Denied::because(error, &self.takes)),
            Err(_) => Ok(()),
        }
    }

    /// The decisions of all limits.
    pub(crate) async fn multi_decision(&self) -> Result<MultiDecision, Error> {
        let client = self.client.ok_or(Error::NoDefault)?;
        match &self.takes[..] {
            [take] if !self.longest.is_zero() => {
                let bucket = self.bucket(take, client);
                let decision = bucket.wait(take.tokens(), self.longest).await?;
                Ok(MultiDecision::of_one(bucket.entry()?, decision))
            }
            _ => self.take_all(client).await,
        }
    }

    /// Whether `error` is a denial: the take is at fault, or the outage policy denies. Records the latter.
    pub(crate) fn denies_on(&self, error: &Error) -> bool {
        if error.is_of_the_take() {
            return true;
        }
        let Policies { call, fallback } = self.policies;
        let of_client = || self.client.and_then(|client| client.shared().on_outage);
        let by = call.or_else(of_client).or(fallback).unwrap_or(OnOutage::Deny);
        let is_allowed = by == OnOutage::Allow;
        if let Some(client) = self.client {
            let shared = client.shared();
            for take in &self.takes {
                shared.outages.note(take.name().0, is_allowed, by, error, shared.clock.now());
            }
        }
        !is_allowed
    }

    /// Takes of several buckets. Waits up to `longest` for the slowest of them.
    async fn take_all(&self, client: &Client) -> Result<MultiDecision, Error> {
        let clock = &client.shared().clock;
        let until = clock.now().saturating_add(micros(self.longest));
        loop {
            let takes = self.takes.iter().map(|take| (self.bucket(take, client), take.tokens()));
            let mut wait = None;
            let is_last = |decided: &MultiDecision| {
                let in_time = |wait: &Duration| clock.now().saturating_add(micros(*wait)) <= until;
                wait = decided.denied_by().and_then(|by| by.decision().worth_waiting_for()).filter(in_time);
                wait.is_none()
            };
            let decided = MultiDecision::take(client.handle(), takes, is_last).await?;
            match wait {
                // Takes of several buckets are in no wait queue, so other takes may overtake them.
                Some(wait) => clock.sleep(wait).await,
                None => return Ok(decided),
            }
        }
    }

    fn bucket(&self, take: &Take, client: &Client) -> Bucket {
        take.bucket(client).with_policies(self.policies)
    }
}
