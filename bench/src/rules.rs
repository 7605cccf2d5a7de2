//! The rules that are measured: what each limiter is told, and topup's config that says the same.

mod form;
mod rule;

use std::fmt::Write;

pub(crate) use self::{form::Form, rule::Rule};

// === impl Rule ===

impl Rule {
    /// The name of the topup limit that says this in `form`.
    pub(crate) fn limit(self, keyed: bool, form: Form) -> String {
        format!("{}-{}{}", self.name(), if keyed { "keyed" } else { "hot" }, form.suffix())
    }

    /// Whether topup's config says this in `form`: in those that are measured.
    fn has(self, keyed: bool, form: Form) -> bool {
        match form {
            Form::TokenBucket => true,
            Form::LeasedMore => matches!(self, Self::Draining | Self::Under | Self::Tight | Self::Few),
            Form::Leased => {
                let below =
                    matches!(self, Self::Calm | Self::Brisk | Self::Swift | Self::Uneven | Self::Rare);
                self.has(keyed, Form::LeasedMore) || keyed && below
            }
            _ => keyed && self == Self::Few,
        }
    }
}

/// The name of one of the limits of [`apart`].
pub(crate) fn apart_name(limit: usize) -> String {
    format!("limit-{limit}")
}

/// A config of topup with `limits` limits under the terms of [`Rule::Apart`]. The first has another capacity.
pub(crate) fn apart(url: &str, limits: usize, first: u64) -> String {
    let mut text = format!("[redis]\nurl = \"{url}\"\n");
    for limit in 0..limits {
        let (name, capacity) = (apart_name(limit), if limit == 0 { first } else { Rule::Apart.capacity() });
        // Writing to a string cannot fail.
        let _ = write!(text, "\n[limit.{name}]\ncapacity = {capacity}\nrate = \"1/h\"\n");
    }
    text
}

/// topup's config for all rules but [`Rule::Apart`].
pub(crate) fn config(url: &str) -> String {
    let mut text = format!("[redis]\nurl = \"{url}\"\n");
    for rule in Rule::ALL {
        for (keyed, form) in [true, false].into_iter().flat_map(|keyed| Form::ALL.map(|form| (keyed, form))) {
            if rule.has(keyed, form) {
                let (name, terms) = (rule.limit(keyed, form), form.terms(rule));
                // Writing to a string cannot fail.
                let _ = write!(text, "\n[limit.{name}]\nkeyed = {keyed}\n{terms}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_tokens_by_period() {
        let rates = [Rule::Few, Rule::Calm, Rule::Brisk, Rule::Rare].map(Rule::rate);
        assert_eq!(rates, [10.0, 1.0, 100.0, 1.0 / 60.0]);
    }

    #[test]
    fn a_lease_is_no_larger_than_its_bucket() {
        let config = config("redis://127.0.0.1");
        assert!(config.contains("[limit.draining-hot-leased]\nkeyed = false\nalgorithm = \"token-bucket\""));
        assert!(config.contains("lease = { max = 1000, ttl = \"1s\" }"));
        assert_eq!(
            Form::LeasedMore.terms(Rule::Few).lines().last(),
            Some("lease = { max = 10, ttl = \"1s\" }")
        );
    }
}
