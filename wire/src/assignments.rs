//! Assignments of keys to plans as they are kept in Redis: small hashes, and a filter that tells which keys are not
//! assigned.

use std::{fmt, str::FromStr};

use crate::{
    constants::MOST_PAST,
    fnv::fnv_1a,
    limit::{Assigned, Assignment, Past, PlansError},
};

/// Assignments of one hash, on average. A hash of up to 128 short fields is kept as a list, without pointers.
const MOST_OF_HASH: u64 = 64;
/// Hashes of a limit at least.
const FEWEST_HASHES: u64 = 1_024;
/// Bits of the filter for each assignment, at least.
const BITS_OF_KEY: u64 = 10;
/// Bits of the filter that each key sets.
const BITS_SET: usize = 6;
/// The word of a key that is assigned no longer.
const NONE: &str = "-";
/// The word of assignments that are not known any more.
const LOST: &str = "?";

/// The arrangement of a limit's assignments in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Counts arrangements of the limit. It is part of the names of keys.
    pub number: u64,
    /// Its hashes.
    pub hashes: u64,
    /// Bits of the filter, a multiple of 8.
    pub bits: u64,
    /// The instant at which assignments take force that do not name one, in µs of Redis `TIME`.
    pub at: u64,
}

/// The keys of a limit that may be assigned: a Bloom filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFilter {
    bits: Vec<u8>,
}

/// A text that is no arrangement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no arrangement of assignments")]
pub struct ShapeError(String);

// === impl Shape ===

impl Shape {
    /// An arrangement for this many assignments.
    pub(crate) fn for_keys(number: u64, keys: u64) -> Self {
        let hashes = keys.div_ceil(MOST_OF_HASH).max(FEWEST_HASHES);
        let bits = (keys.max(FEWEST_HASHES * MOST_OF_HASH) * BITS_OF_KEY).next_multiple_of(8);
        Self { number, hashes, bits, at: 0 }
    }

    /// Whether hashes and filter are large enough for this many assignments.
    pub(crate) fn has_room_for(&self, keys: u64) -> bool {
        keys <= self.hashes * MOST_OF_HASH * 3 / 2
    }

    /// The hash of `key`.
    pub fn hash_of(&self, key: &str) -> u64 {
        // The remainder by the number of hashes, of bits that the filter uses otherwise.
        mixed(fnv_1a(key) ^ 0x5bd1_e995) % self.hashes.max(1)
    }

    /// The bits that `key` sets in the filter.
    pub(crate) fn bits_of(&self, key: &str) -> [u64; BITS_SET] {
        bits_of(key, self.bits)
    }
}

/// `number hashes bits at`
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.number, self.hashes, self.bits, self.at)
    }
}

impl FromStr for Shape {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let numbers: Option<Vec<u64>> = text.split(' ').map(|part| part.parse().ok()).collect();
        match numbers.as_deref() {
            // No filter is larger than a string of Redis.
            Some(&[number, hashes @ 1..=1_048_576, bits @ 8..=4_294_967_296, at]) => {
                Ok(Self { number, hashes, bits, at })
            }
            _ => Err(ShapeError(text.chars().take(80).collect())),
        }
    }
}

// === impl KeyFilter ===

impl KeyFilter {
    /// The filter of `bits`, as Redis numbers them. Missing ones are 0.
    pub fn new(mut bytes: Vec<u8>, shape: &Shape) -> Self {
        bytes.resize(usize::try_from(shape.bits / 8).unwrap_or(usize::MAX), 0);
        Self { bits: bytes }
    }

    /// Adds `key`.
    pub fn insert(&mut self, key: &str) {
        for bit in bits_of(key, self.len()) {
            // Redis counts the bits of a byte from the highest one.
            self.bits[(bit / 8) as usize] |= 0x80 >> (bit % 8);
        }
    }

    /// Whether `key` may have been added. If not, it has not been.
    pub fn may_have(&self, key: &str) -> bool {
        bits_of(key, self.len()).iter().all(|bit| self.bits[(bit / 8) as usize] & (0x80 >> (bit % 8)) != 0)
    }

    /// The filter as Redis keeps it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bits
    }

    fn len(&self) -> u64 {
        self.bits.len() as u64 * 8
    }
}

fn bits_of(key: &str, bits: u64) -> [u64; BITS_SET] {
    let first = mixed(fnv_1a(key));
    let step = mixed(first) | 1;
    std::array::from_fn(|i| first.wrapping_add(step.wrapping_mul(i as u64)) % bits.max(8))
}

/// The finisher of SplitMix64: every bit of the result depends on all bits.
const fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

// === impl Assigned ===

impl Assigned {
    /// Reads the value of an assignment, in an arrangement whose assignments take force `at` this instant.
    ///
    /// # Errors
    /// A text of another form.
    pub fn from_text(text: &str, at: u64) -> Result<Self, PlansError> {
        let wrong = || PlansError(text.chars().take(80).collect());
        let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
        let assignment = |text: &str| {
            let (word, until) = text.split_once('~').map_or((text, None), |(one, two)| (one, Some(two)));
            let until = until.map(number).transpose()?;
            Ok(match word {
                NONE => None,
                word => Some(Assignment { target: word.parse().map_err(|_| wrong())?, until }),
            })
        };
        let mut parts = text.split('<');
        let present = assignment(parts.next().unwrap_or_default())?;
        let (before, at) = match parts.next().map(|before| before.split_once('@').ok_or(before)) {
            None => (None, 0),
            Some(Ok((before, at))) => (assignment(before)?, number(at)?),
            Some(Err(before)) => (assignment(before)?, at),
        };
        let past = parts.map(|part| {
            let (word, until) = part.split_once('@').ok_or_else(wrong)?;
            let was = if word == LOST { None } else { Some(assignment(word)?) };
            Ok(Past { until: number(until)?, was })
        });
        Ok(Self { assignment: present, before, at, past: past.collect::<Result<_, _>>()? })
    }

    /// The assignments before this one that matter for tokens: those until an instant after `since`.
    pub(crate) fn past_since(&self, since: u64) -> Vec<Past<Option<Assignment>>> {
        let last = Past { until: self.at, was: Some(self.before) };
        let mut past: Vec<_> =
            [&last].into_iter().chain(&self.past).filter(|past| past.until > since).cloned().collect();
        // As `assign.lua`: the first of them stays, since a key that is not used has its tokens there.
        if past.len() > MOST_PAST as usize {
            let first = past.split_off(past.len() - 1);
            past.truncate(MOST_PAST as usize - 1);
            if let Some(lost) = past.last_mut() {
                lost.was = None;
            }
            past.extend(first);
        }
        past
    }

    /// The value of an assignment: `target~until<before~until@at`, and `<before~until@at` of each one before. Without
    /// `with_at`, it applies from the instant of its arrangement.
    pub(crate) fn to_text(&self, with_at: bool) -> String {
        let text = |assignment: Option<Assignment>| {
            let word = assignment.map_or(NONE.to_owned(), |one| one.target.to_string());
            let until = assignment.and_then(|one| one.until);
            word + &until.map_or(String::new(), |until| format!("~{until}"))
        };
        let at = if with_at { format!("@{}", self.at) } else { String::new() };
        let past = self.past.iter().map(|past| {
            let was = past.was.map_or_else(|| LOST.to_owned(), text);
            format!("<{was}@{}", past.until)
        });
        format!("{}<{}{at}{}", text(self.assignment), text(self.before), past.collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Target;

    #[test]
    fn an_assignment_is_read_as_it_was_written() {
        let gold = Some(Assignment { target: "gold".parse().unwrap(), until: Some(1_796_083_200_000_000) });
        let deny = Some(Assignment { target: Target::Deny, until: None });
        for (assignment, before) in [(gold, None), (None, deny), (gold, deny), (deny, gold)] {
            let lost = Past { until: 66, was: None };
            for past in
                [vec![], vec![lost, Past { until: 55, was: Some(gold) }, Past { until: 44, was: Some(None) }]]
            {
                let assigned = Assigned { assignment, before, at: 77, past };
                assert_eq!(Assigned::from_text(&assigned.to_text(true), 5), Ok(assigned.clone()));
                assert_eq!(Assigned::from_text(&assigned.to_text(false), 77), Ok(assigned));
            }
        }
        let many = (1..=9).rev().map(|until| Past { until, was: Some(gold) }).collect();
        let many = Assigned { assignment: gold, before: None, at: 10, past: many };
        let known: Vec<_> = many.past_since(2).iter().map(|past| (past.until, past.was.is_some())).collect();
        assert_eq!(known, [(10, true), (9, true), (8, true), (7, true), (6, false), (3, true)]);
        let long = Assigned::from_text("gold", 5).unwrap();
        assert_eq!((long.before, long.at), (None, 0), "in force for long");
        for wrong in [
            "",
            "gold~",
            "gold~x",
            "gold<free@",
            "a b",
            "gold<free@x",
            "gold<free~@5",
            "gold<free@5<",
            "gold<a@5<b",
        ] {
            assert!(Assigned::from_text(wrong, 5).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_key_is_missed_and_few_are_found_that_are_not_there() {
        let keys = 20_000;
        let shape = Shape { bits: keys * BITS_OF_KEY, ..Shape::for_keys(1, keys) };
        let mut filter = KeyFilter::new(Vec::new(), &shape);
        let key = |i: u64| format!("customer-{i}");
        (0..keys).for_each(|i| filter.insert(&key(i)));
        assert!((0..keys).all(|i| filter.may_have(&key(i))));
        let wrong = (keys..3 * keys).filter(|i| filter.may_have(&key(*i))).count();
        println!("{wrong} of {} keys are looked up in vain", 2 * keys);
        assert!(wrong < keys as usize / 25, "{wrong}");
        let by_bits = (0..keys).all(|i| {
            shape
                .bits_of(&key(i))
                .iter()
                .all(|bit| filter.as_bytes()[(bit / 8) as usize] >> (7 - bit % 8) & 1 == 1)
        });
        assert!(by_bits, "as SETBIT numbers them");
    }

    #[test]
    fn hashes_are_filled_evenly() {
        let shape = Shape::for_keys(1, 1_000_000);
        let mut filled = vec![0_u32; shape.hashes as usize];
        (0..1_000_000).for_each(|i| filled[shape.hash_of(&format!("customer-{i:07}")) as usize] += 1);
        let most = filled.iter().max().unwrap();
        println!("{} hashes, {most} in the fullest", shape.hashes);
        assert!(*most <= 128, "a hash of more fields may take twice the memory");
    }

    #[test]
    fn a_shape_is_read_as_it_was_written() {
        let shape = Shape { at: 9, ..Shape::for_keys(3, 1_000_000) };
        assert_eq!(shape.to_string().parse(), Ok(shape));
        for wrong in ["", "1 2 3", "1 0 8 0", "1 1 7 0", "1 1 4294967304 0", "1 1 8 x"] {
            assert!(wrong.parse::<Shape>().is_err(), "{wrong}");
        }
    }
}
