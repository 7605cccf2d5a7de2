//! Takes of a fixed window by one native command.
//!
//! The state of a fixed window is the number of tokens taken. `INCRBY` counts a take and replies with that number, so the
//! worker knows whether the tokens were left. The one whose tokens are all there are has begun the window, and gives the
//! key its expiry.

use crate::pipeline::{Expiry, ExpiryCondition, RedisCommand};

/// When a window ends that a take has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowEnd {
    /// So many µs after the take.
    After(u64),
    /// At an instant of Redis `TIME`, in µs.
    At(u64),
}

/// Appends the `INCRBY` of a take of `count` tokens of the window at `state`. Its reply is a
/// [`Number`](crate::pipeline::Reply::Number), for [`read_window`].
///
/// The take is counted whether the tokens were left or not. Those that were not have to be named in the next settle of
/// the window.
pub fn encode_window_take(out: &mut Vec<u8>, state: &str, count: u64) {
    RedisCommand::Add { key: state.as_bytes(), by: count as i64 }.encode(out);
}

/// The tokens that a take of `count` has left in a window of `capacity`, by its reply. Below 0, the tokens that were not
/// left. `None` if the reply is of no window.
///
/// With `capacity - count`, the take has begun the window: [`encode_window_end`] has to follow.
pub fn read_window(number: i64, capacity: u64, count: u64) -> Option<i64> {
    (number >= count as i64).then(|| (capacity as i64).saturating_sub(number))
}

/// Appends the expiry of the window at `state`, unless it has one. A command that comes late then ends no later window. A
/// window ends at a whole ms, and its key is there in the ms of its expiry.
pub fn encode_window_end(out: &mut Vec<u8>, state: &str, end: WindowEnd) {
    let last_ms = |end: u64| end.div_ceil(1_000).saturating_sub(1);
    let expiry = match end {
        WindowEnd::After(length) => Expiry::After(last_ms(length).max(1)),
        WindowEnd::At(instant) => Expiry::At(last_ms(instant)),
    };
    RedisCommand::Expire { key: state.as_bytes(), expiry, condition: ExpiryCondition::Absent }.encode(out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_tells_what_is_left() {
        assert_eq!(read_window(1, 10, 1), Some(9), "the window begins");
        assert_eq!(read_window(12, 10, 3), Some(-2));
        assert_eq!(read_window(2, 10, 3), None, "somebody else wrote a number below 0");
        assert_eq!(read_window(i64::MIN, 1 << 53, 1), None);
        assert_eq!(read_window(i64::MAX, 1, 1), Some(1 - i64::MAX));
    }

    #[test]
    fn a_window_ends_at_a_whole_ms() {
        let mut out = Vec::new();
        encode_window_end(&mut out, "k", WindowEnd::After(1_000_001));
        encode_window_end(&mut out, "k", WindowEnd::At(1_795_343_940_000_000));
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "*4\r\n$7\r\nPEXPIRE\r\n$1\r\nk\r\n$4\r\n1000\r\n$2\r\nNX\r\n\
             *4\r\n$9\r\nPEXPIREAT\r\n$1\r\nk\r\n$13\r\n1795343939999\r\n$2\r\nNX\r\n"
        );
    }
}
