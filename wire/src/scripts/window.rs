//! Takes of a fixed window by native commands.
//!
//! The state of a fixed window is the number of tokens taken. `INCRBY` counts a take and replies with that number, so the
//! worker knows whether the tokens were left. Where no window may be under way, a `SET … NX` before it begins one, with
//! its expiry. Both are in one write.

use crate::pipeline::{Expiry, RedisCommand};

/// When a window ends that a take begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowEnd {
    /// So many µs after the take.
    After(u64),
    /// At an instant of Redis `TIME`, in µs.
    At(u64),
}

/// Appends the commands of a take of `count` tokens of the window at `state`. Returns the number of replies.
///
/// With `begins`, the take begins a window that ends then, if none is under way. The last reply is a
/// [`Number`](crate::pipeline::Reply::Number), or a [`NumberAfterSet`](crate::pipeline::Reply::NumberAfterSet) if it has
/// begun one, for [`read_window`].
///
/// The take is counted whether the tokens were left or not. Those that were not have to be named in the next settle of
/// the window.
pub fn encode_window_take(out: &mut Vec<u8>, state: &str, count: u64, begins: Option<WindowEnd>) -> usize {
    let key = state.as_bytes();
    if let Some(end) = begins {
        // A window ends at a whole ms, and its key is there in the ms of its expiry.
        let last_ms = |end: u64| end.div_ceil(1_000).saturating_sub(1);
        let expiry = match end {
            WindowEnd::After(length) => Expiry::After(last_ms(length).max(1)),
            WindowEnd::At(instant) => Expiry::At(last_ms(instant)),
        };
        RedisCommand::SetIfAbsent { key, value: b"0", expiry }.encode(out);
    }
    RedisCommand::Add { key, by: count as i64 }.encode(out);
    if begins.is_some() { 2 } else { 1 }
}

/// The tokens that a take of `count` has left in a window of `capacity`, by its reply. Below 0, the tokens that were not
/// left. `None` if the reply is of no window.
///
/// With `capacity - count` and without a `SET`, the window has no end: a settle has to follow, which gives it one.
pub fn read_window(number: i64, capacity: u64, count: u64) -> Option<i64> {
    (number >= count as i64).then(|| (capacity as i64).saturating_sub(number))
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
        let replies = [WindowEnd::After(1_000_001), WindowEnd::At(1_795_343_940_000_000)]
            .map(|end| encode_window_take(&mut out, "k", 1, Some(end)));
        let add = "*3\r\n$6\r\nINCRBY\r\n$1\r\nk\r\n$1\r\n1\r\n";
        assert_eq!(replies, [2, 2]);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            format!(
                "*6\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n0\r\n$2\r\nPX\r\n$4\r\n1000\r\n$2\r\nNX\r\n{add}\
                 *6\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n0\r\n$4\r\nPXAT\r\n$13\r\n1795343939999\r\n$2\r\nNX\r\n{add}"
            )
        );
    }
}
