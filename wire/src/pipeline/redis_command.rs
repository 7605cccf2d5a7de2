//! Commands of a pipeline, and their encoding.

/// A command that a pipeline sends.
#[derive(Clone, Copy, Debug)]
pub enum RedisCommand<'a> {
    /// `INCRBY key by`. Below 0 it is `DECRBY` by the opposite, and `DECR key` for -1.
    Add {
        /// The key of a whole number.
        key: &'a [u8],
        /// The summand.
        by: i64,
    },
    /// `GET key`.
    Read {
        /// The key.
        key: &'a [u8],
    },
    /// `EXISTS key …`. Redis removes those of the keys that have expired.
    Exists {
        /// The keys, all of one node.
        keys: &'a [&'a [u8]],
    },
    /// `PEXPIREAT key ms GT`: never earlier than before. Redis 7.0 or newer.
    Extend {
        /// The key.
        key: &'a [u8],
        /// Its expiry, in ms since the Unix epoch.
        at: u64,
    },
    /// `SET key value … NX` with an expiry.
    SetIfAbsent {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// The key's expiry.
        expiry: Expiry,
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

/// The expiry of a key.
#[derive(Clone, Copy, Debug)]
pub enum Expiry {
    /// After a time in ms: `PX`.
    After(u64),
    /// At an instant, in ms since the Unix epoch: `PXAT`.
    At(u64),
}

// === impl RedisCommand ===

impl RedisCommand<'_> {
    /// Appends the command as RESP.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Add { key, by: -1 } => {
                out.extend_from_slice(b"*2\r\n$4\r\nDECR\r\n");
                bulk(out, key);
            }
            Self::Add { key, by } => {
                let word = if by < 0 { b"*3\r\n$6\r\nDECRBY\r\n" } else { b"*3\r\n$6\r\nINCRBY\r\n" };
                out.extend_from_slice(word);
                bulk(out, key);
                number(out, by.unsigned_abs());
            }
            Self::Read { key } => {
                out.extend_from_slice(b"*2\r\n$3\r\nGET\r\n");
                bulk(out, key);
            }
            Self::Exists { keys } => {
                header(out, b'*', 1 + keys.len());
                out.extend_from_slice(b"$6\r\nEXISTS\r\n");
                keys.iter().for_each(|key| bulk(out, key));
            }
            Self::Extend { key, at } => {
                out.extend_from_slice(b"*4\r\n$9\r\nPEXPIREAT\r\n");
                bulk(out, key);
                number(out, at);
                out.extend_from_slice(b"$2\r\nGT\r\n");
            }
            Self::SetIfAbsent { key, value, expiry } => {
                let (word, ms): (&[u8], u64) = match expiry {
                    Expiry::After(ms) => (b"PX", ms),
                    Expiry::At(ms) => (b"PXAT", ms),
                };
                out.extend_from_slice(b"*6\r\n$3\r\nSET\r\n");
                bulk(out, key);
                bulk(out, value);
                bulk(out, word);
                number(out, ms);
                out.extend_from_slice(b"$2\r\nNX\r\n");
            }
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

fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    header(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn number(out: &mut Vec<u8>, number: u64) {
    digits(number, |digits| bulk(out, digits));
}

/// Passes the decimal digits of `number` on, several times faster than the formatting of the standard library.
fn digits(number: u64, write: impl FnOnce(&[u8])) {
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
    write(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(command: &RedisCommand<'_>) -> String {
        let mut out = Vec::new();
        command.encode(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn commands_are_what_redis_reads() {
        let key: &[u8] = b"topup:{a:0}:b:";
        assert_eq!(
            encoded(&RedisCommand::Add { key, by: -1 }),
            "*2\r\n$4\r\nDECR\r\n$14\r\ntopup:{a:0}:b:\r\n"
        );
        assert_eq!(
            encoded(&RedisCommand::Add { key, by: -120 }),
            "*3\r\n$6\r\nDECRBY\r\n$14\r\ntopup:{a:0}:b:\r\n$3\r\n120\r\n"
        );
        assert_eq!(
            encoded(&RedisCommand::Add { key, by: 1 }),
            "*3\r\n$6\r\nINCRBY\r\n$14\r\ntopup:{a:0}:b:\r\n$1\r\n1\r\n"
        );
        assert_eq!(
            encoded(&RedisCommand::Exists { keys: &[key, b"b"] }),
            "*3\r\n$6\r\nEXISTS\r\n$14\r\ntopup:{a:0}:b:\r\n$1\r\nb\r\n"
        );
        assert_eq!(
            encoded(&RedisCommand::Extend { key, at: 1_795_343_957_755 }),
            "*4\r\n$9\r\nPEXPIREAT\r\n$14\r\ntopup:{a:0}:b:\r\n$13\r\n1795343957755\r\n$2\r\nGT\r\n"
        );
        assert_eq!(
            encoded(&RedisCommand::SetIfAbsent { key, value: b"f00011", expiry: Expiry::After(102) }),
            "*6\r\n$3\r\nSET\r\n$14\r\ntopup:{a:0}:b:\r\n$6\r\nf00011\r\n$2\r\nPX\r\n$3\r\n102\r\n$2\r\nNX\r\n"
        );
        assert_eq!(
            encoded(&RedisCommand::SetIfAbsent { key, value: b"-3", expiry: Expiry::At(1_795_343_957_755) }),
            "*6\r\n$3\r\nSET\r\n$14\r\ntopup:{a:0}:b:\r\n$2\r\n-3\r\n$4\r\nPXAT\r\n$13\r\n1795343957755\r\n$2\r\nNX\r\n"
        );
        assert_eq!(
            encoded(&RedisCommand::Script { hash: "ab", keys: &[b"k"], args: &[b"", b"x y"] }),
            "*6\r\n$7\r\nEVALSHA\r\n$2\r\nab\r\n$1\r\n1\r\n$1\r\nk\r\n$0\r\n\r\n$3\r\nx y\r\n"
        );
    }
}
