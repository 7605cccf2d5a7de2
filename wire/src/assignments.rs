//! Assignments of keys to plans as they are kept in Redis: small hashes, and a filter that tells which keys are not
//! assigned.

mod assigned_text;
mod hashes;
mod key_filter;
mod shape;

pub use key_filter::KeyFilter;
pub use shape::{Shape, ShapeError};

#[cfg(test)]
mod tests {
    use super::{shape::BITS_OF_KEY, *};
    use crate::limit::{Assigned, Assignment, Past, Target};

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
