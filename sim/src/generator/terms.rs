//! The terms that plans are generated with.

use crate::plan::{Promise, SECOND};

/// Terms of every kind: slow, fast, uneven, and faster than the clock.
pub(super) const TERMS: [Promise; 16] = [
    Promise::new(10, 10, SECOND),
    Promise::new(1_000, 1_000, SECOND),
    Promise::new(20, 100, SECOND),
    Promise::new(100, 500, SECOND),
    Promise::new(5, 1, SECOND),
    Promise::new(1_000, 100, SECOND),
    Promise::new(1_000, 997, SECOND),
    Promise::new(7, 3, SECOND),
    Promise::new(40, 7, SECOND),
    Promise::new(300, 20_000, SECOND),
    Promise::new(5_000, 5_000, SECOND),
    Promise::new(10_000, 250_000, SECOND),
    Promise::new(4_000, 1_001, 1_000),
    Promise::new(60, 7_919, 3_000_000),
    Promise::new(1, 2, SECOND),
    Promise::new(3, 50, SECOND),
];

/// Terms whose buckets rest as numbers: tokens come 2 ms apart or more.
pub(super) const AS_NUMBERS: [Promise; 20] = [
    Promise::new(3, 30, SECOND),
    Promise::new(20, 300, SECOND),
    Promise::new(100, 7, SECOND),
    Promise::new(500, 47, 100_003),
    Promise::new(2, 100, SECOND),
    Promise::new(2, 3, SECOND),
    Promise::new(5, 1, SECOND),
    Promise::new(8, 1, 10_007),
    Promise::new(10, 10, SECOND),
    Promise::new(10, 50, SECOND),
    Promise::new(20, 100, SECOND),
    Promise::new(50, 20, SECOND),
    Promise::new(100, 5, SECOND),
    Promise::new(400, 1, 33_333),
    Promise::new(1_000, 100, SECOND),
    Promise::new(100_000, 100, SECOND),
    Promise::new(3, 500, SECOND),
    Promise::new(10, 200, SECOND),
    Promise::new(200, 200, SECOND),
    Promise::new(1_000, 500, SECOND),
];
