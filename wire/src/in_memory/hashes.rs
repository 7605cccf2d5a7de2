//! Commands of hashes.

use super::{
    database::{Database, Hash},
    numbers::{add, not_a_number, number},
    reply::Reply,
};

pub(super) fn execute(database: &mut Database, name: &[u8], key: &[u8], words: &[&[u8]]) -> Option<Reply> {
    let get = |hash: &Hash, field: &[u8]| Reply::text(hash.get(field).cloned());
    Some(match (name, words) {
        (b"HGET", [field]) => database.read(key, |hash| get(hash, field)),
        (b"HMGET", fields) => {
            database.read(key, |hash| Reply::Array(fields.iter().map(|field| get(hash, field)).collect()))
        }
        (b"HGETALL", []) => database.read(key, |hash: &Hash| {
            let both = hash.iter().flat_map(|(field, value)| [field.clone(), value.clone()]);
            Reply::Array(both.map(Reply::Text).collect())
        }),
        (b"HLEN", []) => database.read(key, |hash: &Hash| Reply::count(hash.len())),
        (b"HSET", [_, _, ..]) if words.len().is_multiple_of(2) => database.change(key, |hash: &mut Hash| {
            let new = words
                .chunks_exact(2)
                .filter(|pair| hash.insert(pair[0].to_vec(), pair[1].to_vec()).is_none());
            Reply::count(new.count())
        }),
        (b"HDEL", fields) => database.change(key, |hash: &mut Hash| {
            Reply::count(fields.iter().filter(|field| hash.remove(**field).is_some()).count())
        }),
        (b"HINCRBY", [field, by]) => database.change(key, |hash: &mut Hash| {
            let Some(by) = number(by) else { return not_a_number() };
            let Some(held) = hash.get(*field).map_or(Some(0), |held| number(held)) else {
                return Reply::error("ERR hash value is not an integer");
            };
            add(held, by, |sum| drop(hash.insert(field.to_vec(), sum.to_string().into_bytes())))
        }),
        _ => return None,
    })
}
