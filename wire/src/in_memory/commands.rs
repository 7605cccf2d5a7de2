//! Commands of keys, of texts and of the server.

use super::{
    database::{Database, Value},
    hashes, lists,
    numbers::{add, not_a_number, number},
    reply::Reply,
    sorted_sets,
};

/// Carries out a command. One that topup does not send is an error.
pub(super) fn execute(database: &mut Database, words: &[&[u8]]) -> Reply {
    let Some((name, words)) = words.split_first() else { return Reply::error("ERR no command") };
    let name = name.to_ascii_uppercase();
    let reply = of_server(database, &name, words).or_else(|| {
        let (key, rest) = words.split_first()?;
        of_key(database, &name, key, rest)
            .or_else(|| of_keys(database, &name, words))
            .or_else(|| hashes::execute(database, &name, key, rest))
            .or_else(|| lists::execute(database, &name, key, rest))
            .or_else(|| sorted_sets::execute(database, &name, key, rest))
    });
    reply.unwrap_or_else(|| {
        let name = String::from_utf8_lossy(&name);
        Reply::error(format!(
            "ERR the Redis in memory has no such command, or not with these arguments: {name}"
        ))
    })
}

fn of_server(database: &Database, name: &[u8], words: &[&[u8]]) -> Option<Reply> {
    Some(match (name, words) {
        (b"PING", []) => Reply::Status("PONG"),
        (b"TIME", []) => {
            let parts = [database.now / 1_000_000, database.now % 1_000_000];
            Reply::Array(parts.map(|part| Reply::Text(part.to_string().into_bytes())).into())
        }
        (b"INFO", _) => Reply::Text(Vec::new()),
        // No module.
        (b"COMMAND", [_, names @ ..]) => Reply::Array(names.iter().map(|_| Reply::Nil).collect()),
        (b"CLUSTER", _) => Reply::error("ERR This instance has cluster support disabled"),
        (b"SCAN", [_, options @ ..]) => {
            let pattern = options.iter().position(|word| word.eq_ignore_ascii_case(b"MATCH"));
            let pattern = pattern.and_then(|at| options.get(at + 1)).copied().unwrap_or(b"*");
            let keys = database.keys().filter(|key| matches(pattern, key)).cloned().map(Reply::Text);
            Reply::Array(vec![Reply::Text(b"0".to_vec()), Reply::Array(keys.collect())])
        }
        _ => return None,
    })
}

fn of_key(database: &mut Database, name: &[u8], key: &[u8], words: &[&[u8]]) -> Option<Reply> {
    Some(match (name, words) {
        (b"GET", []) => database.text(key).map_or_else(|error| error, |text| Reply::text(text.cloned())),
        (b"SET", [value, options @ ..]) => set(database, key, value, options),
        (b"INCRBY", [by]) => number(by).map_or_else(not_a_number, |by| add_to(database, key, by)),
        (b"DECRBY", [by]) => {
            number(by).and_then(i64::checked_neg).map_or_else(not_a_number, |by| add_to(database, key, by))
        }
        (b"DECR", []) => add_to(database, key, -1),
        (b"SETBIT", [at, bit]) => {
            let at = number(at).and_then(|at| usize::try_from(at).ok()).filter(|at| *at < 1 << 32);
            match at.zip(number(bit).filter(|bit| (0..=1).contains(bit))) {
                Some((at, bit)) => set_bit(database, key, at, bit == 1),
                None => Reply::error("ERR bit offset is not an integer or out of range"),
            }
        }
        (b"GETRANGE", [from, to]) => match (number(from), number(to)) {
            (Some(from), Some(to)) => database.text(key).map_or_else(
                |error| error,
                |text| {
                    let text = text.map_or(&[][..], |text| text);
                    let place = |at: i64| if at < 0 { at + text.len() as i64 } else { at }.max(0) as usize;
                    let end = (place(to) + 1).min(text.len());
                    Reply::Text(text.get(place(from)..end).unwrap_or_default().to_vec())
                },
            ),
            _ => not_a_number(),
        },
        (b"TYPE", []) => Reply::Status(match database.get(key).map(|entry| &entry.value) {
            None => "none",
            Some(Value::Text(_)) => "string",
            Some(Value::List(_)) => "list",
            Some(Value::Hash(_)) => "hash",
            Some(Value::SortedSet(_)) => "zset",
        }),
        (b"PTTL", []) => {
            let now = database.now_ms();
            Reply::Number(match database.get(key).map(|entry| entry.expires) {
                None => -2,
                Some(None) => -1,
                Some(Some(expires)) => expires.saturating_sub(now) as i64,
            })
        }
        (b"PERSIST", []) => match database.get(key).map(|entry| entry.expires.take()) {
            Some(Some(_)) => Reply::Number(1),
            _ => Reply::Number(0),
        },
        (b"PEXPIRE", [after]) => match number(after) {
            Some(after) => expire(database, key, database.now_ms().saturating_add_signed(after), false),
            None => not_a_number(),
        },
        (b"PEXPIREAT", [at, options @ ..]) => match number(at) {
            Some(at) => {
                let only_later = options.iter().any(|word| word.eq_ignore_ascii_case(b"GT"));
                expire(database, key, u64::try_from(at).unwrap_or(0), only_later)
            }
            None => not_a_number(),
        },
        (b"RENAME", [to]) => match database.remove(key) {
            Some(entry) => {
                database.put(to, entry.value, entry.expires);
                Reply::OK
            }
            None => Reply::error("ERR no such key"),
        },
        _ => return None,
    })
}

fn of_keys(database: &mut Database, name: &[u8], words: &[&[u8]]) -> Option<Reply> {
    Some(match name {
        b"DEL" | b"UNLINK" => Reply::count(words.iter().filter(|key| database.remove(key).is_some()).count()),
        b"EXISTS" => Reply::count(words.iter().filter(|key| database.get(key).is_some()).count()),
        b"MGET" => {
            // A key of another kind has no text.
            let get = |key: &&[u8]| Reply::text(database.text(key).ok().flatten().cloned());
            Reply::Array(words.iter().map(get).collect())
        }
        b"MSET" if words.len().is_multiple_of(2) => {
            for pair in words.chunks_exact(2) {
                database.put(pair[0], Value::Text(pair[1].to_vec()), None);
            }
            Reply::OK
        }
        _ => return None,
    })
}

fn set(database: &mut Database, key: &[u8], value: &[u8], options: &[&[u8]]) -> Reply {
    let (mut expires, mut keeps) = (None, false);
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let mut ms = || options.next().and_then(|word| number(word)).and_then(|ms| u64::try_from(ms).ok());
        match option.to_ascii_uppercase().as_slice() {
            b"NX" if database.get(key).is_some() => return Reply::Nil,
            b"XX" if database.get(key).is_none() => return Reply::Nil,
            b"NX" | b"XX" => {}
            b"KEEPTTL" => keeps = true,
            b"PX" => match ms().filter(|ms| *ms > 0) {
                Some(ms) => expires = Some(database.now_ms().saturating_add(ms)),
                None => return Reply::error("ERR invalid expire time in 'set' command"),
            },
            b"PXAT" => match ms().filter(|ms| *ms > 0) {
                Some(ms) => expires = Some(ms),
                None => return Reply::error("ERR invalid expire time in 'set' command"),
            },
            _ => return Reply::error("ERR syntax error"),
        }
    }
    if keeps {
        expires = database.get(key).and_then(|entry| entry.expires);
    }
    database.put(key, Value::Text(value.to_vec()), expires);
    Reply::OK
}

fn add_to(database: &mut Database, key: &[u8], by: i64) -> Reply {
    match database.text(key) {
        Err(error) => error,
        Ok(Some(text)) => match number(text) {
            Some(held) => add(held, by, |sum| *text = sum.to_string().into_bytes()),
            None => not_a_number(),
        },
        Ok(None) => add(0, by, |sum| database.put(key, Value::Text(sum.to_string().into_bytes()), None)),
    }
}

/// Sets a bit, the highest of a byte first. Replies what it was.
fn set_bit(database: &mut Database, key: &[u8], at: usize, bit: bool) -> Reply {
    if let Ok(None) = database.text(key) {
        database.put(key, Value::Text(Vec::new()), None);
    }
    let text = match database.text(key) {
        Ok(Some(text)) => text,
        Ok(None) => return Reply::Nil,
        Err(error) => return error,
    };
    if text.len() <= at / 8 {
        text.resize(at / 8 + 1, 0);
    }
    let (byte, mask) = (&mut text[at / 8], 0x80_u8 >> (at % 8));
    let before = *byte & mask != 0;
    *byte = if bit { *byte | mask } else { *byte & !mask };
    Reply::Number(before.into())
}

fn expire(database: &mut Database, key: &[u8], at: u64, only_later: bool) -> Reply {
    let now = database.now_ms();
    let Some(entry) = database.get(key) else { return Reply::Number(0) };
    // A key without an expiry never ends, which is later than any.
    if only_later && entry.expires.is_none_or(|expires| expires >= at) {
        return Reply::Number(0);
    }
    if at <= now {
        database.remove(key);
    } else {
        entry.expires = Some(at);
    }
    Reply::Number(1)
}

/// Whether `text` matches a pattern of `*`, `?`, escaped and other characters.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', rest @ ..] => (0..=text.len()).any(|at| matches(rest, &text[at..])),
        [b'\\', literal, rest @ ..] => {
            text.split_first().is_some_and(|(first, text)| first == literal && matches(rest, text))
        }
        [one, rest @ ..] => text
            .split_first()
            .is_some_and(|(first, text)| (*one == b'?' || one == first) && matches(rest, text)),
    }
}
