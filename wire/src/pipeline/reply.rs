//! Replies, decoded.

use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind};

/// The reply to a command of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A whole number.
    Number(i64),
    /// The same, after a `SET` of the same request that was carried out.
    NumberAfterSet(i64),
    /// Whole numbers, the reply of most scripts.
    Numbers(Vec<i64>),
    /// `OK`: a `SET` was carried out.
    Done,
    /// The reply to a `GET` of a text that is no number.
    Text(Box<[u8]>),
    /// Nil: a `SET … NX` found a key, and changed nothing. Or a `GET` found none.
    Nothing,
}

/// The longest line of a reply that is no error: a kind, a sign and 19 digits.
const LONGEST_NUMBER: usize = 24;
/// The longest text of a bucket's state.
const LONGEST_TEXT: usize = 64;
/// The longest error message.
const LONGEST_MESSAGE: usize = 4096;

/// The first reply in `bytes` and its length; `None` if it is not complete yet.
///
/// # Errors
/// When the bytes are no reply to such a command. Later bytes cannot be read then.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(RedisResult<Reply>, usize)>, RedisError> {
    let Some((kind, text, mut at)) = line(bytes)? else { return Ok(None) };
    match kind {
        b':' => Ok(Some((Ok(Reply::Number(number(text)?)), at))),
        b'-' => Ok(Some((Err(refusal(text)), at))),
        b'+' if text == b"OK" => Ok(Some((Ok(Reply::Done), at))),
        b'$' if text == b"-1" => Ok(Some((Ok(Reply::Nothing), at))),
        b'$' => {
            let length = usize::try_from(number(text)?).ok().filter(|length| *length <= LONGEST_TEXT);
            let end = at + length.ok_or_else(nonsense)?;
            let Some(line_end) = bytes.get(end..end + 2) else { return Ok(None) };
            let text = &bytes[at..end];
            let value = number(text).map_or_else(|_| Reply::Text(text.into()), Reply::Number);
            if line_end == b"\r\n" { Ok(Some((Ok(value), end + 2))) } else { Err(nonsense()) }
        }
        b'_' if text.is_empty() => Ok(Some((Ok(Reply::Nothing), at))),
        b'*' => {
            let count =
                usize::try_from(number(text)?).ok().filter(|count| *count <= 64).ok_or_else(nonsense)?;
            let mut numbers = Vec::with_capacity(count);
            for _ in 0..count {
                let Some((b':', text, length)) = line(&bytes[at..])? else {
                    return if bytes.len() - at > LONGEST_NUMBER { Err(nonsense()) } else { Ok(None) };
                };
                numbers.push(number(text)?);
                at += length;
            }
            Ok(Some((Ok(Reply::Numbers(numbers)), at)))
        }
        _ => Err(nonsense()),
    }
}

/// The kind of the first line, its text, and its length with the line's end.
#[allow(clippy::type_complexity, reason = "named parts would say no more")]
fn line(bytes: &[u8]) -> Result<Option<(u8, &[u8], usize)>, RedisError> {
    let Some((&kind, rest)) = bytes.split_first() else { return Ok(None) };
    match rest.iter().position(|byte| *byte == b'\r') {
        Some(end) if rest.len() > end + 1 => Ok(Some((kind, &rest[..end], end + 3))),
        None if rest.len() > LONGEST_MESSAGE => Err(nonsense()),
        _ => Ok(None),
    }
}

fn number(text: &[u8]) -> Result<i64, RedisError> {
    let (negative, digits) = match text.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, text),
    };
    if digits.is_empty() {
        return Err(nonsense());
    }
    let value = digits.iter().try_fold(0_i64, |value, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        // Below zero, since `i64` has one number more there.
        value.checked_mul(10)?.checked_sub(digit.into())
    });
    let value = value.ok_or_else(nonsense)?;
    if negative { Ok(value) } else { value.checked_neg().ok_or_else(nonsense) }
}

/// An error of the server: its code and the rest.
fn refusal(text: &[u8]) -> RedisError {
    let text = String::from_utf8_lossy(text);
    let (code, detail) = text.split_once(' ').unwrap_or((&text, ""));
    if code == "NOSCRIPT" {
        return RedisError::from((
            ErrorKind::Server(ServerErrorKind::NoScript),
            "no such script",
            detail.to_owned(),
        ));
    }
    redis::make_extension_error(code.to_owned(), Some(detail.to_owned()))
}

fn nonsense() -> RedisError {
    RedisError::from((ErrorKind::Parse, "an answer that makes no sense here"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_whole_or_not_at_all() {
        let answers: [(&[u8], Reply); 9] = [
            (b":12\r\n", Reply::Number(12)),
            (b":-3\r\n", Reply::Number(-3)),
            (b":-9223372036854775808\r\n", Reply::Number(i64::MIN)),
            (b"*3\r\n:1\r\n:0\r\n:-2\r\n", Reply::Numbers(vec![1, 0, -2])),
            (b"+OK\r\n", Reply::Done),
            (b"$-1\r\n", Reply::Nothing),
            (b"_\r\n", Reply::Nothing),
            (b"$20\r\n-3179534395775448100\r\n", Reply::Number(-3_179_534_395_775_448_100)),
            (b"$8\r\nf0001\r\n2\r\n", Reply::Text((*b"f0001\r\n2").into())),
        ];
        for (bytes, reply) in answers {
            let (read, length) = parse(bytes).unwrap().unwrap();
            assert_eq!((read.unwrap(), length), (reply, bytes.len()));
            for cut in 0..bytes.len() {
                assert!(parse(&bytes[..cut]).unwrap().is_none(), "{cut} bytes of {bytes:?}");
            }
        }
    }

    #[test]
    fn a_refusal_keeps_its_code() {
        let (answer, _) = parse(b"-OOM command not allowed\r\n:1\r\n").unwrap().unwrap();
        assert_eq!(answer.unwrap_err().code(), Some("OOM"));
        let (answer, _) = parse(b"-NOSCRIPT No matching script.\r\n").unwrap().unwrap();
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Server(ServerErrorKind::NoScript));
    }

    #[test]
    fn nonsense_is_an_error() {
        for bytes in [
            &b"$3\r\nabcde"[..],
            b"$65\r\n",
            b"+PONG\r\n",
            b":\r\n",
            b":1x\r\n",
            b"*-1\r\n",
            b":99999999999999999999\r\n",
        ] {
            assert!(parse(bytes).is_err(), "{bytes:?}");
        }
    }
}
