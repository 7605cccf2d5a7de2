//! Words in messages.

/// So many of something: "1 limit", "2 limits".
pub fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
