//! The text of an assignment in its hash.

use crate::{
    constants::MOST_PAST,
    limit::{Assigned, Assignment, Past, PlansError},
};

/// The word of a key that is assigned no longer.
const NONE: &str = "-";
/// The word of assignments that are not known any more.
const LOST: &str = "?";

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
