//! Replies, for a connection and for a script.

use redis::{RedisResult, Value};

/// The reply to a command.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reply {
    Nil,
    Status(&'static str),
    Number(i64),
    Text(Vec<u8>),
    Array(Vec<Reply>),
    /// The code of the error and its text.
    Error(String),
}

// === impl Reply ===

impl Reply {
    pub(super) const OK: Self = Self::Status("OK");

    pub(super) fn error(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }

    pub(super) fn wrong_type() -> Self {
        Self::error("WRONGTYPE Operation against a key holding the wrong kind of value")
    }

    pub(super) fn count(count: usize) -> Self {
        Self::Number(i64::try_from(count).unwrap_or(i64::MAX))
    }

    pub(super) fn text(text: Option<impl Into<Vec<u8>>>) -> Self {
        text.map_or(Self::Nil, |text| Self::Text(text.into()))
    }

    /// Appends the bytes of RESP2.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Nil => out.extend_from_slice(b"$-1\r\n"),
            Self::Status(text) => line(out, b'+', text),
            Self::Number(number) => line(out, b':', &number.to_string()),
            Self::Text(text) => {
                line(out, b'$', &text.len().to_string());
                out.extend_from_slice(text);
                out.extend_from_slice(b"\r\n");
            }
            Self::Array(replies) => {
                line(out, b'*', &replies.len().to_string());
                replies.iter().for_each(|reply| reply.encode(out));
            }
            Self::Error(text) => line(out, b'-', &text.replace(['\r', '\n'], " ")),
        }
    }

    pub(super) fn into_value(self) -> RedisResult<Value> {
        Ok(match self {
            Self::Nil => Value::Nil,
            Self::Status("OK") => Value::Okay,
            Self::Status(text) => Value::SimpleString(text.to_owned()),
            Self::Number(number) => Value::Int(number),
            Self::Text(text) => Value::BulkString(text),
            Self::Array(replies) => {
                Value::Array(replies.into_iter().map(Self::into_value).collect::<RedisResult<_>>()?)
            }
            Self::Error(_) => {
                let mut bytes = Vec::new();
                self.encode(&mut bytes);
                // One reader for all errors, which knows their kinds.
                redis::parse_redis_value(&bytes)?.extract_error()?
            }
        })
    }
}

fn line(out: &mut Vec<u8>, kind: u8, text: &str) {
    out.push(kind);
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\r\n");
}
