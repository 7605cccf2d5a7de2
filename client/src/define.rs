//! Limits that the program itself defines.

use std::{
    pin::Pin,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures_util::FutureExt;
use topup_wire::{
    claims::Owner,
    limit::{CodeTerms, LimitName},
    publishing::{self, DEFINED_FOR, DefineError, Defined},
};

use crate::{client::Client, error::Error};

/// The owner of definitions that name none.
const OWNER: &str = "code";
/// The time for which a limit is defined, unless set: a day.
const EXPIRES_IN: Duration = Duration::from_secs(86_400);
/// The longest time for a definition beyond the client's deadline. A change of terms takes 0.75 s.
const CHANGE: Duration = Duration::from_millis(2_500);

/// A definition of a limit that is about to be made, from [`Client::define`].
#[derive(Clone, Debug)]
#[must_use = "nothing is defined until this is awaited"]
pub struct Define {
    client: Client,
    name: String,
    terms: CodeTerms,
    owner: String,
    expires_in: Duration,
}

/// The end of a definition that is about to be made, from [`Client::undefine`].
#[derive(Clone, Debug)]
#[must_use = "nothing ends until this is awaited"]
pub struct Undefine {
    client: Client,
    name: String,
    owner: String,
}

type Defining<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

// === impl Client ===

impl Client {
    /// Defines a limit that no config has: a tenant's, of terms that the program knows. It is a limit like those of the
    /// daemon's config, until it expires or is [undefined](Self::undefine).
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example(topup: topup::Client) -> Result<(), topup::Error> {
    /// use topup::Terms;
    ///
    /// let terms = Terms::token_bucket(100, "10/s").keyed();
    /// topup.define("tenant-7", terms).owner("billing").expires_in(Duration::from_secs(3600)).await?;
    /// let decision = topup.limit("tenant-7").key("alice").take(1).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// - When this returns, the limit is in force. Other clients find it at once.
    /// - The same terms again renew the limit. A renewal is cheap. Renew a limit well before it expires, from any process.
    /// - Other terms change the limit. All clients change over at one instant, and tokens stay as
    ///   [`on_change`](crate::Terms::on_change) says. A change of the capacity or rate of a token bucket takes 0.75 s.
    /// - A limit that nobody renews ends: its takes fail with [`Error::UnknownLimit`], and a daemon removes its keys.
    /// - No daemon is needed. One that is alive refills the limit's buckets, as those of other limits.
    ///
    /// There are 10,000 such limits at most in one namespace. The Redis user needs the rights of `topup-definer`, as
    /// `topupd acl` prints them.
    ///
    /// # Errors
    /// - [`Error::InvalidLimit`], [`Error::InvalidName`], [`Error::InvalidOwner`] and [`Error::InvalidExpiry`] for wrong
    ///   values.
    /// - [`Error::DefinedByOther`] and [`Error::OfConfig`] for a limit of another owner or of a config.
    /// - [`Error::TooManyDefined`], [`Error::MayNotDefine`] and [`Error::DefinitionContested`].
    /// - Errors of Redis, after which the call may be repeated. It waits for the client's deadline and 2.5 s more. A change that
    ///   has begun goes on if the caller does not wait.
    pub fn define(&self, name: impl Into<String>, terms: CodeTerms) -> Define {
        let (client, name) = (self.clone(), name.into());
        Define { client, name, terms, owner: OWNER.to_owned(), expires_in: EXPIRES_IN }
    }

    /// Ends a limit that was [defined](Self::define), and removes its buckets. Returns whether there was one.
    ///
    /// # Errors
    /// The same as for [`define`](Self::define).
    pub fn undefine(&self, name: impl Into<String>) -> Undefine {
        Undefine { client: self.clone(), name: name.into(), owner: OWNER.to_owned() }
    }

    /// Carries out `work` in a task of its own, which goes on if its caller does not wait.
    async fn defining<T: Send + 'static>(
        &self,
        name: LimitName,
        work: impl Future<Output = Result<T, DefineError>> + Send + 'static,
    ) -> Result<T, Error> {
        let shared = self.shared();
        shared.control.check_schema()?;
        let deadline = shared.deadline + CHANGE;
        let ended = shared.clock.timeout(deadline, shared.runtime.spawn(work)).await;
        // This client knows the change before its next poll.
        shared.limits.note_changes(&[name]);
        match ended {
            Ok(Ok(result)) => result.map_err(|error| refusal(&name, error)),
            Ok(Err(_)) => Err(Error::client_dropped()),
            Err(_) => Err(Error::DeadlineExceeded { deadline }),
        }
    }
}

// === impl Define ===

impl Define {
    /// The owner, `code` unless set. Its name has 1 to 64 of the characters `A-Z a-z 0-9 . _ -`.
    /// No other owner changes or ends the limit.
    pub fn owner(self, owner: impl Into<String>) -> Self {
        Self { owner: owner.into(), ..self }
    }

    /// The time after which the limit ends unless it is renewed, 1 s to 366 days. A day unless set. A renewal brings no end
    /// nearer: [`undefine`](Client::undefine) does.
    pub fn expires_in(self, expires_in: Duration) -> Self {
        Self { expires_in, ..self }
    }

    async fn send(self) -> Result<Defined, Error> {
        let Self { client, name, terms, owner, expires_in } = self;
        let owner: Owner = owner.parse().map_err(|_| Error::InvalidOwner { given: owner })?;
        let parsed: LimitName = name.parse()?;
        let limit = terms.limit(parsed).map_err(|problem| Error::InvalidLimit { limit: name, problem })?;
        if !(DEFINED_FOR.0..=DEFINED_FOR.1).contains(&expires_in) {
            return Err(Error::InvalidExpiry { given: expires_in });
        }
        let (connection, clock) = (client.shared().connection(), client.shared().clock.clone());
        let sleep = move |time: Duration| {
            let clock = clock.clone();
            async move { clock.sleep(time).await }.boxed()
        };
        let work = async move { publishing::define(&connection, &limit, &owner, expires_in, sleep).await };
        client.defining(parsed, work).await.map(|(defined, _)| defined)
    }
}

impl IntoFuture for Define {
    type Output = Result<Defined, Error>;
    type IntoFuture = Defining<Defined>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

// === impl Undefine ===

impl Undefine {
    /// The owner that defined the limit; `code` unless set.
    pub fn owner(self, owner: impl Into<String>) -> Self {
        Self { owner: owner.into(), ..self }
    }

    async fn send(self) -> Result<bool, Error> {
        let Self { client, name, owner } = self;
        let owner: Owner = owner.parse().map_err(|_| Error::InvalidOwner { given: owner })?;
        let name: LimitName = name.parse()?;
        let connection = client.shared().connection();
        client.defining(name, async move { publishing::undefine(&connection, &name, &owner).await }).await
    }
}

impl IntoFuture for Undefine {
    type Output = Result<bool, Error>;
    type IntoFuture = Defining<bool>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

/// The reason why the limit `name` is not defined.
fn refusal(name: &LimitName, error: DefineError) -> Error {
    let limit = name.to_string();
    match error {
        DefineError::Owned(definition) => {
            let until: SystemTime = UNIX_EPOCH + Duration::from_micros(definition.until);
            Error::DefinedByOther { limit, owner: definition.owner.to_string(), until }
        }
        DefineError::OfConfig(config) => {
            Error::OfConfig { limit, config: config.map(|config| config.to_string()) }
        }
        DefineError::TooMany => Error::TooManyDefined { most: topup_wire::limit::MOST_DEFINED },
        DefineError::NotPermitted => Error::MayNotDefine,
        DefineError::Redis(error) => Error::redis(error),
        _ => Error::DefinitionContested { limit },
    }
}
