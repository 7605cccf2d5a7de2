//! Admissions: leave to go on, from one limit or several.

use std::time::Duration;

use tokio::time::sleep;

use crate::{
    client::Client, default::default_client, denied::Denied, error::Error, outage_policy::OnError,
    shell::clock::micros, take::Take, take_all::MultiDecision,
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
}

// === impl Admission ===

impl<'c> Admission<'c> {
    /// An admission that `client` decides.
    pub const fn of(client: &'c Client) -> Self {
        Self { client: Some(client), takes: Vec::new(), longest: Duration::ZERO }
    }

    /// An admission that the default client decides: see [`set_default`](crate::set_default).
    pub fn by_default() -> Self {
        Self { client: default_client(), takes: Vec::new(), longest: Duration::ZERO }
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

    /// Takes all tokens or none.
    ///
    /// # Errors
    /// The inner error is a denial. The outer one is that of [`Bucket::take`](crate::Bucket::take), or
    /// [`Error::NoDefault`].
    pub async fn decide(self) -> Result<Result<(), Denied>, Error> {
        let decided = self.multi_decision().await?;
        Ok(Denied::by(&decided, &self.takes).map_or(Ok(()), Err))
    }

    /// Takes all tokens or none. If Redis does not decide, `on_error` does, and [`Client::undecided`] counts it.
    ///
    /// # Errors
    /// A denial. A take that could never be allowed is denied whatever `on_error` says: more tokens than the capacity, or
    /// an invalid key.
    pub async fn decide_or(self, on_error: OnError) -> Result<(), Denied> {
        match self.multi_decision().await {
            Ok(decided) => Denied::by(&decided, &self.takes).map_or(Ok(()), Err),
            Err(error) if self.denies_on(&error, on_error) => Err(Denied::because(error, &self.takes)),
            Err(_) => Ok(()),
        }
    }

    /// The decisions of all limits.
    pub(crate) async fn multi_decision(&self) -> Result<MultiDecision, Error> {
        let client = self.client.ok_or(Error::NoDefault)?;
        let decided = match &self.takes[..] {
            [take] if !self.longest.is_zero() => {
                let bucket = take.bucket(client);
                let decision = bucket.wait(take.tokens(), self.longest).await?;
                MultiDecision::of_one(bucket.entry()?, decision)
            }
            takes => take_all(client, takes, self.longest).await?,
        };
        // A cached denial is no sign that Redis is back.
        if client.shared().control.is_reachable() {
            client.outages().end(self.limits());
        }
        Ok(decided)
    }

    /// Whether `error` is a denial under the outage policy. Records the outage, unless the take itself is at fault.
    pub(crate) fn denies_on(&self, error: &Error, on_error: OnError) -> bool {
        if error.is_of_the_take() {
            return true;
        }
        if let Some(client) = self.client {
            client.outages().begin(self.limits(), error, on_error);
        }
        on_error == OnError::Deny
    }

    fn limits(&self) -> impl Iterator<Item = &str> {
        self.takes.iter().map(|take| take.name().0)
    }
}

/// Takes of several buckets. Waits up to `longest` for the slowest of them.
async fn take_all(client: &Client, takes: &[Take], longest: Duration) -> Result<MultiDecision, Error> {
    let clock = &client.shared().clock;
    let until = clock.now().saturating_add(micros(longest));
    loop {
        let decided = client.take_all(takes.iter().map(|take| (take.bucket(client), take.tokens()))).await?;
        match decided.retry_after() {
            // Takes of several buckets are in no wait queue, so other takes may overtake them.
            Some(wait) if clock.now().saturating_add(micros(wait)) <= until => sleep(wait).await,
            _ => return Ok(decided),
        }
    }
}
