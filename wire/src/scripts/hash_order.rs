//! Keys in the order of the hashes that have their assignments.

use crate::assignments::Shape;

/// A key by its place in a list, and the hash that it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) hash: u32,
    pub(super) index: u32,
}

/// The places of `keys`, in the order of their hashes.
pub(super) fn by_hash<'k>(shape: &Shape, keys: impl Iterator<Item = &'k str>) -> Vec<Place> {
    // An arrangement has fewer than 2^32 hashes, and no machine room for 2^32 rows.
    let place = |(index, key)| Place { hash: shape.hash_of(key) as u32, index };
    let mut places: Vec<Place> = (0..).zip(keys).map(place).collect();
    places.sort_unstable();
    places
}
