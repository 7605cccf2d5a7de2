//! The commands that travel in a lane, encoded.

/// A command that travels in a lane.
#[derive(Clone, Copy, Debug)]
pub enum Command<'a> {
    /// `DECRBY key by`, or `DECR key` when `by` is 1.
    Decrement {
        /// The counter.
        key: &'a [u8],
        /// How much.
        by: u64,
    },
    /// `INCRBY key by`.
    Increment {
        /// The integer.
        key: &'a [u8],
        /// How much.
        by: u64,
    },
    /// `GET key`.
    Read {
        /// The key.
        key: &'a [u8],
    },
    /// `PEXPIREAT key at GT`: never earlier than before. Redis has it from 7.0 on.
    ExpireLater {
        /// The key.
        key: &'a [u8],
        /// When it is to expire, in ms since the Unix epoch.
        at: u64,
    },
    /// `SET key value PX ms NX`.
    SetIfAbsent {
        /// The key.
        key: &'a [u8],
        /// What it is to hold.
        value: &'a [u8],
        /// Its time to live.
        ms: u64,
    },
    /// `SET key value PXAT at NX`.
    SetIfAbsentUntil {
        /// The key.
        key: &'a [u8],
        /// What it is to hold.
        value: &'a [u8],
        /// When it is to expire, in ms since the Unix epoch.
        at: u64,
    },
    /// `EVALSHA hash`, with keys and arguments.
    Script {
        /// The script's SHA-1, in hex.
        hash: &'a str,
        /// Its keys.
        keys: &'a [&'a [u8]],
        /// Its arguments.
        args: &'a [&'a [u8]],
    },
}

// === impl Command ===

impl Command<'_> {
    /// Appends the command as RESP.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Decrement { key, by: 1 } => {
                out.extend_from_slice(b"*2\r\n$4\r\nDECR\r\n");
                bulk(out, key);
            }
            Self::Decrement { key, by } => {
                out.extend_from_slice(b"*3\r\n$6\r\nDECRBY\r\n");
                bulk(out, key);
                number(out, by);
            }
            Self::Increment { key, by } => {
                out.extend_from_slice(b"*3\r\n$6\r\nINCRBY\r\n");
                bulk(out, key);
                number(out, by);
            }
            Self::Read { key } => {
                out.extend_from_slice(b"*2\r\n$3\r\nGET\r\n");
                bulk(out, key);
            }
            Self::ExpireLater { key, at } => {
                out.extend_from_slice(b"*4\r\n$9\r\nPEXPIREAT\r\n");
                bulk(out, key);
                number(out, at);
                out.extend_from_slice(b"$2\r\nGT\r\n");
            }
            Self::SetIfAbsent { key, value, ms } => set_if_absent(out, key, value, b"PX", ms),
            Self::SetIfAbsentUntil { key, value, at } => set_if_absent(out, key, value, b"PXAT", at),
            Self::Script { hash, keys, args } => {
                header(out, b'*', 3 + keys.len() + args.len());
                out.extend_from_slice(b"$7\r\nEVALSHA\r\n");
                bulk(out, hash.as_bytes());
                number(out, keys.len() as u64);
                keys.iter().chain(args).for_each(|text| bulk(out, text));
            }
        }
    }
}

fn header(out: &mut Vec<u8>, kind: u8, count: usize) {
    out.push(kind);
    digits(count as u64, |digits| out.extend_from_slice(digits));
    out.extend_from_slice(b"\r\n");
}

/// `SET key value life at NX`.
fn set_if_absent(out: &mut Vec<u8>, key: &[u8], value: &[u8], life: &[u8], at: u64) {
    out.extend_from_slice(b"*6\r\n$3\r\nSET\r\n");
    bulk(out, key);
    bulk(out, value);
    bulk(out, life);
    number(out, at);
    out.extend_from_slice(b"$2\r\nNX\r\n");
}

fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    header(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn number(out: &mut Vec<u8>, number: u64) {
    digits(number, |digits| bulk(out, digits));
}

/// Hands over the decimal digits of `number`: several times faster than what formats anything.
fn digits(number: u64, hand_over: impl FnOnce(&[u8])) {
    let mut digits = [0_u8; 20];
    let mut rest = number;
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    hand_over(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(command: &Command<'_>) -> String {
        let mut out = Vec::new();
        command.encode(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn commands_are_what_redis_reads() {
        let key: &[u8] = b"topup:{a:0}:b:";
        assert_eq!(
            encoded(&Command::Decrement { key, by: 1 }),
            "*2\r\n$4\r\nDECR\r\n$14\r\ntopup:{a:0}:b:\r\n"
        );
        assert_eq!(
            encoded(&Command::Decrement { key, by: 120 }),
            "*3\r\n$6\r\nDECRBY\r\n$14\r\ntopup:{a:0}:b:\r\n$3\r\n120\r\n"
        );
        assert_eq!(
            encoded(&Command::Increment { key, by: 1 }),
            "*3\r\n$6\r\nINCRBY\r\n$14\r\ntopup:{a:0}:b:\r\n$1\r\n1\r\n"
        );
        assert_eq!(
            encoded(&Command::ExpireLater { key, at: 1_795_343_957_755 }),
            "*4\r\n$9\r\nPEXPIREAT\r\n$14\r\ntopup:{a:0}:b:\r\n$13\r\n1795343957755\r\n$2\r\nGT\r\n"
        );
        assert_eq!(
            encoded(&Command::SetIfAbsent { key, value: b"f00011", ms: 102 }),
            "*6\r\n$3\r\nSET\r\n$14\r\ntopup:{a:0}:b:\r\n$6\r\nf00011\r\n$2\r\nPX\r\n$3\r\n102\r\n$2\r\nNX\r\n"
        );
        assert_eq!(
            encoded(&Command::SetIfAbsentUntil { key, value: b"-3", at: 1_795_343_957_755 }),
            "*6\r\n$3\r\nSET\r\n$14\r\ntopup:{a:0}:b:\r\n$2\r\n-3\r\n$4\r\nPXAT\r\n$13\r\n1795343957755\r\n$2\r\nNX\r\n"
        );
        assert_eq!(
            encoded(&Command::Script { hash: "ab", keys: &[b"k"], args: &[b"", b"x y"] }),
            "*6\r\n$7\r\nEVALSHA\r\n$2\r\nab\r\n$1\r\n1\r\n$1\r\nk\r\n$0\r\n\r\n$3\r\nx y\r\n"
        );
    }
}
