//! Plans of a limit, and the keys that a config assigns to them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use super::assignment::{Assignment, PlanName, PlansError, Target};

/// Most keys and patterns that one limit's config assigns: all workers read them.
pub const MOST_CONFIG_KEYS: usize = 10_000;

/// The plans of a limit, and the assignments of its config. The default is none of both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plans(Option<Arc<Inner>>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Inner {
    names: BTreeSet<PlanName>,
    keys: BTreeMap<String, Assignment>,
    /// The pattern of most characters comes first.
    patterns: Vec<(String, Assignment)>,
}

// === impl Plans ===

impl Plans {
    /// The plans `names`, and the assignments of `keys`, of which those with a `*` are patterns.
    pub fn new(
        names: impl IntoIterator<Item = PlanName>,
        keys: impl IntoIterator<Item = (String, Assignment)>,
    ) -> Self {
        let is_pattern = |(key, _): &(String, Assignment)| key.contains('*');
        let (mut patterns, keys): (Vec<_>, Vec<_>) = keys.into_iter().partition(is_pattern);
        patterns.sort_by(|(one, _), (other, _)| other.len().cmp(&one.len()).then(one.cmp(other)));
        let inner = Inner { names: names.into_iter().collect(), keys: keys.into_iter().collect(), patterns };
        Self((inner != Inner::default()).then(|| Arc::new(inner)))
    }

    /// Whether the limit has neither a plan nor an assignment.
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The names of the plans.
    pub fn names(&self) -> impl Iterator<Item = PlanName> {
        self.0.iter().flat_map(|inner| inner.names.iter().copied())
    }

    /// Whether `target` is known: a plan of this limit, or none at all.
    pub fn knows(&self, target: Target) -> bool {
        target.plan().is_none_or(|plan| self.names().any(|name| name == plan))
    }

    /// Assigned keys and patterns.
    pub fn assigned(&self) -> impl Iterator<Item = (&str, Assignment)> {
        let all = self.0.iter().flat_map(|inner| inner.keys.iter());
        let patterns = self.0.iter().flat_map(|inner| inner.patterns.iter().map(|(key, to)| (key, to)));
        all.chain(patterns).map(|(key, assignment)| (key.as_str(), *assignment))
    }

    /// The assignment of `key` at `now`, and the key or pattern that it has it from: its own, or else that of the longest
    /// pattern. An assignment to a plan that the limit does not have is none.
    pub fn of(&self, key: &str, now: u64) -> Option<(&str, Assignment)> {
        let holds = |assignment: &Assignment| assignment.holds_at(now) && self.knows(assignment.target);
        self.matching(key).find(|(_, assignment)| holds(assignment))
    }

    /// The instants at which the assignment of `key` may end.
    pub fn ends(&self, key: &str) -> impl Iterator<Item = u64> {
        self.matching(key).filter_map(|(_, assignment)| assignment.until)
    }

    /// All assignments of `key`, the first one first.
    fn matching(&self, key: &str) -> impl Iterator<Item = (&str, Assignment)> {
        let inner = self.0.as_deref();
        let own = inner.and_then(|inner| inner.keys.get_key_value(key));
        let patterns = inner.map_or(&[][..], |inner| &inner.patterns);
        let matching = patterns.iter().filter(move |(pattern, _)| matches(pattern, key));
        let all = own.into_iter().chain(matching.map(|(pattern, assignment)| (pattern, assignment)));
        all.map(|(key, assignment)| (key.as_str(), *assignment))
    }

    /// Reads what [`Display`](fmt::Display) writes.
    ///
    /// # Errors
    /// A text of another form.
    pub fn from_text(text: &str) -> Result<Self, PlansError> {
        let wrong = |line: &str| PlansError(line.chars().take(80).collect());
        let mut lines = text.split('\n');
        let first = lines.next().unwrap_or_default();
        let names: Result<Vec<PlanName>, _> = first.split_whitespace().map(str::parse).collect();
        let keys: Result<Vec<_>, _> = lines
            .map(|line| {
                let (key, assignment) = line.split_once(' ').ok_or_else(|| wrong(line))?;
                Ok((unescaped(key).ok_or_else(|| wrong(line))?, assignment.parse()?))
            })
            .collect();
        Ok(Self::new(names.map_err(|_| wrong(first))?, keys?))
    }
}

/// The names in one line, and a line for each assignment: `key plan until`. Spaces in keys are escaped.
impl fmt::Display for Plans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.names().map(|name| name.to_string()).collect();
        write!(f, "{}", names.join(" "))?;
        self.assigned().try_for_each(|(key, assignment)| write!(f, "\n{} {assignment}", escaped(key)))
    }
}

fn escaped(key: &str) -> String {
    key.replace('%', "%25").replace(' ', "%20").replace('\n', "%0A")
}

fn unescaped(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut key = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        key.push(match part.get(..2)? {
            "25" => '%',
            "20" => ' ',
            "0A" => '\n',
            _ => return None,
        });
        key.push_str(&part[2..]);
    }
    Some(key)
}

/// Whether `key` has the form of `pattern`, in which `*` stands for any text.
fn matches(pattern: &str, key: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == key };
    let Some(mut left) = key.strip_prefix(first) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return left.ends_with(part);
        }
        // The first place is right: it leaves most for the parts behind it.
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(word: &str) -> Assignment {
        Assignment { target: word.parse().unwrap(), until: None }
    }

    fn plans(keys: &[(&str, Assignment)]) -> Plans {
        let names = ["gold", "free"].map(|name| name.parse().unwrap());
        Plans::new(names, keys.iter().map(|(key, assignment)| ((*key).to_owned(), *assignment)))
    }

    fn word(plans: &Plans, key: &str, now: u64) -> Option<String> {
        plans.of(key, now).map(|(_, assignment)| assignment.target.to_string())
    }

    #[test]
    fn a_pattern_matches_as_people_expect() {
        for (pattern, yes, no) in [
            ("10.0.*", &["10.0.", "10.0.7", "10.0.7.9"][..], &["10.0", "110.0.1", ""][..]),
            ("*", &["", "a"], &[]),
            ("*@example.com", &["a@example.com", "@example.com"], &["a@example.com.evil"]),
            ("a*b*c", &["abc", "axbxc", "abbcc", "abcabc"], &["ab", "acb", "abcd"]),
            ("a**c", &["ac", "abc"], &["a"]),
        ] {
            assert!(yes.iter().all(|key| matches(pattern, key)), "{pattern}");
            assert!(!no.iter().any(|key| matches(pattern, key)), "{pattern}");
        }
    }

    #[test]
    fn a_key_goes_before_patterns_and_a_longer_pattern_before_a_shorter_one() {
        let plans = plans(&[
            ("*", to("free")),
            ("10.*", to("gold")),
            ("10.0.*", to("exempt")),
            ("10.0.1", to("deny")),
        ]);
        let found = ["10.0.1", "10.0.2", "10.1.1", "x"].map(|key| word(&plans, key, 0).unwrap());
        assert_eq!(found, ["deny", "exempt", "gold", "free"]);
        assert_eq!(plans.of("10.0.2", 0).map(|(by, _)| by), Some("10.0.*"));
        assert_eq!(Plans::default().of("x", 0), None);
    }

    #[test]
    fn what_has_ended_or_names_no_plan_leaves_room_for_the_next() {
        let ends = Assignment { until: Some(50), ..to("gold") };
        let plans = plans(&[("acme", ends), ("ac*", to("silver")), ("a*", to("free"))]);
        assert_eq!(word(&plans, "acme", 49).as_deref(), Some("gold"));
        assert_eq!(word(&plans, "acme", 50).as_deref(), Some("free"), "there is no plan silver");
        assert_eq!(plans.ends("acme").collect::<Vec<_>>(), [50]);
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let ends = Assignment { until: Some(1_796_083_200_000_000), ..to("gold") };
        let odd = "a b%\nc*";
        for plans in
            [plans(&[("acme", ends), (odd, to("deny")), ("%", to("exempt"))]), plans(&[]), Plans::default()]
        {
            assert_eq!(Plans::from_text(&plans.to_string()), Ok(plans));
        }
        for wrong in ["gold\nacme", "gold\nacme gold x", "gold\n%2 gold", "gold\na go/ld", "deny"] {
            assert!(Plans::from_text(wrong).is_err(), "{wrong}");
        }
    }
}
