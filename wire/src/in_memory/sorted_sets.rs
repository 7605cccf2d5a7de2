//! Commands of sorted sets.

use std::ops::Bound;

use super::{
    database::Database,
    numbers::{not_a_number, number, number_text},
    reply::Reply,
    sorted_set::SortedSet,
};

fn score(word: &[u8]) -> Option<f64> {
    let score: f64 = std::str::from_utf8(word).ok()?.parse().ok()?;
    (!score.is_nan()).then_some(score)
}

fn bound(word: &[u8]) -> Option<Bound<f64>> {
    match word.strip_prefix(b"(") {
        Some(word) => score(word).map(Bound::Excluded),
        None => score(word).map(Bound::Included),
    }
}

pub(super) fn execute(database: &mut Database, name: &[u8], key: &[u8], words: &[&[u8]]) -> Option<Reply> {
    let between = |set: &SortedSet, from: &[u8], to: &[u8]| Some(set.between(bound(from)?, bound(to)?));
    Some(match (name, words) {
        (b"ZADD", [_, _, ..]) if words.len().is_multiple_of(2) => {
            let scores: Option<Vec<f64>> = words.iter().step_by(2).map(|word| score(word)).collect();
            let Some(scores) = scores else { return Some(not_a_float()) };
            database.change(key, |set: &mut SortedSet| {
                let members = words.iter().skip(1).step_by(2);
                Reply::count(members.zip(scores).filter(|(member, score)| set.put(member, *score)).count())
            })
        }
        (b"ZREM", members) => database.change(key, |set: &mut SortedSet| {
            Reply::count(members.iter().filter(|member| set.remove(member)).count())
        }),
        (b"ZSCORE", [member]) => database.read(key, |set: &SortedSet| score_of(set, member)),
        (b"ZMSCORE", members) => database.read(key, |set: &SortedSet| {
            Reply::Array(members.iter().map(|member| score_of(set, member)).collect())
        }),
        (b"ZCARD", []) => database.read(key, |set: &SortedSet| Reply::count(set.len())),
        (b"ZCOUNT", [from, to]) => database.read(key, |set| {
            between(set, from, to).map_or_else(not_a_float, |rows| Reply::count(rows.len()))
        }),
        (b"ZREMRANGEBYSCORE", [from, to]) => database.change(key, |set: &mut SortedSet| {
            let Some(rows) = between(set, from, to) else { return not_a_float() };
            Reply::count(rows.iter().filter(|(member, _)| set.remove(member)).count())
        }),
        (b"ZRANGE", [from, to, options @ ..]) => database.read(key, |set: &SortedSet| {
            let (Some(from), Some(to)) = (number(from), number(to)) else { return not_a_number() };
            let with_scores = match options {
                [] => false,
                [word] if word.eq_ignore_ascii_case(b"WITHSCORES") => true,
                _ => return Reply::error("ERR syntax error"),
            };
            let place = |at: i64| if at < 0 { at.saturating_add_unsigned(set.len() as u64) } else { at };
            let (from, end) = (place(from).max(0), place(to).saturating_add(1).max(0));
            let members = set.members().take(end as usize).skip(from as usize);
            let row = |member: &Vec<u8>| {
                let score = with_scores.then(|| score_of(set, member));
                [Some(Reply::Text(member.clone())), score].into_iter().flatten()
            };
            Reply::Array(members.flat_map(row).collect())
        }),
        (b"ZRANGEBYSCORE", [from, to, options @ ..]) => database.read(key, |set| {
            let Some(rows) = between(set, from, to) else { return not_a_float() };
            let upper: Vec<Vec<u8>> = options.iter().map(|word| word.to_ascii_uppercase()).collect();
            let with_scores = upper.iter().any(|word| word == b"WITHSCORES");
            let limit = upper.iter().position(|word| word == b"LIMIT");
            let given = |behind: usize| options.get(limit? + behind).and_then(|word| number(word));
            let skipped = usize::try_from(given(1).unwrap_or(0)).unwrap_or(usize::MAX);
            let most = usize::try_from(given(2).unwrap_or(-1)).unwrap_or(usize::MAX);
            let rows = rows.into_iter().skip(skipped).take(most);
            Reply::Array(
                rows.flat_map(|(member, score)| {
                    let score = with_scores.then(|| Reply::Text(number_text(score).into_bytes()));
                    [Some(Reply::Text(member)), score].into_iter().flatten()
                })
                .collect(),
            )
        }),
        _ => return None,
    })
}

fn score_of(set: &SortedSet, member: &[u8]) -> Reply {
    Reply::text(set.score(member).map(number_text))
}

fn not_a_float() -> Reply {
    Reply::error("ERR value is not a valid float")
}
