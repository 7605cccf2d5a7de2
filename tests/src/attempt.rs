//! One take of a worker and its answer, for a test to judge afterwards.

use std::fmt;
use std::pin::pin;
use std::str::FromStr;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use topup::{Bucket, Decision, Error};

use crate::clock;

/// One take of one token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The instant just before the take, in µs of [`clock::now`].
    pub sent: u64,
    /// The instant just after its answer.
    pub received: u64,
    /// The answer.
    pub answer: Answer,
}

/// The answer to a take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The token was given.
    Allowed,
    /// The token was not given.
    Denied,
    /// An error that may pass.
    Transient(String),
    /// Any other error.
    Failed(String),
}

/// The pace of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Time between two takes.
    pub every: Duration,
    /// Takes come for the first time and not for the second, again and again; in all workers of a machine at once.
    pub burst_and_rest: Option<(Duration, Duration)>,
}

/// Takes one token of `bucket` at a time until `stop` is done, and logs each attempt. Late takes are left out.
pub async fn work(bucket: &Bucket, pace: Pace, stop: impl Future<Output = ()>, mut log: impl FnMut(Attempt)) {
    let (mut stop, mut turns) = (pin!(stop), interval(pace.every));
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = &mut stop => return,
            _ = turns.tick() => if !pace.rests(clock::now()) {
                log(Attempt::make(bucket).await);
            },
        }
    }
}

// === impl Pace ===

impl Pace {
    /// Takes without a rest.
    #[must_use]
    pub fn steady(every: Duration) -> Self {
        Self { every, burst_and_rest: None }
    }

    fn rests(&self, now: u64) -> bool {
        self.burst_and_rest
            .is_some_and(|(burst, rest)| u128::from(now) % (burst + rest).as_micros() >= burst.as_micros())
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (burst, rest) = self.burst_and_rest.unwrap_or((Duration::MAX, Duration::ZERO));
        write!(f, "{} {} {}", self.every.as_micros(), burst.as_micros() as u64, rest.as_micros() as u64)
    }
}

impl FromStr for Pace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let micros: Result<Vec<u64>, _> = text.split(' ').map(str::parse).collect();
        let Ok([every, burst, rest]) = micros.as_deref() else { return Err(format!("{text:?} is no pace")) };
        let [every, burst, rest] = [every, burst, rest].map(|micros| Duration::from_micros(*micros));
        Ok(Self { every, burst_and_rest: (!rest.is_zero()).then_some((burst, rest)) })
    }
}

// === impl Attempt ===

impl Attempt {
    /// Takes one token of `bucket` now.
    pub async fn make(bucket: &Bucket) -> Self {
        let sent = clock::now();
        let answer = Answer::from(bucket.take(1).await);
        Self { sent, received: clock::now(), answer }
    }

    /// Whether the token was given.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.answer == Answer::Allowed
    }

    /// The error, if the take ended in one.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        match &self.answer {
            Answer::Allowed | Answer::Denied => None,
            Answer::Transient(error) | Answer::Failed(error) => Some(error),
        }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, error) = match &self.answer {
            Answer::Allowed => ("allowed", ""),
            Answer::Denied => ("denied", ""),
            Answer::Transient(error) => ("transient", error.as_str()),
            Answer::Failed(error) => ("failed", error.as_str()),
        };
        write!(f, "{} {} {word} {}", self.sent, self.received, error.replace('\n', " "))
    }
}

impl FromStr for Attempt {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let wrong = || format!("{line:?} is no attempt");
        let mut words = line.splitn(4, ' ');
        let mut word = || words.next().ok_or_else(wrong);
        let [sent, received] = [word()?, word()?].map(|number| number.parse().map_err(|_| wrong()));
        let answer = match (word()?, word()?.to_owned()) {
            ("allowed", _) => Answer::Allowed,
            ("denied", _) => Answer::Denied,
            ("transient", error) => Answer::Transient(error),
            ("failed", error) => Answer::Failed(error),
            _ => return Err(wrong()),
        };
        Ok(Self { sent: sent?, received: received?, answer })
    }
}

// === impl Answer ===

impl From<Result<Decision, Error>> for Answer {
    fn from(taken: Result<Decision, Error>) -> Self {
        match taken {
            Ok(decision) if decision.is_allowed() => Self::Allowed,
            Ok(_) => Self::Denied,
            Err(error) if error.is_transient() => Self::Transient(error.to_string()),
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_read_as_it_was_written() {
        let (every, burst_and_rest) =
            (Duration::from_millis(2), Some((Duration::from_millis(5), Duration::from_secs(1))));
        for pace in [Pace::steady(every), Pace { every, burst_and_rest }] {
            assert_eq!(pace.to_string().parse(), Ok(pace));
        }
        assert!("1 2".parse::<Pace>().is_err());
        let pace = Pace { every, burst_and_rest };
        assert_eq!(
            [0, 4_999, 5_000, 1_004_999, 1_005_000].map(|now| pace.rests(now)),
            [false, false, true, true, false]
        );
    }

    #[test]
    fn an_attempt_is_read_as_it_was_written() {
        let error = || "no answer, in time".to_owned();
        for answer in [Answer::Allowed, Answer::Denied, Answer::Transient(error()), Answer::Failed(error())] {
            let attempt = Attempt { sent: 3, received: 5, answer };
            assert_eq!(attempt.to_string().parse(), Ok(attempt));
        }
        assert!("3 5 maybe ".parse::<Attempt>().is_err());
    }
}
