//! What the demo and its workers say to each other: one line of text each, orders on a worker's standard input,
//! reports on its standard output.

use std::{fmt, str::FromStr};

use anyhow::{Context, bail};

use crate::clock::Micros;

/// Which bucket: of a limit, or of one key of a keyed limit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BucketId {
    pub(crate) limit: String,
    pub(crate) key: Option<String>,
}

/// Ask a bucket at this pace, from now on: `api - 37.5 0.25`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Order {
    pub(crate) bucket: BucketId,
    pub(crate) pace: Pace,
}

/// How a worker asks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace {
    pub(crate) per_second: f64,
    /// The share of a period to wait before the first time: so that workers ask in turns, not all at once.
    pub(crate) delay: f64,
}

/// What a worker has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// Connected: `ready`.
    Ready,
    /// Asked for a token, and told: `took user ada 5000100 5000290 3 allowed`.
    Took(BucketId, Decided),
    /// Asked, and not told: `failed the reason`.
    Failed(String),
}

/// A decision, and when it was made: at some instant between these two, and nobody but Redis knows which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decided {
    /// Just before the client was asked.
    pub(crate) sent: Micros,
    /// Just after it answered.
    pub(crate) received: Micros,
    /// Tokens left.
    pub(crate) remaining: u64,
    pub(crate) outcome: Outcome,
}

/// How a take ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Allowed,
    Denied {
        /// How long until it would be allowed.
        retry_after: Micros,
        /// Whether the worker knew, and did not ask Redis.
        from_memory: bool,
    },
}

// === impl BucketId ===

impl fmt::Display for BucketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.limit, self.key.as_deref().unwrap_or("-"))
    }
}

impl BucketId {
    /// The bucket itself, by the client's hand.
    pub(crate) fn of(&self, topup: &topup::Client) -> topup::Bucket {
        let bucket = topup.limit(&self.limit);
        match &self.key {
            Some(key) => bucket.key(key),
            None => bucket,
        }
    }

    fn parse<'a>(words: &mut impl Iterator<Item = &'a str>) -> anyhow::Result<Self> {
        let (limit, key) = words.next().zip(words.next()).context("no bucket")?;
        Ok(Self { limit: limit.into(), key: (key != "-").then(|| key.into()) })
    }
}

// === impl Order ===

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.bucket, self.pace.per_second, self.pace.delay)
    }
}

impl FromStr for Order {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> anyhow::Result<Self> {
        let mut words = line.split_whitespace();
        let bucket = BucketId::parse(&mut words)?;
        Ok(Self { bucket, pace: Pace { per_second: next(&mut words)?, delay: next(&mut words)? } })
    }
}

// === impl Report ===

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ready"),
            Self::Failed(reason) => write!(f, "failed {}", reason.replace('\n', " ")),
            Self::Took(bucket, Decided { sent, received, remaining, outcome }) => {
                write!(f, "took {bucket} {sent} {received} {remaining} ")?;
                match outcome {
                    Outcome::Allowed => f.write_str("allowed"),
                    Outcome::Denied { retry_after, from_memory: true } => {
                        write!(f, "remembered {retry_after}")
                    }
                    Outcome::Denied { retry_after, from_memory: false } => write!(f, "denied {retry_after}"),
                }
            }
        }
    }
}

impl FromStr for Report {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> anyhow::Result<Self> {
        if let Some(reason) = line.strip_prefix("failed ") {
            return Ok(Self::Failed(reason.into()));
        }
        let mut words = line.split_whitespace();
        match words.next() {
            Some("ready") => Ok(Self::Ready),
            Some("took") => {
                let bucket = BucketId::parse(&mut words)?;
                let (sent, received, remaining) = (next(&mut words)?, next(&mut words)?, next(&mut words)?);
                let outcome = match words.next() {
                    Some("allowed") => Outcome::Allowed,
                    Some("denied") => Outcome::Denied { retry_after: next(&mut words)?, from_memory: false },
                    Some("remembered") => {
                        Outcome::Denied { retry_after: next(&mut words)?, from_memory: true }
                    }
                    other => bail!("no outcome: {other:?}"),
                };
                Ok(Self::Took(bucket, Decided { sent, received, remaining, outcome }))
            }
            other => bail!("neither ready, took nor failed: {other:?}"),
        }
    }
}

fn next<'a, T: FromStr<Err: std::error::Error + Send + Sync + 'static>>(
    words: &mut impl Iterator<Item = &'a str>,
) -> anyhow::Result<T> {
    Ok(words.next().context("too few words")?.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(key: Option<&str>) -> BucketId {
        BucketId { limit: "user".into(), key: key.map(Into::into) }
    }

    #[test]
    fn an_order_is_read_as_it_was_written() {
        for order in [
            Order { bucket: bucket(None), pace: Pace { per_second: 37.5, delay: 0.0 } },
            Order { bucket: bucket(Some("ada")), pace: Pace { per_second: 1.0 / 3.0, delay: 0.75 } },
        ] {
            assert_eq!(order.to_string().parse::<Order>().unwrap(), order);
        }
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let took = |outcome| {
            Report::Took(bucket(Some("ada")), Decided { sent: 5, received: 9, remaining: 1, outcome })
        };
        for report in [
            Report::Ready,
            took(Outcome::Allowed),
            took(Outcome::Denied { retry_after: 7, from_memory: true }),
            took(Outcome::Denied { retry_after: 7, from_memory: false }),
            Report::Failed("no answer within 250ms".into()),
        ] {
            assert_eq!(report.to_string().parse::<Report>().unwrap(), report);
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for line in
            ["", "took", "took api - 1 2 3", "took api - 1 2 3 maybe", "took api - one 2 3 allowed", "hello"]
        {
            assert!(line.parse::<Report>().is_err(), "{line}");
        }
    }
}
