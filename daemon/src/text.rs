//! Wording that several messages share.

/// A number and its noun: "1 limit", "2 limits".
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
