//! Leave to go on, from one limit or from several.

use std::time::Duration;

use tokio::time::sleep;

use crate::{
    client::Client, default::default_client, denied::Denied, error::Error, joint::Joint, outage::OnError,
    shell::clock::micros, take::Take,
};

/// Leave to go on with a piece of work, from every limit it has to pass, all or nothing. What the attribute
/// `#[topup::limited]` and the HTTP layers ask, and as good by hand.
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
    /// Decided by `client`.
    pub const fn of(client: &'c Client) -> Self {
        Self::by(Some(client))
    }

    /// Decided by the client given to [`set_default`](crate::set_default).
    pub fn by_default() -> Self {
        Self::by(default_client())
    }

    const fn by(client: Option<&'c Client>) -> Self {
        Self { client, takes: Vec::new(), longest: Duration::ZERO }
    }

    /// Asks this limit, too. Several are one decision: none is taken from unless all allow.
    pub fn take(mut self, take: Take) -> Self {
        self.takes.push(take);
        self
    }

    /// Waits for tokens, for at most so long, before it is denied.
    pub fn wait(self, longest: Duration) -> Self {
        Self { longest, ..self }
    }

    /// Takes what was asked for, or nothing.
    ///
    /// # Errors
    /// The inner one is a denial. The outer one is as of [`Bucket::take`](crate::Bucket::take), or
    /// [`Error::NoDefault`].
    pub async fn decide(self) -> Result<Result<(), Denied>, Error> {
        let joint = self.joint().await?;
        Ok(Denied::by(&joint, &self.takes).map_or(Ok(()), Err))
    }

    /// Takes what was asked for, or nothing; `on_error` says what it comes to when that cannot be decided, which is
    /// counted by [`Client::undecided`].
    ///
    /// # Errors
    /// A denial. Of a take that could never be allowed, whatever `on_error` says: of more than the bucket holds, or for
    /// a key that cannot be one.
    pub async fn decide_or(self, on_error: OnError) -> Result<(), Denied> {
        match self.joint().await {
            Ok(joint) => Denied::by(&joint, &self.takes).map_or(Ok(()), Err),
            Err(error) if self.is_refused(&error, on_error) => Err(Denied::because(error, &self.takes)),
            Err(_) => Ok(()),
        }
    }

    /// What the limits say.
    pub(crate) async fn joint(&self) -> Result<Joint, Error> {
        let client = self.client.ok_or(Error::NoDefault)?;
        let joint = match &self.takes[..] {
            [take] if !self.longest.is_zero() => {
                let bucket = take.bucket(client);
                let decision = bucket.wait(take.tokens(), self.longest).await?;
                Joint::alone(bucket.entry()?, decision)
            }
            takes => all(client, takes, self.longest).await?,
        };
        // What is told from memory says nothing of Redis.
        if client.shared().control.is_in_sight() {
            client.outage().over(self.limits());
        }
        Ok(joint)
    }

    /// Whether `error` comes to a denial; takes note of it, unless it is the caller's doing.
    pub(crate) fn is_refused(&self, error: &Error, on_error: OnError) -> bool {
        if error.is_of_the_take() {
            return true;
        }
        if let Some(client) = self.client {
            client.outage().note(self.limits(), error, on_error);
        }
        on_error == OnError::Deny
    }

    fn limits(&self) -> impl Iterator<Item = &str> {
        self.takes.iter().map(|take| take.name().0)
    }
}

/// Takes from several buckets, waiting for the slowest of them for at most `longest`.
async fn all(client: &Client, takes: &[Take], longest: Duration) -> Result<Joint, Error> {
    let clock = &client.shared().clock;
    let until = clock.now().saturating_add(micros(longest));
    loop {
        let joint = client.take_all(takes.iter().map(|take| (take.bucket(client), take.tokens()))).await?;
        match joint.retry_after() {
            // Nobody's turn is kept meanwhile: whoever needs all of several cannot stand in line at each.
            Some(wait) if clock.now().saturating_add(micros(wait)) <= until => sleep(wait).await,
            _ => return Ok(joint),
        }
    }
}
