//! Mutations: bytes, words and lines of the corpus in another order, damaged.

use rand::{Rng, RngExt, rngs::StdRng, seq::IndexedRandom};

/// Longest input.
const LONGEST: usize = 8 * 1024;

/// Bytes and words on which parsers often fail.
const WORDS: [&[u8]; 24] = [
    b"\r\n",
    b"\0",
    b"\xff",
    b"\"",
    b"'",
    b"\\",
    b"-1",
    b"0",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"18446744073709551616",
    b"9007199254740993",
    b"1e309",
    b"inf",
    b"nan",
    b"}:",
    b"{",
    b"[",
    b"$-1",
    b"*1000000",
    b"://",
    b"@",
    "\u{1f600}".as_bytes(),
    b"=",
];

/// A file of `corpus`, changed in some places.
pub fn mutated(corpus: &[Vec<u8>], random: &mut StdRng) -> Vec<u8> {
    let mut input = corpus.choose(random).cloned().unwrap_or_default();
    for _ in 0..random.random_range(1..=6) {
        let at = random.random_range(0..=input.len());
        let end = (at + random.random_range(0..=16)).min(input.len());
        match random.random_range(0..7) {
            0 => drop(input.drain(at..end)),
            1 => insert(&mut input, at, WORDS.choose(random).copied().unwrap_or_default()),
            2 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << random.random_range(0..8);
                }
            }
            3 => {
                let piece = input[at..end].to_vec();
                insert(&mut input, at, &piece);
            }
            4 => {
                let other = corpus.choose(random).map_or(&[][..], Vec::as_slice);
                let from = random.random_range(0..=other.len());
                let to = (from + random.random_range(0..=64)).min(other.len());
                insert(&mut input, at, &other[from..to]);
            }
            5 => {
                let number = random.next_u64() >> random.random_range(0..64);
                insert(&mut input, at, number.to_string().as_bytes());
            }
            _ => input.truncate(at),
        }
    }
    input.truncate(LONGEST);
    input
}

fn insert(input: &mut Vec<u8>, at: usize, piece: &[u8]) {
    drop(input.splice(at..at, piece.iter().copied()));
}
