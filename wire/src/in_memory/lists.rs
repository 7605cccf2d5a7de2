//! Commands of lists.

use super::{
    database::{Database, List},
    numbers::{not_a_number, number},
    reply::Reply,
};

pub(super) fn execute(database: &mut Database, name: &[u8], key: &[u8], words: &[&[u8]]) -> Option<Reply> {
    Some(match (name, words) {
        (b"LLEN", []) => database.read(key, |list: &List| Reply::count(list.len())),
        (b"LINDEX", [at]) => database.read(key, |list: &List| match number(at) {
            Some(at) => {
                Reply::text(usize::try_from(place(list, at)).ok().and_then(|at| list.get(at).cloned()))
            }
            None => not_a_number(),
        }),
        (b"RPUSH", [_, ..]) => database.change(key, |list: &mut List| {
            list.extend(words.iter().map(|word| word.to_vec()));
            Reply::count(list.len())
        }),
        (b"LTRIM", [from, to]) => database.change(key, |list: &mut List| {
            let (Some(from), Some(to)) = (number(from), number(to)) else { return not_a_number() };
            let from = usize::try_from(place(list, from)).unwrap_or(0);
            let end = usize::try_from(place(list, to).saturating_add(1)).unwrap_or(0).min(list.len());
            list.truncate(end);
            list.drain(..from.min(end));
            Reply::OK
        }),
        _ => return None,
    })
}

/// The index of `at`, which is counted from the end if it is negative.
fn place(list: &List, at: i64) -> i64 {
    if at < 0 { at.saturating_add_unsigned(list.len() as u64) } else { at }
}
