//! A sorted set: members, each with a score.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Bound,
};

/// Members by score.
#[derive(Debug, Default)]
pub(super) struct SortedSet {
    scores: HashMap<Vec<u8>, f64>,
    /// Order and member.
    sorted: BTreeSet<(i64, Vec<u8>)>,
}

// === impl SortedSet ===

impl SortedSet {
    pub(super) fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    /// Returns whether the member is new.
    pub(super) fn put(&mut self, member: &[u8], score: f64) -> bool {
        let is_new = !self.remove(member);
        self.scores.insert(member.to_vec(), score);
        self.sorted.insert((order(score), member.to_vec()));
        is_new
    }

    pub(super) fn remove(&mut self, member: &[u8]) -> bool {
        let Some(score) = self.scores.remove(member) else { return false };
        self.sorted.remove(&(order(score), member.to_vec()))
    }

    /// Members from one score to another, in order.
    pub(super) fn between(&self, from: Bound<f64>, to: Bound<f64>) -> Vec<(Vec<u8>, f64)> {
        let is_below = |score: f64| match to {
            Bound::Included(to) => score <= to,
            Bound::Excluded(to) => score < to,
            Bound::Unbounded => true,
        };
        let is_above = |score: f64| match from {
            Bound::Included(from) => score >= from,
            Bound::Excluded(from) => score > from,
            Bound::Unbounded => true,
        };
        let least = match from {
            Bound::Included(from) | Bound::Excluded(from) => order(from),
            Bound::Unbounded => i64::MIN,
        };
        let rows = self.sorted.range((least, Vec::new())..);
        let rows = rows.filter_map(|(_, member)| Some((member.clone(), *self.scores.get(member)?)));
        rows.skip_while(|(_, score)| !is_above(*score)).take_while(|(_, score)| is_below(*score)).collect()
    }

    pub(super) fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.scores.len()
    }

    /// All members, in order.
    pub(super) fn members(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.sorted.iter().map(|(_, member)| member)
    }
}

/// A whole number that is ordered as the score is.
fn order(score: f64) -> i64 {
    // Zero has one sign only.
    let bits = (score + 0.0).to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_in_their_order() {
        let scores = [f64::NEG_INFINITY, -9.0e15, -1.5, -0.0, 1.0e-300, 2.0, 9.0e15, f64::INFINITY];
        assert!(scores.map(order).is_sorted());
        assert_eq!(order(-0.0), order(0.0));
        let mut set = SortedSet::default();
        for (i, score) in scores.into_iter().enumerate().rev() {
            set.put(&[i as u8], score);
        }
        let rows = set.between(Bound::Excluded(-1.5), Bound::Included(2.0));
        assert_eq!(rows.iter().map(|(member, _)| member[0]).collect::<Vec<_>>(), [3, 4, 5]);
    }
}
